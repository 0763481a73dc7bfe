"""How many one-second units with a JPEG a client writes into a proxy that stopped reading, until its writer waits.

The proxy stops reading at the first unit (`stop_reading` with its small receive buffer). The client is, in turn, the
built-in one's connection with the small send buffer that the runner gives it, and a program of others: another
process with default buffers, whose kernel the proxy cannot shape. Prints units and bytes; asserts nothing.
Usage: python bench/proxy_stall.py [--rounds N]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
from multiprocessing.connection import Connection

import pybase64
from websockets.asyncio.client import connect

from client import wire
from conformance.clients import builtin
from conformance.clock import RealLoop, close_loop
from conformance.options import RunOptions
from mockserver.app import MockServer
from mockserver.journal import Journal
from mockserver.proxy import ProxyServer
from mockserver.upstream import Behind
from scenarios.faults import On, StopReading

JPEG_BYTES = 24_000
BLOCKED_S = 1.5
STOP = StopReading(on=On(received="input_audio_buffer.append"))
UPDATE = wire.encode(
    wire.session_update(
        model="m", ref_audio=builtin.reference_voice(RunOptions()).data_url, instructions="", extra_body={}
    )
).decode()


def unit(number: int) -> str:
    """An append of one second."""
    return json.dumps(
        {
            "type": "input_audio_buffer.append",
            "audio": pybase64.b64encode(os.urandom(32_000)).decode(),
            "input_audio_format": "pcm16",
            "sample_rate_hz": 16_000,
            "duration_ms": 1000,
            "audio_end_ms": 1000 * (number + 1),
            "video_frames": [pybase64.b64encode(b"\xff\xd8" + os.urandom(JPEG_BYTES)).decode()],
        }
    )


async def units_until_blocked(url: str) -> int:
    """Units written after the one at which the proxy stopped, until one waits longer than `BLOCKED_S`; -1: none did."""
    async with asyncio.timeout(60):
        websocket = await connect(
            wire.realtime_url(url, "m"), compression=None, proxy=None, ping_interval=None
        )
        await websocket.send(UPDATE)
        created = json.loads(await websocket.recv())
        assert created["type"] == "session.created", created
        await websocket.send(unit(0))
        await asyncio.sleep(0.2)
        for number in range(1, 200):
            write = asyncio.ensure_future(websocket.send(unit(number)))
            done, _ = await asyncio.wait({write}, timeout=BLOCKED_S)
            if not done:
                websocket.transport.abort()
                await asyncio.wait({write}, timeout=1.0)
                write.cancelled() or write.exception()
                return number - 1
        websocket.transport.abort()
        return -1


def _program(pipe: Connection, url: str) -> None:
    pipe.send(asyncio.run(units_until_blocked(url)))


async def _measure(outside: bool) -> int:
    server = MockServer(profile="july", replies=(), seed=1)
    await server.start()
    proxy = ProxyServer(Behind(server.url), faults=(STOP,), journal=Journal(keep=False))
    await proxy.start()
    try:
        if not outside:
            return await units_until_blocked(proxy.url)
        ours, theirs = multiprocessing.get_context("spawn").Pipe()
        process = multiprocessing.get_context("spawn").Process(target=_program, args=(theirs, proxy.url))
        process.start()
        found = await asyncio.get_running_loop().run_in_executor(None, ours.recv)
        process.join()
        return int(found)
    finally:
        await proxy.stop()
        await server.stop()


def _round(outside: bool) -> int:
    loop = RealLoop()
    if not outside:
        loop.client_sndbuf_bytes = STOP.buffer_bytes  # as the runner does for a scenario with this fault
    try:
        return loop.run_until_complete(_measure(outside))
    finally:
        close_loop(loop)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    size = len(unit(0))
    for who, outside in (("built-in client", False), ("program of others", True)):
        found = [_round(outside) for _ in range(asked.rounds)]
        told = ", ".join("not blocked" if n < 0 else f"{n} ({n * size / 1000:.0f} kB)" for n in found)
        print(f"{who:<18} units written until blocked: {told}")


if __name__ == "__main__":
    main()
