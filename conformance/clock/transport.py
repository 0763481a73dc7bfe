"""asyncio's socket transport, telling the network what was written, read and closed."""

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
    methods, the step in which bytes go to a protocol, and the one in which a socket is closed. A protocol that reads
    into a buffer of its own (TLS) is not counted: the kernel is asked instead.
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
            self._network.written(self._end, len(data))
        super().write(data)

    def writelines(self, list_of_data: "Iterable[Buffer]") -> None:
        self.write(b"".join(list_of_data))  # as Python 3.11 does; later ones write past `write`

    def _read_ready__data_received(self) -> None:
        """As in asyncio, which has no place between what it reads and whom it gives it to."""
        if self._conn_lost:
            return
        try:
            data = self._sock.recv(self.max_size)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._fatal_error(error, "Fatal read error on socket transport")
            return
        if self._end is not None:
            self._network.read(self._end, len(data) or 1)
        if not data:
            self._read_ready__on_eof()
            return
        try:
            self._protocol.data_received(data)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - the connection ends with it, as in asyncio
            self._fatal_error(error, "Fatal error: protocol.data_received() call failed.")

    def write_eof(self) -> None:
        super().write_eof()
        if self._end is not None:
            self._network.half_closed(self._end)

    def _call_connection_lost(self, exc: BaseException | None) -> None:
        end, self._end = self._end, None
        if end is not None:
            self._network.closing(end)
        super()._call_connection_lost(exc)
