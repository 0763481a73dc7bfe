"""asyncio's socket transport, telling the network what was written and what was closed."""

import asyncio.selector_events
import socket
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from conformance.clock.network import Endpoint, Network

if TYPE_CHECKING:
    Buffer = bytes | bytearray | memoryview


class WatchedTransport(asyncio.selector_events._SelectorSocketTransport):  # type: ignore[misc,name-defined]
    """The transport that asyncio would have made.

    A subclass of a private class: the alternative, wrapping the socket, would hide from
    `get_extra_info("socket")` the very object that fault evidence is read from. Overridden are three public
    methods and the one step in which a socket is closed.
    """

    def __init__(
        self,
        network: Network,
        end: Endpoint | None,
        loop: Any,
        sock: socket.socket,
        protocol: Any,
        waiter: Any = None,
        *,
        extra: Any = None,
        server: Any = None,
    ) -> None:
        self._network = network
        self._end = end
        super().__init__(loop, sock, protocol, waiter, extra, server)

    def write(self, data: "Buffer") -> None:
        if self._end is not None:
            self._network.written(self._end)
        super().write(data)

    def writelines(self, list_of_data: "Iterable[Buffer]") -> None:
        if self._end is not None:
            self._network.written(self._end)
        super().writelines(list_of_data)

    def write_eof(self) -> None:
        super().write_eof()
        if self._end is not None:
            self._network.half_closed(self._end)

    def _call_connection_lost(self, exc: BaseException | None) -> None:
        end, self._end = self._end, None
        if end is not None:
            self._network.closing(end)
        super()._call_connection_lost(exc)
