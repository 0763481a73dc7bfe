"""`never_upgrade`."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.actions import Action, KeepWaiting
from mockserver.faults.mechanism import Fault
from scenarios.faults_transport import NeverUpgrade as Spec


class NeverUpgrade(Fault):
    """The upgrade request is not answered.

    Wire: the TCP connection stands, the request is read, nothing comes back; with `for_s` the upgrade comes late.
        Observed when it was kept waiting for over 1 s.
    Parameters: none but `for_s` (seconds).
    Survive: bound the connect, name it as what timed out, drop the TCP connection.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        pass

    def asked(self, now_s: float) -> list[Action]:
        return [KeepWaiting()]
