"""What a connection needs of the session it drives, whether scripted here or held by another server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from mockserver.faults.actions import Script
from mockserver.wire import Event, Output, Send


class SessionSurface(Protocol):
    """Client events and the time go in, what to do comes out (`mockserver.session.ServerSession`)."""

    id: str

    def start(self, now_s: float) -> list[Output]:
        """The connection was accepted."""
        ...

    def receive(self, text: str | bytes, now_s: float) -> list[Output]:
        """A text frame was read."""
        ...

    def answer_again(self, text: bytes, now_s: float) -> bytes | None:
        """The event that answers an ack said before; None: it is to be received like any other."""
        ...

    def receive_binary(self, length_bytes: int, now_s: float) -> list[Output]:
        """A binary frame was read."""
        ...

    def on_timer(self, now_s: float) -> list[Output]:
        """Time has come for what `next_timer_s` named."""
        ...

    def next_timer_s(self) -> float | None:
        """When `on_timer` must be called next."""
        ...

    def nothing_before(self, at_s: float) -> bool:
        """Surely nothing is due before a time for which a timer was set."""
        ...

    def lost(self, now_s: float) -> list[Output]:
        """The connection is over."""
        ...

    def stamp(self, send: Send) -> Event:
        """The event as it is written now, with an id of its own."""
        ...

    def told(self, event: Event) -> Mapping[str, Any]:
        """The journal's line for an event that goes out."""
        ...

    def direct(self, action: Script) -> None:
        """A fault tells the session what to do."""
        ...
