"""The WebSocket transport. With `plain_socket` the only module that imports websockets (design.md 3, 7).

Every wait on the socket is bounded, but for the reader's: it lives as long as the attempt, which cancels and joins it.
Facts this stands on (design.md 4): the library's `close()` never returns when the peer has stopped reading, because its
own time-out only starts after the write has drained; `abort()` frees everything, after which a blocked `send()` returns
normally.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

from client.library import SUPPORTED, UnsupportedLibrary, check

try:
    from websockets.asyncio.client import ClientConnection, connect
    from websockets.exceptions import ConnectionClosed
    from websockets.protocol import State
    from websockets.version import version as websockets_version

    from client.plain_socket import ConnectHere, PlainClientConnection
except ImportError as error:
    raise UnsupportedLibrary(f"websockets cannot be used: {error}; supported: {SUPPORTED}") from error

from client.bounds import Budget
from client.deadlines import DeadlineExceeded, Deadlines, bounded
from client.evidence import SocketSample, look
from client.masking import masked
from client.wire import Event, encode

check(websockets_version, ClientConnection, connect, ConnectionClosed)

log = logging.getLogger("client.connection")

CloseKind = Literal["clean", "by_peer", "forced", "lost", "none"]
"""How a session's connection ended.

clean: closing handshake with close frames after `session.closed`. by_peer: `session.closed` came, then the TCP end.
forced: this client aborted its transport. lost: the connection ended before `session.closed`. none: none was made.
"""

MAX_FRAME_BYTES: Final = 64 * 1024 * 1024
PING_INTERVAL_S: Final = 20.0
PONG_TIMEOUT_S: Final = 20.0
_MAX_SAMPLES: Final = 32


class ConnectionLost(ConnectionError):
    """The connection is gone. The text says how; `code` is the close code (1006: no close frame).

    `unanswered`: our closing handshake ran to the library's own time-out.
    """

    def __init__(self, text: str, code: int = 1006, *, unanswered: bool = False) -> None:
        super().__init__(text)
        self.code = code
        self.unanswered = unanswered


class Connection:
    """One WebSocket connection of one attempt.

    `name` (split/id) heads its log messages.
    """

    def __init__(self, name: str, deadlines: Deadlines, headers: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.deadlines = deadlines
        self.headers = headers or {}
        """Of the upgrade request; their values are told nowhere."""
        self.lost: ConnectionLost | None = None
        """How the connection ended, once it has."""
        self.close_frame_received = False
        self.aborted = False
        """This client forced the end."""
        self.samples: list[SocketSample] = []
        """Looks at the socket while something was stuck."""
        self._socket: PlainClientConnection | None = None
        self._writing: dict[asyncio.Task[None], str] = {}
        self._mark: SocketSample | None = None
        self._late_s = 0.0

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        deadlines: Deadlines,
        headers: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
        name: str = "",
    ) -> Connection:
        """Connect and upgrade within `deadlines.connect_s`.

        Args:
            tls: of a wss URL; None: the system's trust store.
        Raises:
            DeadlineExceeded: named `connect`.
            OSError, websockets' InvalidHandshake: refused (docs/evaluation.md 14, row 14).
        """
        connection = cls(name, deadlines, headers)
        try:
            await bounded(
                "connect", connection._dial(url, tls), deadlines.connect_s, grace_s=deadlines.grace_s
            )
        except DeadlineExceeded:
            if connection._socket is not None:
                connection.abort()
            raise
        return connection

    async def _dial(self, url: str, tls: ssl.SSLContext | None = None) -> None:
        trust: dict[str, Any] = {} if tls is None else {"ssl": tls}
        socket = await ConnectHere(
            url,
            **trust,
            additional_headers=dict(self.headers),
            compression=None,
            proxy=None,
            open_timeout=None,
            ping_interval=PING_INTERVAL_S,
            ping_timeout=PONG_TIMEOUT_S,
            close_timeout=self.deadlines.library_close_s,
            max_size=MAX_FRAME_BYTES,
            create_connection=PlainClientConnection,
        )
        assert isinstance(socket, PlainClientConnection)
        self._socket = socket

    # -- writing --------------------------------------------------------------------------------------------------

    async def send(self, event: Event, *, within_s: float, grace_s: float | None = None) -> None:
        """Write one event within `within_s` seconds. Every write of the client goes through here.

        Raises:
            DeadlineExceeded: named after the event's type.
            ConnectionLost: the connection is gone.
        """
        await self.send_all((event,), within_s=within_s, grace_s=grace_s)

    async def send_all(
        self, events: Sequence[Event], *, within_s: float, grace_s: float | None = None
    ) -> None:
        """Write events of one type in order, all of them within `within_s` seconds. Errors as `send()`."""
        what = str(events[0]["type"])
        self.look_if_stuck(what)

        def waits(task: asyncio.Task[None]) -> None:
            self._writing[task] = what
            task.add_done_callback(self._writing.pop)
            self.mark(f"{what} waits")

        # The library must not be closing: then it would time its own wait, in whichever task the write began.
        in_place = getattr(self._socket, "state", None) is State.OPEN
        await bounded(
            what,
            self._write(what, events),
            within_s,
            grace_s=self.deadlines.grace_s if grace_s is None else grace_s,
            on_wait=waits if in_place else None,
        )

    async def _write(self, what: str, events: Sequence[Event]) -> None:
        if self._socket is None:
            raise self.lost or ConnectionLost("no connection")
        try:
            for event in events:
                await self._socket.send(encode(event), text=True)
        except ConnectionClosed as closed:
            raise self.note_lost(closed) from closed

    def writing(self, what: str) -> list[asyncio.Task[None]]:
        """Tasks of writes of this type that had to wait and still do, oldest first."""
        return [task for task, name in self._writing.items() if name == what]

    # -- reading --------------------------------------------------------------------------------------------------

    async def receive(self) -> str | bytes:
        """The next frame: text as str, binary as bytes. Waits without a bound; for the reader task alone.

        Raises ConnectionLost: the connection ended, in whatever way.
        """
        if self._socket is None:
            raise self.lost or ConnectionLost("no connection")
        try:
            return await self._socket.recv()
        except ConnectionClosed as closed:
            raise self.note_lost(closed) from closed

    async def listen(self, take: Callable[[str | bytes], None]) -> None:
        """Give each frame to `take` within the read that brings it; text as str, binary as bytes. For the reader alone.

        Raises ConnectionLost: the connection ended, in whatever way. Exception: whatever `take` raised.
        """
        if self._socket is None:
            raise self.lost or ConnectionLost("no connection")
        try:
            await self._socket.listen(take)
        except ConnectionClosed as closed:
            raise self.note_lost(closed) from closed

    # -- ending ---------------------------------------------------------------------------------------------------

    async def close(self, within_s: float) -> None:
        """The WebSocket closing handshake, bounded. A connection that has ended is closed already.

        Raises DeadlineExceeded: the library's own close did not run to its end.
        """
        if self._socket is not None:
            await bounded("websocket close", self._socket.close(), within_s, grace_s=0.0)

    def abort(self) -> None:
        """Drop the connection without a handshake (a TCP reset); never a silent no-op (R16, R17).

        Says in the log when there is no socket, or no transport that could be aborted.
        """
        self.aborted = self.lost is None
        socket = getattr(self, "_socket", None)
        if socket is None:
            log.warning("%s: realtime client has no socket to abort", self.name)
            return
        transport = getattr(socket, "transport", None)
        if transport is None or not hasattr(transport, "abort"):
            log.warning(
                "%s: realtime transport has no abortable handle on %s", self.name, type(socket).__name__
            )
            return
        transport.abort()

    @property
    def budget(self) -> Budget:
        """What was received and kept so far, against what a session may."""
        return self._socket.budget if self._socket is not None else Budget()

    def close_kind(self, *, session_closed: bool) -> CloseKind:
        """How the connection ended, as far as it has."""
        if self.aborted:
            return "forced"
        if not session_closed:
            return "lost"
        if self.lost is None or self.close_frame_received or self.lost.unanswered:
            return "clean"
        return "by_peer"

    def note_lost(self, closed: ConnectionClosed) -> ConnectionLost:
        """Remember how the connection ended; the first account stands, without the key a peer may give as reason."""
        self.close_frame_received = self.close_frame_received or closed.rcvd is not None
        if self.lost is None:
            lost = describe_loss(closed)
            self.lost = ConnectionLost(masked(str(lost), self.headers), lost.code, unanswered=lost.unanswered)
        return self.lost

    # -- evidence -------------------------------------------------------------------------------------------------

    def mark(self, moment: str) -> None:
        """Look at the socket as a wait begins; kept as evidence only if its deadline passes, or an earlier one has."""
        self._mark = self._sample(moment)

    def look(self, moment: str) -> None:
        """Take a sample of the socket, after the one of the wait's beginning; the first and the latest are kept."""
        if self._mark is not None:
            self._keep(self._mark)
            self._mark = None
        self._keep(self._sample(moment))

    def note_late(self, seconds: float) -> None:
        """Our own loop came late to one of its timers: told with the next sample."""
        self._late_s = max(self._late_s, seconds)

    def _sample(self, moment: str) -> SocketSample:
        transport = getattr(self._socket, "transport", None)
        late_s, self._late_s = self._late_s, 0.0
        return look(asyncio.get_running_loop().time(), moment, transport, late_s)

    def _keep(self, sample: SocketSample) -> None:
        if len(self.samples) >= _MAX_SAMPLES:
            del self.samples[_MAX_SAMPLES // 2]
        self.samples.append(sample)

    def look_if_stuck(self, what: str) -> None:
        """Take a sample before a write if earlier bytes still wait in user space, at most one a second."""
        transport = getattr(self._socket, "transport", None)
        if transport is None or not transport.get_write_buffer_size():
            return
        now_s = asyncio.get_running_loop().time()
        if not self.samples or now_s - self.samples[-1].t_s >= 1.0:
            self.look(f"before {what}")


def describe_loss(closed: ConnectionClosed) -> ConnectionLost:
    """Say in one line how a connection ended, from the close frames of both sides and the cause."""
    sent, rcvd = closed.sent, closed.rcvd
    if rcvd is not None:
        reason = f" ({rcvd.reason})" if rcvd.reason else ""
        return ConnectionLost(f"closed by the peer with {rcvd.code}{reason}", rcvd.code)
    cause = closed.__cause__
    if sent is not None and sent.code == 1011 and "keepalive" in sent.reason:
        return ConnectionLost(f"keep-alive: no pong for {PONG_TIMEOUT_S:.0f} s (1011)", 1011)
    if sent is not None and sent.code != 1000:
        detail = f" ({sent.reason})" if sent.reason else ""
        return ConnectionLost(f"closed by this client with {sent.code}{detail}", sent.code)
    if isinstance(cause, TimeoutError):
        return ConnectionLost("the peer did not answer the closing handshake", unanswered=True)
    detail = f" ({type(cause).__name__}: {cause})" if cause is not None else ""
    return ConnectionLost(f"ended without a close frame (1006){detail}")
