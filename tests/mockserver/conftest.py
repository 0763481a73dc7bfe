"""A client of paper for sessions without I/O, and a bare one for the wire."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pybase64
import pytest
import websockets

from mockserver.app import MockServer
from mockserver.profiles import PROFILES, Profile
from mockserver.session import ServerSession
from mockserver.wire import End, Output, Send, Unit, Violation
from scenarios.faults import FaultBase
from scenarios.model import Reply

QUERY = {"duplex": "1", "model": "openbmb/MiniCPM-o-4_5", "autostart": "0", "minicpmo45_native_duplex": "1"}
SESSION = {
    "modalities": ["audio", "text"],
    "ref_audio": "data:audio/wav;base64,UklGRg==",
    "turn_detection": None,
    "extra_body": {"auto_response": True, "minicpmo45_native_duplex": True},
}


def pcm(ms: int, *, loud: bool = True) -> str:
    """Base64 of a mono 16 kHz PCM16 append."""
    samples = np.full(ms * 16, 3000 if loud else 0, dtype="<i2")
    return pybase64.b64encode(samples.tobytes()).decode()


class Talk:
    """Drives a session through time and keeps what it did."""

    def __init__(
        self, profile: Profile, replies: Sequence[Reply], query: dict[str, str], decision_s: float
    ) -> None:
        self.session = ServerSession(
            profile, replies, query=query, ids=random.Random(1), decision_s=decision_s
        )
        self.now_s = 0.0
        self.end_ms = 0
        self.outputs: list[tuple[float, Output]] = []
        self._take(self.session.start(0.0))

    def _take(self, outputs: list[Output]) -> None:
        for output in outputs:
            if isinstance(output, Send):
                self.session.stamp(output)
            self.outputs.append((self.now_s, output))

    def until(self, at_s: float) -> Talk:
        """Let time pass."""
        while (due_s := self.session.next_timer_s()) is not None and due_s <= at_s:
            self.now_s = max(self.now_s, due_s)
            self._take(self.session.on_timer(self.now_s))
        self.now_s = at_s
        return self

    def send(self, name: str, **fields: Any) -> Talk:
        """One client event, now."""
        return self.send_text(json.dumps({"type": name, **fields}))

    def send_text(self, text: str | bytes) -> Talk:
        self._take(self.session.receive(text, self.now_s))
        return self

    def binary(self) -> Talk:
        self._take(self.session.receive_binary(4, self.now_s))
        return self

    def open(self, **fields: Any) -> Talk:
        """A well-formed session.update."""
        return self.send("session.update", session={**SESSION, **fields})

    def append(self, ms: int = 1000, *, loud: bool = True, **fields: Any) -> Talk:
        """A well-formed append, unless fields say otherwise."""
        self.end_ms += ms
        return self.send(
            "input_audio_buffer.append",
            **{"audio": pcm(ms, loud=loud), "duration_ms": ms, "audio_end_ms": self.end_ms, **fields},
        )

    def commit(self) -> Talk:
        return self.send("input_audio_buffer.commit", final=True)

    @property
    def timed(self) -> list[tuple[float, dict[str, Any]]]:
        """Everything sent so far, with times."""
        return [(at_s, out.event) for at_s, out in self.outputs if isinstance(out, Send)]

    @property
    def events(self) -> list[dict[str, Any]]:
        return [event for _, event in self.timed]

    @property
    def names(self) -> list[str]:
        return [event["type"] for event in self.events]

    def of(self, name: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == name]

    def times(self, name: str) -> list[float]:
        return [round(at_s, 6) for at_s, event in self.timed if event["type"] == name]

    @property
    def units(self) -> list[str]:
        """Cause and decision of each unit."""
        return [f"{o.data['cause']} {o.data['decision']}" for _, o in self.outputs if isinstance(o, Unit)]

    @property
    def violations(self) -> list[str]:
        return [f"{o.section} {o.rule}" for _, o in self.outputs if isinstance(o, Violation)]

    @property
    def ends(self) -> list[End]:
        return [o for _, o in self.outputs if isinstance(o, End)]

    @property
    def errors(self) -> list[str | None]:
        return [e["error"]["code"] if isinstance(e["error"], dict) else e["code"] for e in self.of("error")]

    def forget(self) -> Talk:
        """Look only at what comes from here."""
        self.outputs.clear()
        return self


MakeTalk = Callable[..., Talk]


@pytest.fixture
def talk() -> MakeTalk:
    """A connection just accepted: talk(*replies, profile=..., query=..., decision_s=...)."""

    def make(
        *replies: Reply,
        profile: str | Profile = "july",
        query: dict[str, str] | None = None,
        decision_s: float = 0.05,
    ) -> Talk:
        chosen = PROFILES[profile] if isinstance(profile, str) else profile
        return Talk(chosen, replies, QUERY if query is None else query, decision_s)

    return make


class Bare:
    """A client that is nothing but `websockets` and a list of what came."""

    def __init__(self, url: str, *, pings: bool = True) -> None:
        self._url = url
        self._ping_s = 20 if pings else None
        self.events: list[tuple[float, dict[str, Any]]] = []
        self.closed: websockets.ConnectionClosed | None = None
        self.end_ms = 0

    async def __aenter__(self) -> Bare:
        self._loop = asyncio.get_running_loop()
        self.socket = await websockets.connect(
            f"{self._url}?{urlencode(QUERY)}",
            compression=None,
            proxy=None,
            max_size=None,
            ping_interval=self._ping_s,
        )
        self._reader = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.socket.transport.abort()
        await self._reader

    async def _read(self) -> None:
        try:
            while True:
                event = json.loads(await self.socket.recv())
                self.events.append((self._loop.time(), event))
        except websockets.ConnectionClosed as closed:
            self.closed = closed

    async def send(self, name: str, **fields: Any) -> None:
        await self.socket.send(json.dumps({"type": name, **fields}))

    async def open(self) -> None:
        await self.send("session.update", session=SESSION)
        await asyncio.sleep(0.01)

    async def append(self, ms: int = 1000, *, frame_bytes: int = 0) -> None:
        self.end_ms += ms
        fields: dict[str, Any] = {"audio": pcm(ms), "duration_ms": ms, "audio_end_ms": self.end_ms}
        if frame_bytes:
            fields["video_frames"] = [pybase64.b64encode(b"\xff\xd8" + bytes(frame_bytes)).decode()]
        await self.send("input_audio_buffer.append", **fields)

    async def ended(self) -> None:
        """Wait for the connection's end."""
        await asyncio.wait({self._reader}, timeout=1000)
        assert self._reader.done()

    @property
    def names(self) -> list[str]:
        return [event["type"] for _, event in self.events]

    def times(self, name: str) -> list[float]:
        return [at_s for at_s, event in self.events if event["type"] == name]


@asynccontextmanager
async def serving(*faults: FaultBase, reply: Reply | None = None, **how: Any) -> AsyncIterator[MockServer]:
    """A started server, stopped at the end."""
    server = MockServer(
        profile=how.pop("profile", "july"), replies=[reply] if reply else [], faults=faults, seed=1, **how
    )
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@pytest.fixture
def serve() -> Callable[..., AbstractAsyncContextManager[MockServer]]:
    return serving


@pytest.fixture
def bare() -> type[Bare]:
    return Bare
