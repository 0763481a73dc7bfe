"""What the client's own socket says about a peer that may have stopped reading (design.md 4, 8).

Two samples prove it: bytes waiting in user space or unacknowledged in both, and the count of acknowledged bytes
unchanged between them. Where the system does not answer, the figure is None and the verdict `unknown`: nothing is
guessed.
"""

from __future__ import annotations

import fcntl
import socket
import struct
import sys
import termios
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

Verdict = Literal["peer stopped reading", "peer was reading", "unknown"]

_TCP_INFO_BYTES: Final = 192
_BYTES_ACKED_AT: Final = 120
"""Offset of `tcpi_bytes_acked` (u64) in Linux' struct tcp_info, since 4.1."""
_APART_S: Final = 1.0
"""Two samples nearer than this prove nothing."""


@dataclass(frozen=True, slots=True)
class SocketSample:
    """One look at the socket. None: the system did not say."""

    t_s: float
    """The loop's time in seconds."""
    moment: str
    """What the client was doing."""
    write_buffer_bytes: int | None
    """Waiting in user space."""
    unacked_bytes: int | None
    """In the kernel, sent or not, that the peer's kernel has not acknowledged (SIOCOUTQ)."""
    bytes_acked: int | None
    """Acknowledged since the connection began (TCP_INFO)."""

    @property
    def pending_bytes(self) -> int | None:
        """Bytes that have not reached the peer's kernel, as far as known."""
        known = [n for n in (self.write_buffer_bytes, self.unacked_bytes) if n is not None]
        return sum(known) if known else None


def look(t_s: float, moment: str, transport: Any) -> SocketSample:
    """Look at the socket behind an asyncio transport; None for a transport gives a sample that knows nothing."""
    if transport is None:
        return SocketSample(t_s, moment, None, None, None)
    sock = transport.get_extra_info("socket")
    buffered = transport.get_write_buffer_size()
    return SocketSample(t_s, moment, buffered, unacked_bytes(sock), bytes_acked(sock))


def unacked_bytes(sock: Any) -> int | None:
    """SIOCOUTQ of a TCP socket; None where the system refuses or the socket is closed."""
    if sock is None or not sys.platform.startswith("linux"):
        return None
    try:
        answer = fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, b"\0" * 4)
    except (OSError, ValueError):
        return None
    return int(struct.unpack("i", answer)[0])


def bytes_acked(sock: Any) -> int | None:
    """`tcpi_bytes_acked` of a TCP socket; None where the system refuses, is too old or the socket is closed."""
    if sock is None or not sys.platform.startswith("linux"):
        return None
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    except (OSError, ValueError):
        return None
    if len(info) < _BYTES_ACKED_AT + 8:
        return None
    return int(struct.unpack_from("Q", info, _BYTES_ACKED_AT)[0])


def verdict(samples: Sequence[SocketSample]) -> Verdict:
    """What the last look proves together with the latest one at least 1 s before it.

    Args:
        samples: of one connection, in order of time.
    """
    if not samples:
        return "unknown"
    last = samples[-1]
    before = next((s for s in reversed(samples) if last.t_s - s.t_s >= _APART_S), None)
    if before is None or before.bytes_acked is None or last.bytes_acked is None:
        return "unknown"
    if last.bytes_acked > before.bytes_acked:
        return "peer was reading"
    if before.pending_bytes and last.pending_bytes:
        return "peer stopped reading"
    return "unknown"


def as_json(samples: Sequence[SocketSample]) -> dict[str, Any]:
    """Verdict and samples, for the diagnostics of an attempt."""
    return {"verdict": verdict(samples), "samples": [asdict(sample) for sample in samples]}
