"""Two sessions compared event by event, up to the names of ids: the first difference that matters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from conformance.live.cassette import STORED, Cassette, Line
from mockserver.profiles import logical

SECTIONS: Mapping[str, str] = {
    "session.created": "4.4",
    "session.updated": "4.5",
    "session.closed": "10.1",
    "session.expired": "10.2",
    "input_audio_buffer.speech_started": "5.2",
    "input_audio_buffer.speech_stopped": "5.2",
    "input_audio_buffer.committed": "5.5",
    "input_audio_buffer.cleared": "5.6",
    "conversation.item.added": "5.5",
    "conversation.item.created": "5.5",
    "conversation.item.done": "5.5",
    "response.listen": "7.1",
    "response.created": "7.2",
    "response.speak": "7.3",
    "audio.delta": "7.4",
    "transcript.delta": "7.5",
    "response.done": "7.9",
    "rate_limits.updated": "7.9",
    "playback.acknowledged": "8.2",
    "error": "11.1",
    "(close)": "1.4",
    "(end)": "1.4",
}
"""Of protocol.md, where an event is told."""
ABOUT_IDS = re.compile(r"(^|_)(id|ids)$|^(event_id|item|session)$")
UNCOUNTED = frozenset(
    {
        "delta",
        "text",
        "transcript",
        "audio",
        "ref_audio",
        "event_id",
        "resume_token",
        "created_at",
        "server_event_seq",
        "stage_metrics",
        "usage",
    }
)
"""What two right servers say differently: words, sound, secrets, clocks, counters."""
OPTIONAL = frozenset(
    {"resume_token", "attachment_generation", "incarnation", "stage_metrics", "server_event_seq"}
)
"""Fields that a server may leave out (protocol.md 3.1, 4.4); told as notes."""
UNUSED = frozenset({"supports_session_resume"})
"""What no evaluation client asks for (evaluation.md 4.1); told as a note."""
MAX_NOTES = 20


@dataclass(frozen=True)
class Difference:
    """Where two sessions part."""

    what: str
    """order, field, value, end or family."""
    section: str
    """Of protocol.md."""
    at: int
    """Position among the server's events, from 1."""
    one: str
    other: str

    def told(self, a: str, b: str) -> list[str]:
        """For a reader."""
        return [
            f"event {self.at}: {self.what} (protocol.md {self.section})",
            f"  {a}: {self.one}",
            f"  {b}: {self.other}",
        ]


@dataclass(frozen=True)
class Drift:
    """What a comparison found."""

    difference: Difference | None
    notes: tuple[str, ...]
    """Differences that do not matter, each once."""
    compared: int
    """Events."""


def section_of(name: str) -> str:
    """The part of protocol.md that tells of an event."""
    return SECTIONS.get(logical(name), "7" if name.startswith("response.") else "3")


def drift(one: Cassette, other: Cassette, *, order_of_acks: bool = False) -> Drift:
    """Compare what two servers sent.

    Args:
        order_of_acks: whether the place of acknowledgements among the other events matters: they answer the
            client's own timing.
    """
    notes: dict[str, None] = {}
    mine, theirs = (_compared(c, order_of_acks) for c in (one, other))
    names: _Names = _Names()
    for number, (a, b) in enumerate(_pairs(mine, theirs), start=1):
        found = _differ(a, b, number, names, notes)
        if found is not None:
            return Drift(found, tuple(notes)[:MAX_NOTES], number - 1)
    return Drift(None, tuple(notes)[:MAX_NOTES], max(len(mine), len(theirs)))


def _compared(cassette: Cassette, acks: bool) -> list[Line]:
    return [
        line
        for line in cassette.lines
        if line.dir == "server->client"
        and line.kind in ("text", "close", "end")
        and (acks or line.type != "playback.acknowledged")
    ]


def _pairs(mine: list[Line], theirs: list[Line]) -> Iterator[tuple[Line | None, Line | None]]:
    for index in range(max(len(mine), len(theirs))):
        yield (
            mine[index] if index < len(mine) else None,
            theirs[index] if index < len(theirs) else None,
        )


class _Names:
    """Which id of one session stands for which of the other."""

    def __init__(self) -> None:
        self._there: dict[str, str] = {}
        self._back: dict[str, str] = {}

    def same(self, a: str, b: str) -> bool:
        """Whether they may stand for each other, from here on for good."""
        return self._there.setdefault(a, b) == b and self._back.setdefault(b, a) == a


def _differ(
    a: Line | None, b: Line | None, number: int, names: _Names, notes: dict[str, None]
) -> Difference | None:
    if a is None or b is None:
        there = a or b
        assert there is not None
        gone = "nothing more"
        return Difference(
            "end",
            section_of(there.type),
            number,
            gone if a is None else a.type,
            gone if b is None else b.type,
        )
    if a.type != b.type:
        family = logical(a.type) == logical(b.type)
        section = "0" if family else section_of(b.type)
        return Difference("family" if family else "order", section, number, a.type, b.type)
    if a.kind != "text":
        one, other = (f"{x.type} {x.code or x.how}" for x in (a, b))
        return None if one == other else Difference("value", "1.4", number, one, other)
    told = _fields(a.event or {}, b.event or {}, "", names, notes, a.type)
    return None if told is None else Difference(told[0], section_of(a.type), number, told[1], told[2])


def _fields(
    a: Any, b: Any, path: str, names: _Names, notes: dict[str, None], event: str
) -> tuple[str, str, str] | None:
    key = path.rsplit(".", 1)[-1]
    if key in UNCOUNTED or _is_media(a) or _is_media(b):
        return None
    if isinstance(a, dict) and isinstance(b, dict):
        for name in sorted({*a, *b}):
            where = f"{path}.{name}" if path else name
            if name not in a or name not in b:
                if name in OPTIONAL:
                    notes[f"{event}: {where} stands in one only"] = None
                    continue
                one, other = (f"{where} is {'there' if name in x else 'absent'}" for x in (a, b))
                return "field", one, other
            found = _fields(a[name], b[name], where, names, notes, event)
            if found is not None:
                return found
        return None
    if isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b):
            return "value", f"{path} has {len(a)} entries", f"{path} has {len(b)} entries"
        for index, (x, y) in enumerate(zip(a, b, strict=True)):
            found = _fields(x, y, f"{path}.{index}", names, notes, event)
            if found is not None:
                return found
        return None
    return _values(a, b, path, names, notes, event)


def _is_media(value: Any) -> bool:
    return isinstance(value, dict) and STORED in value


def _values(
    a: Any, b: Any, path: str, names: _Names, notes: dict[str, None], event: str
) -> tuple[str, str, str] | None:
    key = path.rsplit(".", 1)[-1]
    if type(a) is not type(b) and not (isinstance(a, int | float) and isinstance(b, int | float)):
        return "value", f"{path} is {_shown(a)}", f"{path} is {_shown(b)}"
    if a == b:
        return None
    if key in UNUSED:
        notes[f"{event}: {path} {a} and {b}"] = None
        return None
    if isinstance(a, str) and ABOUT_IDS.search(key):
        return None if names.same(a, b) else ("value", f"{path} is {_shown(a)}", f"{path} is {_shown(b)}")
    if isinstance(a, int | float) and not isinstance(a, bool):
        notes[f"{event}: {path} {a} and {b}"] = None
        return None
    return "value", f"{path} is {_shown(a)}", f"{path} is {_shown(b)}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
