"""The input clock of dialect C: one acknowledgement an input, in input order, behind all it caused (protocol.md 6.7).

Units that make no progress are not timed out: the scripted model decides every one.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from mockserver.audio import MODEL_RATE_HZ
from mockserver.input_buffer import Submission
from mockserver.wire import Event

CLOCKED = frozenset({"input_audio_buffer.append", "input_audio_buffer.commit", "response.create"})
"""Inputs that are acknowledged."""


@dataclass(slots=True)
class _Input:
    index: int
    trigger: str
    submission: Submission | None = None
    rejected: str | None = None
    audio_end_ms: int = 0


class InputClock:
    """Inputs that wait for their acknowledgement, and units settled since the last one."""

    def __init__(self) -> None:
        self._inputs = 0
        self._current: _Input | None = None
        self._waiting: deque[_Input] = deque()
        self._unit_samples = 0
        self._unit_end_ms = 0
        self._settled: list[Event] = []
        self._open: list[Submission] = []

    def began(self, trigger: str) -> None:
        """An input is being handled."""
        self._inputs += 1
        self._current = _Input(self._inputs, trigger)

    def submitted(self, submission: Submission) -> None:
        """The input that is being handled gave a unit."""
        self._open.append(submission)
        if self._current is not None:
            self._current.submission = submission

    def refused(self, code: str) -> None:
        """The input that is being handled was answered with an error."""
        assert self._current is not None
        self._current.rejected = code

    def handled(self, received_samples: int) -> list[Event]:
        """The input is handled.

        Args:
            received_samples: input of the whole session, at the model's rate.
        Returns: acknowledgements that are due.
        """
        current, self._current = self._current, None
        assert current is not None
        current.audio_end_ms = received_samples * 1000 // MODEL_RATE_HZ
        self._waiting.append(current)
        return self._due()

    def settled(self, submission: Submission, decision: str) -> list[Event]:
        """The events of a unit went out. Returns: acknowledgements that are due."""
        self._settle(submission, decision)
        return self._due()

    def torn_down(self) -> list[Event]:
        """The session ends: one acknowledgement covers all inputs that still wait; none where none does."""
        if not self._waiting:
            return []
        for submission in list(self._open):
            self._settle(submission, "aborted")
        first, last = self._waiting[0], self._waiting[-1]
        self._waiting.clear()
        event = self._processed(last)
        return [{**event, "first_input_index": first.index} if first is not last else event]

    def _settle(self, submission: Submission, decision: str) -> None:
        self._open.remove(submission)
        self._unit_samples += submission.samples
        self._unit_end_ms = self._unit_samples * 1000 // MODEL_RATE_HZ
        self._settled.append({"end_ms": self._unit_end_ms, "decision": decision})

    def _due(self) -> list[Event]:
        events = []
        while self._waiting and self._waiting[0].submission not in self._open:
            events.append(self._processed(self._waiting.popleft()))
        return events

    def _processed(self, entry: _Input) -> Event:
        units, self._settled = self._settled, []
        event: Event = {
            "type": "input_audio_buffer.processed",
            "audio_end_ms": entry.audio_end_ms,
            "unit_end_ms": self._unit_end_ms,
            "input_index": entry.index,
            "trigger": entry.trigger,
            "units": units,
        }
        if entry.rejected is not None:
            event |= {"decision": "rejected", "reason": entry.rejected}
        return event
