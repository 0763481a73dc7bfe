"""How fast a server of short sessions could be that does nothing but what none can leave out.

The same short session as `server_load.py short` has, against the bare aiohttp handler and handlers that do one thing
more each: join the frames of an answer to one write; read each message as JSON and write each event as JSON; decode
media and hash them; write the journal's lines to a file, a write a message. None checks anything, keeps a state, has a
timer or could play a fault. Beside them the mock server, which does. CPU of the server's process, kernel included.

Prints; asserts nothing.
Usage: python bench/server_least.py [--sessions N] [--rounds N]
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import io
import multiprocessing
import os
import platform
import sys
import tempfile
import time
from collections import deque
from importlib.metadata import version
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

import orjson
import pybase64
from aiohttp import WSMsgType, web

sys.path.insert(0, str(Path(__file__).parent))
from server_load import Server, script, short_session, short_sessions

from conformance.pool import freeze_once
from mockserver.framing import frame

KINDS = (
    frozenset(),
    frozenset({"join"}),
    frozenset({"join", "json"}),
    frozenset({"join", "json", "media"}),
    frozenset({"join", "json", "media", "journal"}),
    frozenset({"json", "media", "journal"}),
)
CLOSE = b"\x03\xe8"
RING = 20_000


class Least:
    """Answers the messages of a connection in order with what the mock server answered; `does` says at what cost."""

    def __init__(
        self, does: frozenset[str], frames: list[list[bytes]], lines: list[list[bytes]], file: io.FileIO
    ) -> None:
        self._does = does
        self._frames = frames
        self._events = [[None if f == CLOSE else orjson.loads(f) for f in answer] for answer in frames]
        self._entries = [[orjson.loads(line) for line in step] for step in lines]
        self._file = file
        self._ring: deque[bytes] = deque(maxlen=RING)

    async def handle(self, request: web.Request) -> web.WebSocketResponse:
        """One session."""
        websocket = web.WebSocketResponse(max_msg_size=0, compress=False)
        await websocket.prepare(request)
        step = 0
        async for message in websocket:
            if "json" in self._does:
                event = orjson.loads(message.data)
                if "media" in self._does and "audio" in event:
                    for text in (event["audio"], *event["video_frames"]):
                        hashlib.sha256(pybase64.b64decode(text, validate=True)).hexdigest()
            await self._answer(websocket, request, step)
            if "journal" in self._does:
                self._note(step)
            step += 1
            if step == len(self._frames):
                break
        return websocket

    async def _answer(self, websocket: web.WebSocketResponse, request: web.Request, step: int) -> None:
        joined = []
        for payload, event in zip(self._frames[step], self._events[step], strict=True):
            if "json" in self._does and event is not None:
                payload = orjson.dumps({**event, "server_event_seq": step})
            if "join" in self._does:
                joined.append(frame(payload, WSMsgType.TEXT if event is not None else WSMsgType.CLOSE))
            else:
                await websocket.send_frame(payload, WSMsgType.TEXT)
        if joined and request.transport is not None:
            request.transport.write(b"".join(joined))

    def _note(self, step: int) -> None:
        lines = [orjson.dumps({**entry, "seq": step}) for entry in self._entries[step]]
        self._ring.extend(lines)
        self._file.write(b"\n".join(lines) + b"\n")


def serve(pipe: Pipe, journal: str, *given: Any) -> None:
    """Tells its port, then its CPU seconds whenever it is asked."""

    async def main() -> None:
        app = web.Application()
        app.router.add_get("/v1/realtime", Least(*given, io.FileIO(journal, "ab")).handle)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        freeze_once()
        loop, stop = asyncio.get_running_loop(), asyncio.Event()

        def answer() -> None:
            if pipe.recv() == "stop":
                stop.set()
            else:
                pipe.send((time.process_time(),))

        loop.add_reader(pipe.fileno(), answer)
        pipe.send(runner.addresses[0][1])
        await stop.wait()

    asyncio.run(main())


class LeastServer:
    """One of them, in a process of its own."""

    def __init__(self, journal: Path, *given: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, str(journal), *given))
        self._process.start()
        self.port: int = self._pipe.recv()

    def look(self) -> tuple[float]:
        """CPU seconds."""
        self._pipe.send("look")
        seen: tuple[float] = self._pipe.recv()
        return seen

    def stop(self) -> None:
        self._pipe.send("stop")
        self._process.join(10)


def recorded(folder: Path) -> tuple[list[list[bytes]], list[list[bytes]]]:
    """Returns: the frames that answer each message, and the journal's lines of each."""
    journal = folder / "recorded.ndjson"
    server = Server("mock", journal)
    frames = asyncio.run(short_session(server.port, script()))
    server.stop()
    lines: list[list[bytes]] = [[]]
    received = 0
    for line in journal.read_bytes().splitlines():
        if orjson.loads(line)["kind"] == "received":
            received += 1
            if received > 1:
                lines.append([])
        lines[-1].append(line)
    return frames, lines


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, default=300, help="a round")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    print(f"Python {platform.python_version()}, aiohttp {version('aiohttp')}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        frames, lines = recorded(folder)
        servers: dict[str, LeastServer | Server] = {
            ", ".join(sorted(does)) or "bare": LeastServer(folder / "least.ndjson", does, frames, lines)
            for does in KINDS
        }
        servers["the mock server"] = Server("mock", folder / "mock.ndjson")
        cpu_ms: dict[str, float] = {}
        for _ in range(given.rounds):
            for kind, server in servers.items():
                before_s = server.look()[0]
                asyncio.run(short_sessions(server.port, given.sessions))
                took_ms = (server.look()[0] - before_s) / given.sessions * 1000
                cpu_ms[kind] = min(took_ms, cpu_ms.get(kind, took_ms))
        for server in servers.values():
            server.stop()
    for kind, took_ms in cpu_ms.items():
        print(
            f"  {kind:30} {took_ms:.2f} ms of CPU a session, {cpu_ms['bare'] / took_ms:4.0%} of the bare handler's"
        )


if __name__ == "__main__":
    main()
