"""CPU that one session of 40 units costs the server, twice: its own code alone, and its process over real sockets.

The client sends what an evaluation client sends: a second of PCM and a JPEG a unit, four acks a unit once a reply is
known, a commit, silence after it. `code`: messages go into the server's `Connection` and bytes come out, without a
socket; this is what can be made cheaper here. `process`: the server in a process of its own on a real clock, each
event sent when the one before was answered, so that nothing is read or written in one go that would come apart in real
time; aiohttp, asyncio and the kernel are in it, and system calls of a sandbox cost many times more than those of a
plain machine. Prints; asserts nothing.
Usage: python bench/server_cost.py [--sessions N] [--units N] [--profile NAME] [--rounds N] [--hot]
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import multiprocessing
import os
import platform
import pstats
import random
import socket
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from multiprocessing.connection import Connection as Pipe
from typing import Any

import orjson
import pybase64
import websockets
from aiohttp import WSMessage, WSMsgType

from mockserver.app import MockServer
from mockserver.connection import Connection
from mockserver.connection_info import ConnectionInfo
from mockserver.faults import FaultSet
from mockserver.incoming import Incoming
from mockserver.journal import Journal
from mockserver.profiles import PROFILES
from mockserver.session import ServerSession
from scenarios.clips import make_frames, make_pcm
from scenarios.model import Clip, Reply

QUERY = {"duplex": "1", "model": "bench", "autostart": "0", "minicpmo45_native_duplex": "1"}
ACKS_A_UNIT = 4
PADDED_UNITS = 3
REPLY = Reply(starts_at_unit=2, units=4, text="A person walks in. The door closes. It is quiet.")
OPENING = {
    "type": "session.update",
    "session": {
        "modalities": ["audio", "text"],
        "ref_audio": "data:audio/wav;base64," + "A" * 400_000,
        "extra_body": {"auto_response": True, "minicpmo45_native_duplex": True},
    },
}


def appends(units: int) -> list[bytes]:
    """The appends of a clip with a JPEG of 16 kB a second, then the padding."""
    clip = Clip(seconds=float(units), frame_bytes=16_000)
    pcm, frames = make_pcm(clip, 1, "1"), make_frames(clip, 1, "1")
    made = []
    for unit in range(units + PADDED_UNITS):
        padded = unit >= units
        audio = bytes(32_000) if padded else pcm[unit * 32_000 : (unit + 1) * 32_000]
        event: dict[str, object] = {
            "type": "input_audio_buffer.append",
            "audio": pybase64.b64encode(audio).decode(),
            "input_audio_format": "pcm16",
            "sample_rate_hz": 16_000,
            "duration_ms": 1000,
            "audio_end_ms": 1000 * (unit + 1),
        }
        if padded:
            event["is_speech"] = False
        else:
            event["video_frames"] = [pybase64.b64encode(frames[unit]).decode()]
        made.append(orjson.dumps(event))
    return made


def script(
    made: list[bytes], units: int, response_id: Callable[[], str]
) -> Iterator[tuple[bytes, tuple[str, ...]]]:
    """What the client sends, each with the names of which one ends its answer."""
    yield orjson.dumps(OPENING), ("session.updated",)
    last = REPLY.starts_at_unit + REPLY.units - 1
    for unit, append in enumerate(made):
        if unit == units:
            yield (
                orjson.dumps({"type": "input_audio_buffer.commit", "final": True}),
                ("conversation.item.done",),
            )
        if unit == last:
            yield append, ("rate_limits.updated",)
        elif REPLY.starts_at_unit <= unit < last:
            yield append, ("response.audio_transcript.delta", "response.output_audio_transcript.delta")
        else:
            yield append, ("response.listen",)
        for _ in range(ACKS_A_UNIT if unit >= REPLY.starts_at_unit else 0):
            ids = {"response_id": response_id(), "item_id": f"item_{response_id()}"}
            ack = {"type": "playback.ack", **ids, "played_ms": 960, "committed_ms": 960}
            yield orjson.dumps(ack), ("playback.acknowledged", "error")
    yield orjson.dumps({"type": "session.close"}), ("session.closed",)


# -- code alone


class Sink(asyncio.Transport):
    """A transport that takes bytes and forgets them."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair()
        super().__init__({"socket": self.ours})
        self.bytes_ = 0
        self._protocol: Any = asyncio.Protocol()

    def get_protocol(self) -> Any:
        return self._protocol

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol

    def write(self, data: Any) -> None:
        self.bytes_ += len(data)

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        pass


class Unfed:
    """An upgrade whose reader is never fed."""

    def __init__(self) -> None:
        self.incoming = Incoming(asyncio.Protocol(), asyncio.get_running_loop())
        self.reader = None


async def code_ms(made: list[bytes], units: int, profile: str, sessions: int) -> float:
    """CPU milliseconds a session from message to bytes."""
    sink = Sink()
    spent_s = 0.0
    for number in range(sessions):
        session = ServerSession(
            PROFILES[profile], [REPLY], query=QUERY, ids=random.Random(number), decision_s=0.0
        )
        info = ConnectionInfo(1, None, 1, QUERY, 0.0)
        connection = Connection(
            Unfed(),  # type: ignore[arg-type] # only its reader is used, and only by `run`
            sink,
            info=info,
            session=session,
            faults=FaultSet([]),
            journal=Journal(),
        )
        connection._take(session.start(0.0), 0.0)
        for text, _ in script(made, units, lambda s=session: s.last_response_id or ""):  # type: ignore[misc]
            message = WSMessage(WSMsgType.TEXT, text, None)
            began_s = time.process_time()
            connection._on_message(message)
            spent_s += time.process_time() - began_s
        assert info.sent["session.closed"] == 1
        assert info.units == units + PADDED_UNITS
        connection._over()
    sink.ours.close()
    sink.theirs.close()
    return spent_s * 1000 / sessions


# -- the process


def serve(pipe: Pipe, profile: str) -> None:
    """The server's process: tells its URL, then its CPU time whenever it is asked, until it is told to stop."""

    async def main() -> None:
        server = MockServer(profile=profile, replies=[REPLY], decision_ms=1, seed=1)
        await server.start()
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()

        def answer() -> None:
            if pipe.recv() == "stop":
                stop.set()
                return
            pipe.send(time.process_time())
            server.connections.clear()
            server.journal.forget()

        loop.add_reader(pipe.fileno(), answer)
        pipe.send(server.url)
        await stop.wait()
        loop.remove_reader(pipe.fileno())
        await server.stop()

    asyncio.run(main())


async def one_session(url: str, made: list[bytes], units: int) -> None:
    """One session over a socket, in lockstep."""
    query = "&".join(f"{key}={value}" for key, value in QUERY.items())
    response_ids = [""]
    async with websockets.connect(f"{url}?{query}", compression=None, proxy=None, max_size=None) as ws:
        for text, ends in script(made, units, lambda: response_ids[-1]):
            await ws.send(text, text=True)
            name = ""
            while name not in ends:
                event = orjson.loads(await ws.recv(decode=False))
                name = event["type"]
                if name == "response.created":
                    response_ids.append(event["response_id"])


async def process_ms(url: str, pipe: Pipe, made: list[bytes], units: int, sessions: int) -> float:
    """CPU milliseconds a session of the server's process."""
    pipe.send("spent")
    before_s: float = pipe.recv()
    for _ in range(sessions):
        await one_session(url, made, units)
    pipe.send("spent")
    after_s: float = pipe.recv()
    return (after_s - before_s) * 1000 / sessions


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, default=30)
    parser.add_argument("--units", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--profile", default="input-driven", help="one that holds no output back")
    parser.add_argument("--hot", action="store_true", help="profile the code and print where it spends")
    given = parser.parse_args()
    made = appends(given.units)
    print(
        f"Python {platform.python_version()}, aiohttp {version('aiohttp')}, {os.cpu_count()} cores; "
        f"{given.units} + {PADDED_UNITS} units, profile {given.profile}"
    )
    if given.hot:
        profiler = cProfile.Profile()
        profiler.runcall(asyncio.run, code_ms(made, given.units, given.profile, given.sessions))
        pstats.Stats(profiler, stream=sys.stdout).sort_stats("tottime").print_stats(35)
        return
    asyncio.run(code_ms(made, given.units, given.profile, 5))
    figures = [
        asyncio.run(code_ms(made, given.units, given.profile, given.sessions)) for _ in range(given.rounds)
    ]
    told = ", ".join(f"{figure:.2f}" for figure in figures)
    print(f"code:    {min(figures):6.2f} ms a session (wanted: under 6 ms); rounds: {told}", flush=True)
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, given.profile))
    process.start()
    url: str = ours.recv()
    asyncio.run(one_session(url, made, given.units))
    figures = [
        asyncio.run(process_ms(url, ours, made, given.units, given.sessions)) for _ in range(given.rounds)
    ]
    told = ", ".join(f"{figure:.2f}" for figure in figures)
    print(f"process: {min(figures):6.2f} ms a session, kernel included; rounds: {told}")
    ours.send("stop")
    process.join(10)


if __name__ == "__main__":
    main()
