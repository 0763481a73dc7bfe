"""Hostile clients of the mock server: what is drawn of them, and the bytes that they send."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from typing import Any

from conformance.fuzz.dice import Dice

Data = dict[str, Any]

QUERIES = (
    "duplex=1&model=m&minicpmo45_native_duplex=1&autostart=0",
    "duplex=1&model=m&native_duplex=1&autostart=0",
    "",
    "duplex=0",
    "duplex=1&duplex=0&model=%00%ff",
    "model=" + "m" * 3000,
)
PROFILES = ("july", "input-driven", "engine")
ENDS = ("wait", "close", "abort", "fin")
"""How it leaves: it waits, closes as RFC 6455 says, resets the connection, ends its own direction."""
TYPES = (
    "session.update",
    "input_audio_buffer.append",
    "input_audio_buffer.commit",
    "input_audio_buffer.clear",
    "playback.ack",
    "response.cancel",
    "response.create",
    "session.close",
    "session.heartbeat",
    "session.resume",
    "turn.signal",
    "conversation.item.truncate",
    "conversation.item.create",
    "conversation.item.retrieve",
    "input.text.append",
    "barge_in",
    "no.such.event",
    "",
)
FIELDS = (
    "audio",
    "duration_ms",
    "audio_end_ms",
    "session",
    "response_id",
    "played_ms",
    "video_frames",
    "final",
)
VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    10**12,
    1e308,
    "",
    "text",
    "A" * 5000,
    [],
    {},
    [[]] * 50,
    {"extra_body": "no object", "modalities": 7},
    "data:audio/wav;base64,UklGRg==",
    "\u0000",
)
TEXTS = (
    "",
    "null",
    "[]",
    "{",
    '"x"',
    "[" * 3000,
    "{" + '"a":{' * 900,
    "1e999",
    "NaN",
    r'{"type": "session.update", "session": {"voice": "\ud83d"}}',  # half of a pair, which no YAML can hold
)
SESSION: Data = {
    "modalities": ["audio", "text"],
    "ref_audio": "data:audio/wav;base64,UklGRg==",
    "extra_body": {"auto_response": True, "minicpmo45_native_duplex": True, "native_duplex": True},
}
RAW = (
    "8180000000007b",  # a length that its bytes do not have
    "817d",  # unmasked
    "8005000000000102030405",  # a continuation of nothing
    "c18000000000",  # a reserved bit
    "838000000000",  # an opcode that nobody knows
    "898000000000",  # a ping
    "8affffff",  # a pong that is too long
    "818101020304ff",  # no UTF-8
    "81ff7fffffffffffffff00000000",  # a frame of nine exabytes
    "81ff000000000400000100000000",  # a frame just above the limit
    "0180000000007b",  # a fragment whose end never comes
    "474554202f20485454502f312e310d0a0d0a",  # HTTP in the middle of it
)


def hostile_client(dice: Dice) -> Data:
    """A client's connection and its steps; what is drawn is plain data that a file can hold."""
    greets = dice.chance(60)
    steps = [step(dice) for _ in range(dice.number(0, 12))]
    if greets:
        steps.insert(0, {"event": {"type": "session.update", "session": SESSION}})
    return {
        "profile": dice.pick(PROFILES),
        "query": QUERIES[0] if dice.chance(80) else dice.pick(QUERIES),
        "reads": not dice.chance(15),
        "steps": steps,
        "end": dice.pick(ENDS),
    }


def step(dice: Dice) -> Data:
    """One thing that it does."""
    kind = dice.weighted(
        (
            (6, "event"),
            (4, "append"),
            (3, "odd"),
            (2, "raw"),
            (2, "text"),
            (2, "wait"),
            (1, "binary"),
            (1, "flood"),
        )
    )
    if kind == "append":
        return {"append_ms": dice.pick((1000, 1, 250, 20_000, 0)), "times": dice.pick((1, 1, 3))}
    if kind == "raw":
        return {"raw": dice.pick(RAW)}
    if kind == "text":
        return {"text": dice.pick(TEXTS)}
    if kind == "wait":
        return {"wait_s": dice.pick((0.3, 1.0, 11.0, 70.0))}
    if kind == "binary":
        return {"binary_bytes": dice.pick((0, 1, 70_000))}
    if kind == "flood":
        return {"event": {"type": dice.pick(TYPES)}, "times": 300}
    if kind == "event":
        return {"event": {"type": dice.pick(TYPES)}}
    event: Data = {"type": dice.pick(TYPES)}
    for _ in range(dice.number(1, 3)):
        event[dice.pick(FIELDS)] = dice.pick(VALUES)
    return {"event": event}


class Wire:
    """A WebSocket client that knows no better: frames are written by hand, whatever they hold."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.sent_bytes = 0
        self.got_bytes = 0
        self.types: list[str] = []
        """Types of the events that came."""
        self.status = 0
        """HTTP status of the upgrade."""
        self.ended = asyncio.Event()
        """The server ended the connection."""

    @classmethod
    async def open(cls, port: int, query: str) -> Wire:
        """Ask for the upgrade."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 26)
        self = cls(reader, writer)
        key = base64.b64encode(b"sixteen bytes it").decode()  # a nonce that nobody has to guess
        self.write(
            f"GET /v1/realtime?{query} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        return self

    def write(self, data: bytes) -> None:
        """Bytes as they are."""
        self.sent_bytes += len(data)
        if not self._writer.is_closing():
            self._writer.write(data)

    def frame(self, payload: bytes, opcode: int = 1) -> None:
        """One whole frame, masked with zeros."""
        size = len(payload)
        if size < 126:
            head = bytes([0x80 | opcode, 0x80 | size])
        elif size < 65_536:
            head = bytes([0x80 | opcode, 0xFE]) + size.to_bytes(2, "big")
        else:
            head = bytes([0x80 | opcode, 0xFF]) + size.to_bytes(8, "big")
        self.write(head + bytes(4) + payload)

    def event(self, event: Data) -> None:
        """One event as JSON."""
        self.frame(json.dumps(event).encode())

    async def read(self) -> None:
        """Read until the end and keep the types of what comes."""
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
            self.got_bytes += len(head)
            self.status = int(head.split(b" ", 2)[1])
            while True:
                first, second = await self._reader.readexactly(2)
                size = second & 0x7F
                if size == 126:
                    size = int.from_bytes(await self._reader.readexactly(2), "big")
                elif size == 127:
                    size = int.from_bytes(await self._reader.readexactly(8), "big")
                payload = await self._reader.readexactly(size)
                self.got_bytes += size + 2
                if first & 0x0F == 1:
                    self.types.append(str(json.loads(payload).get("type")))
                elif first & 0x0F == 8:
                    self.types.append("close frame")
        except (asyncio.IncompleteReadError, ConnectionError):
            self.ended.set()

    async def wait_ended(self, seconds: float) -> bool:
        """Whether the server ends it within so many seconds."""
        waiting = asyncio.ensure_future(self.ended.wait())
        await asyncio.wait({waiting}, timeout=seconds)
        waiting.cancel()
        return self.ended.is_set()

    def abort(self) -> None:
        """Reset the connection."""
        self._writer.transport.abort()

    def fin(self) -> None:
        """End our direction alone."""
        if not self._writer.is_closing() and self._writer.can_write_eof():
            with contextlib.suppress(OSError):  # the server has reset it already
                self._writer.write_eof()
