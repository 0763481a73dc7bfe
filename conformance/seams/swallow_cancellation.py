"""The `swallow_cancellation` seam: a write that does not let itself be cancelled."""

from __future__ import annotations

import asyncio
from typing import Any

from websockets.asyncio.client import ClientConnection

from conformance.outcome import FaultReport
from conformance.seams.base import Opened, Proof, SeamContext, in_scope
from scenarios.faults import SwallowCancellation


class SwallowCancellationSeam:
    """A write of the client suppresses its first N cancellations and blocks again.

    Wire: the event in question is never written while the seam holds; other writes pass.
    Parameters: `write` (event type), `nth` (count from 1 on a connection), `cancellations` (count).
    Survive: bound every write by waiting for its task, not by cancelling it, and abandon what does not unwind.
    """

    def __init__(self, fault: SwallowCancellation, index: int, context: SeamContext) -> None:
        self.fault = fault
        self.context = context
        self.proof = Proof(fault, index, context)
        self._marker = f'"{fault.write}"'
        self._writes: dict[int, int] = {}
        self._opened = Opened()
        self._waiting: list[asyncio.Future[None]] = []
        self._released = False
        self._original: Any = None

    def install(self) -> None:
        """Put the stubborn write in front of the library's own."""
        self._original = ClientConnection.send
        seam = self

        async def send(connection: ClientConnection, message: Any, *args: Any, **kwargs: Any) -> None:
            if seam._bites(connection, message):
                await seam._block(connection)
            await seam._original(connection, message, *args, **kwargs)

        ClientConnection.send = send  # type: ignore[method-assign,assignment]

    def release(self) -> None:
        """Let blocked writes go on."""
        self._released = True
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    def remove(self) -> None:
        """Restore the library."""
        if self._original is not None:
            ClientConnection.send = self._original  # type: ignore[method-assign]
            self._original = None

    def report(self) -> FaultReport:
        """State and evidence."""
        return self.proof.report()

    def _bites(self, connection: ClientConnection, message: Any) -> bool:
        if self._released:
            return False
        key = id(connection)
        number = self._opened.number(connection)  # by their first write of anything, which is their opening
        head = message[:300] if isinstance(message, str) else bytes(message[:300]).decode("utf-8", "replace")
        if self._marker not in head:
            return False
        if not in_scope(self.fault, self.context.attempt(), number):
            return False
        self._writes[key] = self._writes.get(key, 0) + 1
        return self._writes[key] >= self.fault.nth

    async def _block(self, connection: ClientConnection) -> None:
        loop = asyncio.get_running_loop()
        release: asyncio.Future[None] = loop.create_future()
        self._waiting.append(release)
        self.proof.triggered(self._opened.number(connection))
        swallowed = 0
        while not release.done() and not connection.connection_lost_waiter.done():
            try:
                await asyncio.wait(
                    [release, connection.connection_lost_waiter], return_when=asyncio.FIRST_COMPLETED
                )
            except asyncio.CancelledError:
                if swallowed >= self.fault.cancellations:
                    raise
                swallowed += 1
                self.proof.observed(swallowed=swallowed, write=self.fault.write, at_s=loop.time())
