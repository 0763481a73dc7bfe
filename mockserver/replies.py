"""The scripted model: what it decides on each unit (protocol.md 6.4)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol


class ReplySpec(Protocol):
    """What the script needs of `scenarios.model.Reply`."""

    @property
    def starts_at_unit(self) -> int: ...
    @property
    def units(self) -> int: ...
    @property
    def text(self) -> str: ...
    @property
    def audio_ms(self) -> int: ...
    @property
    def ends(self) -> bool: ...
    @property
    def status(self) -> str: ...


@dataclass(frozen=True)
class ExtraReply:
    """A reply that is added while the session runs; it waits until no other speaks."""

    starts_at_unit: int
    text: str
    units: int
    audio_ms: int
    ends: bool = True
    status: str = "completed"


class Decision(NamedTuple):
    """What the model does on one unit."""

    kind: Literal["listen", "speak"]
    reply: int = -1
    """Position of the reply in the script; -1 when it listens."""
    text: str = ""
    audio_ms: int = 0
    starts: bool = False
    """The first unit of its reply."""
    ends: bool = False
    """The turn ends in this unit."""
    status: str = "completed"


_LISTEN = Decision("listen")


def split_text(text: str, units: int) -> list[str]:
    """A text in `units` pieces that joined give it back, cut at word boundaries, each space with the word before it.

    Words are spread evenly; with fewer words than units some pieces are empty, never the first.
    """
    words = re.findall(r"^\s*\S+\s*|\S+\s*", text) or [text]
    pieces = [""] * units
    for position, word in enumerate(words):
        pieces[position * units // len(words)] += word
    return pieces


class ReplyScript:
    """Decides units in order.

    A reply begins on the first unit at or after its `starts_at_unit` that is not forced to listen, and then takes one
    unit after another; one that begins while another still speaks replaces it.
    """

    def __init__(self, replies: Sequence[ReplySpec]) -> None:
        self._replies: list[ReplySpec] = sorted(replies, key=lambda reply: reply.starts_at_unit)
        self._scripted = len(self._replies)
        self._extra: list[int] = []
        self._next = 0
        self._active: int | None = None
        self._part = 0
        self._texts: list[str] = []

    def decide(self, index: int, *, forced_listen: bool = False) -> Decision:
        """The decision for the unit with this index, counted from 0 over the whole session."""
        if forced_listen:
            return _LISTEN
        starts = False
        while self._next < self._scripted and self._replies[self._next].starts_at_unit <= index:
            self._begin(self._next)
            self._next += 1
            starts = True
        if self._active is None and self._extra and self._replies[self._extra[0]].starts_at_unit <= index:
            self._begin(self._extra.pop(0))
            starts = True
        if self._active is None:
            return _LISTEN
        number, reply = self._active, self._replies[self._active]
        part = self._part
        self._part += 1
        last = self._part >= reply.units
        if last:
            self._active = None
        return Decision(
            "speak", number, self._texts[part], reply.audio_ms, starts, last and reply.ends, reply.status
        )

    def add(self, reply: ExtraReply) -> None:
        """One more reply, begun on the first unit at or after its own on which no other speaks."""
        self._replies.append(reply)
        self._extra.append(len(self._replies) - 1)

    def cancel(self) -> None:
        """The active reply is over: its remaining parts are never spoken."""
        self._active = None

    def _begin(self, number: int) -> None:
        reply = self._replies[number]
        self._active, self._part = number, 0
        self._texts = split_text(reply.text, reply.units)
