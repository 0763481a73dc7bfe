"""What the kernel knows about a TCP socket: bytes unsent, unacknowledged, unread, arrived.

Linux only (`supported()` says so in one message). Everything here looks and changes nothing, except
`acknowledge_now`, which asks for an acknowledgement that is due anyway.
"""

import fcntl
import socket
import struct
import sys
import termios
from typing import NamedTuple, Protocol

SIOCOUTQ = termios.TIOCOUTQ
"""Bytes written and not yet acknowledged by the peer's kernel (linux/sockios.h gives it the tty's number)."""
SIOCOUTQNSD = 0x894B
"""Bytes written and not yet sent at all (linux/sockios.h; the module termios does not know it)."""

# struct tcp_info (linux/tcp.h): the 64-bit counters begin at 104; each was appended by a later kernel, so a
# short answer means an old kernel or a sandbox, not a changed layout.
_TCP_INFO_BYTES = 216
_TCP_INFO = struct.Struct("=B119xQQ8xI52xQQ")


class HasSocketCalls(Protocol):
    """What is needed of a socket: `socket.socket` and asyncio's `TransportSocket` both have it."""

    def fileno(self) -> int: ...
    def getsockopt(self, level: int, optname: int, buflen: int, /) -> bytes: ...
    def setsockopt(self, level: int, optname: int, value: int, /) -> None: ...


class TcpInfo(NamedTuple):
    """The counters of TCP_INFO that the clock and the evidence of faults need (bytes, except `state`)."""

    state: int
    bytes_acked: int
    bytes_received: int
    bytes_unsent: int
    bytes_sent: int
    bytes_retransmitted: int


def _ioctl_bytes(sock: HasSocketCalls, request: int) -> int:
    answer = fcntl.ioctl(sock.fileno(), request, b"\0\0\0\0")
    return int.from_bytes(answer, sys.byteorder)


def unsent_bytes(sock: HasSocketCalls) -> int:
    """Bytes in the kernel's send queue that were never sent (SIOCOUTQNSD).

    Raises OSError: the socket is closed, or not TCP. Source: design.md section 4, rule 1.
    """
    return _ioctl_bytes(sock, SIOCOUTQNSD)


def unacked_bytes(sock: HasSocketCalls) -> int:
    """Bytes in the kernel's send queue, sent or not, that the peer has not acknowledged (SIOCOUTQ).

    Raises OSError: the socket is closed. Source: design.md section 4, proof that a peer stopped reading.
    """
    return _ioctl_bytes(sock, SIOCOUTQ)


def unread_bytes(sock: HasSocketCalls) -> int:
    """Bytes that arrived and that the program has not read (FIONREAD).

    Raises OSError: the socket is closed.
    """
    return _ioctl_bytes(sock, termios.FIONREAD)


def bytes_acked(sock: HasSocketCalls) -> int:
    """Bytes that the peer's kernel has acknowledged since the connection began (TCP_INFO).

    Raises OSError: the socket is closed, or the kernel does not count them.
    """
    return tcp_info(sock).bytes_acked


def tcp_info(sock: HasSocketCalls) -> TcpInfo:
    """All counters in one call.

    Raises OSError: the socket is closed, or the kernel's answer is too short (before 4.19, some sandboxes).
    """
    return read_tcp_info(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES))


def read_tcp_info(raw: bytes) -> TcpInfo:
    """The counters in a `struct tcp_info`.

    Raises OSError: it is too short.
    """
    if len(raw) < _TCP_INFO_BYTES:
        raise OSError(
            f"TCP_INFO: {len(raw)} bytes, wanted {_TCP_INFO_BYTES}: bytes sent are not counted here"
        )
    return TcpInfo._make(_TCP_INFO.unpack_from(raw))


def acknowledge_now(sock: HasSocketCalls) -> None:
    """Send an acknowledgement that the kernel holds back (up to 40 ms of real time), should there be one.

    In virtual time those 40 ms last for many jumps, in which the other end looks stalled and is not.
    Raises OSError: the socket is closed.
    """
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


def supported() -> str | None:
    """None where the virtual clock can work, else the reason why not, in one sentence.

    Source: design.md section 4, rule 9.
    """
    if sys.platform != "linux":
        return f"the virtual clock needs Linux (this is {sys.platform}): use --clock real"
    try:
        with (
            socket.create_server(("127.0.0.1", 0)) as listener,
            socket.create_connection(listener.getsockname()) as probe,
        ):
            unsent_bytes(probe)
            unacked_bytes(probe)
            tcp_info(probe)
    except OSError as exc:
        return f"the virtual clock needs SIOCOUTQ and TCP_INFO; this system refuses ({exc}): use --clock real"
    return None
