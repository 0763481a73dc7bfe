"""What dialect N does otherwise (protocol.md 0, 6.5, 8.3, 9, 10, 18), by the profile `engine`; I where it differs."""

from __future__ import annotations

from typing import Any

import pytest

from scenarios.model import Reply

QUERY = {"duplex": "1", "model": "m", "autostart": "0"}
EXTRA = {"auto_response": True}
TWO = Reply(starts_at_unit=0, units=2, text="A cyclist passes. Another one follows.")
DELTA = "response.output_audio.delta"
DONE = "response.done"


def reply(start: int, units: int, text: str = "one two three four", **fields: Any) -> Reply:
    return Reply(starts_at_unit=start, units=units, text=text, **fields)


@pytest.fixture
def engine(talk: Any) -> Any:
    """An open session of the engine: engine(*replies, **how)."""

    def make(*replies: Reply, profile: str = "engine", **how: Any) -> Any:
        query = {"query": QUERY, **how}
        return talk(*replies, profile=profile, **query).open(extra_body=EXTRA)

    return make


def acked(t: Any, rid: str, **fields: Any) -> Any:
    named = {"response_id": rid, "item_id": f"item_{rid}", "played_ms": 960}
    return t.send("playback.ack", **{**named, **fields})


# -- opening


@pytest.mark.parametrize("query", [{}, {"duplex": "yes"}, {"session_id": "mine", "autostart": "0"}])
def test_a_bare_url_is_duplex_and_the_server_names_the_session(talk: Any, query: dict[str, str]) -> None:
    t = talk(profile="engine", query=query).open(extra_body=EXTRA, session_id="mine", id="mine")

    assert t.names == ["session.created", "session.updated"]
    assert t.session.id.startswith("duplex-")
    assert t.violations == []


@pytest.mark.parametrize("value", ["0", "false", "OFF"])
@pytest.mark.parametrize("profile", ["engine", "july"])
def test_duplex_off_reaches_another_handler(talk: Any, profile: str, value: str) -> None:
    t = talk(profile=profile, query={"duplex": value})

    assert t.events[0]["code"] == "unsupported"
    assert isinstance(t.events[0]["error"], str)
    assert len(t.ends) == 1


def test_capabilities_differ_in_barge_in_and_modalities(engine: Any, talk: Any) -> None:
    newer = engine().of("session.created")[0]["session"]["capabilities"]
    older = talk().open().of("session.created")[0]["session"]["capabilities"]

    differing = {key for key in newer | older if newer.get(key) != older.get(key)}
    assert differing == {"supports_barge_in", "required_input_modalities", "optional_input_modalities"}


def test_no_event_carries_an_incarnation(engine: Any) -> None:
    t = engine(TWO).append().until(5).send("session.close")

    assert "incarnation" not in repr(t.events)


# -- whose turn it is: silence of the server's own


def test_silence_keeps_the_cadence_of_one_unit_a_second(engine: Any) -> None:
    t = engine(reply(0, 4), decision_s=0.3).append().until(20)

    assert t.units == ["append speak", *["silence speak"] * 3]
    # submitted at 0, 1.02, 2.02, 3.02: the slack comes once
    assert t.times(DELTA) == [0.3, 1.32, 2.32, 3.32]


def test_an_append_on_the_beat_leaves_no_room_for_silence(engine: Any) -> None:
    t = engine(reply(0, 4))
    for second in range(4):
        t.until(second).append()
    t.until(20)

    assert t.units == ["append speak"] * 4


@pytest.mark.parametrize(("profile", "at_s"), [("engine", 1.02), ("july", 1.05)])
def test_an_append_read_at_the_very_end_of_the_wait_comes_before_the_silence(
    talk: Any, profile: str, at_s: float
) -> None:
    t = talk(reply(0, 3), profile=profile).open().append().until(0.5)
    t.now_s = at_s  # the timer is due as well, and has not fired yet
    t.append().until(20)

    assert t.units[:2] == ["append speak", "append speak"]


def test_an_append_late_against_the_cadence_loses_whatever_the_unit_took(engine: Any, talk: Any) -> None:
    units = []
    for make in (engine(reply(0, 3), decision_s=0.5), talk(reply(0, 3), decision_s=0.5).open()):
        units.append(make.append().until(1.1).append().until(20).units)

    assert units[0] == ["append speak", "silence speak", "append speak"]
    assert units[1] == ["append speak", "append speak", "silence speak"]


def test_units_sent_ahead_are_not_held_back(engine: Any) -> None:
    t = engine(reply(0, 6))
    for _ in range(4):
        t.append()
    t.until(20)

    assert t.times(DELTA)[:4] == [0.05, 0.1, 0.15, 0.2]
    assert t.units == [*["append speak"] * 4, *["silence speak"] * 2]


def test_a_partial_unit_freezes_an_open_reply_too(engine: Any) -> None:
    t = engine(reply(0, 4)).append(1000).append(500).until(200)

    assert len(t.of(DELTA)) == 1


def test_a_listen_decision_in_an_open_reply_is_followed_by_no_silence(engine: Any) -> None:
    t = engine(reply(0, 1, ends=False)).append().until(5)

    assert t.units == ["append speak", "silence listen"]
    assert t.of("response.listen") == []


def test_a_model_slower_than_the_cadence_is_fed_when_it_is_done(engine: Any) -> None:
    t = engine(reply(0, 3), decision_s=1.5).append().until(20)

    assert t.times(DELTA) == [1.5, 3.0, 4.5]


# -- acknowledgements


def test_an_ack_needs_played_ms(engine: Any) -> None:
    t = engine(TWO).append().until(0.1)
    rid = t.of("response.created")[0]["response_id"]
    t.forget()
    t.send("playback.ack", response_id=rid, item_id=f"item_{rid}", event_id="evt_7")
    t.send("playback.ack", response_id=rid, audio_ms=5)

    assert t.errors == ["bad_event", "bad_event"]
    assert t.events[0]["error"]["param"] == "played_ms"
    assert t.events[0]["error"]["event_id"] == "evt_7"


def test_an_ack_of_an_open_reply_with_0_ms_is_taken(engine: Any) -> None:
    t = engine(TWO).append().until(0.1)
    acked(t, t.of("response.created")[0]["response_id"], played_ms=0)

    assert t.names[-1] == "playback.acknowledged"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"item_id": "item_other"}, "playback_item_mismatch"),
        ({"response_id": "other", "item_id": "item_other"}, "playback_item_not_found"),
    ],
)
def test_an_ack_of_something_else_is_refused_and_the_session_goes_on(
    engine: Any, fields: Any, code: str
) -> None:
    t = engine(TWO).append().until(0.1)
    acked(t, t.of("response.created")[0]["response_id"], **fields)

    assert (t.errors, t.ends) == ([code], [])


def test_an_ack_is_too_late_once_an_input_was_committed_after_its_reply(engine: Any) -> None:
    t = engine(TWO).append().until(5)
    rid = t.of("response.created")[0]["response_id"]
    assert acked(t, rid).errors == []

    t.append().commit()

    assert acked(t, rid).errors == ["playback_ack_too_late"]
    assert t.violations == []  # the client cannot know


def test_a_commit_during_the_reply_or_of_silence_makes_no_ack_late(engine: Any) -> None:
    t = engine(reply(0, 4)).append().until(0.1).commit().until(9)
    rid = t.of("response.created")[0]["response_id"]
    t.append(100, loud=False).commit()

    assert acked(t, rid).errors == []


def test_truncate_on_an_ack_is_dropped_and_the_ledger_stays(engine: Any) -> None:
    t = engine(TWO).append().until(5)
    rid = t.of("response.created")[0]["response_id"]
    acked(t, rid, played_ms=1920)
    acked(t, rid, played_ms=1920, committed_ms=100, truncate=True)

    last = t.of("playback.acknowledged")[-1]["event"]
    assert last["truncate"] is False
    assert last["playback"] == {
        "generated_ms": 1920,
        "sent_ms": 1920,
        "played_ms": 1920,
        "committed_ms": 1920,
    }


# -- interrupting


def test_a_cancel_says_client_cancelled_and_truncates_nothing(engine: Any) -> None:
    t = engine(TWO).append().until(0.1).forget().send("response.cancel").until(9)

    assert t.names[0] == "response.output_audio.done"
    assert "conversation.item.truncated" not in t.names
    assert t.of(DONE)[0]["response"]["status_details"] == {
        "type": "cancelled",
        "reason": "client_cancelled",
    }


def test_a_cancel_of_an_unknown_response_is_refused(engine: Any) -> None:
    assert engine().send("response.cancel", response_id="nobody").errors == ["response_not_active"]


@pytest.mark.parametrize(
    ("name", "fields"),
    [("barge_in", {}), ("turn.signal", {"event": "barge_in"}), ("signal_turn", {"event": "barge_in"})],
)
def test_barge_in_cancels_and_clears_what_waits(engine: Any, name: str, fields: Any) -> None:
    t = engine(TWO).append().append(500).until(0.1).forget().send(name, **fields).until(9)

    assert t.of(DONE)[0]["response"]["status_details"]["reason"] == "barge_in"
    assert t.session.input.buffer.samples == 0
    assert t.session.epoch == 1


def test_barge_in_while_nothing_is_said_drops_what_is_being_decided(engine: Any) -> None:
    t = engine(TWO).append().send("barge_in").until(9)

    assert t.errors == []
    assert t.of("response.created") == []


@pytest.mark.parametrize(("profile", "name"), [("engine", "turn.event"), ("july", "duplex.turn.event")])
def test_another_signal_is_told_back(talk: Any, profile: str, name: str) -> None:
    t = talk(profile=profile).open().forget().send("turn.signal", event="user_waits")

    assert t.names == [name]
    told = t.events[0] if profile == "engine" else t.events[0]["event"]
    assert (told["session_id"], told["event"], told["turn_state"], told["epoch"]) == (
        t.session.id,
        "user_waits",
        "idle",
        0,
    )


# -- input


def test_frames_alone_are_an_invalid_modality(engine: Any, talk: Any) -> None:
    for make, code in ((engine(), "invalid_input_modality"), (talk().open(), "bad_event")):
        assert make.send("input_audio_buffer.append", video_frames=["/9gx"]).errors == [code]


def test_a_commit_that_declares_silence_drops_the_residual(engine: Any) -> None:
    t = engine(TWO).append(400).forget().send("input_audio_buffer.commit", is_speech=False).until(5)

    assert t.names[0] == "input_audio_buffer.speech_stopped"
    assert t.names[-1] == "response.listen"
    assert t.units == []
    assert t.of("input_audio_buffer.committed")[0]["event"]["empty"] is True


def test_a_commit_of_silence_takes_no_older_item(engine: Any) -> None:
    t = engine().append().commit().append(100, loud=False).commit()

    first, second = (e["item_id"] for e in t.of("input_audio_buffer.committed"))
    assert first != second


def test_the_alias_of_commit_is_checked_for_an_empty_buffer(engine: Any) -> None:
    assert engine().send("input.commit").errors == ["input_audio_buffer_empty"]


@pytest.mark.parametrize("name", ["input.audio.append", "push_chunk"])
def test_older_aliases_of_append_are_unknown(engine: Any, name: str) -> None:
    assert engine().send(name, audio="AAA=", format="pcm16").errors == ["unknown_event"]


@pytest.mark.parametrize(
    ("detection", "code"),
    [
        ({"type": "server_vad"}, "server_vad_unavailable"),
        ({"type": "server_vad", "interrupt_response": False}, "unsupported_turn_detection"),
        ({"type": "semantic_vad"}, "unsupported_turn_detection"),
    ],
)
@pytest.mark.parametrize("profile", ["engine", "interim"])
def test_server_vad_is_known_and_not_there(talk: Any, profile: str, detection: Any, code: str) -> None:
    t = talk(profile=profile).open(turn_detection=detection)
    assert (t.errors, t.ends) == ([code], [])

    assert t.open(turn_detection=None).names[-1] == "session.updated"


# -- the end


def test_close_in_a_reply_sends_no_response_done(engine: Any) -> None:
    t = engine(TWO).append().until(0.1).forget().send("session.close").until(400)

    assert t.names == ["session.closed"]
    event = t.events[0]
    assert (event["session_id"], event["reason"]) == (t.session.id, "client_close")
    assert event["event"] == {"type": "session.closed", "session_id": t.session.id, "reason": "client_close"}


def test_a_close_may_carry_its_reason_and_the_close_frame_tells_it(engine: Any) -> None:
    t = engine().forget().send("session.close", reason="done")

    assert t.events[0]["reason"] == "done"
    assert [(end.code, end.reason, end.told) for end in t.ends] == [(1000, "done", True)]


def test_in_july_a_reason_of_the_client_is_not_told(talk: Any) -> None:
    assert "reason" not in talk().open().forget().send("session.close", reason="done").events[0]["event"]


def test_the_interim_server_closes_flat_and_cancels_first(engine: Any) -> None:
    t = engine(TWO, profile="interim").forget()
    t = t.append().until(0.1).forget().send("session.close")

    assert t.names[-1] == "session.closed"
    assert t.events[-1].keys() == {"type", "session_id", "reason", "event_id", "server_event_seq"}
    assert t.events[-1]["reason"] == "session_close"


def test_errors_carry_the_event_id_of_what_they_refuse(engine: Any, talk: Any) -> None:
    for make, told in ((engine(), "evt_1"), (talk().open(), None)):
        for name in ("no.such", "response.cancel", "barge_in", "input.text.append"):
            make.forget().send(name, event_id="evt_1")
            assert [e["error"].get("event_id") for e in make.of("error")] in ([told], [])


def test_limits_are_rate_errors_and_may_be_retried(engine: Any, talk: Any) -> None:
    for make, kind in ((engine(), "rate_limit_error"), (talk().open(), "invalid_request_error")):
        make.append(300_000, loud=False)
        error = make.of("error")[0]["error"]
        assert (error["code"], error["type"]) == ("input_backpressure", kind)
        assert error.get("retryable") is (True if kind == "rate_limit_error" else None)


# -- the input clock of dialect C


@pytest.fixture
def clocked(talk: Any) -> Any:
    def make(*replies: Reply, **extra: Any) -> Any:
        t = talk(*replies, profile="input-clock", query=QUERY)
        return t.open(extra_body={**EXTRA, "clock": "input", **extra}).forget()

    return make


def processed(t: Any) -> list[tuple[Any, ...]]:
    return [
        (e["input_index"], e["audio_end_ms"], e["unit_end_ms"], [u["decision"] for u in e["units"]])
        for e in t.of("input_audio_buffer.processed")
    ]


def test_every_input_is_acknowledged_in_order_behind_what_it_caused(clocked: Any) -> None:
    t = clocked(reply(1, 2))
    for _ in range(10):
        t.append(200)
    t.append(300).commit().send("response.create").until(9)

    assert processed(t) == [
        *[(n, 200 * n, 0, []) for n in range(1, 5)],
        (5, 1000, 1000, ["listen"]),
        *[(n, 200 * n, 1000, []) for n in range(6, 10)],
        (10, 2000, 2000, ["speak"]),
        (11, 2300, 2000, []),
        (12, 2300, 2300, ["speak"]),
        (13, 2300, 2300, []),
    ]
    assert t.of("input_audio_buffer.processed")[-1]["decision"] == "rejected"
    assert t.of("input_audio_buffer.processed")[-1]["reason"] == "response_create_without_input"


def test_with_the_input_clock_the_server_makes_no_silence(clocked: Any) -> None:
    t = clocked(reply(0, 4)).append().until(200)

    assert len(t.of(DELTA)) == 1


def test_silence_continuation_off_does_the_same_without_the_clock(talk: Any) -> None:
    t = talk(reply(0, 4), profile="input-clock", query=QUERY)
    t.open(extra_body={**EXTRA, "silence_continuation": False}).append().until(200)

    assert len(t.of(DELTA)) == 1
    assert t.of("input_audio_buffer.processed") == []


def test_a_refused_input_is_acknowledged_behind_its_error(clocked: Any) -> None:
    t = clocked().append(audio="AAAA")

    assert t.names[-2:] == ["error", "input_audio_buffer.processed"]
    assert (t.events[-1]["decision"], t.events[-1]["reason"]) == ("rejected", "bad_audio")


def test_one_acknowledgement_covers_what_waits_at_the_end(clocked: Any) -> None:
    t = clocked().append().append().append(100).send("session.close")

    (event,) = t.of("input_audio_buffer.processed")
    assert (event["first_input_index"], event["input_index"]) == (1, 3)
    assert [unit["decision"] for unit in event["units"]] == ["aborted", "aborted"]
    assert t.names[-1] == "session.closed"


@pytest.mark.parametrize("profile", ["engine", "interim", "july"])
def test_other_dialects_ignore_the_clock(talk: Any, profile: str) -> None:
    extra = {**EXTRA, "minicpmo45_native_duplex": True, "clock": "input"}
    t = talk(profile=profile).open(extra_body=extra).append().until(5)

    assert t.errors == []
    assert t.of("input_audio_buffer.processed") == []


def test_the_clock_cannot_be_another_nor_change(talk: Any, clocked: Any) -> None:
    t = talk(profile="input-clock", query=QUERY).open(extra_body={**EXTRA, "clock": "wall"})
    assert (t.errors, len(t.ends)) == (["input_clock_unsupported"], 1)

    t = clocked().send("session.update", session={"extra_body": {**EXTRA, "clock": None}})
    assert t.errors == ["input_clock_update_unsupported"]
