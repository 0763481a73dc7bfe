"""The `full_disk` seam: a disk without space."""

from __future__ import annotations

from conformance.outcome import FaultReport
from conformance.seams.base import SeamContext
from conformance.seams.disk import DiskSeam
from scenarios.faults_seam import FullDisk


class FullDiskSeam:
    """Writes of the client below its response root fail with ENOSPC once `after_bytes` are written.

    Wire: nothing. On the disk: the write that crosses the line leaves what fitted, as a file system does, and later
        ones leave nothing.
    Parameters: `after_bytes` (bytes that fit), `file` (pattern), `count` (writes that fail; then there is space again).
    Survive: name the path and the reason, take nothing for published that is not whole, keep what was finished, and go
        on with the other samples.
    """

    def __init__(self, fault: FullDisk, index: int, context: SeamContext) -> None:
        self._disk = DiskSeam(fault, index, context, self._bite)
        self._left_bytes = fault.after_bytes
        self._failed = 0

    def install(self) -> None:
        """Stand before the files."""
        self._disk.install()

    def release(self) -> None:
        """There is space again."""
        self._disk.release()

    def remove(self) -> None:
        """Restore Python's files."""
        self._disk.remove()

    def report(self) -> FaultReport:
        """State and evidence."""
        return self._disk.report()

    def _bite(self, relative: str, size_bytes: int) -> int:
        if size_bytes <= self._left_bytes:
            self._left_bytes -= size_bytes
            return size_bytes
        fits, self._left_bytes = self._left_bytes, 0
        self._failed += 1
        self._disk.counted()
        self._disk.proof.triggered(0)
        self._disk.proof.observed(
            file=relative, failed=self._failed, asked_bytes=size_bytes, wrote_bytes=fits
        )
        return fits
