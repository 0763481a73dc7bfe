"""`late_session_closed`."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.actions import Action, Wait
from mockserver.faults.mechanism import Fault
from mockserver.wire import End, Send
from scenarios.faults import LateSessionClosed as Spec


class LateSessionClosed(Fault):
    """`session.closed` comes late.

    Wire: the event is written `delay_s` after the session gave it out, and the connection ends after it. The
        socket is read and pings are answered meanwhile.
    Parameters: `delay_s` (seconds).
    Survive: wait `Deadlines.close_s`; an answer within it is a clean close, whatever the outer deadline; later,
        record the timeout and force the transport.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        self._delay_s = spec.delay_s

    def outgoing(self, output: Send | End, now_s: float) -> list[Action] | None:
        if isinstance(output, End) or output.event["type"] != "session.closed":
            return None
        return [Wait(self._delay_s, "session.closed"), output]
