"""What a drawn session has for a fault to act on, so that most faults bite: events by how often they come.

Only the script is looked at, so this is a guess that errs on both sides; some faults are drawn without it, for nobody
can say beforehand where an odd one would have bitten.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from conformance.fuzz.dice import Dice, Weighted
from conformance.fuzz.scripts import CUT_TEXTS

Data = dict[str, Any]

RECEIVED = (
    (4, "input_audio_buffer.append"),
    (5, "input_audio_buffer.commit"),
    (3, "playback.ack"),
    (1, "session.update"),
    (2, "session.close"),
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
WRITES = (
    (4, "playback.ack"),
    (4, "input_audio_buffer.append"),
    (3, "input_audio_buffer.commit"),
    (3, "session.close"),
    (1, "session.update"),
)
GREETING = frozenset({"session.created", "session.updated"})
ALONE = GREETING | {"response.created", "response.listen", "input_audio_buffer.committed", "session.closed"}
"""Events that are no part of a reply that is under way."""
REPLY_PARTS = "what a reply goes on with"
PADDING = "what the silence behind the clip brings"
MOST = 8
"""No event is counted further."""
_SOUND_BYTES_PER_S = 42_000
ACKS_A_UNIT = 3
"""Rounds of playback acks in a unit that has sound, at least."""


@dataclass(frozen=True)
class Stage:
    """How often each event comes on one connection, at most MOST, and how long it takes."""

    counts: Mapping[str, int]
    seconds: float = 12.0
    """Until the clip has been streamed."""
    samples: int = 1
    first: int = MOST
    """Units before the first reply begins."""
    lasts: int = MOST
    """Units of the first reply."""
    over: int = MOST
    """Units for which a reply is open behind the clip."""
    waits: int = MOST
    """Units of silence that come in behind the clip while no reply is open, at most."""
    sent_bytes_per_s: float = math.inf
    """What the client sends while it streams, at least."""

    def has(self, *names: str) -> bool:
        """Whether each of these events comes."""
        return all(self.counts.get(name, 0) for name in names)

    def event(self, dice: Dice, choices: Weighted[str]) -> tuple[str, int]:
        """An event that comes, and how often it does."""
        name = dice.weighted([(parts, name) for parts, name in choices if self.has(name)])
        return name, self.counts[name]

    def before(self, what: str) -> list[tuple[int, str, str, int]]:
        """What comes before something of a session that a fault acts on: parts, side, event, how often it does so.

        What is told with an event, in one go, is behind its trigger no more: the unit after it is.

        Args: what: an event that is ALONE, or REPLY_PARTS, PADDING.
        """
        received, sent = "received", "sent"
        asked = [(1, received, "session.update", 1)]
        if what in GREETING:
            return asked
        there = [
            *asked,
            (1, sent, "session.updated", 1),
            (4, received, "input_audio_buffer.append", self.first + 1),
        ]
        if what in ("response.created", "response.listen"):
            return there
        commit = (4, received, "input_audio_buffer.commit", 1)
        if what == "input_audio_buffer.committed":
            return [*there, commit]
        begun = self.lasts if what != "session.closed" else MOST
        if begun > 1:
            there += [(3, sent, "response.created", 1), (3, sent, "transcript.delta", begun - 1)]
            there += [(3, sent, "audio.delta", begun - 1)] if self.has("audio.delta") else []
        if begun > 2 and self.has("playback.ack"):
            there.append((2, received, "playback.ack", begun - 2))
        if self.over > 1 or what in (PADDING, "session.closed"):
            there += [commit, (2, sent, "input_audio_buffer.committed", 1)]
        return [
            (p, side, name, min(nth, self.counts[name])) for p, side, name, nth in there if self.has(name)
        ]


ANYWHERE = Stage({name: MOST for _, name in (*RECEIVED, *SENT, *WRITES)})
"""A stage on which everything comes: where it is wrong, the fault is inert."""


def begun(replies: Iterable[Data], units: int) -> list[Data]:
    """Replies that begin while there is input."""
    return [reply for reply in replies if reply["starts_at_unit"] < units]


def units_of(data: Data) -> int:
    """Of the shortest clip, the residual among them."""
    return max(1, math.ceil(min(float(clip["seconds"]) for clip in clips_of(data))))


def clips_of(data: Data) -> list[Data]:
    """The clips of all samples."""
    return [data["clip"]] if "clip" in data else [sample["clip"] for sample in data["samples"]]


def stage_of(data: Data) -> Stage:
    """The stage of a scenario without faults; a fault that ends a session early takes away from it."""
    units = units_of(data)
    replies = begun(data["server"]["reply"], units)
    deltas = sum(reply["units"] for reply in replies)
    ended = sum(1 for reply in replies if reply.get("ends", True))
    sounding = sum(reply["units"] for reply in replies if reply.get("audio_ms", 960) > 0)
    after = max([0, *(reply["starts_at_unit"] + reply["units"] - units for reply in replies)])
    counts = {
        "session.update": 1,
        "session.created": 1,
        "session.updated": 1,
        "input_audio_buffer.append": units + after,
        "input_audio_buffer.commit": 1,
        "input_audio_buffer.committed": 1,
        "response.created": len(replies),
        "response.done": ended,
        "audio.delta": sounding,
        "audio.done": ended if sounding else 0,
        "transcript.delta": deltas,
        "response.listen": max(0, units - deltas),
        "playback.ack": ACKS_A_UNIT * sounding,
        "playback.acknowledged": 0 if data["server"]["profile"] == "input-driven" else ACKS_A_UNIT * sounding,
        "session.close": 1,
        "session.closed": 1,
    }
    clips = clips_of(data)
    decided_s = data["server"].get("decision_ms", 50) / 1000
    return Stage(
        {n: min(c, MOST) for n, c in counts.items()},
        max(clip["seconds"] for clip in clips),
        len(clips),
        first=replies[0]["starts_at_unit"] if replies else units - 1,
        lasts=replies[0]["units"] if replies else 0,
        over=after,
        waits=_waits(replies, units, decided_s),
        sent_bytes_per_s=min(_SOUND_BYTES_PER_S + clip.get("frame_bytes", 0) for clip in clips),
    )


def _waits(replies: list[Data], units: int, decided_s: float) -> int:
    """The one that goes out with the commit, and more where what was heard is still thought about."""
    begins_s = (replies[0]["starts_at_unit"] + 1) * decided_s if replies else 0.0
    ends_s = begins_s + (replies[0]["units"] * decided_s if replies else 0.0)
    return max(1, int(max(0.0, begins_s - units) + max(0.0, units * decided_s - max(units, ends_s))))


def drained_s(data: Data) -> float:
    """About when the drain of a lone sample has settled: its clip and its last reply are over, and it was quiet."""
    seconds = float(clips_of(data)[0]["seconds"])
    ends = [
        reply["starts_at_unit"] + reply["units"] for reply in begun(data["server"]["reply"], units_of(data))
    ]
    settle_s = data["client"]["deadlines"].get("settle_s", 2.0)
    return float(max([seconds, *ends]) + data["server"].get("decision_ms", 0) / 1000 + settle_s)


REPLY = frozenset(
    {
        "never_done",
        "status",
        "late_deltas",
        "wrong_response_id",
        "damaged_audio",
        "split_text",
        "duplicate_event",
    }
    | {"reorder", "drop_event", "swallow_cancellation", "failing_write"}
)
TAIL = frozenset({"freeze_tail", "listen_per_padded_unit"})
UNASKED = "extra_reply_in_padding"


def suit(dice: Dice, data: Data, names: Iterable[str]) -> None:
    """Put into the script what these faults act on, mostly: a reply, one that outlives the clip, sound, text.

    And for a reply that nobody asked for, silence with no reply open: the others are over with the clip.
    """
    wanted = set(names)
    replies: list[Data] = data["server"]["reply"]
    units = units_of(data)
    if wanted & (REPLY | TAIL | {UNASKED}) and not begun(replies, units) and dice.chance(85):
        replies[:] = [{"starts_at_unit": dice.number(0, units - 1), "units": 2, "text": "A cyclist passed."}]
    there = begun(replies, units)
    if not there or not dice.chance(85):
        return
    if wanted & TAIL:
        last = there[-1]
        if last["starts_at_unit"] + last["units"] < units + 2:
            last["units"] = units - last["starts_at_unit"] + dice.number(2, 4)
        del replies[replies.index(last) + 1 :]
    elif UNASKED in wanted:
        del replies[replies.index(there[0]) + 1 :]
        # One that begins with the last unit is not open yet when the first silence comes in.
        there[0]["units"] = min(there[0]["units"], max(1, units - 1 - there[0]["starts_at_unit"]))
        there[0].pop("ends", None)
        if units > 2 and dice.chance(30):
            data["server"]["decision_ms"] = 1700
    if "freeze_tail" in wanted and data["server"]["profile"] == "input-driven":
        data["server"]["profile"] = "july"  # the other one makes no silence that could be switched off
    if "damaged_audio" in wanted:
        there[0]["audio_ms"] = 960
    if "split_text" in wanted:
        there[0]["text"] = dice.pick(CUT_TEXTS)
