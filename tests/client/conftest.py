"""A scripted peer on a real socket, for tests of the client's session layer.

It speaks just enough of the protocol: a step loop driven by appends alone, one reply, and a handler a client event that
a test may replace. It shares no code with the client.
"""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from client.deadlines import Deadlines
from client.generate import SessionSettings
from client.media import Frame, Prepared, ReferenceVoice

Handler = Callable[["Session", dict[str, Any]], Awaitable[None]]

PCM_SECOND = b"\x10\x27" * 16_000


@dataclass
class Session:
    """One connection of the peer, and everything it saw."""

    peer: Peer
    ws: ServerConnection
    number: int
    received: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
    units: int = 0
    buffered_bytes: int = 0
    committed: bool = False
    spoke: int = 0
    ended_by: str = ""
    stopped: bool = False

    def of(self, name: str) -> list[dict[str, Any]]:
        """Received events of one type."""
        return [event for _, event in self.received if event["type"] == name]

    def times(self, name: str) -> list[float]:
        """When they came."""
        return [t for t, event in self.received if event["type"] == name]

    @property
    def names(self) -> list[str]:
        """Types in order, runs of the same type once."""
        names = [event["type"] for _, event in self.received]
        return [name for k, name in enumerate(names) if k == 0 or names[k - 1] != name]

    async def send(self, name: str, **fields: Any) -> None:
        await self.ws.send(json.dumps({"type": name, **fields}))

    async def unit(self) -> None:
        """The model decides one unit: listen, or speak as the peer's reply says."""
        k, self.units = self.units, self.units + 1
        reply = self.peer.reply
        if reply is None or not reply.at <= k < reply.at + len(reply.words):
            meta = {"model_listen": True, "reason": "model_listen"}
            await self.send("response.listen", response={"status": "listening", "metadata": meta})
            return
        word = reply.words[k - reply.at]
        rid = f"resp-{self.number}"
        if k == reply.at:
            await self.send("response.created", response_id=rid, response={"id": rid})
        audio = base64.b64encode(bytes(16_000)).decode()
        await self.send(f"response.{reply.family}.delta", response_id=rid, delta=audio, sample_rate_hz=8_000)
        await self.send(f"response.{reply.family}_transcript.delta", response_id=rid, delta=word)
        if k == reply.at + len(reply.words) - 1:
            await self.send("response.done", response_id=rid, response={"id": rid, "status": reply.status})

    async def stop_reading(self) -> None:
        """Read no further byte, and stay."""
        self.stopped = True
        self.ws.transport.pause_reading()
        await self.peer.release.wait()
        self.ws.transport.resume_reading()

    def reset(self) -> None:
        """End the TCP connection with RST."""
        sock = self.ws.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.ws.transport.abort()

    def drop(self) -> None:
        """End the TCP connection without a close frame, as the July server does."""
        self.ws.transport.close()


@dataclass(frozen=True)
class Reply:
    """One reply: which unit it starts on, a word a unit."""

    at: int = 1
    words: tuple[str, ...] = ("A cyclist", " passes.")
    status: str = "completed"
    family: str = "audio"


class Peer:
    """A server with one handler a client event. `on` replaces handlers by event type."""

    def __init__(
        self,
        *,
        reply: Reply | None = Reply(),
        on: dict[str, Handler] | None = None,
        rcvbuf: int | None = None,
    ) -> None:
        self.reply = reply
        self.on: dict[str, Handler] = {**DEFAULT, **(on or {})}
        self.rcvbuf = rcvbuf
        self.sessions: list[Session] = []
        self.release = asyncio.Event()
        self.url = ""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Peer]:
        listener = socket.socket()
        if self.rcvbuf:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.rcvbuf)
        listener.bind(("127.0.0.1", 0))
        async with serve(
            self._serve, sock=listener, compression=None, ping_interval=None, close_timeout=1
        ) as server:
            port = server.sockets[0].getsockname()[1]
            self.url = f"ws://127.0.0.1:{port}/v1/realtime"
            try:
                yield self
            finally:
                self.release.set()

    async def _serve(self, ws: ServerConnection) -> None:
        session = Session(self, ws, len(self.sessions) + 1)
        self.sessions.append(session)
        loop = asyncio.get_running_loop()
        try:
            async for text in ws:
                event = json.loads(text)
                session.received.append((loop.time(), event))
                handler = self.on.get(event["type"])
                if handler is not None:
                    await handler(session, event)
        except ConnectionClosed as closed:
            session.ended_by = f"{type(closed.__cause__).__name__}" if closed.__cause__ else "no close frame"
        else:
            session.ended_by = "close frame"


async def created(session: Session, event: dict[str, Any]) -> None:
    capabilities = {"implementation_level": "model_native_duplex", "chunk_period_ms": 1000}
    await session.send("session.created", session={"id": "s", "capabilities": capabilities})


async def appended(session: Session, event: dict[str, Any]) -> None:
    session.buffered_bytes += len(base64.b64decode(event["audio"]))
    if session.buffered_bytes >= 32_000:
        session.buffered_bytes -= 32_000
        await session.unit()


async def committed(session: Session, event: dict[str, Any]) -> None:
    session.committed = True
    await session.send("input_audio_buffer.committed", item_id="item_1", event={})
    if session.buffered_bytes:
        session.buffered_bytes = 0
        await session.unit()


async def acked(session: Session, event: dict[str, Any]) -> None:
    await session.send("playback.acknowledged", event={})


async def closed(session: Session, event: dict[str, Any]) -> None:
    await session.send("session.closed", event={})
    await session.ws.close()


DEFAULT: dict[str, Handler] = {
    "session.update": created,
    "input_audio_buffer.append": appended,
    "input_audio_buffer.commit": committed,
    "playback.ack": acked,
    "session.close": closed,
}


@dataclass(frozen=True)
class Kit:
    """What a test of the session layer needs, by name."""

    Peer: type[Peer] = Peer
    Reply: type[Reply] = Reply

    def clip(
        self, seconds: float = 3.0, *, frames: bool = True, sample_id: str = "1", jpeg_bytes: int = 2_000
    ) -> Prepared:
        """A clip of loud audio with a JPEG a second."""
        pcm = (PCM_SECOND * (int(seconds) + 1))[: int(seconds * 16_000) * 2]
        jpeg = b"\xff\xd8" + bytes(jpeg_bytes)
        stills = tuple(Frame(float(t), jpeg) for t in range(int(-(-seconds // 1)))) if frames else ()
        return Prepared("RTD_Omni", sample_id, pcm, stills, seconds)

    def settings(self, url: str, **changes: Any) -> SessionSettings:
        """Settings of a session; `deadlines` takes a dict of overrides."""
        deadlines = Deadlines(**{"request_s": 400.0, **changes.pop("deadlines", {})})
        voice = ReferenceVoice("data:audio/wav;base64,AAAA", "00")
        return replace(SessionSettings(url=url, model="m/x", ref_audio=voice, deadlines=deadlines), **changes)


@pytest.fixture
def kit() -> Kit:
    """Peer, clip and settings."""
    return Kit()
