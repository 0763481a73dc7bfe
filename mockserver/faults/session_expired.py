"""`session_expired`."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.actions import Action, CloseFrame, Expire, Observed
from mockserver.faults.moments import Injected
from mockserver.wire import Event, Send
from scenarios.faults_session import SessionExpired as Spec


class SessionExpired(Injected):
    """The session expires.

    Wire: `session.expired` without a sequence number, then a close frame 1000 (protocol.md 10.2); no
        `session.closed`, and an open reply gets no `response.done`. Without a trigger right after
        `session.updated`. (A server that says it with an error: `error_event` with code `session_expired` and
        `close_code` 1001.)
    Parameters: `reason` (text).
    Survive: the sample fails at once with the reason; nothing is waited for, nothing retried.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self._reason = spec.reason

    def act(self, now_s: float) -> list[Action]:
        event: Event = {"type": "session.expired", "session_id": self.session.id}
        if self.session.dialect.incarnation:
            event["incarnation"] = 0
        event["reason"] = self._reason
        evidence = {"sent": "session.expired", "reason": self._reason, "at_s": now_s}
        return [Send(event, sequenced=False), Observed(evidence), Expire(), CloseFrame(1000, "")]
