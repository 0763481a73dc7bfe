"""What is drawn to go wrong: every fault of every layer, with triggers, scopes and compositions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from conformance.fuzz.dice import Dice
from conformance.fuzz.scripts import text
from scenarios.faults import FAULTS, Layer

Data = dict[str, Any]
Parameters = Callable[[Dice], Data]

RECEIVED = (
    (4, "input_audio_buffer.append"),
    (5, "input_audio_buffer.commit"),
    (3, "playback.ack"),
    (1, "session.update"),
    (3, "session.close"),
)
SENT = (
    (3, "response.created"),
    (3, "response.done"),
    (3, "audio.delta"),
    (3, "transcript.delta"),
    (2, "input_audio_buffer.committed"),
    (1, "session.created"),
    (1, "session.updated"),
    (1, "session.closed"),
    (1, "response.listen"),
    (1, "playback.acknowledged"),
    (1, "audio.done"),
)
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
EVENTS = tuple(name for _, name in SENT)
WRITES = (
    (4, "playback.ack"),
    (4, "input_audio_buffer.append"),
    (3, "input_audio_buffer.commit"),
    (3, "session.close"),
    (1, "session.update"),
)
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


def stall_trigger(dice: Dice) -> Data:
    """When a peer stops reading: mostly where a reply can still become complete, so that the teardown stalls."""
    moment = dice.weighted(STALLS)
    if not moment:
        return {}
    on = dict(moment)
    if dice.chance(30):
        on["nth"] = dice.number(2, 4)
    return {"on": on}


def trigger(dice: Dice, *, must: bool = False) -> Data:
    """When a fault begins: at its own moment, at an event, at a time."""
    kind = dice.weighted(((0 if must else 3, "own"), (6, "on"), (1, "at")))
    if kind == "own":
        return {}
    if kind == "at":
        return {"at_s": dice.number(0, 120) / 10}
    side = dice.pick(("received", "sent"))
    on: Data = {side: dice.weighted(RECEIVED if side == "received" else SENT)}
    if dice.chance(40):
        on["nth"] = dice.number(2, 4)
    return {"on": on}


def scope(dice: Dice, ids: tuple[str, ...]) -> Data:
    """Where a fault is armed: often on the first attempt alone, so that a retry can succeed."""
    kind = dice.weighted(((6, "all"), (4, "attempt"), (1, "connection"), (2, "sample")))
    if kind == "attempt":
        return {"attempt": dice.weighted(((5, 1), (1, 2)))}
    if kind == "connection":
        return {"connection": dice.number(1, 2)}
    if kind == "sample" and len(ids) > 1:
        return {"sample": dice.pick(ids)}
    return {}


def nothing(dice: Dice) -> Data:
    return {}


def delay(dice: Dice) -> Data:
    return {"delay_s": dice.pick(DELAYS_S)}


def one_event(dice: Dice) -> Data:
    data: Data = {"event": dice.pick(EVENTS)}
    if dice.chance(40):
        data["nth"] = dice.weighted(((3, 2), (2, 3), (2, None)))
    return data


def which(dice: Dice) -> Data:
    return {"nth": dice.weighted(((2, None), (2, 2)))} if dice.chance(40) else {}


def _latency(dice: Dice) -> Data:
    latency_s = dice.pick((0.05, 0.7, 3.1, 25.0))
    return {"latency_s": latency_s, **({"jitter_s": latency_s / 2} if dice.chance(40) else {})}


def _stop_reading(dice: Dice) -> Data:
    return {"proof": "unread"} if dice.chance(30) else {}


def _error_event(dice: Dice) -> Data:
    data: Data = {}
    if dice.chance(50):
        data["code"] = dice.pick((None, "input_backpressure", "resource_exhausted", "session_expired"))
    if dice.chance(40):
        # Words of the client's own timeouts: an error that quotes them is an error all the same.
        data["message"] = dice.pick(("session.closed: 20.0 s passed", "drain", "", "playback ack timed out"))
    if dice.chance(30):
        data["shape"] = "flat"
    return data


def _damaged_audio(dice: Dice) -> Data:
    return {
        "kind": dice.pick(("bad_base64", "bad_padding", "odd_bytes", "rate_change", "empty")),
        **which(dice),
    }


def _garbage(dice: Dice) -> Data:
    return {**dice.pick(GARBAGE), **({"times": 20} if dice.chance(15) else {})}


def _split_text(dice: Dice) -> Data:
    return {"where": dice.pick(("surrogate_pair", "grapheme")), **which(dice)}


def _bad_frame(dice: Dice) -> Data:
    kinds = (
        *("masked", "reserved_bit", "unknown_opcode", "long_control", "fragmented_control"),
        *("orphan_continuation", "interrupted_message", "short_close"),
    )
    return {"kind": dice.pick(kinds)}


def _close_code(dice: Dice) -> Data:
    return {"code": dice.pick((1000, 1001, 1009, 1011, 1005, 4000, 0)), "reason": dice.pick(("", "bye"))}


def _write(dice: Dice) -> Data:
    return {
        "write": dice.weighted(WRITES),
        **({"nth": dice.number(2, 8)} if dice.chance(50) else {}),
    }


def _swallow(dice: Dice) -> Data:
    return {**_write(dice), **({"cancellations": dice.number(2, 3)} if dice.chance(25) else {})}


def _failing_write(dice: Dice) -> Data:
    return {**_write(dice), "raises": dice.pick(("RuntimeError", "AttributeError", "OSError"))}


def _extra_reply(dice: Dice) -> Data:
    data: Data = {"text": text(dice)}
    if dice.chance(40):
        data["units"] = dice.number(2, 4)
    if dice.chance(30):
        data["after_units"] = dice.number(2, 3)
    return data


@dataclass(frozen=True)
class Form:
    """How one fault is drawn."""

    parts: int
    """Its share among the faults that are drawn."""
    parameters: Parameters = nothing
    must_trigger: bool = False
    own_moment: bool = False
    """Drawn without a trigger: it acts where there is something for it to act on."""
    lasting: bool = False
    """It can end before the scenario does."""


FORMS: Mapping[str, Form] = {
    "stop_reading": Form(18, _stop_reading, lasting=True),
    "resume_reading": Form(2, must_trigger=True),
    "slow_reading": Form(2, lambda d: {"bytes_per_s": d.pick((20_000, 4_000, 60_000))}, lasting=True),
    "latency": Form(3, _latency, lasting=True),
    "bandwidth": Form(2, lambda d: {"bytes_per_s": d.pick((100_000, 20_000, 3_000))}, lasting=True),
    "slicer": Form(2, lambda d: {"average_size_bytes": d.pick((3_000, 700, 150)), "delay_s": 1e-4}),
    "limit_data": Form(3, lambda d: {"limit_bytes": d.pick((0, 1, 700, 5_000, 40_000))}),
    "reset_peer": Form(4),
    "half_close": Form(3),
    "slow_close": Form(2, delay),
    "no_close_reply": Form(3, own_moment=True),
    "no_pong": Form(2, own_moment=True),
    "refuse_upgrade": Form(2, lambda d: {"status": d.pick((503, 401, 429, 404))}),
    "never_upgrade": Form(2),
    "oversize_frame": Form(1),
    "invalid_utf8": Form(2, lambda d: {"where": d.pick(("inside", "cut_at_end"))}),
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
    "duplicate_event": Form(4, lambda d: {**one_event(d), **({"times": 4} if d.chance(20) else {})}),
    "reorder": Form(4, lambda d: {**one_event(d), **({"by": d.number(2, 5)} if d.chance(40) else {})}),
    "drop_event": Form(5, one_event),
    "garbage_event": Form(4, _garbage),
    "unknown_event": Form(2, lambda d: {"type": d.pick(("response.thought.delta", "x", "error.soft"))}),
    "freeze_tail": Form(4),
    "never_done": Form(6),
    "status": Form(5, lambda d: {"status": d.pick(("failed", "cancelled", "incomplete")), **which(d)}),
    "late_deltas": Form(4, which),
    "extra_reply_in_padding": Form(5, _extra_reply),
    "listen_per_padded_unit": Form(3),
    "wrong_response_id": Form(
        3, lambda d: {"event": d.pick(("both_deltas", "audio.delta", "transcript.delta", "response.done"))}
    ),
    "damaged_audio": Form(3, _damaged_audio),
    "split_text": Form(3, _split_text),
    "swallow_cancellation": Form(8, _swallow),
    "failing_write": Form(5, _failing_write),
    "slow_write": Form(5, lambda d: {**_write(d), "delay_s": d.pick((0.3, 1.0, 4.7, 22.0, 33.0))}),
    "no_transport": Form(3),
    "no_socket": Form(2),
    "slow_disk": Form(1, lambda d: {"delay_s": d.pick((0.2, 12.0))}),
}
"""Every fault that a session can meet; those of the judge are drawn with it (conformance.fuzz.judging)."""
_SEAMS = frozenset(name for name in FORMS if FAULTS[name].layer is Layer.SEAM)
_CHOICES = tuple((form.parts, name) for name, form in FORMS.items())
_ON_THE_WIRE = tuple((parts, name) for parts, name in _CHOICES if name not in _SEAMS)
COMPANIONS: Mapping[str, tuple[str, ...]] = {
    # Two faults that are harmless apart and met together in the field.
    "stop_reading": ("no_transport", "no_socket", "resume_reading", "swallow_cancellation", "error_event"),
    "no_session_closed": ("no_close_reply", "swallow_cancellation", "no_transport"),
    "never_done": ("no_session_closed", "error_event", "stop_reading"),
    "no_transport": ("stop_reading",),
    "no_socket": ("stop_reading",),
}
SLOW_GOODBYE: Data = {"slow_write": {"write": "session.close", "delay_s": 4.7}}
"""Beside an answer that takes 19.9 s it needs all of the outer close deadline."""
LATE_RESETS: tuple[Data, ...] = tuple({"reset_peer": {"at_s": at_s}} for at_s in (9.0, 7.0, 12.0, 30.0))
"""Beside a peer that does not read: the socket dies while something is stuck in it."""
QUOTED = ("drain: 12.4 s passed", "session close: 25.0 s passed", "session.closed: 20.0 s passed")
"""An error of the server that quotes the client's own timeouts, beside such a timeout."""
UNSCOPED = frozenset({"slow_disk"})


def one(dice: Dice, name: str, ids: tuple[str, ...]) -> Data:
    """One fault with its parameters, trigger and scope, as an item of a scenario's `faults`."""
    form, kind = FORMS[name], FAULTS[name]
    data = form.parameters(dice)
    if kind.takes_trigger and not form.own_moment:
        data.update(stall_trigger(dice) if name == "stop_reading" else trigger(dice, must=form.must_trigger))
        if form.lasting and dice.chance(25):
            data["for_s"] = dice.pick((2.3, 15.0, 30.0))
    if name not in UNSCOPED and not (kind.layer is Layer.SEAM and name in ("no_transport", "no_socket")):
        data.update(scope(dice, ids))
    return {name: data}


def session_faults(dice: Dice, ids: tuple[str, ...], count: int, *, seams: bool) -> list[Data]:
    """A composition of faults; some are drawn for the company they keep."""
    choices = _CHOICES if seams else _ON_THE_WIRE
    drawn: list[Data] = []
    names: list[str] = []
    for _ in range(count):
        company = [
            other for name in names for other in COMPANIONS.get(name, ()) if seams or other not in _SEAMS
        ]
        if "late_session_closed" in names and seams and dice.chance(40):
            drawn.append(SLOW_GOODBYE)
            continue
        if "stop_reading" in names and dice.chance(15):
            drawn.append(dice.pick(LATE_RESETS))
            continue
        if {"stop_reading", "no_session_closed", "never_done"} & set(names) and dice.chance(12):
            told = {"message": f"upstream gave up: {dice.pick(QUOTED)}"}
            drawn.append({"error_event": {"on": {"received": "input_audio_buffer.append"}, **told}})
            continue
        name = dice.pick(company) if company and dice.chance(50) else dice.weighted(choices)
        names.append(name)
        drawn.append(one(dice, name, ids))
    return drawn
