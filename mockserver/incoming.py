"""Frames on their way in: aiohttp's reader checks and joins them, and each message is handled within the read itself.

aiohttp would queue each message and wake a task for it, which costs more than most messages do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from aiohttp import WebSocketError, WSCloseCode, WSMessage, hdrs, web
from aiohttp._websocket.reader import WebSocketDataQueue, WebSocketReader
from aiohttp.streams import EofStream

from mockserver.wire import MAX_FRAME_BYTES

_TOO_LARGE_BYTES = MAX_FRAME_BYTES + 1
"""aiohttp refuses a frame of as many bytes as it is told (protocol.md 1.3: larger than 16 MiB)."""
_LIMIT_BYTES = 2**16
"""Of aiohttp's queue, which stays empty here."""
CROWD = 256
"""Messages that may be handled in one turn of the loop: others wait meanwhile."""
LEAST_READ_BYTES = 1024
READ_BYTES = 256 * 1024
"""What asyncio reads at once."""


class Incoming(WebSocketDataQueue):
    """Takes messages from aiohttp's reader, in the place of aiohttp's own queue.

    Attributes:
        over: done when no message follows, with what ended reading: EofStream for the end of the connection, an error
            of aiohttp's for a client that broke the rules. Only a bug of ours is raised: what is raised holds all that
            the connection had until the next collection.
    """

    def __init__(self, protocol: Any, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(protocol, _LIMIT_BYTES, loop=loop)
        self.over: asyncio.Future[BaseException] = loop.create_future()
        self.over.add_done_callback(_seen)  # also where nobody comes to serve the connection
        self._messages = 0
        self._unfinished_bytes = 0
        self._early: list[WSMessage] = []
        self._take: Callable[[WSMessage], None] = self._early.append

    def hand_to(self, take: Callable[[WSMessage], None]) -> None:
        """From here on each message is given to `take`; those that came with the upgrade request first."""
        if not self.over.done():
            self._take = take
        early, self._early = self._early, []
        for message in early:
            take(message)

    def take_read(self, reader: WebSocketReader, transport: asyncio.Transport, data: bytes) -> None:
        """Bytes were read. A crowd of small messages makes the next reads as much smaller as it was too large."""
        self._messages = 0
        reader.feed_data(data)
        if not self._messages:
            self._unfinished_bytes += len(data)
            if (
                self._unfinished_bytes > MAX_FRAME_BYTES + READ_BYTES
            ):  # older readers look when the frame is whole
                self.set_exception(WebSocketError(WSCloseCode.MESSAGE_TOO_BIG, "a frame without an end"))
        else:
            self._unfinished_bytes = 0
        most_bytes: int | None = getattr(transport, "max_size", None)
        if most_bytes is None:
            return  # of TLS, which reads into a buffer of its own
        if self._messages > CROWD:
            size = max(LEAST_READ_BYTES, len(data) * CROWD // self._messages)
            transport.max_size = size  # type: ignore[attr-defined]
        elif len(data) == most_bytes < READ_BYTES:
            transport.max_size = min(READ_BYTES, 2 * len(data))  # type: ignore[attr-defined]

    def feed_data(self, data: Any, size: int) -> None:
        """A message is complete."""
        self._messages += 1
        try:
            self._take(data)
        except Exception as error:  # noqa: BLE001 - aiohttp's reader would take it for a broken frame
            if not self.over.done():
                self._take = _dropped
                self.over.set_exception(error)

    def feed_eof(self) -> None:
        """The connection is over."""
        self.set_exception(EofStream())

    def set_exception(self, exc: BaseException, exc_cause: BaseException | None = None) -> None:
        """Reading ended: the client broke RFC 6455 or a limit."""
        if not self.over.done():
            self._take = _dropped
            self.over.set_result(exc)


def _seen(over: asyncio.Future[BaseException]) -> None:
    if not over.cancelled():
        over.exception()


def _dropped(message: WSMessage) -> None:
    """What follows the end."""


class Upgraded(web.WebSocketResponse):
    """An upgrade whose frames go to an `Incoming`. Text stays as it was read, and nothing is compressed."""

    incoming: Incoming
    reader: WebSocketReader

    def __init__(self) -> None:
        super().__init__(max_msg_size=_TOO_LARGE_BYTES, compress=False, decode_text=False)

    async def write_eof(self, data: bytes = b"") -> None:
        """Nothing: who served the connection has ended it; aiohttp would try to write a close frame, and fail."""

    def _handshake(self, request: web.BaseRequest) -> Any:
        """Without the subprotocols, none of which is selected (protocol.md 1.2): aiohttp tells them on its log, and
        clients of browsers put their key there."""
        if hdrs.SEC_WEBSOCKET_PROTOCOL in request.headers:
            headers = request.headers.copy()
            headers.popall(hdrs.SEC_WEBSOCKET_PROTOCOL)
            request = request.clone(headers=headers)
        return super()._handshake(request)

    def _post_start(self, request: web.BaseRequest, protocol: str | None, writer: Any) -> None:
        """As in aiohttp, but for the queue."""
        self._ws_protocol, self._writer = protocol, writer
        self._reader = self.incoming = Incoming(request.protocol, asyncio.get_running_loop())
        self.reader = WebSocketReader(self.incoming, _TOO_LARGE_BYTES, compress=False, decode_text=False)
        request.protocol.set_parser(self.reader)
        request.protocol.keep_alive(False)
