"""What the client's own socket says about a deadline that passed (design.md 4, 8).

Two samples prove: bytes waiting in user space or unacknowledged in both, and the count of acknowledged bytes unchanged
between them. Segments that the kernel sends again tell a network that loses them from a peer that reads nothing; a
loop that was itself late explains bytes that never reached the kernel. Where the system does not answer, the figure is
None and the verdict `unknown`: nothing is guessed.

An acknowledgement of TCP proves that the peer's system took the bytes, no more: a peer that reads nothing has a kernel
whose buffer fills first. That the peer itself reads is proven by an event that answers what was sent after the first of
the two samples, and by nothing else.
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

Verdict = Literal[
    "peer stopped reading",
    "peer was reading",
    "peer's system took it",
    "network lost it",
    "own loop was late",
    "unknown",
]

_TCP_INFO_BYTES: Final = 232
_RETRANSMITS: Final = (2, "B")
_MSS: Final = (16, "I")
_RETRANSMITTED: Final = (100, "I")
_BYTES_ACKED: Final = (120, "Q")
_PEER_WINDOW: Final = (228, "I")
"""(offset, format) in Linux' struct tcp_info: `tcpi_retransmits`, `tcpi_snd_mss`, `tcpi_total_retrans`,
`tcpi_bytes_acked` (since 4.1), `tcpi_snd_wnd` (since 5.4). An older kernel answers with fewer bytes."""
_APART_S: Final = 1.0
"""Two samples nearer than this prove nothing."""
LATE_S: Final = 1.0
"""A loop that was this late at its own timers may be the cause itself."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The latest event of the peer that answers one of ours, as an acknowledgement or `session.closed` does."""

    asked_s: float
    """When the event that it answers was written, the loop's seconds."""
    came_s: float


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
    retransmits: int | None = None
    """How often the oldest unacknowledged segment was sent again, unanswered."""
    retransmitted: int | None = None
    """Segments sent again since the connection began."""
    peer_window_bytes: int | None = None
    """What the peer's kernel was last ready to take."""
    mss_bytes: int | None = None
    """Payload of one segment."""
    loop_late_s: float = 0.0
    """How late our own loop was at most, at its own timers, since the sample before."""

    @property
    def pending_bytes(self) -> int | None:
        """Bytes that have not reached the peer's kernel, as far as known."""
        known = [n for n in (self.write_buffer_bytes, self.unacked_bytes) if n is not None]
        return sum(known) if known else None


def look(t_s: float, moment: str, transport: Any, loop_late_s: float = 0.0) -> SocketSample:
    """Look at the socket behind an asyncio transport; None for a transport gives a sample that knows nothing."""
    if transport is None:
        return SocketSample(t_s, moment, None, None, None, loop_late_s=loop_late_s)
    sock = transport.get_extra_info("socket")
    info = tcp_info(sock)
    return SocketSample(
        t_s,
        moment,
        transport.get_write_buffer_size(),
        unacked_bytes(sock),
        entry(info, _BYTES_ACKED),
        entry(info, _RETRANSMITS),
        entry(info, _RETRANSMITTED),
        entry(info, _PEER_WINDOW),
        entry(info, _MSS),
        loop_late_s,
    )


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
    return entry(tcp_info(sock), _BYTES_ACKED)


def tcp_info(sock: Any) -> bytes:
    """TCP_INFO as the kernel fills it; empty where the system refuses or the socket is closed."""
    if sock is None or not sys.platform.startswith("linux"):
        return b""
    try:
        info: bytes = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    except (OSError, ValueError):
        return b""
    return info


def entry(info: bytes, place: tuple[int, str]) -> int | None:
    """One number of TCP_INFO; None where the kernel's answer does not reach that far."""
    at, form = place
    return int(struct.unpack_from(form, info, at)[0]) if len(info) >= at + struct.calcsize(form) else None


def pair(samples: Sequence[SocketSample]) -> tuple[SocketSample, SocketSample] | None:
    """The last sample and the latest one at least 1 s before it."""
    last = samples[-1] if samples else None
    before = next((s for s in reversed(samples) if last is not None and last.t_s - s.t_s >= _APART_S), None)
    return (before, last) if before is not None and last is not None else None


def verdict(samples: Sequence[SocketSample], answer: Answer | None = None) -> Verdict:
    """What the last look proves together with the latest one at least 1 s before it.

    Args:
        samples: of one connection, in order of time.
        answer: the peer's latest; None: it never answered anything.
    """
    two = pair(samples)
    if two is None:
        return "unknown"
    before, last = two
    late = lateness_s(samples, before) >= LATE_S
    reads = answer is not None and answer.asked_s > before.t_s
    if before.bytes_acked is None or last.bytes_acked is None:
        return "own loop was late" if late else "peer was reading" if reads else "unknown"
    if last.bytes_acked > before.bytes_acked:
        return "own loop was late" if late else "peer was reading" if reads else "peer's system took it"
    if late and not (before.unacked_bytes and last.unacked_bytes):
        return "own loop was late"  # whatever waits, the kernel never had it
    if not (before.pending_bytes and last.pending_bytes):
        return "unknown"
    return "network lost it" if lost_on_the_way(before, last) else "peer stopped reading"


def lost_on_the_way(before: SocketSample, last: SocketSample) -> bool:
    """Whether segments had to be sent again though the peer had room for them.

    A peer whose window is shut refuses what its kernel cannot keep: that too is sent again, and is no loss.
    """
    again = bool(last.retransmits) or (last.retransmitted or 0) > (before.retransmitted or 0)
    shut = last.peer_window_bytes is not None and last.peer_window_bytes < (last.mss_bytes or 1)
    return again and not shut


def lateness_s(samples: Sequence[SocketSample], before: SocketSample) -> float:
    """The worst lateness of our own loop since `before`."""
    return max((s.loop_late_s for s in samples if s.t_s > before.t_s), default=0.0)


def told(samples: Sequence[SocketSample], silent_s: float | None = None, answer: Answer | None = None) -> str:
    """The verdict in words, with times but no counts of bytes, which no two runs share.

    Args:
        silent_s: seconds since the peer's last event; None when none ever came.
        answer: the peer's latest; None: it never answered anything.
    """
    two = pair(samples)
    silence = "it never sent an event" if silent_s is None else f"its last event came {silent_s:.1f} s before"
    if two is None:
        return f"unknown: the socket was not looked at before; {silence}"
    before, last = two
    apart = f"{last.t_s - before.t_s:.1f} s"
    match verdict(samples, answer):
        case "peer stopped reading":
            return f"the peer stopped reading: bytes wait, and it took none for {apart}; {silence}"
        case "network lost it":
            return f"the network lost it: segments were sent again, and none was acknowledged for {apart}; {silence}"
        case "own loop was late":
            return f"our own loop was late, by up to {lateness_s(samples, before):.1f} s; {silence}"
        case "peer was reading":
            return f"the peer was reading: it answered what we sent within {apart}; {silence}"
        case "peer's system took it":
            since = (
                "it never answered anything"
                if answer is None
                else f"its last answer came {last.t_s - answer.came_s:.1f} s before"
            )
            return (
                f"the peer's system took bytes of ours within {apart}; "
                f"whether the peer itself reads is unknown: {since}; {silence}"
            )
    if last.bytes_acked is None:
        return f"unknown: the system does not say what the peer took; {silence}"
    return f"unknown: nothing of ours waits in the socket; {silence}"


def as_json(samples: Sequence[SocketSample], answer: Answer | None = None) -> dict[str, Any]:
    """Verdict and samples, for the diagnostics of an attempt."""
    return {
        "verdict": verdict(samples, answer),
        "samples": [asdict(sample) for sample in samples],
        "last_answer": asdict(answer) if answer is not None else None,
    }
