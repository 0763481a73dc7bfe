"""`session_replaced`."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.actions import Action, CloseFrame, Observed
from mockserver.faults.moments import Injected
from mockserver.wire import Send
from scenarios.faults_session import SessionReplaced as Spec


class SessionReplaced(Injected):
    """Another socket resumes the session, and this one is told to go.

    Wire: `session.replaced` without a sequence number, with this socket's own `attachment_generation`, then a close
        frame 1000 (protocol.md 10.2, 12.6); no `session.closed`, and an open reply gets no `response.done` here.
        Without a trigger right after `session.updated`.
    Parameters: none.
    Survive: the session goes on elsewhere, so the sample fails at once and says so; nothing is awaited or retried.
    """

    name: ClassVar[str] = Spec.name

    def act(self, now_s: float) -> list[Action]:
        event = {"type": "session.replaced", "session_id": self.session.id, "attachment_generation": 1}
        evidence = {"sent": "session.replaced", "at_s": now_s}
        return [Send(event, sequenced=False), Observed(evidence), CloseFrame(1000, "")]
