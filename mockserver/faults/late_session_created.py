"""`late_session_created`."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.actions import Action, Wait
from mockserver.faults.mechanism import Fault
from mockserver.faults.moments import is_event
from mockserver.wire import End, Send
from scenarios.faults_session import LateSessionCreated as Spec


class LateSessionCreated(Fault):
    """`session.created` comes late.

    Wire: the event, and everything behind it, is written `delay_s` after the session gave it out. The socket is
        read and pings are answered meanwhile.
    Parameters: `delay_s` (seconds).
    Survive: wait `Deadlines.created_s`; created within it, the session is like any other; later, the handshake is
        what timed out, whatever the request timeout.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        self._delay_s = spec.delay_s

    def outgoing(self, output: Send | End, now_s: float) -> list[Action] | None:
        if not is_event(output, "session.created"):
            return None
        return [Wait(self._delay_s, "session.created"), output]
