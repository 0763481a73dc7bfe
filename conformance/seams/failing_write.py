"""The `failing_write` seam: a write that raises though the connection is in order."""

from __future__ import annotations

import asyncio

from conformance.outcome import FaultReport
from conformance.seams.base import SeamContext
from conformance.seams.writes import OneWrite
from scenarios.faults_seam import FailingWrite

_ERRORS: dict[str, type[Exception]] = {
    "RuntimeError": RuntimeError,
    "AttributeError": AttributeError,
    "OSError": OSError,
}


class FailingWriteSeam:
    """One write of the client raises.

    Wire: the event in question is never written; other writes pass.
    Parameters: `write` (event type), `nth` (count from 1 on a connection), `raises` (class of the error), `message`.
    Survive: an ordinary error surfaces as the sample's failure, after the session was closed; a dead socket ends
        padding quietly.
    """

    def __init__(self, fault: FailingWrite, index: int, context: SeamContext) -> None:
        self._fault = fault
        self._write = OneWrite(fault, index, context, event=fault.write, nth=fault.nth, act=self._fail)

    def install(self) -> None:
        """Stand in the write."""
        self._write.install()

    def release(self) -> None:
        """No further write fails."""
        self._write.released = True

    def remove(self) -> None:
        """Restore the library."""
        self._write.remove()

    def report(self) -> FaultReport:
        """State and evidence."""
        return self._write.proof.report()

    async def _fail(self) -> None:
        self._write.proof.observed(
            write=self._fault.write, raised=self._fault.raises, at_s=asyncio.get_running_loop().time()
        )
        raise _ERRORS[self._fault.raises](self._fault.message)
