"""The proxy's connection to the server behind it: frames both ways, nothing read that the other side does not take.

Whatever becomes of the client, the session on the server is ended before the connection is: a session that is only
dropped keeps its admission slot for a grace (protocol.md 12.1).
"""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, cast

import aiohttp
from aiohttp import WSMessage, WSMsgType
from yarl import URL

from mockserver.faults.actions import CloseReply, CloseTcp, Pong
from mockserver.relay import Relay
from mockserver.relayed import RelayedConnection
from mockserver.wire import End, close_reason

MAX_FRAME_BYTES = 64 * 1024 * 1024
"""As clients take (protocol.md 1.3)."""
QUEUE_BYTES = 128 * 1024
"""More than this waiting for the server, and the client is not read."""
CLOSED_WITHIN_S = 6.0
"""How long a server may take to answer the `session.close` that is sent once the client has gone."""
ENDED_WITHIN_S = 1.0
"""How long it may take, after that, to answer a close frame."""

LOOK_EVERY_S = 0.97
"""How often a client that is kept from being heard is looked after; off the beat of everything else."""
Direction = Literal["client->server", "server->client"]


class Tape(Protocol):
    """Whoever keeps a session (design.md 2: a cassette)."""

    def opened(self, connection: int, path: str, t_s: float) -> None:
        """A connection was made; path and query as the client asked for them."""
        ...

    def frame(
        self, connection: int, direction: Direction, kind: WSMsgType, payload: bytes, t_s: float
    ) -> None:
        """A frame went by; of a close frame the payload is code and reason."""
        ...

    def ended(self, connection: int, direction: Direction, how: str, t_s: float) -> None:
        """One side's TCP connection is over: fin or rst."""
        ...


@dataclass(frozen=True)
class Behind:
    """The server behind the proxy."""

    url: str
    """ws or wss, with the path of the realtime endpoint; a query of its own is kept."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent with every request, credentials among them; never told."""
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    """Of wss; None: the system's trust store."""
    connect_s: float = 20.0
    """How long TCP, TLS and the answer to the upgrade may take, each."""

    @property
    def http_url(self) -> URL:
        """Its HTTP side, without a path."""
        url = URL(self.url)
        return url.with_scheme("https" if url.scheme in ("wss", "https") else "http").origin()

    def realtime_url(self, query_string: str) -> URL:
        """Of an upgrade: the client's own query behind the URL's, byte for byte."""
        joined = "&".join(part for part in (URL(self.url).raw_query_string, query_string) if part)
        return URL(self.url.split("?")[0] + (f"?{joined}" if joined else ""), encoded=True)


class Unreachable(Exception):
    """The server behind did not upgrade the connection.

    Attributes:
        status: of its HTTP answer; None: there was none.
    """

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(reason)
        self.status = status


def make_http(behind: Behind) -> aiohttp.ClientSession:
    """A session that contacts the one host, whatever a server answers; proxies of the environment are ignored."""
    allowed = behind.http_url

    async def only_this_host(
        request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        asked = request.url
        plain = asked.with_scheme({"ws": "http", "wss": "https"}.get(asked.scheme, asked.scheme)).origin()
        if plain != allowed:
            raise aiohttp.ClientError(f"it redirects to {plain}, which was not named")
        return await handler(request)

    return aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=behind.connect_s, sock_read=behind.connect_s),
        connector=aiohttp.TCPConnector(limit=0, ssl=behind.tls if behind.tls is not None else True),
        headers=dict(behind.headers),
        middlewares=(only_this_host,),
        trust_env=False,
    )


async def connect(
    http: aiohttp.ClientSession, behind: Behind, query_string: str, headers: Mapping[str, str]
) -> aiohttp.ClientWebSocketResponse[Literal[False]]:
    """Upgrade a connection to the server.

    Args:
        headers: of the client, those that are not the proxy's own.
    Raises Unreachable: it did not; in words, and with its HTTP status where it answered.
    """
    try:
        return await http.ws_connect(
            behind.realtime_url(query_string),
            headers={**headers, **behind.headers},
            autoclose=False,
            autoping=False,
            max_msg_size=MAX_FRAME_BYTES,
            compress=0,
            decode_text=False,
        )
    except aiohttp.WSServerHandshakeError as error:
        status = None if error.status == 101 else error.status
        raise Unreachable(f"{error.message} ({error.status})", status) from error
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise Unreachable(f"{type(error).__name__}: {error}") from error


class Upstream:
    """One upgraded connection to the server, and the session on it.

    Attributes:
        relay: what is known of the session, from `begin` on.
        connection: the client's side, from `begin` on.
    """

    relay: Relay
    connection: RelayedConnection

    def __init__(
        self,
        websocket: aiohttp.ClientWebSocketResponse[Literal[False]],
        number: int,
        tape: Tape | None = None,
        *,
        over: Callable[[], None],
    ) -> None:
        """Args: over: called when the server's session and connection are over."""
        self._over = over
        self._loop = asyncio.get_running_loop()
        self._websocket = websocket
        self._number = number
        self._tape = tape
        self._queue: deque[tuple[bytes, WSMsgType]] = deque()
        self._queued_bytes = 0
        self._wake: asyncio.Future[None] | None = None
        self._holds = False
        self._client_closing = False
        self._client_code = 1005
        self._client_answered = False
        self._close_sent = False
        self._close_seen = False
        self._closed = self._loop.create_future()
        self._ended = self._loop.create_future()
        self._finishing: asyncio.Task[None] | None = None
        self._tasks = [self._loop.create_task(self._write(), name=f"proxy to server {number}")]

    def begin(self, relay: Relay, connection: RelayedConnection) -> None:
        """Both ends are there: read the server from here on."""
        self.relay, self.connection = relay, connection
        self._tasks.append(self._loop.create_task(self._read(), name=f"proxy from server {self._number}"))
        if connection.faults.runs:
            self._tasks.append(self._loop.create_task(self._watch(), name=f"proxy watches {self._number}"))

    async def _watch(self) -> None:
        """A socket that a fault keeps from being read does not tell that its client has gone; its state does."""
        while self._finishing is None:
            await asyncio.sleep(LOOK_EVERY_S)
            if self.connection.held and self.connection.client_has_gone:
                self.client_lost()

    def forward(self, payload: bytes, kind: WSMsgType) -> None:
        """A frame for the server, behind those before it; never waits."""
        if self._ended.done():
            return
        if kind is WSMsgType.PING:
            self.relay.seen.answers.ask("ping", self._loop.time())
        if self._tape is not None:
            self._tape.frame(self._number, "client->server", kind, payload, self._loop.time())
        self._queue.append((payload, kind))
        self._queued_bytes += len(payload)
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)
        if self._queued_bytes > QUEUE_BYTES and not self._holds:
            self._holds = True
            self.connection.hold_reading(True)

    def client_frame(self, message: WSMessage) -> None:
        """A ping, pong, binary or close frame of the client."""
        if message.type is WSMsgType.CLOSE:
            self._client_closing = True
            code = message.data
            self._client_code = int(code or 1005)
            payload = b"" if not code else struct.pack("!H", code) + close_reason(str(message.extra or ""))
            if self._ended.done():  # nobody else is left to answer it
                self.connection.answer(CloseReply(code or 1005))
                self.connection.answer(CloseTcp())
            elif self._session_is_open:
                # A close frame alone would leave the session its slot for a grace: it is ended first.
                self._tasks.append(
                    self._loop.create_task(
                        self._close_session_first(payload), name=f"proxy closes {self._number}"
                    )
                )
            else:
                self._send_close(payload)
        else:
            self.forward(bytes(message.data), message.type)

    @property
    def _session_is_open(self) -> bool:
        seen = self.relay.seen
        begun = seen.asked or seen.created_s is not None
        return begun and seen.closed_s is None and not self._close_seen and not self._ended.done()

    async def _close_session_first(self, payload: bytes) -> None:
        await self._close_session()
        self._send_close(payload)

    async def _close_session(self) -> None:
        """Ask the server to end the session, unless that was done, and wait for its word within the bound."""
        seen = self.relay.seen
        if seen.close_s is None:
            seen.close_s, seen.closed_by_us = self._loop.time(), True
            seen.answers.ask("session.close", seen.close_s)
            self.forward(b'{"type":"session.close"}', WSMsgType.TEXT)
        await asyncio.wait(
            {self._closed, self._ended}, timeout=CLOSED_WITHIN_S, return_when=asyncio.FIRST_COMPLETED
        )

    def client_lost(self) -> None:
        """The client's connection is over; the session on the server is not, unless it said so."""
        if self._finishing is None:
            self._finishing = self._loop.create_task(self._finish(), name=f"proxy ends {self._number}")

    async def finished(self) -> None:
        """Wait until the session and the connection to the server are over."""
        if self._finishing is not None:
            await asyncio.wait({self._finishing})

    async def dismiss(self) -> None:
        """Nobody needs this connection any more: drop it, and end what works for it."""
        self.abort()
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)

    def abort(self) -> None:
        """Drop the connection now."""
        response = self._websocket._response
        if response.connection is not None and response.connection.transport is not None:
            response.connection.transport.abort()
        response.close()

    # -- to the server

    async def _write(self) -> None:
        while True:
            while self._queue:
                payload, kind = self._queue[0]
                try:
                    await self._websocket.send_frame(payload, kind)
                except (aiohttp.ClientError, OSError):
                    return  # it has gone; the reader tells how
                self._queue.popleft()
                self._queued_bytes -= len(payload)
                if self._holds and self._queued_bytes <= QUEUE_BYTES // 2:
                    self._holds = False
                    self.connection.hold_reading(False)
            self._wake = self._loop.create_future()
            await self._wake

    def _send_close(self, payload: bytes) -> None:
        if not self._close_sent:
            self._close_sent = True
            self.forward(payload, WSMsgType.CLOSE)

    # -- from the server

    async def _read(self) -> None:
        reader = self._websocket._reader
        how = "fin"
        try:
            while True:
                message = cast(WSMessage, await reader.read())
                self._on_message(message)
                await self._client_takes_it()
        except aiohttp.EofStream:
            pass
        except aiohttp.ServerDisconnectedError:
            pass
        except (aiohttp.ClientError, OSError):
            how = "rst"
        except aiohttp.WebSocketError as error:
            how = f"bad frame: {error}"
        finally:
            self._on_end(how)

    def _on_message(self, message: WSMessage) -> None:
        now_s, kind, connection = self._loop.time(), message.type, self.connection
        if kind is WSMsgType.CLOSE:
            self._on_close(int(message.data or 1005), str(message.extra or ""), now_s)
            return
        if self._tape is not None:
            self._tape.frame(self._number, "server->client", kind, message.data, now_s)
        if kind is WSMsgType.TEXT:
            send = self.relay.from_server(message.data, now_s)
            if not self._client_closing:  # nothing follows a close frame of the client but the answer to it
                connection.feed([send])
            if self.relay.seen.closed_s is not None and not self._closed.done():
                self._closed.set_result(None)
        elif kind is WSMsgType.PONG:
            self.relay.seen.answers.hear("pong", now_s)
            connection.answer(Pong(message.data))
        elif kind is WSMsgType.PING and (self._finishing is not None or connection.held):
            self.forward(message.data, WSMsgType.PONG)  # a client that is kept from answering has not gone
        else:
            connection.write_frame(message.data, kind)

    def _on_close(self, code: int, reason: str, now_s: float) -> None:
        payload = b"" if code == 1005 else struct.pack("!H", code) + close_reason(reason)
        if self._tape is not None:
            self._tape.frame(self._number, "server->client", WSMsgType.CLOSE, payload, now_s)
        self._close_seen = True
        self.relay.seen.close_code = code
        if self._client_closing:
            self._client_answered = True
            self.connection.answer(CloseReply(code))
        else:
            self.connection.feed([End(1000 if code == 1005 else code, reason, told=True)])
            if self._finishing is not None:
                self._send_close(payload)

    async def _client_takes_it(self) -> None:
        """Read no more of the server than the client takes: what it leaves unread must show on the server too."""
        if self._finishing is None:
            await self.connection.drained()

    def _on_end(self, how: str) -> None:
        if self._ended.done():
            return
        self._ended.set_result(None)
        now_s = self._loop.time()
        if self._tape is not None:
            self._tape.ended(self._number, "server->client", how.split(":")[0], now_s)
        relay, connection = self.relay, self.connection
        relay.seen.ended_s, relay.seen.ended_how = now_s, how
        if how == "rst":
            connection.reset()
        elif self._client_closing:
            if (
                not self._client_answered
            ):  # it ended for a `session.close` of ours, or a fault withheld its close
                connection.answer(CloseReply(self._client_code))
            connection.answer(CloseTcp())
        elif not self._close_seen:
            connection.feed([End(None, "")])

    # -- the end of the session

    async def _finish(self) -> None:
        """The client has gone: end the session it left, then the connection, all within a bound."""
        if self._tape is not None:
            self._tape.ended(self._number, "client->server", str(self.connection.info.how), self._loop.time())
        if self._session_is_open:
            await self._close_session()
        if not self._ended.done():
            self._send_close(struct.pack("!H", 1000))
            await asyncio.wait({self._ended}, timeout=ENDED_WITHIN_S)
        self.abort()
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        self._on_end("fin")
        self._over()
