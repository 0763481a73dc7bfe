"""`half_close`."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.actions import Action, HalfClose
from mockserver.faults.mechanism import Fault
from scenarios.faults_transport import HalfClose as Spec


class Half(Fault):
    """The server ends its direction of the TCP connection and goes on reading.

    Wire: a FIN behind what was written, no close frame; nothing is sent any more, what the client sends is read.
        Without a trigger right after the upgrade. Observed when the FIN went out on a connection that the client
        had not ended.
    Parameters: none.
    Survive: treat it as a lost connection at once, although writes still succeed: no answer can come.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        pass

    def begin(self, now_s: float) -> list[Action]:
        return [HalfClose()]
