"""`error_event`."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.actions import Action, Observed
from mockserver.faults.moments import Injected
from mockserver.wire import Send, error_event, flat_error
from scenarios.faults import ErrorEvent as Spec


class ErrorEvent(Injected):
    """The server sends an `error` event; the session goes on.

    Wire: one `error` at the trigger: before the answers to a received event, behind a sent one. Without a
        trigger right after `session.updated`.
    Parameters: `code` (None sends null), `message`, `shape` (`nested` or `flat`, protocol.md 11.1).
    Survive: the sample fails with this error, in one attempt, whatever timeouts stand beside it;
        `playback_ack_too_late` alone is harmless.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self._spec = spec

    def act(self, now_s: float) -> list[Action]:
        make = error_event if self._spec.shape == "nested" else flat_error
        event = make(self._spec.code, self._spec.message)
        return [Send(event), Observed({"sent": "error", "code": self._spec.code, "at_s": now_s})]
