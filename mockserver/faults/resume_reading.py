"""`resume_reading`."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.actions import Action, ResumeReading
from mockserver.faults.mechanism import Fault
from scenarios.faults_transport import ResumeReading as Spec


class Resume(Fault):
    """The peer reads its socket again.

    Wire: at the trigger what `stop_reading` and `slow_reading` do to the connection is over: the backlog is read
        and answered. Observed when reading was held at all, with the seconds it was and the bytes that lay in the
        socket.
    Parameters: none but the trigger, which it must have.
    Survive: what waited goes through; nothing was lost, so a write that is still within its deadline succeeds.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        pass

    def begin(self, now_s: float) -> list[Action]:
        return [ResumeReading(all=True)]
