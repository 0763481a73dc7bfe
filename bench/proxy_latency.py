"""What the proxy adds to the way of a unit: round trips of appends with a JPEG, straight and through the proxy.

Server, proxy and client are three processes on loopback. Each session sends one unit a second, out of step; the server
answers each append with one small event. The proxy journals as in a live run. Prints percentiles of both ways, their
difference, and the proxy's CPU time a unit, which other load on the machine does not change; asserts nothing.
Usage: python bench/proxy_latency.py [--sessions N] [--seconds S]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import resource
import time
from multiprocessing.connection import Connection
from typing import Any

import aiohttp
import pybase64
from aiohttp import web

from mockserver.journal import Journal
from mockserver.proxy import ProxyServer
from mockserver.upstream import Behind

JPEG_BYTES = 24_000
UNIT = {
    "type": "input_audio_buffer.append",
    "audio": pybase64.b64encode(os.urandom(32_000)).decode(),
    "input_audio_format": "pcm16",
    "sample_rate_hz": 16_000,
    "duration_ms": 1000,
    "video_frames": [pybase64.b64encode(b"\xff\xd8" + os.urandom(JPEG_BYTES)).decode()],
}
LISTEN = '{"type":"response.listen","response":{"metadata":{"model_listen":true,"reason":"model_listen"}}}'


async def _answer(request: web.Request) -> web.WebSocketResponse:
    websocket = web.WebSocketResponse(max_msg_size=0, compress=False)
    await websocket.prepare(request)
    async for _ in websocket:
        await websocket.send_str(LISTEN)
    return websocket


async def _serve(pipe: Connection) -> None:
    app = web.Application()
    app.router.add_get("/v1/realtime", _answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    pipe.send(f"ws://127.0.0.1:{runner.addresses[0][1]}/v1/realtime")
    await asyncio.Event().wait()


async def _relay(pipe: Connection, url: str) -> None:
    proxy = ProxyServer(Behind(url), journal=Journal(keep=False))
    await proxy.start()
    pipe.send(proxy.url)
    loop = asyncio.get_running_loop()
    while True:
        await loop.run_in_executor(None, pipe.recv)
        used = resource.getrusage(resource.RUSAGE_SELF)
        pipe.send(used.ru_utime + used.ru_stime)


async def _session(
    http: aiohttp.ClientSession, url: str, number: int, seconds: int, took_s: list[float]
) -> None:
    async with http.ws_connect(url, max_msg_size=0, compress=0) as websocket:
        await websocket.send_str(json.dumps({"type": "session.update", "session": {"modalities": ["text"]}}))
        await websocket.receive()
        await asyncio.sleep(number * 0.031)
        for unit in range(seconds):
            text = json.dumps({**UNIT, "audio_end_ms": 1000 * (unit + 1)})
            since_s = time.perf_counter()
            await websocket.send_str(text)
            await websocket.receive()
            took_s.append(time.perf_counter() - since_s)
            await asyncio.sleep(max(0.0, 1.0 - (time.perf_counter() - since_s)))


async def _measure(url: str, sessions: int, seconds: int) -> list[float]:
    took_s: list[float] = []
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        await asyncio.gather(*(_session(http, url, n, seconds, took_s) for n in range(sessions)))
    return sorted(took_s)


def _started(target: Any, *given: Any) -> tuple[Connection, Any, multiprocessing.Process]:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=lambda: asyncio.run(target(theirs, *given)), daemon=True)
    process.start()
    return ours, ours.recv(), process


def _at(values: list[float], part: float) -> float:
    return values[min(len(values) - 1, int(len(values) * part))] * 1000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sessions", type=int, default=32)
    parser.add_argument("--seconds", type=int, default=20)
    asked = parser.parse_args()
    multiprocessing.set_start_method("fork")
    _, straight, server = _started(_serve)
    pipe, through, proxy = _started(_relay, straight)
    ways = {}
    for name, url in (("straight", straight), ("through the proxy", through)):
        pipe.send("cpu")
        before_s = pipe.recv()
        ways[name] = asyncio.run(_measure(url, asked.sessions, asked.seconds))
        pipe.send("cpu")
        cpu_ms = (pipe.recv() - before_s) * 1000 / len(ways[name])
        figures = ", ".join(f"p{part * 100:g} {_at(ways[name], part):.3f} ms" for part in (0.5, 0.9, 0.99))
        print(f"{name:<18} {len(ways[name])} units: {figures}; CPU of the proxy {cpu_ms:.3f} ms a unit")
    for part in (0.5, 0.9, 0.99):
        added_ms = _at(ways["through the proxy"], part) - _at(ways["straight"], part)
        print(f"added at p{part * 100:g}: {added_ms:.3f} ms")
    for process in (proxy, server):
        process.terminate()


if __name__ == "__main__":
    main()
