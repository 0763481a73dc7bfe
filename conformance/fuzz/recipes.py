"""Compositions drawn on purpose: ingredients that must come together, with figures that match.

Each puts two or three ordinary faults into a drawn scenario of one sample, adds to the script what they act on, and
takes the figures from the deadlines that were drawn. Independent draws nearly never meet like that; what comes of it is
a scenario like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conformance.fuzz import faults
from conformance.fuzz.dice import Dice, Weighted
from conformance.fuzz.scripts import text
from conformance.fuzz.stage import drained_s, stage_of, suit, units_of

Data = dict[str, Any]
Recipe = Callable[[Dice, Data], list[Data]]

PERCENT = 16
"""Share of recipes among the scenarios of one sample."""
CLOSE_S, GRACE_S, SLACK_S = 20.0, 5.0, 120.0
"""The client's own deadlines (evaluation.md 10), where none were drawn."""
COMMIT: Data = {"on": {"received": "input_audio_buffer.commit"}}


def _deadline(data: Data, name: str, otherwise_s: float) -> float:
    return float(data["client"]["deadlines"].get(name, otherwise_s))


def _sounding_reply(dice: Dice, data: Data, *, over_s: int) -> None:
    """One complete reply with sound, which ends so many units after the clip."""
    units = units_of(data)
    start = dice.number(max(0, units - 3), units - 1)
    data["server"]["reply"] = [
        {"starts_at_unit": start, "units": units - start + over_s, "text": text(dice), "audio_ms": 960}
    ]


def _uncut(data: Data) -> None:
    """No deadline around the attempt comes before those within."""
    data["client"]["deadlines"]["request_s"] = 120.0
    data["client"].pop("cancel_at_s", None)
    data["client"].pop("pace", None)


def all_of_the_close(dice: Dice, data: Data) -> list[Data]:
    """A slow goodbye, and an answer that takes nearly all that is left for it."""
    _uncut(data)
    _sounding_reply(dice, data, over_s=dice.number(0, 1))
    close_s, grace_s = _deadline(data, "close_s", CLOSE_S), _deadline(data, "grace_s", GRACE_S)
    slow_s = round(grace_s * dice.pick((0.9, 0.5, 0.3)), 2)
    return [
        {"late_session_closed": {"delay_s": round(close_s - 0.1, 2)}},
        {"slow_write": {"write": "session.close", "delay_s": slow_s}},
    ]


def quoted_timeout(dice: Dice, data: Data) -> list[Data]:
    """An error that quotes, word for word, the text of a timeout that then happens, and no reply that would hide it."""
    _uncut(data)
    data["server"]["reply"] = []
    close_s, grace_s = _deadline(data, "close_s", CLOSE_S), _deadline(data, "grace_s", GRACE_S)
    unread: Data = {"stop_reading": {"on": {"received": "input_audio_buffer.append", "nth": 2}}}
    if units_of(data) < 3:  # what is left of the clip fits into the buffers
        unread["stop_reading"]["proof"] = "unread"
    stalls: tuple[tuple[str, Data], ...] = (
        (f"session.closed: {close_s:.1f} s passed", {"no_session_closed": {}}),
        (f"session close: {close_s + grace_s:.1f} s passed", unread),
    )
    words, stall = dice.pick(stalls)
    event: Data = {"on": {"received": "input_audio_buffer.append"}, "message": f"upstream gave up: {words}"}
    return [{"error_event": event}, stall]


def cancelled_in_a_join(dice: Dice, data: Data) -> list[Data]:
    """Cancelled from outside while a task of the session is being joined and does not end."""
    _uncut(data)
    data["client"]["deadlines"].pop("ack_period_s", None)
    _sounding_reply(dice, data, over_s=dice.number(0, 2))
    room_s = min(_deadline(data, "grace_s", GRACE_S), 6.0)
    data["client"]["cancel_at_s"] = round(drained_s(data) + room_s * dice.pick((0.5, 0.3, 0.8)), 1)
    if dice.chance(70):
        return [{"swallow_cancellation": {"write": "playback.ack", "nth": dice.number(1, 3)}}]
    return [{"stop_reading": COMMIT}]


def reset_under_the_teardown(dice: Dice, data: Data) -> list[Data]:
    """The socket dies while something is stuck in it: padding, an ack, the goodbye."""
    _uncut(data)
    _sounding_reply(dice, data, over_s=dice.number(1, 3))
    after_s = dice.pick((1.0, 2.0, 3.5, 12.0, 30.0))
    return [{"stop_reading": COMMIT}, {"reset_peer": {"at_s": round(drained_s(data) + after_s, 1)}}]


def acks_stall(dice: Dice, data: Data) -> list[Data]:
    """The closing ack is given up beside a reply that is complete, or beside one that never is."""
    _uncut(data)
    _sounding_reply(dice, data, over_s=dice.number(0, 2))
    data["client"]["deadlines"]["drain_slack_s"] = 10.0
    drawn: list[Data] = []
    scope: Data = {"attempt": 1} if dice.chance(60) else {}
    if dice.chance(50):
        drawn.append({"never_done": dict(scope)})
    if dice.chance(50):
        data["client"]["deadlines"]["ack_period_s"] = 60.0
        drawn.append({"swallow_cancellation": {"write": "playback.ack", **scope}})
    else:
        drawn.append({"stop_reading": {**COMMIT, **scope}})
    return drawn


STALLS: tuple[Data, ...] = (
    {"never_done": {}},
    {"no_session_created": {}},
    {"stop_reading": {"on": {"received": "input_audio_buffer.append"}}},
    {"never_upgrade": {}},
)
NEXT: Weighted[str] = tuple(
    (form.parts, name)
    for name, form in faults.FORMS.items()
    if name not in faults.UNSCOPED | set(faults.NEEDED)
)
NEXT_ON_THE_WIRE: Weighted[str] = tuple((p, name) for p, name in NEXT if name not in faults.SEAMS)


def _second_attempt(dice: Dice, data: Data, choices: Weighted[str]) -> list[Data]:
    data["client"]["deadlines"].setdefault("drain_slack_s", 10.0)
    (stall,) = dice.pick(STALLS).items()
    name = dice.weighted(choices)
    suit(dice, data, (stall[0], name))
    (fault,) = faults.one(dice, name, ("1",), stage_of(data)).items()
    then = {key: value for key, value in fault[1].items() if key not in ("connection", "sample")}
    return [{stall[0]: {**stall[1], "attempt": 1}}, {fault[0]: {**then, "attempt": 2}}]


def second_attempt(dice: Dice, data: Data) -> list[Data]:
    """A stall on the first attempt, and something else on the second."""
    return _second_attempt(dice, data, NEXT)


def second_attempt_on_the_wire(dice: Dice, data: Data) -> list[Data]:
    """The same without a fault that acts on the client."""
    return _second_attempt(dice, data, NEXT_ON_THE_WIRE)


def keep_alive(dice: Dice, data: Data) -> list[Data]:
    """No pong, and a session that lives long enough for one to be missed."""
    _uncut(data)
    _sounding_reply(dice, data, over_s=1)
    data["client"]["deadlines"]["drain_slack_s"] = SLACK_S
    return [{"no_pong": {}}, {"never_done": {}}]


def refused(dice: Dice, data: Data) -> list[Data]:
    """The session is refused, and then the connection ends in some way of its own."""
    error: Data = {
        "on": {"received": "session.update"},
        "code": "resource_exhausted",
        "message": "no free session",
    }
    drawn: list[Data] = [{"error_event": error}, {"no_session_created": {}}]
    end = dice.pick(("no_close_reply", "", "slow_close"))
    return [
        *drawn,
        *([{end: {"delay_s": dice.pick((2.2, 26.3))} if end == "slow_close" else {}}] if end else []),
    ]


def lost_reader(dice: Dice, data: Data) -> list[Data]:
    """A connection that is stuck, and that nothing can abort: whoever reads from it waits."""
    _uncut(data)
    _sounding_reply(dice, data, over_s=dice.number(0, 2))
    return [{"stop_reading": COMMIT}, {"no_transport": {}}]


def silent_tail(dice: Dice, data: Data) -> list[Data]:
    """A reply that outlives the clip, on a server whose silence behaves in some way of its own."""
    name = dice.pick(("freeze_tail", "listen_per_padded_unit", "extra_reply_in_padding"))
    _sounding_reply(dice, data, over_s=dice.number(2, 4))
    return [faults.one(dice, name, ("1",), stage_of(data))]


ON_THE_WIRE: Weighted[Recipe] = (
    (2, quoted_timeout),
    (3, reset_under_the_teardown),
    (2, second_attempt_on_the_wire),
    (1, keep_alive),
    (1, refused),
    (2, silent_tail),
)
WITH_SEAMS: Weighted[Recipe] = (
    (3, all_of_the_close),
    (3, quoted_timeout),
    (3, cancelled_in_a_join),
    (3, reset_under_the_teardown),
    (3, acks_stall),
    (3, second_attempt),
    (1, keep_alive),
    (1, refused),
    (1, lost_reader),
    (2, silent_tail),
)


def pick(dice: Dice, *, seams: bool) -> Recipe:
    """One of them; `seams`: faults that act on a client in this process are possible."""
    return dice.weighted(WITH_SEAMS if seams else ON_THE_WIRE)
