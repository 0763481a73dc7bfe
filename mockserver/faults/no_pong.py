"""`no_pong`."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.actions import Action, Control, Observed, Pong
from mockserver.faults.mechanism import Fault
from scenarios.faults_transport import NoPong as Spec


class NoPong(Fault):
    """Pings are not answered.

    Wire: no pong; everything else is read and answered as ever. Observed at the first ping: a session that ends
        before the client pings is not touched.
    Parameters: none.
    Survive: let the keep-alive end the connection (20 s to the ping, 20 s without a pong, close 1011) and name it
        as what it is; it is no stall, so it is not retried.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        pass

    def control(self, output: Control, now_s: float) -> list[Action] | None:
        if not isinstance(output, Pong):
            return None
        return [Observed({"unanswered": "ping", "at_s": now_s})]
