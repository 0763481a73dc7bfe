"""Proof, from the sockets of a connection, that a write stalled, and whose doing it was (design.md section 4)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from conformance.clock import unacked_bytes, unread_bytes, unsent_bytes
from conformance.clock.socket_diag import SocketDiag
from conformance.clock.sockets import tcp_info

SAMPLE_EVERY_S = 0.5
PENDING_FOR_S = 1.0
"""A write stall is observed when a write was pending for longer than this after the trigger."""
LATE_S = 1.0
"""A loop that was this late at its own timer may have been the cause itself."""

Cause = Literal["the peer stopped reading", "the network lost it", "our own loop was late", "unknown"]


@dataclass(frozen=True, slots=True)
class Look:
    """Both ends of a connection at one moment."""

    buffered_bytes: int
    """Waiting in user space of the writer."""
    unsent_bytes: int
    """In the writer's kernel, never sent: the other end's window is full, or the way is."""
    in_flight_bytes: int
    """Sent by the writer's kernel and not acknowledged."""
    acked_bytes: int
    """Acknowledged since the connection began."""
    retransmitted_bytes: int
    """Sent again since the connection began."""
    peer_unread_bytes: int | None
    """Arrived at the other end and not read there; None: the other end is in another process."""
    peer_read_bytes: int | None
    """Read by the other end's program since the connection began; None as above."""
    late_s: float = 0.0
    """How late the loop was at the timer of this look."""

    @property
    def pending_bytes(self) -> int:
        """Written, and not taken by the other end's kernel."""
        return self.buffered_bytes + self.unsent_bytes + self.in_flight_bytes

    @property
    def progress_bytes(self) -> int:
        """What has got through: read by the other end, or acknowledged by its kernel where nobody can see more.

        A kernel goes on taking a few bytes into a full buffer, at times of its own.
        """
        return self.acked_bytes if self.peer_read_bytes is None else self.peer_read_bytes


def cause_of(before: Look, after: Look) -> Cause:
    """Why nothing moved between two looks at least a second apart; `unknown` rather than a guess.

    A late loop explains everything. A reader in this process is seen directly: bytes lie unread at it. Of one elsewhere
    only a full window tells: the writer's kernel has bytes that it may not send, and none under way. Bytes that were
    sent, and sent again, and never arrived, were lost on the way.
    """
    if after.late_s >= LATE_S:
        return "our own loop was late"
    pending = min(before.pending_bytes, after.pending_bytes)
    if pending == 0 or after.progress_bytes != before.progress_bytes:
        return "unknown"
    if before.peer_unread_bytes is not None and after.peer_unread_bytes is not None:
        if after.peer_unread_bytes >= before.peer_unread_bytes > 0:
            return "the peer stopped reading"
    elif (
        min(before.unsent_bytes, after.unsent_bytes) > 0 == max(before.in_flight_bytes, after.in_flight_bytes)
    ):
        return "the peer stopped reading"
    lost = after.in_flight_bytes > 0 and after.retransmitted_bytes > before.retransmitted_bytes
    return "the network lost it" if lost and not after.peer_unread_bytes else "unknown"


def moved(before: Look, after: Look) -> bool:
    """Whether something got through: it was read, or the first bytes of what lies unread have only just arrived."""
    arrived = before.peer_unread_bytes == 0 and bool(after.peer_unread_bytes)
    return arrived or after.progress_bytes != before.progress_bytes


def look_at(
    sock: socket.socket, transport: asyncio.WriteTransport, peer: socket.socket | None, *, late_s: float = 0.0
) -> Look:
    """Look at both ends now.

    Args:
        peer: the other end's socket, where it is in this process.
        late_s: how late the loop was.
    Raises OSError: a socket is closed, or the system does not say.
    """
    info, unsent = tcp_info(sock), unsent_bytes(sock)
    unread = read = None
    if peer is not None and peer.fileno() != -1:
        unread = unread_bytes(peer)
        read = tcp_info(peer).bytes_received - unread
    return Look(
        buffered_bytes=transport.get_write_buffer_size(),
        unsent_bytes=unsent,
        in_flight_bytes=unacked_bytes(sock) - unsent,
        acked_bytes=info.bytes_acked,
        retransmitted_bytes=info.bytes_retransmitted,
        peer_unread_bytes=unread,
        peer_read_bytes=read,
        late_s=late_s,
    )


Looker = Callable[[float], tuple[Look, bool] | None]
"""Given how late the loop was: a look, and whether a write waits; None: the connection is over."""


def in_this_process(
    sock: socket.socket,
    transport: Callable[[], asyncio.WriteTransport | None],
    peer: Callable[[], socket.socket | None] = lambda: None,
) -> Looker:
    """Looks at a client of this process.

    Args:
        transport: that of the socket, while it lives.
        peer: the other end's socket, where it is in this process.
    """

    def looked(late_s: float) -> tuple[Look, bool] | None:
        alive = transport()
        if sock.fileno() == -1 or alive is None or alive.is_closing():
            return None
        look = look_at(sock, alive, peer(), late_s=late_s)
        # A transport that was filled above its high-water mark keeps its writer waiting until it is below the low
        # one; only its private flag says which of the two holds between the marks.
        paused = getattr(alive, "_protocol_paused", look.buffered_bytes > alive.get_write_buffer_limits()[1])
        return look, look.buffered_bytes > 0 and paused

    return looked


def in_another_process(diag: SocketDiag, client: tuple[str, int], peer: socket.socket) -> Looker:
    """Looks at the socket of a client that is another process; what it holds in user space, nobody sees.

    Args:
        diag: of the client's network namespace.
        client: its address.
        peer: the server's socket, which is in this process.
    """

    def looked(late_s: float) -> tuple[Look, bool] | None:
        if peer.fileno() == -1:
            return None
        found = diag.look(client, peer.getsockname()[:2])
        if found is None:
            return None
        unread = unread_bytes(peer)
        look = Look(
            buffered_bytes=0,
            unsent_bytes=found.info.bytes_unsent,
            in_flight_bytes=found.queued_bytes - found.info.bytes_unsent,
            acked_bytes=found.info.bytes_acked,
            retransmitted_bytes=found.info.bytes_retransmitted,
            peer_unread_bytes=unread,
            peer_read_bytes=tcp_info(peer).bytes_received - unread,
            late_s=late_s,
        )
        return look, found.queued_bytes > 0 and found.takes_no_more

    return looked


class StallWitness:
    """Watches a client's socket from the moment its peer stopped reading.

    A write of the client is pending (its transport has paused its writer; elsewhere: its socket takes no more),
    and nothing gets through, over more than a second: that is observed, and nothing less.

    Args:
        looker: looks at both ends.
        observed: told once, with the evidence and the cause in words.
    """

    def __init__(self, looker: Looker, observed: Callable[[dict[str, Any]], None]) -> None:
        self._looker = looker
        self._observed = observed
        self.most_bytes = 0
        """The most that was seen waiting at the client and unread at the server."""
        self._since_s = 0.0
        self._first: Look | None = None
        self._late_s = 0.0
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Take the first sample now."""
        self._sample()

    def stop(self) -> None:
        """Look no more."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _sample(self) -> None:
        now_s = asyncio.get_running_loop().time()
        if self._handle is not None:
            self._late_s = max(self._late_s, now_s - self._handle.when())
        self._handle = None
        seen = self._looker(self._late_s)
        if seen is None:
            return
        look, blocked = seen
        self.most_bytes = max(self.most_bytes, look.pending_bytes + (look.peer_unread_bytes or 0))
        first = self._first
        if not blocked or first is None or moved(first, look):
            self._first = look if blocked else None
            self._since_s, self._late_s = now_s, 0.0
        elif now_s - self._since_s >= PENDING_FOR_S:
            self._tell(first, look, now_s)
            return
        self._handle = asyncio.get_running_loop().call_later(SAMPLE_EVERY_S, self._sample)

    def _tell(self, first: Look, look: Look, now_s: float) -> None:
        self._observed(
            {
                "proof": "write_blocked",
                "since_s": self._since_s,
                "pending_s": round(now_s - self._since_s, 6),
                "buffered_bytes": look.buffered_bytes,
                "unacked_bytes": look.unsent_bytes + look.in_flight_bytes,
                "taken_bytes": look.pending_bytes + (look.peer_unread_bytes or 0),
                "bytes_acked": look.acked_bytes,
                "cause": cause_of(first, look),
            }
        )
