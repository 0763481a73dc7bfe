"""What the kernel knows of a socket that another process holds: asked by its two addresses (sock_diag(7))."""

from __future__ import annotations

import errno
import os
import socket
import struct
from dataclasses import dataclass

from conformance.clock.sockets import TcpInfo, read_tcp_info

_BY_FAMILY, _DONE_ERROR, _REQUEST = 20, 2, 1
_INFO, _MEMORY = 2, 7
"""INET_DIAG_INFO and INET_DIAG_SKMEMINFO (linux/inet_diag.h)."""
_HEAD = struct.Struct("=IHHII")
_ASKED = struct.Struct("=BBBxI")
_ANSWER_BYTES = 72
_ANY = 0xFFFFFFFF

Address = tuple[str, int]


@dataclass(frozen=True)
class ForeignSocket:
    """A TCP socket of another process, at one moment. Bytes."""

    queued_bytes: int
    """Written and not acknowledged by the peer's kernel, sent or not."""
    charged_bytes: int
    """What those bytes take of its send buffer, overhead included."""
    sndbuf_bytes: int
    """Its send buffer."""
    info: TcpInfo

    @property
    def takes_no_more(self) -> bool:
        """A write would wait: the kernel calls a socket writable when a third of its buffer is free."""
        return self.sndbuf_bytes - self.charged_bytes < self.charged_bytes / 2


class SocketDiag:
    """Asks in the network namespace that its netlink socket was made in."""

    def __init__(self, netlink: socket.socket) -> None:
        """Args: netlink: of NETLINK_SOCK_DIAG."""
        self._netlink = netlink
        self._netlink.settimeout(1.0)

    def close(self) -> None:
        """Ask no more."""
        self._netlink.close()

    def look(self, local: Address, remote: Address) -> ForeignSocket | None:
        """The TCP socket between two IPv4 addresses, seen from `local`; None: there is none any more.

        Raises OSError: the system does not answer, or leaves out what is asked for.
        """
        wanted = (
            _ASKED.pack(socket.AF_INET, socket.IPPROTO_TCP, 1 << (_INFO - 1) | 1 << (_MEMORY - 1), _ANY)
            + struct.pack("!HH", local[1], remote[1])
            + socket.inet_aton(local[0]).ljust(16, b"\0")
            + socket.inet_aton(remote[0]).ljust(16, b"\0")
            + struct.pack("=III", 0, _ANY, _ANY)
        )
        self._netlink.sendto(
            _HEAD.pack(_HEAD.size + len(wanted), _BY_FAMILY, _REQUEST, 1, 0) + wanted, (0, 0)
        )
        return _read(self._netlink.recv(8192))


def _read(answer: bytes) -> ForeignSocket | None:
    length, kind = _HEAD.unpack_from(answer)[:2]
    if kind == _DONE_ERROR:
        code = -struct.unpack_from("=i", answer, _HEAD.size)[0]
        if code == errno.ENOENT:
            return None
        raise OSError(code, f"sock_diag: {os.strerror(code)}")
    queued = struct.unpack_from("=I", answer, _HEAD.size + 4 + 48 + 8)[0]
    entries: dict[int, bytes] = {}
    at = _HEAD.size + _ANSWER_BYTES
    while at + 4 <= length:
        size, name = struct.unpack_from("=HH", answer, at)
        entries[name] = answer[at + 4 : at + size]
        at += (max(size, 4) + 3) & ~3
    if len(entries.get(_MEMORY, b"")) < 24:
        raise OSError("sock_diag: the answer has no memory figures of the socket")
    memory = struct.unpack_from("=6I", entries[_MEMORY])
    return ForeignSocket(queued, memory[5], memory[3], read_tcp_info(entries.get(_INFO, b"")))
