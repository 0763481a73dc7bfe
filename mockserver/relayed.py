"""The client's side of a relayed connection: what is not ours to answer goes to the server, its answers come back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from aiohttp import WSMessage, WSMsgType
from aiohttp.base_protocol import BaseProtocol

from mockserver.connection import Connection
from mockserver.faults.actions import CloseTcp, Control, PauseReading
from mockserver.relay import Relay
from mockserver.wire import Output


class RelayedConnection(Connection):
    """A connection whose events come from another server, at any time.

    Attributes:
        peer_frame: takes the client's pings, pongs, binary and close frames.
    """

    def __init__(self, *args: Any, peer_frame: Callable[[WSMessage], None], **named: Any) -> None:
        super().__init__(*args, **named)
        self.peer_frame = peer_frame
        self._untold: deque[tuple[bytes, float]] = deque()

    def feed(self, outputs: list[Output]) -> None:
        """What the server does now."""
        if self.info.ended_s is None:
            self._take(outputs, self._loop.time())

    def answer(self, output: Control) -> None:
        """The server's answer to a ping or a close frame, or its end."""
        if self.info.ended_s is None:
            self._answer(output)

    def write_frame(self, payload: bytes, kind: WSMsgType) -> None:
        """A frame that is no event, such as a ping of the server."""
        if not self.wire.ended and not self._close_sent:
            self.wire.write(payload, kind)
            self.wire.flush()

    def reset(self) -> None:
        """The server's end was a reset; so is this."""
        if not self._transport.is_closing():
            self.ended("server", "reset")
            self.wire.reset()

    @property
    def held(self) -> bool:
        """A fault keeps this client from being read."""
        return self.reading.paused

    async def drained(self) -> None:
        """Wait while the client leaves unread what was written to it."""
        protocol = self._ending.protocol
        if isinstance(protocol, BaseProtocol) and protocol.writing_paused and self.info.ended_s is None:
            try:
                await protocol._drain_helper()
            except ConnectionError:
                return  # it has gone, and takes nothing any more

    def hold_reading(self, held: bool) -> None:
        """Read no more than the server takes."""
        if held:
            self.reading.hold("server", PauseReading(False), _unproven)
        else:
            self.reading.let_go("server")
            self.handle_unhandled()

    def _on_message(self, message: WSMessage) -> None:
        now_s = self._loop.time()
        if self.reading.paused:
            self._unhandled.append(message)
            return
        if message.type is WSMsgType.TEXT:
            self._on_text(message.data, now_s)
            return
        self._tell()
        if message.type is WSMsgType.BINARY:
            self._take(self.session.receive_binary(len(message.data), now_s), now_s)
        elif message.type is WSMsgType.CLOSE:
            self.info.client_close_code = int(message.data or 1005)
            if self._close_sent:
                self._answer(CloseTcp())
            else:
                self.ended("client", "close_frame")
                self.forget_unsent()
        self.peer_frame(message)

    def _on_text(self, data: bytes, now_s: float) -> None:
        """Without a fault nothing depends on what an event says: it is on its way before it is read for the journal."""
        if self.faults.runs or not isinstance(self.session, Relay):
            self._take(self.session.receive(data, now_s), now_s)
            return
        self.session.pass_on(data)
        self._untold.append((data, now_s))
        if len(self._untold) == 1:
            self._loop.call_soon(self._tell)  # behind the writer's task, which was woken just now

    def _tell(self) -> None:
        while self._untold:
            data, now_s = self._untold.popleft()
            assert isinstance(self.session, Relay)
            self._take(self.session.tell(data, now_s), now_s)

    def _over(self) -> None:
        self._tell()
        super()._over()


def _unproven(evidence: dict[str, Any]) -> None:
    """Holding the client back because the server does is no fault of ours, and proves none."""
