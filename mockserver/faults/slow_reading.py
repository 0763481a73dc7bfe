"""`slow_reading`."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.actions import Action, ResumeReading, SlowReading
from mockserver.faults.mechanism import Fault
from scenarios.faults_transport import SlowReading as Spec


class Slow(Fault):
    """The peer reads its socket slowly.

    Wire: from the trigger on the socket is read in small steps, each followed by the pause that the rate asks
        for. Events are handled as they arrive, late; so are pings. Output goes on. Observed when bytes lay unread
        for over 1 s: a client below the rate is not held up.
    Parameters: `bytes_per_s` (bytes a second), `buffer_bytes` (bytes, as for `stop_reading`, but larger than a read).
    Survive: writes block and go on; bound each, keep the media clock by what was written, and do not take a slow
        peer for a dead one before the deadline.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        self._bytes_per_s = spec.bytes_per_s

    def begin(self, now_s: float) -> list[Action]:
        return [SlowReading(self._bytes_per_s)]

    def finish(self, now_s: float) -> list[Action]:
        return [ResumeReading()]
