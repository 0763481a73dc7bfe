"""`error_event`."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.actions import Action, Observed
from mockserver.faults.mechanism import Fault
from mockserver.wire import End, Send, error_event, flat_error
from scenarios.faults import ErrorEvent as Spec


class ErrorEvent(Fault):
    """The server sends an `error` event; the session goes on.

    Wire: one `error` at the trigger: before the answers to a received event, behind a sent one. Without a
        trigger right after `session.updated`.
    Parameters: `code` (None sends null), `message`, `shape` (`nested` or `flat`, protocol.md 11.1).
    Survive: the sample fails with this error, in one attempt, whatever timeouts stand beside it;
        `playback_ack_too_late` alone is harmless.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._triggered = spec.on is not None or spec.at_s is not None
        self._sent = False

    def begin(self, now_s: float) -> list[Action]:
        return self._error(now_s) if self._triggered else []

    def outgoing(self, output: Send | End, now_s: float) -> list[Action] | None:
        if self._sent or isinstance(output, End) or output.event["type"] != "session.updated":
            return None
        return [output, *self._error(now_s)]

    def _error(self, now_s: float) -> list[Action]:
        self._sent = True
        make = error_event if self._spec.shape == "nested" else flat_error
        event = make(self._spec.code, self._spec.message)
        return [Send(event), Observed({"sent": "error", "code": self._spec.code, "at_s": now_s})]
