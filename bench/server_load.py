"""What the server alone carries, driven over loopback by a client in another process that knows only the wire.

* short: sessions a second with three units, a reply, acks, a commit and a close, each message sent when the one before
  was answered. The same against a bare aiohttp WebSocket handler that sends the same frames, recorded from the server
  before: no JSON, no checks, no journal. The server checks all it reads and writes its journal to a file, as
  `conformance serve --journal` does (`server_least.py`: what of that no server could leave out). CPU figures are of the
  server's process, kernel included, and comparable on a busy machine; those by the wall are not.
* realtime: many sessions at once, out of step, a unit with a JPEG a second and four acks; the server has one core. How
  much later than its model time an answer comes, and the process's peak memory.
* growth: the process's memory after half and after all of many short sessions.

Prints; asserts nothing.
Usage: python bench/server_load.py [short] [realtime] [growth] [--sessions N] [--rounds N] [--seconds S] [--many N]
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import multiprocessing
import os
import platform
import struct
import tempfile
import time
from importlib.metadata import version
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

import pybase64
from aiohttp import web

from conformance.pool import freeze_once
from conformance.serve_journal import ServeJournal
from mockserver.app import MockServer
from mockserver.journal import Journal
from scenarios.clips import make_frames, make_pcm
from scenarios.model import Clip, Reply

QUERY = "/v1/realtime?duplex=1&model=bench&autostart=0&minicpmo45_native_duplex=1"
DECISION_MS = 1
UNITS = 3
AT_ONCE = 8
REPLY = Reply(starts_at_unit=1, units=2, text="A person walks in. The door closes.")
OPENING = {
    "type": "session.update",
    "session": {
        "modalities": ["audio", "text"],
        "ref_audio": "data:audio/wav;base64," + "A" * 40_000,
        "extra_body": {"auto_response": True, "minicpmo45_native_duplex": True},
    },
}

# -- the servers, each in a process of its own


def serve(pipe: Pipe, kind: str, core: int | None, journal: str, frames: list[list[bytes]]) -> None:
    """Tells its port, then (CPU seconds, resident bytes, peak bytes) whenever it is asked."""
    if core is not None:
        os.sched_setaffinity(0, {core})

    async def main() -> None:
        port = await (_mock(journal) if kind == "mock" else _bare(frames))
        loop, stop = asyncio.get_running_loop(), asyncio.Event()

        def answer() -> None:
            if pipe.recv() == "stop":
                stop.set()
            else:
                pipe.send((time.process_time(), _memory("VmRSS"), _memory("VmHWM")))

        loop.add_reader(pipe.fileno(), answer)
        pipe.send(port)
        await stop.wait()

    asyncio.run(main())


async def _mock(journal: str) -> int:
    file = io.FileIO(journal, "ab")
    server = MockServer(
        profile="input-driven",
        replies=[REPLY],
        decision_ms=DECISION_MS,
        max_sessions=100_000,
        journal=Journal(ServeJournal(file).entry, keep=False),
        keep_connections=1000,
    )
    await server.start()
    freeze_once()  # as `conformance serve` does
    return int(server.url.split("/v1/")[0].rpartition(":")[2])


async def _bare(frames: list[list[bytes]]) -> int:
    async def handle(request: web.Request) -> web.WebSocketResponse:
        websocket = web.WebSocketResponse(max_msg_size=0, compress=False)
        await websocket.prepare(request)
        step = 0
        async for _ in websocket:
            for frame in frames[step]:
                await websocket.send_frame(frame, 1)
            step += 1
            if step == len(frames):
                break
        return websocket

    app = web.Application()
    app.router.add_get("/v1/realtime", handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return int(runner.addresses[0][1])


def _memory(what: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) * 1024


class Server:
    """One of them, seen from here."""

    def __init__(self, kind: str, journal: Path, core: int | None = None, frames: Any = ()) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, kind, core, str(journal), list(frames)))
        self._process.start()
        self.port: int = self._pipe.recv()

    def look(self) -> tuple[float, int, int]:
        """CPU seconds, resident bytes, peak bytes."""
        self._pipe.send("look")
        seen: tuple[float, int, int] = self._pipe.recv()
        return seen

    def stop(self) -> None:
        self._pipe.send("stop")
        self._process.join(10)


# -- the client


def masked(event: dict[str, Any]) -> bytes:
    """A frame, masked with zeros: what a client has to pay for is not the question here."""
    payload = json.dumps(event).encode()
    if len(payload) < 126:
        return struct.pack("!BB", 0x81, 0x80 | len(payload)) + bytes(4) + payload
    if len(payload) < 65536:
        return struct.pack("!BBH", 0x81, 0xFE, len(payload)) + bytes(4) + payload
    return struct.pack("!BBQ", 0x81, 0xFF, len(payload)) + bytes(4) + payload


def appends(units: int) -> list[bytes]:
    """Frames of a second of PCM and a JPEG of 16 kB each."""
    clip = Clip(seconds=float(units), frame_bytes=16_000)
    pcm, jpegs = make_pcm(clip, 1, "1"), make_frames(clip, 1, "1")
    return [
        masked(
            {
                "type": "input_audio_buffer.append",
                "audio": pybase64.b64encode(pcm[unit * 32_000 : (unit + 1) * 32_000]).decode(),
                "input_audio_format": "pcm16",
                "sample_rate_hz": 16_000,
                "duration_ms": 1000,
                "audio_end_ms": 1000 * (unit + 1),
                "video_frames": [pybase64.b64encode(jpegs[unit]).decode()],
            }
        )
        for unit in range(units)
    ]


class Peer(asyncio.Protocol):
    """A connection that knows frames, and of events how they begin."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.response_id = ""
        self._data = bytearray()
        self._upgraded = False
        self._waiter: asyncio.Future[None] | None = None
        self._over = False

    @classmethod
    async def connect(cls, port: int) -> Peer:
        loop = asyncio.get_running_loop()
        transport, peer = await loop.create_connection(cls, "127.0.0.1", port)
        peer.write = transport.write  # type: ignore[method-assign]
        peer.close = transport.close  # type: ignore[method-assign]
        transport.write(
            f"GET {QUERY} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode()
        )
        while not peer._upgraded:
            await peer.more()
        return peer

    def write(self, data: bytes) -> None:
        """The transport's."""

    def close(self) -> None:
        """The transport's."""

    def data_received(self, data: bytes) -> None:
        self._data += data
        if not self._upgraded:
            _, found, rest = bytes(self._data).partition(b"\r\n\r\n")
            if not found:
                return
            self._upgraded, self._data = True, bytearray(rest)
        self._cut()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._over = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _cut(self) -> None:
        data, at = self._data, 0
        while len(data) - at >= 2:
            length, start = data[at + 1], at + 2
            if length == 126:
                length, start = int.from_bytes(data[at + 2 : at + 4], "big"), at + 4
            elif length == 127:
                length, start = int.from_bytes(data[at + 2 : at + 10], "big"), at + 10
            if len(data) < start + length:
                break
            payload = bytes(data[start : start + length])
            if payload.startswith(b'{"type":"response.created"'):
                self.response_id = json.loads(payload)["response_id"]
            self.frames.append(payload)
            at = start + length
        del data[:at]

    async def more(self) -> None:
        """Wait for something."""
        if self._over:
            raise ConnectionError("the server has gone")
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    async def until(self, names: tuple[bytes, ...]) -> None:
        """Wait for an event whose type begins with one of these."""
        seen = 0
        while True:
            for frame in self.frames[seen:]:
                if frame.startswith(names):
                    return
            seen = len(self.frames)
            await self.more()


def _names(*names: str) -> tuple[bytes, ...]:
    return tuple(f'{{"type":"{name}'.encode() for name in names)


def ack(response_id: str) -> bytes:
    """How much was heard."""
    ids = {"response_id": response_id, "item_id": f"item_{response_id}"}
    return masked({"type": "playback.ack", **ids, "played_ms": 960, "committed_ms": 960})


def script() -> list[tuple[bytes | None, tuple[bytes, ...]]]:
    """A short session: what is sent (None: an ack), and what ends the answer to it."""
    steps: list[tuple[bytes | None, tuple[bytes, ...]]] = [(masked(OPENING), _names("session.updated"))]
    last = REPLY.starts_at_unit + REPLY.units - 1
    for unit, append in enumerate(appends(UNITS)):
        wanted = "response.listen" if unit < REPLY.starts_at_unit else "response.audio_transcript.delta"
        steps.append((append, _names("rate_limits.updated" if unit == last else wanted)))
        if unit >= REPLY.starts_at_unit:
            steps += [(None, _names("playback.acknowledged"))] * 4
    steps.append(
        (masked({"type": "input_audio_buffer.commit", "final": True}), _names("conversation.item.done"))
    )
    steps.append((masked({"type": "session.close"}), _names("session.closed")))
    return steps


async def short_session(port: int, steps: list[tuple[bytes | None, tuple[bytes, ...]]]) -> list[list[bytes]]:
    """Returns: the frames that answered each step."""
    peer = await Peer.connect(port)
    answers = []
    for data, ends in steps:
        peer.frames = []
        peer.write(data if data is not None else ack(peer.response_id))
        await peer.until(ends)
        answers.append(peer.frames)
    peer.close()
    return answers


async def short_sessions(port: int, count: int) -> float:
    """Returns: real seconds."""
    steps = script()
    left = iter(range(count))

    async def worker() -> None:
        for _ in left:
            await short_session(port, steps)

    since_s = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
    return time.perf_counter() - since_s


async def realtime_session(port: int, phase_s: float, seconds: int, units: list[bytes]) -> list[float]:
    """A unit a second. Returns: how much later than its model time each decision came, in milliseconds."""
    loop = asyncio.get_running_loop()
    peer = await Peer.connect(port)
    peer.write(masked(OPENING))
    await peer.until(_names("session.updated"))
    begun_s, late_ms = loop.time() + phase_s, []
    listens = _names("response.listen", "response.audio_transcript.delta")
    for unit in range(seconds):
        await asyncio.sleep(max(0.0, begun_s + unit - loop.time()))
        peer.frames = []
        since_s = loop.time()
        peer.write(units[unit % len(units)])
        await peer.until(listens)
        late_ms.append((loop.time() - since_s) * 1000 - DECISION_MS)
        for part in range(1, 4):
            await asyncio.sleep(max(0.0, begun_s + unit + part / 4 - loop.time()))
            if peer.response_id:
                peer.write(ack(peer.response_id))
    peer.close()
    return late_ms


# -- what is told


def short(folder: Path, sessions: int, rounds: int) -> None:
    mock = Server("mock", folder / "short.ndjson")
    frames = asyncio.run(short_session(mock.port, script()))
    bare = Server("bare", folder / "none", frames=frames)
    sizes = [len(frame) for answer in frames for frame in answer]
    print(
        f"short: {len(frames)} messages in, {len(sizes)} events of {sum(sizes)} bytes out; {AT_ONCE} at a time"
    )
    told: dict[str, list[tuple[float, float]]] = {"mock": [], "bare": []}
    for _ in range(rounds):
        for name, server in (("mock", mock), ("bare", bare)):
            before_s = server.look()[0]
            real_s = asyncio.run(short_sessions(server.port, sessions))
            told[name].append(((server.look()[0] - before_s) / sessions * 1000, sessions / real_s))
    for name, figures in told.items():
        cpu_ms, rate = min(f[0] for f in figures), max(f[1] for f in figures)
        a_second = f"{1000 / cpu_ms:.0f} a second by CPU, {rate:.0f} by the wall"
        print(f"  {name}: {cpu_ms:6.2f} ms of CPU a session: {a_second}")
    ratio = min(f[0] for f in told["bare"]) / min(f[0] for f in told["mock"])
    by_wall = max(f[1] for f in told["mock"]) / max(f[1] for f in told["bare"])
    print(
        f"  of the bare handler's sessions a second: {ratio:.0%} by CPU, {by_wall:.0%} by the wall (wanted: 70 %)"
    )
    mock.stop()
    bare.stop()


def realtime(folder: Path, sessions: int, seconds: int) -> None:
    cores = sorted(os.sched_getaffinity(0))
    server = Server("mock", folder / "realtime.ndjson", core=cores[0])
    if len(cores) > 1:
        os.sched_setaffinity(0, set(cores[1:]))
    units = appends(4)

    async def main() -> list[float]:
        each = await asyncio.gather(
            *(realtime_session(server.port, 1 + n / sessions, seconds, units) for n in range(sessions))
        )
        return sorted(ms for late_ms in each for ms in late_ms)

    before_s, idle, _ = server.look()
    late_ms = asyncio.run(main())
    cpu_s, _, peak = server.look()
    print(
        f"realtime: {sessions} sessions of {seconds} units, one core: later than the model time by "
        f"{late_ms[len(late_ms) // 2]:.1f} ms (median), {late_ms[int(len(late_ms) * 0.99)]:.1f} ms (99th percentile, "
        f"wanted: 50), {late_ms[-1]:.1f} ms (most); {(cpu_s - before_s) / seconds:.0%} of the core; "
        f"peak memory {peak / 1e6:.0f} MB (wanted: 150; {idle / 1e6:.0f} MB before the first)"
    )
    server.stop()
    os.sched_setaffinity(0, set(cores))


def growth(folder: Path, many: int) -> None:
    server = Server("mock", folder / "growth.ndjson")
    first = many // 2  # the journal's ring and the list of remembered connections are full by then
    asyncio.run(short_sessions(server.port, first))
    after_first = server.look()[1]
    asyncio.run(short_sessions(server.port, many - first))
    after_all = server.look()[1]
    print(
        f"growth: {after_first / 1e6:.1f} MB after {first} sessions, {after_all / 1e6:.1f} MB after {many}: "
        f"{(after_all - after_first) / (many - first):.0f} bytes a session"
    )
    server.stop()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", choices=["short", "realtime", "growth", []])
    parser.add_argument("--sessions", type=int, default=200, help="short sessions a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--at-once", type=int, default=100, help="real-time sessions")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--many", type=int, default=10_000)
    given = parser.parse_args()
    parts = given.parts or ["short", "realtime", "growth"]
    print(f"Python {platform.python_version()}, aiohttp {version('aiohttp')}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder:
        if "short" in parts:
            short(Path(folder), given.sessions, given.rounds)
        if "realtime" in parts:
            realtime(Path(folder), given.at_once, given.seconds)
        if "growth" in parts:
            growth(Path(folder), given.many)


if __name__ == "__main__":
    main()
