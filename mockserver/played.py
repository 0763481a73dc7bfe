"""A session whose server side is a recording: what was sent then is sent again, each event after what it followed.

An event follows the client event that came last before it, by type and count; it keeps its delay. Acknowledgements
answer the acks that come. What a client does not send holds back what followed it, until `session.close`, which ends
the recording early as it would have ended the session.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from aiohttp import WSMessage, WSMsgType, web

from mockserver.app import SHUTDOWN_S
from mockserver.arming import make_listener
from mockserver.faults.actions import Script
from mockserver.proxy import ProxyServer
from mockserver.relay import Relay
from mockserver.upstream import MAX_FRAME_BYTES, Behind
from mockserver.wire import End, Event, Output, Received, Send, decode

ACK = "playback.ack"
ACKNOWLEDGED = "playback.acknowledged"
CLOSE = "session.close"


@dataclass(frozen=True)
class PlayedFrame:
    """One event of the recorded server, or the end of its connection."""

    after: tuple[str, int] | None
    """Client event it followed: type and which occurrence, from 1; None: the beginning."""
    delay_s: float
    event: Event | None
    """None: the end."""
    close_code: int | None = None
    """Of the end; None: the TCP connection ends without a close frame."""


class PlayedSession:
    """A recorded server (`mockserver.session_surface.SessionSurface`)."""

    def __init__(
        self, frames: Sequence[PlayedFrame], *, query: Mapping[str, str], ids: random.Random
    ) -> None:
        self._frames = [f for f in frames if f.event is None or f.event.get("type") != ACKNOWLEDGED]
        self._answer_to_ack = next(
            (f.event for f in frames if f.event is not None and f.event.get("type") == ACKNOWLEDGED), None
        )
        self._reader = Relay(query=query, ids=ids, forward=_nowhere, lost=_nothing, opened_s=0.0)
        self._next = 0
        self._sent_s = 0.0
        self._came: dict[tuple[str, int] | None, float] = {}
        self._counts: Counter[str] = Counter()
        self._over = False

    @property
    def id(self) -> str:
        """As recorded."""
        return self._reader.id

    @property
    def left(self) -> int:
        """Recorded events that were not sent."""
        return len(self._frames) - self._next

    def start(self, now_s: float) -> list[Output]:
        """The connection was accepted."""
        self._came[None] = self._sent_s = now_s
        return self._due(now_s)

    def receive(self, text: str | bytes, now_s: float) -> list[Output]:
        """A text frame was read."""
        outputs = self._reader.receive(text, now_s)
        name = next((o.name for o in outputs if isinstance(o, Received)), "")
        self._counts[name] += 1
        self._came.setdefault((name, self._counts[name]), now_s)
        if name == ACK and self._answer_to_ack is not None and not self._over:
            outputs.append(self._acknowledged(decode(text)))
        if name == CLOSE:
            self._skip_to_close()
        return outputs + self._due(now_s)

    def answer_again(self, text: bytes, now_s: float) -> bytes | None:
        """Never: what is sent is what was recorded."""
        return None

    def receive_binary(self, length_bytes: int, now_s: float) -> list[Output]:
        """A binary frame was read."""
        return self._reader.receive_binary(length_bytes, now_s)

    def on_timer(self, now_s: float) -> list[Output]:
        """Send what is due."""
        return self._due(now_s)

    def next_timer_s(self) -> float | None:
        """When the next event is due, if what it followed has come."""
        if self._over or self._next >= len(self._frames):
            return None
        return self._due_s(self._frames[self._next])

    def nothing_before(self, at_s: float) -> bool:
        """Surely nothing is due before."""
        due_s = self.next_timer_s()
        return due_s is None or at_s <= due_s

    def lost(self, now_s: float) -> list[Output]:
        """The connection is over."""
        self._over = True
        return []

    def stamp(self, send: Send) -> Event:
        """Events go out as recorded."""
        return send.event

    def told(self, event: Event) -> Mapping[str, Any]:
        """The journal's line for an event."""
        return self._reader.told(event)

    def direct(self, action: Script) -> None:
        """Raises TypeError: a recording cannot be directed."""
        raise TypeError(f"{type(action).__name__} cannot be carried out by a recording")

    # -- inside

    def _due_s(self, frame: PlayedFrame) -> float | None:
        came_s = self._came.get(frame.after)
        return None if came_s is None else max(came_s + frame.delay_s, self._sent_s)

    def _due(self, now_s: float) -> list[Output]:
        outputs: list[Output] = []
        while not self._over and self._next < len(self._frames):
            frame = self._frames[self._next]
            due_s = self._due_s(frame)
            if due_s is None or due_s > now_s:
                break
            self._next += 1
            self._sent_s = due_s
            if frame.event is None:
                self._over = True
                outputs.append(End(frame.close_code, ""))
            else:
                outputs.append(self._reader.from_server(orjson.dumps(frame.event), now_s))
        return outputs

    def _acknowledged(self, ack: Event) -> Send:
        assert self._answer_to_ack is not None
        event = {key: value for key, value in self._answer_to_ack.items() if key != "event_id"}
        inner = event.get("event")
        if isinstance(inner, dict):
            told = {key: ack[key] for key in ("item_id", "played_ms", "committed_ms") if key in ack}
            event = {**event, "event": {**inner, **told}}
        event["event_id"] = f"event_played_{self._counts[ACK]}"
        return Send(event, sequenced=False, payload=orjson.dumps(event))

    def _skip_to_close(self) -> None:
        """What the recorded server still said before its own close was never asked for here."""
        closing = [i for i, f in enumerate(self._frames) if f.after == (CLOSE, 1)]
        if closing and self._next < closing[0]:
            self._next = closing[0]


def _nowhere(payload: bytes, kind: WSMsgType) -> None:
    """There is no other server."""


def _nothing() -> None:
    """There is nothing to end elsewhere."""


class Player:
    """A port on which a recording is played to every client that comes."""

    def __init__(self, frames: Sequence[PlayedFrame]) -> None:
        self._frames = frames
        self._runner: web.AppRunner | None = None
        self._port = 0
        self.sessions: list[PlayedSession] = []

    @property
    def url(self) -> str:
        """Of the realtime endpoint; valid once started."""
        return f"ws://127.0.0.1:{self._port}/v1/realtime"

    async def start(self) -> None:
        """Listen on loopback."""
        app = web.Application()
        app.router.add_get("/v1/realtime", self._realtime)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_S, handle_signals=False)
        await self._runner.setup()
        listener = make_listener(("127.0.0.1", 0), ())
        self._port = int(listener.getsockname()[1])
        await web.SockSite(self._runner, listener).start()

    async def stop(self) -> None:
        """Stop listening; a second call does nothing."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _realtime(self, request: web.Request) -> web.StreamResponse:
        websocket = web.WebSocketResponse(max_msg_size=MAX_FRAME_BYTES, compress=False)
        await websocket.prepare(request)
        session = PlayedSession(self._frames, query=dict(request.query), ids=random.Random(0))
        self.sessions.append(session)
        loop = asyncio.get_running_loop()
        reading: asyncio.Task[WSMessage] | None = None
        try:
            if await _write(websocket, session.start(loop.time())):
                return websocket
            while True:
                reading = reading or loop.create_task(websocket.receive(), name="player reads")
                due_s = session.next_timer_s()
                wait_s = None if due_s is None else max(0.0, due_s - loop.time())
                await asyncio.wait({reading}, timeout=wait_s)
                outputs = session.on_timer(loop.time())
                if reading.done():
                    message, reading = reading.result(), None
                    if message.type is not WSMsgType.TEXT:
                        break
                    outputs += session.receive(message.data, loop.time())
                if await _write(websocket, outputs):
                    break
        finally:
            session.lost(loop.time())
            if reading is not None:
                reading.cancel()
                await asyncio.wait({reading})
        return websocket


async def _write(websocket: web.WebSocketResponse, outputs: Sequence[Output]) -> bool:
    """Write events; whether the connection has ended."""
    try:
        for output in outputs:
            if isinstance(output, Send):
                await websocket.send_frame(output.payload or orjson.dumps(output.event), WSMsgType.TEXT)
            elif isinstance(output, End):
                await websocket.close(code=output.code or 1000)
                return True
    except (ConnectionError, RuntimeError):
        return True  # the client has gone
    return False


class PlayedServer(ProxyServer):
    """A recording behind a proxy, so that it is seen, and can be disturbed, as a live server is."""

    def __init__(self, frames: Sequence[PlayedFrame], **how: Any) -> None:
        super().__init__(Behind("ws://127.0.0.1:9/v1/realtime"), **how)
        self.player = Player(frames)

    async def start(self) -> None:
        await self.player.start()
        self.behind = Behind(self.player.url)
        await super().start()

    async def stop(self) -> None:
        await super().stop()
        await self.player.stop()
