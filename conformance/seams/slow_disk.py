"""The `slow_disk` seam: a disk that takes its time."""

from __future__ import annotations

from conformance.outcome import FaultReport
from conformance.seams.base import SeamContext
from conformance.seams.disk import DiskSeam
from scenarios.faults_seam import SlowDisk


class SlowDiskSeam:
    """Each write of the client below its response root takes `delay_s`, and its loop stands meanwhile.

    Wire: nothing by itself; what was due meanwhile is done late.
    Parameters: `delay_s` (seconds a write), `file` (pattern), `count` (writes).
    Survive: write outside the timed window or beside the loop; take what has arrived meanwhile before a deadline
        that passed meanwhile.
    """

    def __init__(self, fault: SlowDisk, index: int, context: SeamContext) -> None:
        self._fault = fault
        self._context = context
        self._disk = DiskSeam(fault, index, context, self._bite)
        self._writes = 0

    def install(self) -> None:
        """Stand before the files."""
        self._disk.install()

    def release(self) -> None:
        """The disk is fast again."""
        self._disk.release()

    def remove(self) -> None:
        """Restore Python's files."""
        self._disk.remove()

    def report(self) -> FaultReport:
        """State and evidence."""
        return self._disk.report()

    def _bite(self, relative: str, size_bytes: int) -> int:
        self._disk.proof.triggered(0)
        if self._context.spend is not None:
            self._disk.counted()
            self._context.spend(self._fault.delay_s)
            self._writes += 1
            waited_s = round(self._writes * self._fault.delay_s, 6)
            self._disk.proof.observed(file=relative, writes=self._writes, waited_s=waited_s)
        return size_bytes
