"""What an attempt did, step by step: for the observer, and for the diagnostics of a failed attempt.

The record is filled as the attempt goes, so it survives an attempt that is cancelled or raises.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from client.deadlines import DeadlineExceeded
from client.evidence import Answer, told
from client.wire import Event, error_of, printable, response_id_of

if TYPE_CHECKING:
    from client.conversation import Conversation

LAST_EVENTS: Final = 40
_TEXT_SHOWN: Final = 200
_ANSWERS: Final[Mapping[str, str]] = {
    "playback.acknowledged": "playback.ack",
    "session.created": "session.update",
    "input_audio_buffer.committed": "input_audio_buffer.commit",
    "session.closed": "session.close",
}
"""Events of a server that prove that it read one of ours (protocol.md 4, 5.5, 8, 10)."""
_ASKS: Final = frozenset(_ANSWERS.values())


class Observer(Protocol):
    """Told of every step; it must neither block nor raise.

    Steps: attempt_started, sent, received, deadline (what, seconds, state), phase (name), attempt_ended.
    """

    def __call__(self, step: str, fields: Mapping[str, Any]) -> None: ...


@dataclass
class AttemptRecord:
    """One attempt's trail. Times are the loop's seconds."""

    split: str
    id: str
    attempt: int = 1
    observer: Observer | None = None
    phase: str = "connecting"
    deadlines: list[dict[str, Any]] = field(default_factory=list)
    """Every deadline that passed: what, seconds, state, t_s, evidence in words."""
    heard_s: float | None = None
    """When the latest event came."""
    answer: Answer | None = None
    """The latest answer to something of ours."""
    conversation: Conversation | None = None
    """The live session, once connected."""
    error: Exception | None = None
    """What the attempt raised."""
    task: asyncio.Task[Any] | None = None
    """The task the attempt runs in."""
    _ring: deque[tuple[float, str, str, Any]] = field(default_factory=lambda: deque(maxlen=LAST_EVENTS))
    _asked: dict[str, deque[float]] = field(default_factory=lambda: {name: deque() for name in _ASKS})
    """When events that want an answer, and have none, were written: the n-th answer is that to the n-th."""

    def tell(self, step: str, **fields: Any) -> None:
        """Hand a step to the observer; every step names its sample and attempt."""
        if self.observer is not None:
            self.observer(step, {"split": self.split, "id": self.id, "attempt": self.attempt, **fields})

    def enter(self, phase: str) -> None:
        """The attempt goes on to another phase."""
        self.phase = phase
        if self.conversation is not None:
            self.conversation.connection.mark(phase)
        self._note("phase", phase, None)
        self.tell("phase", name=phase)

    def sent(self, event: Event) -> None:
        """An event is about to be written."""
        name = event["type"]
        detail = event.get("audio_end_ms", event.get("response_id"))
        now_s = asyncio.get_running_loop().time()
        self._ring.append((now_s, "sent", name, detail))
        if name in _ASKS:
            self._asked[name].append(now_s)
        if self.observer is not None:
            self.tell("sent", type=name, detail=detail)

    def received(self, event: Event, now_s: float) -> None:
        """An event came."""
        self.heard_s = now_s
        name = event["type"]
        detail: Any = None
        if name != "playback.acknowledged":  # most events of a session are these, and they tell nothing
            name = printable(name, _TEXT_SHOWN)
            detail = self._detail(name, event)
        self._ring.append((now_s, "received", name, detail))
        if name in _ANSWERS and (asked := self._asked[_ANSWERS[name]]):
            self.answer = Answer(asked.popleft(), now_s)
        if self.observer is not None:
            self.tell("received", type=name, detail=detail)

    @staticmethod
    def _detail(name: str, event: Event) -> str | None:
        """What of an event helps who reads the trail: a text, an error, or whose it is."""
        delta = event.get("delta")
        if isinstance(delta, str) and "audio.delta" not in name:
            return printable(delta, _TEXT_SHOWN)
        if name == "error":
            return ": ".join(printable(part, _TEXT_SHOWN) for part in error_of(event))
        response_id = response_id_of(event)
        return None if response_id is None else printable(response_id, _TEXT_SHOWN)

    def missed(self, late: DeadlineExceeded) -> None:
        """A deadline passed: look at the socket and say what it shows."""
        now_s = asyncio.get_running_loop().time()
        entry = {"what": late.what, "seconds": late.seconds, "state": late.state}
        self.deadlines.append({**entry, "t_s": now_s, "evidence": self._evidence(late, now_s)})
        self._note("deadline", late.what, late.state)
        self.tell("deadline", **entry)

    def _evidence(self, late: DeadlineExceeded, now_s: float) -> str:
        if self.conversation is None:
            return "unknown: there was no connection yet"
        connection = self.conversation.connection
        connection.note_late(late.overshoot_s)
        connection.look(f"{late.what}: {late.seconds:.1f} s passed")
        silent_s = None if self.heard_s is None else now_s - self.heard_s
        return told(connection.samples, silent_s, self.answer)

    def missed_texts(self) -> list[str]:
        """Every deadline that passed, with what the socket showed, in words."""
        return [f"{d['what']}: {d['seconds']:.1f} s passed: {d['evidence']}" for d in self.deadlines]

    def last_events(self) -> list[dict[str, Any]]:
        """The latest steps, oldest first."""
        return [
            {"t_s": t, "step": step, "name": name, "detail": detail} for t, step, name, detail in self._ring
        ]

    def _note(self, step: str, name: str, detail: Any) -> None:
        self._ring.append((asyncio.get_running_loop().time(), step, name, detail))
