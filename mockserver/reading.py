"""Holding a transport's reading down or back, and proof from the socket that it is."""

from __future__ import annotations

import array
import asyncio
import fcntl
import os
import socket
import termios
from collections.abc import Callable, Hashable
from typing import Any, cast

from mockserver.faults.actions import PauseReading, SlowReading

READ_STEP_S = 0.1
"""A slow reader takes at once what its rate gives in this time."""
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
        if self._sock.fileno() == -1:  # reset in the same turn of the loop
            return
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


class Ending(asyncio.Protocol):
    """Stands between the transport and aiohttp's protocol, and keeps what the connection was lost with.

    Args:
        feed: takes what is read; None: the protocol does.
    """

    def __init__(self, protocol: asyncio.BaseProtocol, feed: Callable[[bytes], object] | None = None) -> None:
        self.protocol = cast(asyncio.Protocol, protocol)
        self.on_lost: Callable[[], None] | None = None
        self.error: Exception | None = None
        self._feed = feed or self.protocol.data_received
        # The transport asks for the attribute at each read: without a tap there is nothing in between.
        self.data_received = self._feed  # type: ignore[method-assign,assignment]
        self.clogged = False
        """The transport holds more of our output than it likes."""

    def pause_writing(self) -> None:
        self.clogged = True
        self.protocol.pause_writing()

    def resume_writing(self) -> None:
        self.clogged = False
        self.protocol.resume_writing()

    def tap(self, told: Callable[[bytes], None] | None) -> None:
        """`told` hears of each read before it is fed; None: nobody does any more."""

        def first_told(data: bytes) -> None:
            assert told is not None
            told(data)
            self._feed(data)

        self.data_received = self._feed if told is None else first_told  # type: ignore[method-assign,assignment]

    def eof_received(self) -> bool | None:
        return self.protocol.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self.error = exc
        if self.on_lost is not None:
            self.on_lost()
        self.protocol.connection_lost(exc)


class SlowedReading:
    """A transport that is read a little at a time, each time followed by the pause that its rate asks for.

    Between two pauses it reads as ever, so that what is on its way is waited for and not overtaken.

    Args:
        tap: told of each read.
        lay_unread: called with the evidence when bytes lay unread for over a second.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        sock: socket.socket,
        tap: Ending,
        bytes_per_s: int,
        lay_unread: Callable[[dict[str, Any]], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport = transport
        self._sock = sock
        self._tap = tap
        self._bytes_per_s = bytes_per_s
        self._lay_unread = lay_unread
        self._timer: asyncio.TimerHandle | None = None
        self._backlog_since_s: float | None = None
        self._read_size: int = transport.max_size  # type: ignore[attr-defined]
        self._step_bytes = min(max(1, int(bytes_per_s * READ_STEP_S)), self._read_size)
        tap.tap(self._was_read)
        transport.max_size = self._step_bytes  # type: ignore[attr-defined]

    def release(self) -> None:
        """Read at full speed again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._tap.tap(None)
        self._transport.max_size = self._read_size  # type: ignore[attr-defined]
        self._read_on()

    def _was_read(self, data: bytes) -> None:
        self._transport.pause_reading()
        # aiohttp resumes by itself when its queue has been drained: not now.
        self._transport.resume_reading = _not_now  # type: ignore[method-assign]
        self._timer = self._loop.call_later(len(data) / self._bytes_per_s, self._pause_over)

    def _pause_over(self) -> None:
        self._timer = None
        if self._sock.fileno() == -1:
            return
        now_s, unread = self._loop.time(), unread_bytes(self._sock)
        if unread == 0:
            self._backlog_since_s = None
        elif self._backlog_since_s is None:
            self._backlog_since_s = now_s
        elif now_s - self._backlog_since_s >= UNREAD_FOR_S:
            self._lay_unread(
                {
                    "proof": "unread",
                    "since_s": self._backlog_since_s,
                    "unread_s": now_s - self._backlog_since_s,
                    "unread_bytes": unread,
                    "bytes_per_s": self._bytes_per_s,
                }
            )
        # Who takes the bytes may have wished for more at a time (`Incoming.take_read`).
        self._transport.max_size = self._step_bytes  # type: ignore[attr-defined]
        self._read_on()

    def _read_on(self) -> None:
        if "resume_reading" in vars(self._transport):
            del self._transport.resume_reading
        if not self._transport.is_closing():
            self._transport.resume_reading()


def _not_now() -> None:
    pass


def _below_tls(transport: asyncio.Transport) -> asyncio.Transport:
    """What reads the socket: asyncio's TLS, told to pause, goes on to read some 500 kB that nobody is given."""
    tls = getattr(transport, "_ssl_protocol", None)
    return transport if tls is None else cast(asyncio.Transport, tls._transport)


class Reading:
    """What all faults together do to the reading of a connection: a pause beats a rate, the lowest rate the others."""

    def __init__(self, transport: asyncio.Transport, sock: socket.socket, tap: Ending) -> None:
        self._transport = _below_tls(transport)
        self._sock = sock
        self._tap = tap
        self._wishes: dict[
            Hashable, tuple[PauseReading | SlowReading, Callable[[dict[str, Any]], None], float]
        ] = {}
        self._now: HeldReading | SlowedReading | None = None
        self.paused = False
        """Nothing is to be read, not even what has been taken from the socket already."""

    @property
    def held_back(self) -> bool:
        """Paused or slowed."""
        return self._now is not None

    def hold(
        self, key: Hashable, wish: PauseReading | SlowReading, observed: Callable[[dict[str, Any]], None]
    ) -> None:
        """A fault, `key`, pauses or slows the reading from here on."""
        self._wishes[key] = (wish, observed, asyncio.get_running_loop().time())
        self._apply()

    def let_go(self, key: Hashable | None = None) -> dict[str, Any] | None:
        """One fault is over, or, without a key, all are.

        Returns: of all: how long the socket was held, and what lay in it; None: nothing was held.
        """
        if key is not None:
            self._wishes.pop(key, None)
            self._apply()
            return None
        if not self._wishes:
            return None
        now_s = asyncio.get_running_loop().time()
        unread = unread_bytes(self._sock) if self._sock.fileno() != -1 else 0
        held_s = now_s - min(since_s for _, _, since_s in self._wishes.values())
        self._wishes.clear()
        self._apply()
        return {"held_s": round(held_s, 6), "unread_bytes": unread}

    def _apply(self) -> None:
        if self._now is not None:
            self._now.release()
            self._now = None
            self.paused = False
        if self._transport.is_closing() or not self._wishes:
            return
        wishes = list(self._wishes.values())
        pauses = [(wish, observed) for wish, observed, _ in wishes if isinstance(wish, PauseReading)]
        if pauses:
            looks = [observed for wish, observed in pauses if wish.look]

            def lay_unread(evidence: dict[str, Any]) -> None:
                for observed in looks:
                    observed(evidence)

            self._now = HeldReading(self._transport, self._sock, lay_unread if looks else None)
            self.paused = True
            return
        rates = [(wish, observed) for wish, observed, _ in wishes if isinstance(wish, SlowReading)]
        wish, observed = min(rates, key=lambda rate: rate[0].bytes_per_s)
        self._now = SlowedReading(self._transport, self._sock, self._tap, wish.bytes_per_s, observed)
