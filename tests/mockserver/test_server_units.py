"""The step loop: which appends become units, when they are decided, what continues a reply (protocol.md 6, 16)."""

from __future__ import annotations

from typing import Any

import pytest

from mockserver.replies import split_text
from scenarios.model import Reply

LISTEN = "response.listen"
DELTA = "response.audio.delta"
DONE = "response.done"


def reply(start: int, units: int, text: str = "one two three four", **fields: Any) -> Reply:
    return Reply(starts_at_unit=start, units=units, text=text, **fields)


def test_less_than_a_unit_waits(talk: Any) -> None:
    t = talk().open().append(999).until(200)

    assert t.units == []


def test_at_most_one_unit_is_cut_per_append(talk: Any) -> None:
    t = talk().open().append(2500).until(5)
    assert t.units == ["append listen"]

    t.append(200).until(10)

    assert t.units == ["append listen", "append listen"]
    assert t.session.input.buffer.samples == 700 * 16


def test_units_are_decided_one_after_another(talk: Any) -> None:
    t = talk(decision_s=0.4).open().append().append().append().until(5)

    assert t.times(LISTEN) == [0.4, 0.8, 1.2]


def test_a_listening_session_gives_one_listen_a_unit_and_nothing_by_itself(talk: Any) -> None:
    t = talk().open().append().until(250)

    assert t.units == ["append listen"]
    assert t.of(LISTEN)[0]["response"]["metadata"]["model_listen"] is True


def test_silence_continues_an_open_reply_one_period_after_each_segment(talk: Any) -> None:
    t = talk(reply(0, 4)).open().append().until(20)

    assert t.units == ["append speak", *["silence speak"] * 3]
    assert t.times(DELTA) == [0.05, 1.1, 2.15, 3.2]
    assert t.times(DONE) == [3.2]


def test_a_partial_unit_freezes_an_open_reply_for_good(talk: Any) -> None:
    t = talk(reply(0, 4)).open().append(1000).append(500).until(200)

    assert len(t.of(DELTA)) == 1
    assert t.of(DONE) == []


def test_completing_the_partial_unit_thaws_the_reply(talk: Any) -> None:
    t = talk(reply(0, 4)).open().append(1000).append(500).until(200).append(500).until(220)

    assert t.units == ["append speak", "append speak", "silence speak", "silence speak"]
    assert len(t.of(DONE)) == 1


def test_a_clear_takes_the_obstacle_away_and_does_not_thaw_the_reply(talk: Any) -> None:
    t = talk(reply(0, 4)).open().append(1000).append(500).until(5)
    t.send("input_audio_buffer.clear").until(200)

    assert len(t.of(DELTA)) == 1
    assert t.append().until(220).of(DONE) != []


def test_an_append_on_time_leaves_no_room_for_silence(talk: Any) -> None:
    t = talk(reply(0, 4)).open()
    for second in range(4):
        t.until(second).append()
    t.until(20)

    assert t.units == ["append speak"] * 4
    assert t.times(DELTA) == [0.05, 1.05, 2.05, 3.05]


def test_an_append_later_than_the_last_unit_took_loses_against_silence(talk: Any) -> None:
    t = talk(reply(0, 3)).open().append().until(1.06).append().until(20)

    # and the wait behind the silence unit began after that append, so one more silence follows
    assert t.units == ["append speak", "silence speak", "append speak", "silence listen"]


def test_units_sent_ahead_wait_behind_the_continuation_and_come_in_a_burst(talk: Any) -> None:
    t = talk(reply(0, 3), decision_s=0.05).open()
    for _ in range(4):
        t.append()
    t.until(20)

    assert t.times(DELTA) == [0.05, 1.05, 2.05]
    # the fourth append and both silence units, all decided long before, or just then
    assert t.times(LISTEN) == [2.05, 2.05, 2.1]
    assert t.units.count("silence listen") == 2


def test_with_a_partial_unit_waiting_output_comes_as_fast_as_the_model_computes(talk: Any) -> None:
    t = talk(reply(0, 3)).open().append(1500).append().append().append().until(20)

    assert t.times(DELTA) == [0.05, 0.1, 0.15]


def test_input_driven_sends_nothing_for_300_s_although_a_reply_is_open(talk: Any) -> None:
    t = talk(reply(0, 4), profile="input-driven").open().append().until(1).forget().until(299.9)
    assert t.outputs == []

    t.until(300)

    assert t.of(DONE)[0]["response"]["status_details"] == {"type": "cancelled", "reason": "timeout"}
    assert t.of("session.closed")[0]["event"]["reason"] == "timeout"
    assert [end.code for end in t.ends] == [1000]


def test_input_driven_output_is_not_held_back(talk: Any) -> None:
    t = talk(reply(0, 3), profile="input-driven").open().append().append().append().until(20)

    assert t.times(DELTA) == [0.05, 0.1, 0.15]


def test_a_frame_rides_a_unit_first_in_first_out_and_creates_none(talk: Any) -> None:
    first, second = "/9gx", "/9gy"
    t = talk().open().append(400, video_frames=[first, second]).append(600).append().append().until(5)

    frames = [o.data.get("frame") for _, o in t.outputs if type(o).__name__ == "Unit"]
    assert len(set(frames[:2])) == 2
    assert frames[2] is None


def test_a_forced_unit_listens_and_the_reply_waits(talk: Any) -> None:
    t = talk(reply(0, 1)).open().append(force_listen=True).append().until(5)

    assert t.units == ["append listen", "append speak"]


def test_force_listen_count_holds_for_the_first_units_of_a_turn(talk: Any) -> None:
    extra = {"auto_response": True, "minicpmo45_native_duplex": True, "force_listen_count": 2}
    t = talk(reply(0, 1)).open(extra_body=extra).append().append().append().until(5)

    assert t.units == ["append listen", "append listen", "append speak"]


def test_turn_mode_buffers_and_never_decides(talk: Any) -> None:
    t = talk(reply(0, 1)).open(extra_body={"minicpmo45_native_duplex": True}).append().append().until(9)

    assert t.units == []


def test_a_reply_that_never_ends_stays_open_and_its_listens_are_invisible(talk: Any) -> None:
    t = talk(reply(0, 1, ends=False)).open().append().until(5)

    assert t.of(LISTEN) == []
    assert t.of(DONE) == []
    assert t.units == ["append speak", *["silence listen"] * 4]


def test_a_new_turn_closes_a_reply_that_never_ended(talk: Any) -> None:
    t = talk(reply(0, 1, "a", ends=False), reply(2, 1, "b")).open().append().append().append().until(9)

    assert [e["response"]["status_details"] for e in t.of(DONE)] == [
        None,
        {"type": "completed", "reason": "stop"},
    ]
    first, second = (e["response_id"] for e in t.of("response.created"))
    assert first != second


def test_a_turn_without_output_is_told_as_a_listen(talk: Any) -> None:
    mute = Reply.model_construct(
        starts_at_unit=0, units=2, text="", audio_ms=0, ends=True, status="completed"
    )
    t = talk(mute).open().append().until(9)

    assert [e["response"]["metadata"]["reason"] for e in t.of(LISTEN)] == [
        "model_turn_completed_without_output"
    ]
    assert t.units == ["append speak", "silence speak"]


def test_pending_input_is_limited(talk: Any) -> None:
    t = talk().open(extra_body={"minicpmo45_native_duplex": True})  # turn mode takes nothing out
    for _ in range(265):
        t.append(1000, loud=False)

    assert t.errors[:1] == []
    big = talk().open().append(300_000, loud=False)

    assert big.errors == ["input_backpressure"]


@pytest.mark.parametrize(
    "text", ["", " ", "one", "one two three", " lead  two\nthree ", "句子。第二句。", "a b c d e f g h i"]
)
@pytest.mark.parametrize("units", [1, 2, 3, 7])
def test_the_parts_of_a_text_joined_are_the_text(text: str, units: int) -> None:
    parts = split_text(text, units)

    assert "".join(parts) == text
    assert len(parts) == units


def test_a_text_is_cut_at_word_boundaries_only() -> None:
    assert split_text("A cyclist passes. Another one.", 3) == ["A cyclist ", "passes. Another ", "one."]
