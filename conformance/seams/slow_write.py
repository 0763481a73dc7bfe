"""The `slow_write` seam: a write that yields for a while before its bytes go out."""

from __future__ import annotations

import asyncio

from conformance.outcome import FaultReport
from conformance.seams.base import SeamContext
from conformance.seams.writes import OneWrite
from scenarios.faults_seam import SlowWrite


class SlowWriteSeam:
    """One write of the client takes its time, and every other task of the client runs meanwhile.

    Wire: the event goes out `delay_s` after it was to be written; what the client writes meanwhile passes it.
    Parameters: `write` (event type), `nth` (count from 1 on a connection), `delay_s` (seconds).
    Survive: do nothing that needs the event on the wire before its write has returned.
    """

    def __init__(self, fault: SlowWrite, index: int, context: SeamContext) -> None:
        self._fault = fault
        self._write = OneWrite(fault, index, context, event=fault.write, nth=fault.nth, act=self._wait)
        self._waiting: list[asyncio.Future[None]] = []

    def install(self) -> None:
        """Stand in the write."""
        self._write.install()

    def release(self) -> None:
        """Let a waiting write go on."""
        self._write.released = True
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    def remove(self) -> None:
        """Restore the library."""
        self._write.remove()

    def report(self) -> FaultReport:
        """State and evidence."""
        return self._write.proof.report()

    async def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        since_s = loop.time()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiting.append(waiter)
        try:
            await asyncio.wait((waiter,), timeout=self._fault.delay_s)
        finally:
            self._write.proof.observed(write=self._fault.write, waited_s=round(loop.time() - since_s, 6))
