"""Plays the steps of a probe on one connection and writes down what is seen; nothing here judges."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pybase64
from websockets.exceptions import InvalidHandshake

from client import wire
from client.connection import Connection, ConnectionLost
from client.deadlines import Deadlines, Signal, settle
from client.media import ReferenceVoice
from conformance.probing.transcript import MAX_SEEN, Kind, Seen, Transcript, logical, without_media
from scenarios.probing import ProbeSpec, ProbeStep

DEFAULT_RATE_HZ = 24_000
END_WAIT_S = 5.0
"""How long a server may take to end the connection after `session.closed`."""


class ProbeFailed(Exception):
    """The probe could not be played; the text says at which step, and why."""


@dataclass(frozen=True)
class Asking:
    """Where a probe is played, and with what."""

    url: str
    model: str
    voice: ReferenceVoice
    pcm: bytes
    """The clip: 16 kHz mono PCM16."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    """Of a wss URL: whom to trust; None: the system's trust store."""
    deadlines: Deadlines = field(default_factory=Deadlines)
    ack_every_s: float | None = None
    """Between two rounds of acks of what was heard, from `session.created` to the close; None: only steps ack."""


async def play(spec: ProbeSpec, asking: Asking) -> Transcript:
    """Play a probe's steps in order.

    Returns: what was seen, also when the server ended the connection on the way.
    Raises ProbeFailed: no connection, a write that sticks, or a server that floods.
    """
    prober = _Prober(asking)
    try:
        for step in spec.steps:
            await prober.step(step)
            if prober.over:
                break
    except (TimeoutError, OSError, InvalidHandshake) as error:
        if not isinstance(error, ConnectionLost):
            raise ProbeFailed(f"{prober.at}: {type(error).__name__}: {error}") from error
    finally:
        await prober.leave()
    if len(prober.transcript.seen) >= MAX_SEEN:
        raise ProbeFailed(f"{prober.at}: more than {MAX_SEEN} events")
    return prober.transcript


class _Prober:
    def __init__(self, asking: Asking) -> None:
        self.asking = asking
        self.transcript = Transcript()
        self.at = "begin"
        self._connection: Connection | None = None
        self._reader: asyncio.Task[None] | None = None
        self._acks: asyncio.Task[None] | None = None
        self._changed = Signal()
        self._rate_hz = DEFAULT_RATE_HZ
        self._period_ms = 1000
        self._input_ms = 0
        self._heard: dict[str, int] = {}
        self._said_goodbye = False
        self.over = False
        """The session or its connection has ended."""

    async def step(self, step: ProbeStep) -> None:
        """Do one step, noted in the transcript."""
        self.at = step.do
        self._note("step", step.do, {})
        match step.do:
            case "open":
                await self._open(with_voice=step.ref_audio is not False)
            case "stream":
                await self._stream(step.piece_ms or self._period_ms)
            case "commit":
                await self._send(wire.commit())
            case "silence":
                await self._silence(step.units or 1)
            case "wait":
                await self._until(None, step.seconds or 0.0)
            case "await":
                await self._until(step.event, step.seconds or 0.0)
            case "ack":
                await self._ack()
            case "send":
                await self._send({"type": step.event or ""})
            case "close":
                await self._close()

    async def leave(self) -> None:
        """End what is still open: the session by its event, so that its slot is free, then the connection."""
        if self._connection is None:
            return
        self._stop_acks()
        with contextlib.suppress(ConnectionLost, TimeoutError):
            if not self.over and not self._said_goodbye:
                await self._close()
        try:
            await self._connection.close(self.asking.deadlines.handshake_s)
        except TimeoutError:
            self._connection.abort()
        if self._reader is not None:
            for task in await settle([self._reader], self.asking.deadlines.grace_s):
                task.cancel()

    async def _open(self, *, with_voice: bool) -> None:
        asking = self.asking
        url = wire.realtime_url(asking.url, asking.model)
        self._connection = await Connection.open(
            url, deadlines=asking.deadlines, headers=asking.headers, tls=asking.tls, name="probe"
        )
        self._reader = asyncio.create_task(self._read(self._connection), name="probe-reader")
        update = wire.session_update(
            model=asking.model,
            ref_audio=asking.voice.data_url,
            instructions="Streaming Omni Conversation.",
            extra_body={},
        )
        if not with_voice:
            del update["session"]["ref_audio"]
        await self._send(update)
        await self._until("session.created", asking.deadlines.created_s, or_else="error")
        if with_voice and self.transcript.first("session.created") is None:
            told = "; ".join(code for code, _ in self.transcript.errors()) or self.transcript.connection_end
            raise ProbeFailed(f"open: no session.created ({told})")
        if not with_voice:
            await self._until(None, END_WAIT_S)
        elif asking.ack_every_s is not None:
            self._acks = asyncio.create_task(self._keep_acking(asking.ack_every_s), name="probe-acks")

    async def _ack(self) -> None:
        for reply, audio_ms in list(self._heard.items()):
            await self._send(wire.playback_ack(reply, audio_ms))

    async def _keep_acking(self, every_s: float) -> None:
        with contextlib.suppress(ConnectionLost, TimeoutError):  # the next step tells
            while not self.over:
                await asyncio.sleep(every_s)
                await self._ack()

    def _stop_acks(self) -> None:
        if self._acks is not None:
            self._acks.cancel()
            self._acks = None

    async def _stream(self, piece_ms: int) -> None:
        """The clip in pieces, each at the time at which its last sample would have been spoken."""
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        size = wire.BYTES_PER_MS * piece_ms
        for begin in range(0, len(self.asking.pcm), size):
            piece = self.asking.pcm[begin : begin + size]
            duration_ms = len(piece) // wire.BYTES_PER_MS
            self._input_ms += duration_ms
            await self._send(wire.append(piece, duration_ms=duration_ms, audio_end_ms=self._input_ms))
            due_s += duration_ms / 1000.0
            await self._until(None, due_s - loop.time())
            if self.over:
                return

    async def _silence(self, units: int) -> None:
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        for _ in range(units):
            self._input_ms += self._period_ms
            await self._send(wire.silence_append(self._period_ms, audio_end_ms=self._input_ms))
            self.transcript.padded += 1
            due_s += self._period_ms / 1000.0
            await self._until(None, due_s - loop.time())
            if self.over:
                return

    async def _close(self) -> None:
        self._said_goodbye = True
        self._stop_acks()
        await self._send(wire.session_close())
        await self._until("session.closed", self.asking.deadlines.close_s)
        if not self.over:
            await self._until_over(END_WAIT_S)

    async def _send(self, event: wire.Event) -> None:
        if self._connection is None:
            raise ProbeFailed(f"{self.at}: there is no connection")
        kept = {key: value for key, value in event.items() if key not in ("audio", "session")}
        self._note("sent", str(event["type"]), kept)
        await self._connection.send(event, within_s=self.asking.deadlines.write_s)

    async def _until(self, name: str | None, seconds: float, *, or_else: str | None = None) -> None:
        """Wait for an event that comes from now on, at most so long; None: only for the time to pass."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + seconds
        looked = len(self.transcript.seen)
        while not self.over and loop.time() < until_s:
            fresh, looked = self.transcript.seen[looked:], len(self.transcript.seen)
            if name is not None and any(s.kind == "received" and s.name in (name, or_else) for s in fresh):
                return
            await self._changed.wait_until(until_s)

    async def _until_over(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        until_s = loop.time() + seconds
        while not self.over and loop.time() < until_s:
            await self._changed.wait_until(until_s)

    async def _read(self, connection: Connection) -> None:
        try:
            while len(self.transcript.seen) < MAX_SEEN:
                frame = await connection.receive()
                event = wire.read_event(frame) if isinstance(frame, str) else None
                if event is not None:
                    self._take(event)
        except ConnectionLost as lost:
            if lost.code == 1006:
                self.transcript.connection_end = "TCP end without a close frame"
            else:
                self.transcript.connection_end = f"close frame {lost.code}"
        self.over = True
        self._changed.set()

    def _take(self, event: wire.Event) -> None:
        name = logical(event["type"])
        audio_ms = 0
        if name == "session.created":
            self._period_ms = wire.chunk_period_of(event) or self._period_ms
        elif name == "response.created":
            self._heard.setdefault(wire.response_id_of(event) or "", 0)
        elif name == "audio.delta":
            audio_ms = self._audio_ms(event)
            reply = wire.response_id_of(event) or ""
            self._heard[reply] = self._heard.get(reply, 0) + audio_ms
        self._note("received", name, without_media(event), spelling=event["type"], audio_ms=audio_ms)
        self._changed.set()

    def _audio_ms(self, event: wire.Event) -> int:
        rate_hz = event.get("sample_rate_hz")
        if isinstance(rate_hz, int) and rate_hz > 0:
            self._rate_hz = rate_hz
        data = event.get("delta") or event.get("audio")
        if not isinstance(data, str):
            return 0
        with contextlib.suppress(ValueError):
            return len(pybase64.b64decode(data, validate=True)) * 1000 // (self._rate_hz * 2)
        return 0

    def _note(
        self, kind: Kind, name: str, event: Mapping[str, Any], *, spelling: str = "", audio_ms: int = 0
    ) -> None:
        now_s = asyncio.get_running_loop().time()
        self.transcript.seen.append(Seen(now_s, kind, name, event, spelling, audio_ms, self._input_ms))
