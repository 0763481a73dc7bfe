"""Faults in front of a server that is not ours, whose events may lack what ours always have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mockserver.faults import Fault
from mockserver.faults.actions import Action, Control
from mockserver.wire import End, Received, Send, Unit, Withheld


class Tolerant(Fault):
    """A fault in front of a server that is not ours: where an event lacks what the fault changes, it passes as it is.

    Attributes:
        odd: what was missing, once.
    """

    def __init__(self, fault: Fault) -> None:
        self._fault = fault
        self.odd: dict[str, Any] | None = None

    @property
    def beside_events(self) -> bool:
        return self._fault.beside_events

    def asked(self, now_s: float) -> list[Action]:
        return self._fault.asked(now_s)

    def joined(self, now_s: float) -> list[Action]:
        return self._tried(self._fault.joined, now_s) or []

    def begin(self, now_s: float) -> list[Action]:
        return self._tried(self._fault.begin, now_s) or []

    def outgoing(self, output: Send | End, now_s: float) -> list[Action] | None:
        return self._tried(self._fault.outgoing, output, now_s)

    def control(self, output: Control, now_s: float) -> list[Action] | None:
        return self._fault.control(output, now_s)

    def noted(self, output: Received | Unit | Withheld, now_s: float) -> list[Action]:
        return self._tried(self._fault.noted, output, now_s) or []

    def finish(self, now_s: float) -> list[Action]:
        return self._fault.finish(now_s)

    def _tried(self, hook: Callable[..., list[Action] | None], *given: Any) -> list[Action] | None:
        try:
            return hook(*given)
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            event = given[0].event["type"] if isinstance(given[0], Send) else hook.__name__
            self.odd = self.odd or {"event": event, "missing": f"{type(error).__name__}: {error}"}
            return None
