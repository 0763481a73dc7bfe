"""Stands in one write of the client: finds it among all writes, counts it, and hands it to a seam."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from websockets.asyncio.client import ClientConnection

from conformance.seams.base import Opened, Proof, SeamContext, in_scope
from scenarios.faults import FaultBase


class OneWrite:
    """The nth write of an event on each connection in a fault's scope.

    Args:
        fault: whose scope counts.
        event: type of the client event.
        nth: counted from 1 on a connection.
        act: runs in the write, before its bytes go out; what it raises is the write's own error.
    """

    def __init__(
        self,
        fault: FaultBase,
        index: int,
        context: SeamContext,
        *,
        event: str,
        nth: int,
        act: Callable[[], Awaitable[None]],
    ) -> None:
        self.proof = Proof(fault, index, context)
        self.released = False
        self._fault = fault
        self._context = context
        self._marker = f'"{event}"'
        self._nth = nth
        self._act = act
        self._opened = Opened()
        self._counts: dict[int, int] = {}
        self._original: Any = None

    def install(self) -> None:
        """Put the seam in front of the library's own write."""
        original = self._original = ClientConnection.send
        here = self

        async def send(connection: ClientConnection, message: Any, *args: Any, **kwargs: Any) -> None:
            if here._is_the_one(connection, message):
                await here._act()
            await original(connection, message, *args, **kwargs)

        ClientConnection.send = send  # type: ignore[method-assign,assignment]

    def remove(self) -> None:
        """Restore the library."""
        if self._original is not None:
            ClientConnection.send = self._original  # type: ignore[method-assign]
            self._original = None

    def _is_the_one(self, connection: ClientConnection, message: Any) -> bool:
        if self.released:
            return False
        key = id(connection)
        number = self._opened.number(connection)  # by their first write of anything, which is their opening
        head = message[:300] if isinstance(message, str) else bytes(message[:300]).decode("utf-8", "replace")
        if self._marker not in head:
            return False
        if not in_scope(self._fault, self._context.attempt(), number):
            return False
        self._counts[key] = self._counts.get(key, 0) + 1
        if self._counts[key] != self._nth:
            return False
        self.proof.triggered(number)
        return True
