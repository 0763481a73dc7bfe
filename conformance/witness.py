"""Proof, from the client's own socket, that the peer stopped reading (design.md section 4)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

from conformance.clock import bytes_acked, unacked_bytes

SAMPLE_EVERY_S = 0.5
PENDING_FOR_S = 1.0
"""A write stall is observed when a write was pending for longer than this after the trigger."""


class StallWitness:
    """Watches one client socket from the moment its peer stopped reading.

    Bytes wait in user space and the transport has paused its writer, so that a write of the client is pending,
    and the peer acknowledged nothing, over more than a second: that is observed, and nothing less.
    """

    def __init__(
        self,
        sock: socket.socket,
        transport: Callable[[], asyncio.WriteTransport | None],
        observed: Callable[[dict[str, Any]], None],
    ) -> None:
        self._sock = sock
        self._transport = transport
        self._observed = observed
        self._since_s: float | None = None
        self._acked_before: int | None = None
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
        self._handle = None
        loop = asyncio.get_running_loop()
        transport = self._transport()
        if self._sock.fileno() == -1 or transport is None or transport.is_closing():
            return
        acked = bytes_acked(self._sock)
        buffered = transport.get_write_buffer_size()
        # A transport that was filled above its high-water mark keeps its writer waiting until it is below the low one;
        # only its private flag says which of the two holds between the marks.
        blocked = buffered > 0 and getattr(
            transport, "_protocol_paused", buffered > transport.get_write_buffer_limits()[1]
        )
        if not blocked or acked != self._acked_before or self._since_s is None:
            self._since_s = loop.time() if blocked else None
            self._acked_before = acked
        elif loop.time() - self._since_s >= PENDING_FOR_S:
            self._observed(
                {
                    "proof": "write_blocked",
                    "since_s": self._since_s,
                    "pending_s": round(loop.time() - self._since_s, 6),
                    "buffered_bytes": buffered,
                    "unacked_bytes": unacked_bytes(self._sock),
                    "bytes_acked": acked,
                }
            )
            return
        self._handle = loop.call_later(SAMPLE_EVERY_S, self._sample)
