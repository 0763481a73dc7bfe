"""`refuse_upgrade`."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.actions import Action, Refuse
from mockserver.faults.mechanism import Fault
from scenarios.faults_transport import RefuseUpgrade as Spec


class RefuseUpgrade(Fault):
    """The upgrade is answered with an HTTP status.

    Wire: a plain HTTP response in place of 101, then the TCP end.
    Parameters: `status` (HTTP status, 400 to 599), `body` (text).
    Survive: the sample fails with the status named, in one attempt.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        self._spec = spec

    def asked(self, now_s: float) -> list[Action]:
        return [Refuse(self._spec.status, self._spec.body)]
