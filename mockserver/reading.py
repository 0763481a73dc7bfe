"""Holding a transport's reading down, and proof from the socket that it is held."""

from __future__ import annotations

import array
import asyncio
import fcntl
import os
import socket
import termios
from collections.abc import Callable
from typing import Any

UNREAD_FOR_S = 1.0
"""Bytes that lie unread for longer prove that the peer stopped reading."""


def unread_bytes(sock: socket.socket) -> int:
    """Bytes the kernel holds for this socket that nobody has read (FIONREAD)."""
    count = array.array("i", [0])
    fcntl.ioctl(sock.fileno(), termios.FIONREAD, count)
    return count[0]


class HeldReading:
    """A transport whose reading is paused and stays paused, whoever else resumes it.

    aiohttp resumes reading by itself when its own queue had paused it and is drained; while this holds, such a call
    does nothing.

    Args:
        transport: a selector transport of asyncio.
        lay_unread: called once with the evidence when bytes lay unread for over a second; None: nobody looks.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        sock: socket.socket,
        lay_unread: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport = transport
        self._sock = sock
        self._lay_unread = lay_unread
        self._watch_fd: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        transport.pause_reading()
        # The transport is a plain object: its own method is shadowed as long as the hold lasts.
        transport.resume_reading = self._not_now  # type: ignore[method-assign]
        if lay_unread is not None:
            # The first unread byte is waited for on a second descriptor: the first one is the transport's.
            self._watch_fd = os.dup(sock.fileno())
            self._loop.add_reader(self._watch_fd, self._bytes_came)

    def release(self) -> None:
        """Read again."""
        self._stop_watching()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if "resume_reading" in vars(self._transport):
            del self._transport.resume_reading
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def _not_now(self) -> None:
        pass

    def _bytes_came(self) -> None:
        self._stop_watching()
        since_s = self._loop.time()
        self._timer = self._loop.call_later(UNREAD_FOR_S, self._look, since_s, unread_bytes(self._sock))

    def _look(self, since_s: float, first_bytes: int) -> None:
        self._timer = None
        # Both samples must show bytes: a peer that went away leaves a readable socket with none in it.
        if (
            self._sock.fileno() == -1
            or first_bytes == 0
            or (unread := unread_bytes(self._sock)) < first_bytes
        ):
            return
        assert self._lay_unread is not None
        self._lay_unread(
            {
                "proof": "unread",
                "since_s": since_s,
                "unread_s": self._loop.time() - since_s,
                "unread_bytes": unread,
            }
        )

    def _stop_watching(self) -> None:
        if self._watch_fd is not None:
            self._loop.remove_reader(self._watch_fd)
            os.close(self._watch_fd)
            self._watch_fd = None
