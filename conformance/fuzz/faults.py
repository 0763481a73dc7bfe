"""What is drawn to go wrong: every fault of every layer, with triggers, scopes and compositions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from conformance.fuzz.dice import Dice
from conformance.fuzz.scripts import text
from conformance.fuzz.stage import (
    ALONE,
    ANYWHERE,
    GREETING,
    PADDING,
    RECEIVED,
    REPLY_PARTS,
    SENT,
    WRITES,
    Stage,
    stage_of,
    suit,
)
from scenarios.faults import FAULTS, Layer

Data = dict[str, Any]
Parameters = Callable[[Dice, Stage], Data]

STALLS: tuple[tuple[int, Data], ...] = (
    (8, {"received": "input_audio_buffer.commit"}),
    (3, {"sent": "transcript.delta"}),
    (2, {"sent": "response.created"}),
    (2, {"sent": "response.done"}),
    (2, {"received": "input_audio_buffer.append"}),
    (1, {"received": "playback.ack"}),
    (1, {"sent": "input_audio_buffer.committed"}),
    (1, {}),
)
EVENTS = tuple((2 if name.startswith(("response", "audio", "transcript")) else 1, name) for _, name in SENT)
GARBAGE: tuple[Data, ...] = (
    {"text": "not json"},
    {"text": "null"},
    {"text": "{}"},
    {"text": '{"type": 7}'},
    {"text": '{"type": "response.done"'},
    {"text": "[" * 200},
    {"event": {"type": "response.done"}},
    {"event": {"type": "response.done", "response": None}},
    {"event": {"type": "response.done", "response": {"id": 3, "status": ["completed"]}}},
    {"event": {"type": "response.created", "response": {"id": ""}}},
    {"event": {"type": "response.audio.delta", "delta": 5, "response_id": "$response_id"}},
    {"event": {"type": "response.audio_transcript.delta", "delta": None, "response_id": "$response_id"}},
    {"event": {"type": "error", "error": "a string"}},
    {"event": {"type": "session.created", "session": "text"}},
    {"event": {"type": "playback.acknowledged", "played_ms": "many"}},
    {"event": [1, 2]},
    {"event": {"type": "session.updated", "session": {"duplex": {"unit_ms": -5}}}},
    {"event": {"type": "response.done", "response": {"id": "$response_id", "status": "completed"}}},
)
DELAYS_S = (0.3, 2.2, 19.9, 20.1, 22.0, 26.3, 1.0)


def _nth(dice: Dice, count: int, percent: int = 40) -> Data:
    return {"nth": dice.number(2, count)} if count > 1 and dice.chance(percent) else {}


def stall_trigger(dice: Dice, stage: Stage) -> Data:
    """When a peer stops reading: mostly where a reply can still become complete, so that the teardown stalls."""
    there = [(parts, moment) for parts, moment in STALLS if stage.has(*moment.values())]
    moment = dice.weighted(there)
    if not moment:
        return {}
    return {"on": {**moment, **_nth(dice, stage.counts[next(iter(moment.values()))], 30)}}


def trigger(dice: Dice, stage: Stage) -> Data:
    """When a fault begins: at its own moment, at an event that comes, at a time."""
    kind = dice.weighted(((3, "own"), (6, "on"), (1, "at")))
    if kind == "own":
        return {}
    if kind == "at":
        return {"at_s": dice.number(0, int(stage.seconds * 10) + 20) / 10}
    side = dice.pick(("received", "sent"))
    name, count = stage.event(dice, RECEIVED if side == "received" else SENT)
    return {"on": {side: name, **_nth(dice, count)}}


def early_trigger(dice: Dice, stage: Stage, what: str) -> Data:
    """When a fault begins that acts on something which comes once, or for a while: before that.

    Args: what: as for `Stage.before`.
    """
    kind = dice.weighted(((6, "own"), (6, "on"), (0 if what in GREETING else 1, "at")))
    if kind == "own":
        return {}
    if kind == "at":
        return {"at_s": dice.number(0, min(stage.first * 10, int(stage.seconds * 10))) / 10}
    parts = [(parts, (side, name, most)) for parts, side, name, most in stage.before(what)]
    side, name, most = dice.weighted(parts)
    return {"on": {side: name, **_nth(dice, most)}}


def scope(dice: Dice, ids: tuple[str, ...], stage: Stage) -> Data:
    """Where a fault is armed: often on the first attempt alone, so that a retry can succeed.

    On the second one where a recipe makes one; else only astray, for few sessions have one.
    """
    kind = dice.weighted(((6, "all"), (4, "attempt"), (1, "connection"), (2, "sample")))
    if kind == "attempt":
        return {"attempt": 2 if stage is ANYWHERE and dice.chance(50) else 1}
    if kind == "connection":
        return {"connection": 1 if len(ids) == 1 else dice.number(1, 2)}
    if kind == "sample" and len(ids) > 1:
        return {"sample": dice.pick(ids)}
    return {}


def nothing(dice: Dice, stage: Stage) -> Data:
    return {}


def delay(dice: Dice, stage: Stage) -> Data:
    return {"delay_s": dice.pick(DELAYS_S)}


def one_event(dice: Dice, stage: Stage, *, last: bool = True) -> Data:
    """An event and which of several; `last`: it may be one that nothing follows."""
    name, count = stage.event(dice, [(p, name) for p, name in EVENTS if last or name != "session.closed"])
    data: Data = {"event": name}
    if dice.chance(30):
        data["nth"] = None if count < 2 or dice.chance(40) else dice.number(2, count)
    return data


def _reorder(dice: Dice, stage: Stage) -> Data:
    return {**one_event(dice, stage, last=False), **({"by": dice.number(2, 5)} if dice.chance(40) else {})}


def which(dice: Dice, stage: Stage) -> Data:
    if not dice.chance(40):
        return {}
    return {"nth": 2 if stage.counts.get("response.done", 0) > 1 and dice.chance(50) else None}


def _resume(dice: Dice, stage: Stage) -> Data:
    """Most events a server that does not read sends stop soon: a time comes in any case, while the client waits."""
    tenths = int(stage.seconds * 10)
    return {"at_s": dice.number(tenths + 5, tenths + dice.weighted(((7, 60), (3, 250)))) / 10}


def _latency(dice: Dice, stage: Stage) -> Data:
    latency_s = dice.pick((0.05, 0.7, 3.1, 25.0))
    return {"latency_s": latency_s, **({"jitter_s": latency_s / 2} if dice.chance(40) else {})}


def _stop_reading(dice: Dice, stage: Stage) -> Data:
    return {"proof": "unread"} if dice.chance(30) else {}


def _slow_reading(dice: Dice, stage: Stage) -> Data:
    """A rate that the client is above, and for so long that bytes lie unread."""
    rates = [rate for rate in (20_000, 60_000) if rate < stage.sent_bytes_per_s and stage.seconds > 2]
    return {"bytes_per_s": dice.pick((4_000, *rates))}


def _error_event(dice: Dice, stage: Stage) -> Data:
    data: Data = {}
    if dice.chance(50):
        data["code"] = dice.pick((None, "input_backpressure", "resource_exhausted", "session_expired"))
    if dice.chance(40):
        # Words of the client's own timeouts: an error that quotes them is an error all the same.
        data["message"] = dice.pick(("session.closed: 20.0 s passed", "drain", "", "playback ack timed out"))
    if dice.chance(30):
        data["shape"] = "flat"
    return data


def _damaged_audio(dice: Dice, stage: Stage) -> Data:
    return {
        "kind": dice.pick(("bad_base64", "bad_padding", "odd_bytes", "rate_change", "empty")),
        **which(dice, stage),
    }


def _garbage(dice: Dice, stage: Stage) -> Data:
    return {**dice.pick(GARBAGE), **({"times": 20} if dice.chance(15) else {})}


def _split_text(dice: Dice, stage: Stage) -> Data:
    return {"where": dice.pick(("surrogate_pair", "grapheme")), **which(dice, stage)}


def _bad_frame(dice: Dice, stage: Stage) -> Data:
    kinds = (
        *("masked", "reserved_bit", "unknown_opcode", "long_control", "fragmented_control"),
        *("orphan_continuation", "interrupted_message", "short_close"),
    )
    return {"kind": dice.pick(kinds)}


def _close_code(dice: Dice, stage: Stage) -> Data:
    return {"code": dice.pick((1000, 1001, 1009, 1011, 1005, 4000, 0)), "reason": dice.pick(("", "bye"))}


def _write(dice: Dice, stage: Stage) -> Data:
    name, count = stage.event(dice, WRITES)
    return {"write": name, **_nth(dice, count, 50)}


def _swallow(dice: Dice, stage: Stage) -> Data:
    return {**_write(dice, stage), **({"cancellations": dice.number(2, 3)} if dice.chance(25) else {})}


def _failing_write(dice: Dice, stage: Stage) -> Data:
    return {**_write(dice, stage), "raises": dice.pick(("RuntimeError", "AttributeError", "OSError"))}


def _extra_reply(dice: Dice, stage: Stage) -> Data:
    data: Data = {"text": text(dice)}
    if dice.chance(40):
        data["units"] = dice.number(2, 4)
    if stage.waits > 1 and dice.chance(50):
        data["after_units"] = dice.number(2, min(stage.waits, 3))
    return data


@dataclass(frozen=True)
class Form:
    """How one fault is drawn."""

    parts: int
    """Its share among the faults that are drawn."""
    parameters: Parameters = nothing
    own_moment: bool = False
    """Drawn without a trigger: it acts where there is something for it to act on."""
    lasting: bool = False
    """It can end before the scenario does."""


FORMS: Mapping[str, Form] = {
    "stop_reading": Form(18, _stop_reading, lasting=True),
    "resume_reading": Form(2, _resume, own_moment=True),
    "slow_reading": Form(2, _slow_reading, lasting=True),
    "latency": Form(3, _latency, lasting=True),
    "bandwidth": Form(2, lambda d, s: {"bytes_per_s": d.pick((100_000, 20_000, 3_000))}, lasting=True),
    "slicer": Form(2, lambda d, s: {"average_size_bytes": d.pick((3_000, 700, 150)), "delay_s": 1e-4}),
    "limit_data": Form(3, lambda d, s: {"limit_bytes": d.pick((0, 1, 700, 5_000, 40_000))}),
    "reset_peer": Form(4),
    "half_close": Form(3),
    "slow_close": Form(2, delay),
    "no_close_reply": Form(2, own_moment=True),
    "no_pong": Form(1, own_moment=True),
    "refuse_upgrade": Form(2, lambda d, s: {"status": d.pick((503, 401, 429, 404))}),
    "never_upgrade": Form(2),
    "oversize_frame": Form(1),
    "invalid_utf8": Form(2, lambda d, s: {"where": d.pick(("inside", "cut_at_end"))}),
    "bad_frame": Form(2, _bad_frame),
    "close_code": Form(4, _close_code),
    "no_session_created": Form(3),
    "late_session_created": Form(3, delay),
    "late_session_closed": Form(4, delay),
    "no_session_closed": Form(4),
    "ignore_close": Form(2, lasting=True),
    "ignore_cancel": Form(1),
    "error_event": Form(8, _error_event),
    "session_expired": Form(2),
    "session_replaced": Form(2),
    "journal_overflow": Form(2),
    "duplicate_event": Form(4, lambda d, s: {**one_event(d, s), **({"times": 4} if d.chance(20) else {})}),
    "reorder": Form(4, _reorder),
    "drop_event": Form(5, one_event),
    "garbage_event": Form(4, _garbage),
    "unknown_event": Form(2, lambda d, s: {"type": d.pick(("response.thought.delta", "x", "error.soft"))}),
    "freeze_tail": Form(4),
    "never_done": Form(6),
    "status": Form(5, lambda d, s: {"status": d.pick(("failed", "cancelled", "incomplete")), **which(d, s)}),
    "late_deltas": Form(4, which),
    "extra_reply_in_padding": Form(5, _extra_reply),
    "listen_per_padded_unit": Form(3),
    "wrong_response_id": Form(
        3, lambda d, s: {"event": d.pick(("both_deltas", "audio.delta", "transcript.delta", "response.done"))}
    ),
    "damaged_audio": Form(3, _damaged_audio),
    "split_text": Form(3, _split_text),
    "swallow_cancellation": Form(8, _swallow),
    "failing_write": Form(5, _failing_write),
    "slow_write": Form(5, lambda d, s: {**_write(d, s), "delay_s": d.pick((0.3, 1.0, 4.7, 22.0, 33.0))}),
    "no_transport": Form(3),
    "no_socket": Form(2),
    "slow_disk": Form(1, lambda d, s: {"delay_s": d.pick((0.2, 12.0))}),
}
"""Every fault that a session can meet; those of the judge are drawn with it (conformance.fuzz.judging)."""
SEAMS = frozenset(name for name in FORMS if FAULTS[name].layer is Layer.SEAM)
_CHOICES = tuple((form.parts, name) for name, form in FORMS.items())
_ON_THE_WIRE = tuple((parts, name) for parts, name in _CHOICES if name not in SEAMS)
_ON_EVENTS = frozenset({"duplicate_event", "reorder", "drop_event"})
_PADDED = frozenset({"freeze_tail", "listen_per_padded_unit"})
_RESPONSE = frozenset(name for name in FORMS if FAULTS[name].layer is Layer.RESPONSE)
COMPANIONS: Mapping[str, tuple[str, ...]] = {
    # Two faults that are harmless apart and met together in the field.
    "stop_reading": ("no_transport", "no_socket", "resume_reading", "swallow_cancellation", "error_event"),
    "no_session_closed": ("swallow_cancellation", "no_transport"),
    "slow_close": ("no_close_reply",),
    "never_done": ("no_session_closed", "error_event", "stop_reading"),
}
STALLED = ("stop_reading", "no_session_closed")
NEEDED: Mapping[str, tuple[str, ...]] = {
    # What bites only beside another one.
    "no_transport": STALLED,
    "no_socket": STALLED,
    "resume_reading": ("stop_reading",),
    "no_close_reply": ("slow_close",),
    "no_pong": ("no_session_closed", "late_session_closed"),
}
ASTRAY = 4
"""So many faults in a hundred are drawn without a look at what the scenario has."""
UNSCOPED = frozenset({"slow_disk", "no_transport", "no_socket"})


def one(dice: Dice, name: str, ids: tuple[str, ...], stage: Stage) -> Data:
    """One fault with its parameters, trigger and scope, as an item of a scenario's `faults`."""
    form, kind = FORMS[name], FAULTS[name]
    if dice.chance(ASTRAY):
        stage = ANYWHERE
    data = form.parameters(dice, stage)
    if kind.takes_trigger and not form.own_moment:
        data.update(_moment(dice, name, data, stage))
        if form.lasting and dice.chance(25):
            data["for_s"] = dice.pick((2.3, 15.0, 30.0))
    if name not in UNSCOPED:
        data.update(scope(dice, ids, stage))
    return {name: data}


def _moment(dice: Dice, name: str, data: Data, stage: Stage) -> Data:
    """When a fault with these parameters begins; and how it is proved, where that hangs on it."""
    if name == "stop_reading":
        moment = stall_trigger(dice, stage)
        # From the upgrade on one greeting alone is stuck, and the library takes as much without waiting.
        return moment or {"proof": "unread"}
    if stage is ANYWHERE:
        return trigger(dice, stage)
    if name in _PADDED:
        return early_trigger(dice, stage, PADDING)
    if name in _RESPONSE:
        return early_trigger(dice, stage, REPLY_PARTS)
    if name in _ON_EVENTS:
        alone = data["event"] if data["event"] in ALONE else REPLY_PARTS
        return early_trigger(dice, stage, "response.created" if data.get("nth") else alone)
    if name == "slow_reading":
        return early_trigger(dice, stage, "response.created")
    return trigger(dice, stage)


def session_faults(dice: Dice, ids: tuple[str, ...], count: int, data: Data, *, seams: bool) -> list[Data]:
    """A composition of faults; some are drawn for the company they keep.

    The script of `data` is made to hold what they act on, mostly.
    """
    choices = _CHOICES if seams else _ON_THE_WIRE
    names: list[str] = []
    while len(names) < count:
        company = [
            other for name in names for other in COMPANIONS.get(name, ()) if seams or other not in SEAMS
        ]
        name = dice.pick(company) if company and dice.chance(50) else dice.weighted(choices)
        if name in NEEDED and not set(names) & set(NEEDED[name]) and dice.chance(92):
            names.append(dice.pick(NEEDED[name]))
        names.append(name)
    suit(dice, data, names)
    stage = stage_of(data)
    drawn = [one(dice, name, ids, stage) for name in names]
    if not dice.chance(ASTRAY):
        _together(drawn)
    return drawn


def _together(drawn: list[Data]) -> None:
    """Who is drawn for a stall finds one: that does not end by itself, and on the same sessions."""
    for fault in drawn:
        (name,) = fault
        for other in drawn:
            (needed,) = other
            if name in ("no_transport", "no_socket", "resume_reading") and needed in STALLED:
                other[needed].pop("for_s", None)
            if (name, needed) in (("resume_reading", "stop_reading"), ("no_close_reply", "slow_close")):
                for key in ("attempt", "connection", "sample"):
                    fault[name].pop(key, None)
                    if key in other[needed]:
                        fault[name][key] = other[needed][key]
