"""What a probe saw: events of both directions with their times, as a client sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from client.wire import error_of, response_id_of
from scenarios.names import DIALECT_SPELLINGS

MAX_SEEN = 50_000
"""Events kept of one probe; a server that floods ends the probe."""
Kind = Literal["step", "sent", "received"]
_MEDIA = ("delta", "audio", "ref_audio", "video_frames")


@dataclass(frozen=True, slots=True)
class Seen:
    """One thing that happened on the connection."""

    t_s: float
    """Loop time."""
    kind: Kind
    name: str
    """Logical name of the event (scenarios.names.DIALECT_SPELLINGS), or of the step that begins here."""
    event: Mapping[str, Any]
    """Without its media."""
    spelling: str = ""
    """Type of the event as on the wire."""
    audio_ms: int = 0
    """Reply audio in it."""
    input_ms: int = 0
    """Input sent before it, its own included."""

    @property
    def response_id(self) -> str | None:
        """Which reply it belongs to."""
        return response_id_of(dict(self.event))


@dataclass
class Transcript:
    """Everything one probe saw, in order."""

    seen: list[Seen] = field(default_factory=list)
    connection_end: str = "left open"
    """How the connection ended, in the words of a table."""
    padded: int = 0
    """Units of silence sent."""

    def received(self, *names: str) -> list[Seen]:
        """Server events by logical name, in order."""
        return [s for s in self.seen if s.kind == "received" and s.name in names]

    def sent(self, *names: str) -> list[Seen]:
        """Events of ours by name, in order."""
        return [s for s in self.seen if s.kind == "sent" and s.name in names]

    def first(self, name: str) -> Seen | None:
        """The first server event of a logical name."""
        return next(iter(self.received(name)), None)

    def during(self, step: str) -> list[Seen]:
        """What was seen from the beginning of each step of this name until the next step."""
        found: list[Seen] = []
        inside = False
        for seen in self.seen:
            if seen.kind == "step":
                inside = seen.name == step
            elif inside:
                found.append(seen)
        return found

    def after(self, step: str) -> list[Seen]:
        """What was seen after the first step of this name began; nothing when there was none."""
        at = next((i for i, s in enumerate(self.seen) if s.kind == "step" and s.name == step), None)
        return [] if at is None else self.seen[at + 1 :]

    def open_replies(self, until: Callable[[Seen], bool]) -> list[str]:
        """Replies that are open when the first thing happens for which `until` holds."""
        opened: dict[str, None] = {}
        for seen in self.seen:
            if until(seen):
                break
            reply = seen.response_id or ""
            if seen.kind == "received" and seen.name == "response.created":
                opened[reply] = None
            elif seen.kind == "received" and seen.name == "response.done":
                opened.pop(reply, None)
        return list(opened)

    def errors(self) -> Iterator[tuple[str, str]]:
        """Code and shape (`nested`, `flat`) of each error."""
        for seen in self.received("error"):
            shape = "nested" if isinstance(seen.event.get("error"), dict) else "flat"
            yield error_of(dict(seen.event))[0], shape


def logical(event_type: str) -> str:
    """The logical name of an event's type."""
    return DIALECT_SPELLINGS.get(event_type, event_type)


def without_media(event: Mapping[str, Any]) -> dict[str, Any]:
    """The event as it is kept: media and long texts by their length alone."""
    return {
        key: f"({len(value)} characters)"
        if key in _MEDIA and isinstance(value, str) and len(value) > 200
        else value
        for key, value in event.items()
        if key not in ("video_frames",)
    }
