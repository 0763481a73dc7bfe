"""asyncio's socket transport, telling the network what was written, read and closed."""

import asyncio.selector_events
import socket
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from conformance.clock.network import Endpoint, Network
from conformance.clock.selector import wait_readable
from conformance.clock.sockets import acknowledge_now

if TYPE_CHECKING:
    Buffer = bytes | bytearray | memoryview


REST_REAL_S = 0.05
"""So long is waited for what is on its way between two reads: loopback takes microseconds, a loaded machine more."""


class WatchedTransport(asyncio.selector_events._SelectorSocketTransport):  # type: ignore[misc,name-defined]
    """The transport that asyncio would have made.

    A subclass of a private class: the alternative, wrapping the socket, would hide from
    `get_extra_info("socket")` the very object that fault evidence is read from. Overridden are four public
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
        if end is not None:
            end.kept_back_bytes = self.get_write_buffer_size
            end.hand_over = self._hand_over
        self._behind = False
        """It was not read for a while, and what was written meanwhile is still to be read."""

    def write(self, data: "Buffer") -> None:
        if self._end is not None:
            self._network.written(self._end, len(data))
        super().write(data)

    def writelines(self, list_of_data: "Iterable[Buffer]") -> None:
        self.write(b"".join(list_of_data))  # as Python 3.11 does; later ones write past `write`

    def resume_reading(self) -> None:
        if self._end is not None and self._end.peer is not None and not self.is_reading():
            self._behind = self._end.peer.unread_bytes > self._end.peer.ended
            self._end.resumed = True
        super().resume_reading()

    def _read_ready__data_received(self) -> None:
        """As in asyncio, which has no place between what it reads and whom it gives it to.

        What was written at one instant is handed on at once: by how much of it a window or a late softirq let arrive
        first, the kernel's own time would decide what runs in between. So is a backlog, as far as one read goes: of how
        much the kernel took of it, and how much the writer's transport kept, the kernel's memory decides.
        """
        if self._conn_lost:
            return
        try:
            data = self._sock.recv(self.max_size)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._fatal_error(error, "Fatal read error on socket transport")
            return
        broken: OSError | None = None
        if self._end is not None:
            peer = self._end.peer
            if data and peer is not None and peer.unread_bytes - len(data) > peer.ended:  # hardly ever
                wanted_bytes = peer.unread_bytes - peer.ended if self._behind else peer.in_kernel_bytes
                data, broken = self._with_the_rest(peer, data, min(wanted_bytes, self.max_size))
            self._network.read(self._end, len(data) or 1)
            self._behind = self._behind and peer is not None and peer.unread_bytes > peer.ended
        if not data:
            self._read_ready__on_eof()
            return
        try:
            self._protocol.data_received(data)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - the connection ends with it, as in asyncio
            self._fatal_error(error, "Fatal error: protocol.data_received() call failed.")
        if broken is not None and not self._conn_lost:
            self._fatal_error(broken, "Fatal read error on socket transport")

    def _with_the_rest(self, peer: Endpoint, data: bytes, wanted_bytes: int) -> tuple[bytes, OSError | None]:
        """What was read with what follows it out of the buffers of the kernel and of the writer's transport.

        Returns: the bytes, and what ended the reading.
        """
        pieces, missing_bytes = [data], wanted_bytes - len(data)
        while missing_bytes > 0:
            try:
                piece = self._sock.recv(missing_bytes)
            except (BlockingIOError, InterruptedError):
                acknowledge_now(self._sock)  # tells the other end's kernel of the room that was made
                if self._behind:
                    peer.hand_over()
                if not wait_readable(self._sock_fd, REST_REAL_S):
                    break
                continue
            except OSError as error:
                return b"".join(pieces), error
            if not piece:
                break  # the end is there for the next read as well
            pieces.append(piece)
            missing_bytes -= len(piece)
        return b"".join(pieces), None

    def _hand_over(self) -> None:
        """As the loop does when the kernel has room: by its own handle, in the context in which the writing began."""
        key = self._loop._selector.get_map().get(self._sock_fd)
        writer = key.data[1] if key is not None else None
        if writer is not None:
            writer._run()

    def write_eof(self) -> None:
        super().write_eof()
        if self._end is not None:
            self._network.half_closed(self._end)

    def _call_connection_lost(self, exc: BaseException | None) -> None:
        end, self._end = self._end, None
        if end is not None:
            self._network.closing(end)
        super()._call_connection_lost(exc)
