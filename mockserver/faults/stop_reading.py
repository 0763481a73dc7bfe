"""`stop_reading`."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.actions import Action, PauseReading, ResumeReading
from mockserver.faults.mechanism import Fault
from scenarios.faults import StopReading as Spec


class StopReading(Fault):
    """The peer stops reading its socket and keeps writing to it.

    Wire: from the trigger on nothing is taken from the socket; its receive buffer fills, then the client's send
        buffer. Output goes on, pings are not answered, and a close or reset of the client is noticed only by a
        failing write. Frames already taken from the socket at the trigger are kept for later. It lasts `for_s`,
        until `resume_reading`, or to the end.
    Parameters: `buffer_bytes` (bytes) is set as SO_RCVBUF on the listening socket, for every connection of the
        server; `proof`: `unread` is observed here, when bytes lay unread in the socket for over 1 s;
        `write_blocked` by whoever holds the client's socket, through `FaultRun.observe`.
    Survive: bound every write, give up at its deadline, keep the reply, abort the transport instead of closing
        it gracefully.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        self._look = spec.proof == "unread"

    def begin(self, now_s: float) -> list[Action]:
        return [PauseReading(self._look)]

    def finish(self, now_s: float) -> list[Action]:
        return [ResumeReading()]
