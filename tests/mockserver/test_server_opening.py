"""How sessions open, and how they are refused (protocol.md 1.1, 1.3, 4)."""

from __future__ import annotations

from typing import Any

import pytest

BARE = {"duplex": "1"}
MODEL = {"duplex": "1", "model": "m"}
NATIVE = "minicpmo45_native_duplex"


def test_created_and_updated_answer_the_first_update(talk: Any) -> None:
    t = talk().open(instructions="Look.")

    assert t.names == ["session.created", "session.updated"]
    assert "server_event_seq" not in t.events[0]
    assert t.events[1]["server_event_seq"] == 1
    assert t.events[0]["session"]["capabilities"]["chunk_period_ms"] == 1000
    assert t.events[0]["session"]["capabilities"]["implementation_level"] == "model_native_duplex"
    assert t.events[0]["session"]["instructions"] == "Look."
    assert t.violations == []


def test_an_update_without_session_object_is_its_own(talk: Any) -> None:
    t = talk().send(
        "session.update", modalities=["text"], extra_body={"auto_response": True, NATIVE: True}, mine=3
    )

    assert t.names == ["session.created", "session.updated"]
    assert t.events[0]["session"]["mine"] == 3


def test_a_url_without_duplex_reaches_another_handler(talk: Any) -> None:
    t = talk(query={"model": "m"})

    assert (t.errors, "code" in t.events[0], len(t.ends)) == (["unsupported"], True, 1)
    assert t.violations == ["1.1 duplex-missing"]


def test_autostart_with_the_native_flag_fails_before_anything_is_read(talk: Any) -> None:
    t = talk(query={**MODEL, NATIVE: "1"})

    assert t.errors == ["ref_audio_required"]
    assert len(t.ends) == 1


def test_autostart_without_the_flag_is_a_generic_session_that_never_decides(talk: Any) -> None:
    t = talk(query=MODEL).append().until(5)

    assert t.names == ["session.created", "input_audio_buffer.speech_started"]
    assert t.events[0]["session"]["capabilities"]["implementation_level"] == "serving_session_adapter"


def test_the_own_update_after_autostart_is_refused_and_is_a_violation(talk: Any) -> None:
    t = talk(query=MODEL).open()

    assert t.errors == ["ref_audio_update_unsupported"]
    assert t.violations == ["1.1 autostart-not-disabled", "4.1 ref_audio_update_unsupported"]


@pytest.mark.parametrize(
    "query", [{**MODEL, "autostart": "0"}, {**MODEL, "autostart": "off"}, {**MODEL, "resume": "1"}]
)
def test_without_autostart_the_first_frame_must_be_an_update(talk: Any, query: dict[str, str]) -> None:
    t = talk(query=query)
    assert t.names == []

    t.append()

    assert (t.errors, len(t.ends)) == (["bad_event"], 1)


def test_without_a_model_any_first_frame_opens_a_default_session_and_is_processed(talk: Any) -> None:
    t = talk(query=BARE).append()

    assert t.names == ["session.created", "input_audio_buffer.speech_started"]


def test_no_opening_frame_within_ten_seconds_ends_the_connection(talk: Any) -> None:
    t = talk().until(9.99)
    assert t.names == []

    t.until(10)

    assert (t.errors, len(t.ends)) == (["config_timeout"], 1)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"input_audio_format": "opus"}, "unsupported_audio_format"),
        ({"turn_detection": {"type": "server_vad"}}, "unsupported_turn_detection"),
    ],
)
def test_a_correctable_update_may_be_corrected_within_the_ten_seconds(
    talk: Any, fields: Any, code: str
) -> None:
    t = talk().open(**fields).until(9)
    assert (t.errors, t.ends) == ([code], [])

    t.open()

    assert t.names[-2:] == ["session.created", "session.updated"]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"ref_audio": None}, "ref_audio_required"),
        ({"ref_audio": 5}, "ref_audio_required"),
        ({"ref_audio_path": "/x.wav"}, "unsupported_ref_audio_path"),
        ({"extra_body": {"duplex_stage_max_tokens": 1}}, "invalid_duplex_runtime_config"),
    ],
)
def test_an_update_that_cannot_be_corrected_ends_the_connection(talk: Any, fields: Any, code: str) -> None:
    t = talk().open(**fields)

    assert (t.errors, len(t.ends)) == ([code], 1)
    assert "server_event_seq" not in t.events[0]


@pytest.mark.parametrize("frame", ["{", "[]", '"x"', "{}", '{"type": 3}'])
def test_an_unreadable_first_frame_ends_the_connection(talk: Any, frame: str) -> None:
    t = talk().send_text(frame)

    assert t.errors[0] in ("invalid_json", "bad_event")
    assert len(t.ends) == 1


@pytest.mark.parametrize("frame", ["{", "[]", "{}", '{"type": "no.such"}'])
def test_an_unreadable_later_frame_costs_only_itself(talk: Any, frame: str) -> None:
    t = talk().open().forget().send_text(frame)

    assert t.errors[0] in ("invalid_json", "bad_event", "unknown_event")
    assert t.ends == []
    assert len(t.violations) == 1


def test_a_binary_first_frame_is_an_internal_error(talk: Any) -> None:
    t = talk().binary()

    assert (t.errors, len(t.ends)) == (["internal_error"], 1)


def test_a_later_binary_frame_makes_the_server_deaf_for_good(talk: Any) -> None:
    t = talk().open().forget().binary().send("session.close").until(400)

    assert (t.names, t.ends) == ([], [])
    assert t.violations == ["1.3 binary-frame"]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"model": "other"}, "model_update_unsupported"),
        ({"ref_audio": "data:other"}, "ref_audio_update_unsupported"),
        ({"input_audio_format": "opus"}, "unsupported_audio_format"),
        ({"extra_body": {"ref_audio_data": "x"}}, "invalid_duplex_runtime_config"),
    ],
)
def test_a_refused_later_update_changes_nothing(talk: Any, fields: Any, code: str) -> None:
    t = talk().open().forget().send("session.update", session=fields)
    assert (t.errors, t.ends) == ([code], [])

    t.forget().send("session.update", session={})

    assert t.events[0]["session"]["model"] == "openbmb/MiniCPM-o-4_5"


def test_a_later_update_is_told_and_used(talk: Any) -> None:
    t = talk().open().forget().send("session.update", session={"idle_timeout_s": 7})

    assert t.names == ["session.updated"]
    assert t.until(7).names[-1] == "session.closed"


def test_event_ids_are_unique_and_sequence_numbers_rise_by_one(talk: Any) -> None:
    t = talk().open().append().until(3).send("session.close")

    assert len({e["event_id"] for e in t.events}) == len(t.events)
    assert [e["server_event_seq"] for e in t.events[1:]] == list(range(1, len(t.events)))


def test_what_is_only_accepted_is_echoed_and_ga_spellings_are_read(talk: Any) -> None:
    t = talk().open(
        tracing="auto",
        input_audio_transcription={"model": "whisper-1"},
        audio={"output": {"voice": "cedar", "speed": 1.1}},
        overlap_policy="barge_in_on_speech",
        overlap_short_ack_ms=500,
        extra_body={
            "auto_response": True,
            NATIVE: True,
            "overlap_policy": "auto",
            "overlap_short_ack_ms": 600,
        },
    )

    told = t.events[0]["session"]
    assert (told["tracing"], told["input_audio_transcription"]) == ("auto", {"model": "whisper-1"})
    assert (told["voice"], told["speed"]) == ("cedar", 1.1)
    assert (told["overlap_policy"], told["overlap_short_ack_ms"]) == ("auto", 600)
    assert (
        talk(profile="engine").open(overlap_policy="auto").events[0]["session"]["overlap_policy"]
        == "listen_only"
    )

    t.append().send("session.update", session={"audio": {"output": {"voice": "marin"}}})
    assert t.errors == ["voice_update_after_audio_unsupported"]
