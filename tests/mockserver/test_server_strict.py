"""What the strict reader calls a violation, and what it lets pass (protocol.md, the section stands in each row)."""

from __future__ import annotations

from typing import Any

import pytest

from scenarios.model import Reply


def test_a_well_behaved_session_has_no_violation(talk: Any) -> None:
    t = talk(Reply(starts_at_unit=1, units=3, text="a b c")).open()
    for second in range(3):
        t.until(second).append(video_frames=["/9gx"])
    t.until(3).append(999).commit().until(4)
    rid = t.of("response.created")[0]["response_id"]
    for second in range(4, 8):
        t.until(second).append(loud=False, is_speech=False)
        t.send("playback.ack", response_id=rid, item_id=f"item_{rid}", played_ms=960, committed_ms=960)
    t.send("session.close")

    assert t.violations == []


@pytest.mark.parametrize(
    ("fields", "violation"),
    [
        ({"duration_ms": "1000"}, "5.1 wrong-type"),
        ({"audio_end_ms": True}, "5.1 wrong-type"),
        ({"is_speech": 1}, "5.1 wrong-type"),
        ({"event_id": 7}, "5.1 wrong-type"),
        ({"audio": "AA A="}, "5.1 bad-base64"),
        ({"audio": "AAAA"}, "5.1 bad_audio"),
        ({"audio": None}, "5.1 bad_event"),
        ({"audio_end_ms": 1000}, "5.1 audio-end-not-rising"),
        ({"audio_end_ms": 500}, "5.1 audio-end-not-rising"),
        ({"sample_rate_hz": 24000}, "4.1 rate-changed"),
        ({"video_frames": ["/9gx"] * 3}, "5.3 invalid_video_frames"),
        ({"video_frames": ["data:image/jpeg;base64,/9gx"]}, "5.3 invalid_video_frames"),
        ({"max_slice_nums": 2, "video_frames": ["/9gx"]}, "5.3 invalid_video_frames"),
        ({"input_audio_format": "opus"}, "5.1 unsupported_audio_format"),
    ],
)
def test_a_bad_append_is_a_violation_of_its_section(talk: Any, fields: Any, violation: str) -> None:
    t = talk().open().append().append(**fields)

    assert t.violations == [violation]


def test_an_append_above_a_unit_is_a_violation(talk: Any) -> None:
    assert talk().open().append(1001).violations == ["5.1 append-above-a-unit"]


def test_missing_informational_fields_are_no_violation(talk: Any) -> None:
    t = talk().open()
    from_other = t.append().events and t.session.input.appends

    assert from_other == 1
    assert t.send("input_audio_buffer.append", audio="AAA=").violations == []


@pytest.mark.parametrize(("fields", "bad"), [({}, True), ({"is_speech": False}, False)])
def test_speech_after_the_commit_is_a_violation(talk: Any, fields: Any, bad: bool) -> None:
    t = talk().open().append().commit().append(loud=True, **fields)

    assert t.violations == (["5.2; evaluation.md 8 speech-after-commit"] if bad else [])


def test_silence_marked_as_speech_after_the_commit_is_a_violation(talk: Any) -> None:
    t = talk().open().append().commit().append(loud=False, is_speech=True)

    assert t.violations == ["5.2; evaluation.md 8 speech-after-commit"]


@pytest.mark.parametrize("name", ["input_audio_buffer.append", "playback.ack", "session.close", "no.such"])
def test_anything_after_session_close_is_a_violation(talk: Any, name: str) -> None:
    assert talk().open().send("session.close").send(name).violations == ["10.1 after-close"]


def test_what_crosses_the_servers_own_end_on_its_way_is_no_violation(talk: Any) -> None:
    unopened = talk().until(10.5)
    assert unopened.of("error")[0]["error"]["code"] == "config_timeout"
    assert unopened.send("session.update", session={}).violations == []

    idle = talk().open().until(3600)
    assert idle.session.state == "closed"
    assert idle.append().violations == []


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"item_id": "item_other"}, "ack-ids-disagree"),
        ({"response_id": "other", "item_id": "item_other"}, "ack-of-unknown-response"),
        ({"played_ms": None}, "ack-position"),
        ({"played_ms": -1}, "ack-position"),
        ({"played_ms": "5"}, "ack-position"),
        ({"committed_ms": "5"}, "ack-position"),
        ({"item_id": 5}, "wrong-type"),
    ],
)
def test_an_inconsistent_ack_is_a_violation_and_is_answered_all_the_same(
    talk: Any, fields: Any, rule: str
) -> None:
    t = talk(Reply(starts_at_unit=0, units=2, text="a")).open().append().until(0.1)
    rid = t.of("response.created")[0]["response_id"]
    t.send("playback.ack", **{"response_id": rid, "item_id": f"item_{rid}", "played_ms": 5, **fields})

    assert t.violations == [f"8.1 {rule}"]
    assert t.names[-1] == "playback.acknowledged"


@pytest.mark.parametrize(
    ("fields", "section"),
    [
        ({"instructions": 5}, "4.1"),
        ({"temperature": "hot"}, "4.1"),
        ({"extra_body": {"auto_response": 1, "minicpmo45_native_duplex": True}}, "4.3"),
        ({"extra_body": {"auto_response": True, "minicpmo45_native_duplex": 1}}, "4.3"),
        ({"extra_body": {"force_listen_count": 1.5, "auto_response": True}}, "4.3"),
    ],
)
def test_wrong_types_in_a_session_update_are_violations(talk: Any, fields: Any, section: str) -> None:
    assert talk().open(**fields).violations == [f"{section} wrong-type"]


@pytest.mark.parametrize(
    ("name", "violation"),
    [
        ("no.such", "3.1 unknown_event"),
        ("input_audio_buffer.commit", "5.5 input_audio_buffer_empty"),
        ("input.text.append", "5.7 native_text_append_unsupported"),
        ("session.event_ack", "12.4 invalid_event_ack"),
    ],
)
def test_whatever_the_server_refuses_is_a_violation(talk: Any, name: str, violation: str) -> None:
    assert talk().open().send(name).violations == [violation]


def test_an_event_above_15_mib_is_refused_and_kept_apart(talk: Any) -> None:
    t = talk().open().forget().send_text(b'{"type":"x","pad":"' + b"a" * (15 * 1024 * 1024) + b'"}')

    assert (t.errors, t.ends, t.violations) == (["event_too_large"], [], ["1.3 event_too_large"])


@pytest.mark.parametrize(
    ("profile", "event"),
    [("july", "input_audio_buffer.clear"), ("july", "input.cancel"), ("engine", "barge_in")],
)
def test_another_rate_after_a_clear_is_another_input(talk: Any, profile: str, event: str) -> None:
    t = talk(profile=profile).open()
    t.append(200).send(event)
    assert t.append(200, sample_rate_hz=8000).violations == []
    assert t.append(200).violations == ["4.1 rate-changed"]
