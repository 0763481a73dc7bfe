"""`no_close_reply`."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.actions import Action, CloseReply, CloseTcp, Control, Observed
from mockserver.faults.mechanism import Fault
from scenarios.faults_transport import NoCloseReply as Spec


class NoCloseReply(Fault):
    """The client's close frame is not answered.

    Wire: no close frame comes back and the TCP connection is not ended; the socket is read and pings are answered.
        Observed at the close frame.
    Parameters: none.
    Survive: bound the closing handshake, then drop the connection; a session that said `session.closed` was closed
        cleanly.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        self._silent = False

    def control(self, output: Control, now_s: float) -> list[Action] | None:
        if isinstance(output, CloseReply):
            self._silent = True
            return [Observed({"unanswered": "close frame", "code": output.code, "at_s": now_s})]
        return [] if self._silent and isinstance(output, CloseTcp) else None
