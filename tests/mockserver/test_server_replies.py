"""Responses, acknowledgements, cancels and the end of a session (protocol.md 7 to 10, 12)."""

from __future__ import annotations

from typing import Any

import pytest

from scenarios.model import Reply

CREATED_GROUP = [
    "response.created",
    "conversation.item.added",
    "conversation.item.created",
    "response.output_item.added",
    "response.content_part.added",
    "response.speak",
]
PAIR = ["response.audio.delta", "response.audio_transcript.delta"]
DONE_GROUP = [
    "response.audio.done",
    "response.audio_transcript.done",
    "response.content_part.done",
    "response.output_item.done",
    "conversation.item.done",
    "response.done",
    "rate_limits.updated",
]
TWO = Reply(starts_at_unit=0, units=2, text="A cyclist passes. Another one follows.")


def speaking(talk: Any, spec: Reply = TWO, **how: Any) -> Any:
    """Just after the first unit of a reply."""
    return talk(spec, **how).open().append().forget().until(0.1)


def test_a_reply_is_created_group_pairs_and_done_group_in_order(talk: Any) -> None:
    t = speaking(talk).until(5)

    assert t.names == [*CREATED_GROUP, *PAIR, *PAIR, *DONE_GROUP]
    assert "".join(e["delta"] for e in t.of(PAIR[1])) == TWO.text
    assert t.of("response.audio_transcript.done")[0]["transcript"] == TWO.text
    assert [e["metadata"]["audio_duration_ms"] for e in t.of(PAIR[0])] == [960, 1920]
    assert [e["metadata"]["end_of_turn"] for e in t.of(PAIR[0])] == [False, True]


def test_every_event_of_a_reply_carries_its_ids(talk: Any) -> None:
    t = speaking(talk).until(5)
    response_id = t.of("response.created")[0]["response_id"]

    for event in t.events:
        assert event.get("response_id", response_id) == response_id
        assert event.get("item_id", f"item_{response_id}") == f"item_{response_id}"


def test_every_audio_delta_is_as_long_as_it_says(talk: Any) -> None:
    t = speaking(talk, Reply(starts_at_unit=0, units=1, text="x", audio_ms=500))

    assert len(t.of(PAIR[0])[0]["delta"]) == 500 * 48 * 4 / 3


def test_text_without_audio_is_a_transcript_delta_alone(talk: Any) -> None:
    t = speaking(talk, Reply(starts_at_unit=0, units=1, text="x", audio_ms=0)).until(5)

    assert t.names == [*CREATED_GROUP, PAIR[1], *DONE_GROUP]


def test_audio_without_text_has_empty_transcript_deltas_and_no_transcript_done(talk: Any) -> None:
    t = speaking(talk, Reply(starts_at_unit=0, units=1, text="")).until(5)

    assert t.names == [
        *CREATED_GROUP,
        *PAIR,
        *[n for n in DONE_GROUP if n != "response.audio_transcript.done"],
    ]
    assert t.of(PAIR[1])[0]["delta"] == ""


def test_a_turn_that_ends_in_audio_repeats_its_last_chunk_in_the_done_metadata(talk: Any) -> None:
    t = speaking(talk).until(5)

    assert t.of("response.done")[0]["response"]["metadata"]["audio"] == t.of(PAIR[0])[1]["delta"]


@pytest.mark.parametrize("status", ["failed", "cancelled", "incomplete"])
def test_a_scripted_status_ends_the_reply_without_an_error_event(talk: Any, status: Any) -> None:
    t = speaking(talk, Reply(starts_at_unit=0, units=1, text="x", status=status)).until(5)

    response = t.of("response.done")[0]["response"]
    assert (response["status"], response["status_details"]["type"]) == (status, status)
    assert t.errors == []


def test_a_text_only_session_announces_its_audio_part_before_the_first_audio(talk: Any) -> None:
    t = talk(TWO).open(modalities=["text"]).append().forget().until(0.1)

    assert t.names[3:7] == [
        "response.output_item.added",
        "response.speak",
        "response.content_part.added",
        PAIR[0],
    ]


def test_acks_keep_maxima_and_are_answered_one_for_one(talk: Any) -> None:
    t = speaking(talk)
    rid = t.of("response.created")[0]["response_id"]
    for played in (500, 900, 100):
        t.send("playback.ack", response_id=rid, item_id=f"item_{rid}", played_ms=played, committed_ms=played)

    told = [e["event"] for e in t.of("playback.acknowledged")]
    assert [e["played_ms"] for e in told] == [500, 900, 100]
    assert [e["playback"]["played_ms"] for e in told] == [500, 900, 900]
    assert all(e["history_committed"] for e in told)
    assert t.violations == []


def test_a_finished_reply_heard_in_full_leaves_the_ledger(talk: Any) -> None:
    t = speaking(talk).until(5)
    rid = t.of("response.created")[0]["response_id"]
    for _ in range(2):
        t.send("playback.ack", response_id=rid, item_id=f"item_{rid}", played_ms=1920)

    first, second = (e["event"] for e in t.of("playback.acknowledged"))
    assert (first["playback"]["sent_ms"], second["playback"]["sent_ms"]) == (1920, 0)
    assert second["history_committed"] is True


@pytest.mark.parametrize("profile", ["july", "engine"])
def test_truncating_an_item_takes_back_what_was_committed(talk: Any, profile: str) -> None:
    t = talk(TWO, profile=profile).open().append().until(0.5)
    rid = t.of("response.created")[0]["response_id"]
    t.send("playback.ack", response_id=rid, played_ms=900).forget()
    t.send("conversation.item.truncate", item_id=f"item_{rid}", audio_end_ms=500)

    assert t.names == ["conversation.item.truncated", "playback.acknowledged"]
    told = t.events[1]["event"]
    assert (told["truncate"], told["playback"]["played_ms"], told["playback"]["committed_ms"]) == (
        True,
        900,
        500,
    )


def test_an_ack_without_ids_goes_to_the_active_response(talk: Any) -> None:
    t = speaking(talk).send("playback.ack", played_ms=10)

    assert t.of("playback.acknowledged")[0]["event"]["item_id"].startswith("item_resp-")


def test_an_ack_of_an_unknown_response_commits_nothing(talk: Any) -> None:
    t = talk().open().send("playback.ack", response_id="r", item_id="item_r", played_ms=10)

    assert t.of("playback.acknowledged")[0]["event"]["history_committed"] is False
    assert t.violations == ["8.1 ack-of-unknown-response"]


def test_cancel_sends_the_cancelled_done_group_and_drops_what_was_queued(talk: Any) -> None:
    t = speaking(talk).append().send("response.cancel").until(20)

    at = t.names.index("conversation.item.truncated")
    assert t.names[at + 1 : at + 8] == DONE_GROUP
    assert t.of("response.done")[0]["response"]["status_details"] == {
        "type": "cancelled",
        "reason": "barge_in",
    }
    assert len(t.of(PAIR[0])) == 1
    assert t.of("response.listen") == []  # nor a decision of a unit from before the cancel
    assert t.session.epoch == 1


def test_a_cancel_ends_the_wait_for_the_cancelled_reply(talk: Any) -> None:
    t = speaking(talk).send("response.cancel").until(0.2).append().until(5)

    assert t.times("response.listen") == [0.25]


def test_cancel_of_what_is_not_active_is_refused_or_ignored(talk: Any) -> None:
    t = speaking(talk).until(5)
    rid = t.of("response.created")[0]["response_id"]

    assert t.send("response.cancel", response_id=rid).errors == ["response_not_active"]
    assert t.send("response.cancel").errors == ["response_not_active"] * 2
    assert t.send("response.cancel", response_id="nobody").errors == ["response_not_active"] * 2


def test_output_clear_replies_and_cancels_an_active_response(talk: Any) -> None:
    t = speaking(talk).forget().send("output_audio_buffer.clear")

    assert t.names[0] == "output_audio_buffer.cleared"
    assert t.of("response.done")[0]["response"]["status_details"]["reason"] == "output_audio_buffer_clear"


def test_close_is_answered_and_ends_without_a_close_frame(talk: Any) -> None:
    t = talk().open().forget().send("session.close")

    assert t.events[0]["event"] == {"type": "session.closed", "session_id": t.session.id}
    assert [end.code for end in t.ends] == [None]


def test_close_in_the_middle_of_a_reply_cancels_it_first(talk: Any) -> None:
    t = speaking(talk).forget().send("session.close")

    assert t.names == ["conversation.item.truncated", *DONE_GROUP, "session.closed"]
    assert t.of("response.done")[0]["response"]["status_details"]["reason"] == "session_close"


def test_append_commit_and_close_back_to_back_give_no_decision(talk: Any) -> None:
    t = talk(TWO).open().forget().append(400).commit().send("session.close").until(20)

    assert t.names[-2:] == ["conversation.item.done", "session.closed"]
    assert t.units == []


def test_after_300_s_without_a_frame_the_session_ends_whatever_was_sent(talk: Any) -> None:
    t = talk().open().until(299).send("session.heartbeat").until(598.9)
    assert t.names[-1] == "session.heartbeat_ack"

    t.until(599)

    assert t.events[-1]["event"]["reason"] == "timeout"


def test_event_acks_are_silent_unless_wrong(talk: Any) -> None:
    t = talk().open().forget().send("session.event_ack", server_event_seq=1)
    assert t.names == []

    assert t.send("session.event_ack", server_event_seq=99).errors == ["invalid_event_ack"]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("response.create", "response_create_without_input"),
        ("input.text.append", "native_text_append_unsupported"),
        ("push_text", "native_text_append_unsupported"),
        ("barge_in", "barge_in_unsupported"),
        ("conversation.item.retrieve", "missing_item_id"),
        ("conversation.item.delete", "missing_item_id"),
        ("session.resume", "unknown_event"),
    ],
)
def test_other_events_are_refused_with_their_code(talk: Any, name: str, code: str) -> None:
    t = talk().open().forget().send(name)

    assert (t.errors, t.ends) == ([code], [])


def test_aliases_are_normalised(talk: Any) -> None:
    t = talk().open().send("audio.playback_ack", audio_ms=5).send("close")

    assert t.names[-2:] == ["playback.acknowledged", "session.closed"]


def test_items_can_be_retrieved_truncated_and_deleted(talk: Any) -> None:
    t = speaking(talk).until(5)
    item_id = f"item_{t.of('response.created')[0]['response_id']}"
    t.forget()

    t.send("conversation.item.retrieve", item_id=item_id)
    t.send("conversation.item.truncate", item_id=item_id, audio_end_ms=500)
    t.send("conversation.item.truncate", item_id=item_id, audio_end_ms=5000)
    t.send("conversation.item.delete", item_id=item_id)
    t.send("conversation.item.delete", item_id=item_id)

    assert t.names == [
        "conversation.item.retrieved",
        "conversation.item.truncated",
        "playback.acknowledged",
        "error",
        "conversation.item.deleted",
        "error",
    ]
    assert t.errors == ["bad_event", "item_not_found"]


def test_the_newer_dialect_is_data(talk: Any) -> None:
    t = (
        talk(TWO, profile="engine", query={"duplex": "1"})
        .open(extra_body={"auto_response": True})
        .append()
        .until(5)
    )
    t.send("playback.ack", response_id="r", played_ms=1).send("session.close")

    assert "response.output_audio.delta" in t.names
    assert "response.output_audio_transcript.done" in t.names
    assert t.errors == ["playback_item_not_found"]
    assert t.events[-1]["reason"] == "client_close"


def test_an_idle_session_of_the_newer_dialect_is_dropped_without_an_event(talk: Any) -> None:
    t = talk(profile="engine", query={"duplex": "1"}).open().forget().until(300)

    assert (t.names, len(t.ends)) == ([], 1)
