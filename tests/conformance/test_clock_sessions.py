"""Whole sessions: a real aiohttp server and a real websockets client in one loop, in virtual time."""

import asyncio
import contextlib
import random
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator

import pytest
import websockets
from aiohttp import WSMsgType, web

from conformance.clock import VirtualLoop, run_virtual


def now() -> float:
    return asyncio.get_running_loop().time()


@contextlib.contextmanager
def two_busy_loops() -> Iterator[None]:
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


@contextlib.asynccontextmanager
async def served(handler: object, receive_bytes: int | None = None) -> AsyncIterator[str]:
    """The URL of a websocket server on loopback; its listener has a small receive buffer where asked for."""
    listener = socket.socket()
    if receive_bytes is not None:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    listener.bind(("127.0.0.1", 0))
    app = web.Application()
    app.router.add_get("/", handler)  # type: ignore[arg-type]
    runner = web.AppRunner(app, shutdown_timeout=1, access_log=None)
    await runner.setup()
    await web.SockSite(runner, listener).start()
    try:
        yield f"ws://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        await runner.cleanup()


def connect(url: str) -> websockets.connect:
    return websockets.connect(url, compression=None, proxy=None, max_size=2**26)


async def echo(request: web.Request) -> web.WebSocketResponse:
    peer = web.WebSocketResponse(compress=False)
    await peer.prepare(request)
    async for message in peer:
        if message.type is WSMsgType.TEXT:
            await peer.send_str(message.data)
    return peer


def test_an_idle_session_of_900_s_passes_by_jumps_with_its_pings_answered() -> None:
    loop = VirtualLoop()

    async def main() -> tuple[float, int, float]:
        async with served(echo) as url, connect(url) as client:
            began_s, jumps = now(), loop.jumps
            await asyncio.sleep(900)
            idle_s, jumps = now() - began_s, loop.jumps - jumps
            await client.send("still there")
            assert await client.recv() == "still there"
            return idle_s, jumps, client.latency

    idle_s, jumps, latency_s = run_virtual(main, loop=loop)

    assert idle_s == pytest.approx(900.0, abs=1e-9)
    assert 44 <= jumps < 100  # a ping each 20 s, no polling
    assert latency_s == 0.0  # every pong came at the instant of its ping
    assert loop.unrested == []


def test_a_client_whose_pings_go_unanswered_is_ended_at_its_own_deadline() -> None:
    async def deaf(request: web.Request) -> web.WebSocketResponse:
        peer = web.WebSocketResponse(compress=False)
        await peer.prepare(request)
        await asyncio.sleep(600)  # aiohttp answers pings only inside receive()
        return peer

    async def main() -> tuple[float, int]:
        async with served(deaf) as url, connect(url) as client:
            began_s = now()
            with pytest.raises(websockets.ConnectionClosedError) as caught:
                await client.recv()
            assert caught.value.sent is not None
            ended = now() - began_s, int(caught.value.sent.code)
            await asyncio.sleep(600)
            return ended

    ended_s, code = run_virtual(main)

    assert (round(ended_s, 6), code) == (
        50.0,
        1011,
    )  # 20 s to the ping, 20 s for the pong, 10 s for the close


def eight_sessions_in_lock_step(units: int) -> list[str]:
    """Eight clients stream a unit of 42 kB each second and an ack each 0.25 s into buffers of 4096 bytes.

    The server stops reading for a while, each session at its own beat, and answers every unit.
    """
    loop = VirtualLoop()
    lines: dict[int, list[str]] = {}

    async def server(request: web.Request) -> web.WebSocketResponse:
        peer = web.WebSocketResponse(compress=False)
        await peer.prepare(request)
        transport = request.transport
        assert isinstance(transport, asyncio.Transport)
        name = int(request.query["name"])
        pick = random.Random(name)
        async for message in peer:
            lines[name].append(f"{now():.6f} got {len(message.data)} bytes")
            if len(message.data) > 1000:
                await peer.send_str("heard" * pick.choice([1, 2000, 20_000]))
                if pick.random() < 0.3:
                    transport.pause_reading()
                    loop.call_later(pick.choice([0.25, 1.0, 2.5]), transport.resume_reading)
        return peer

    async def session(url: str, name: int) -> None:
        lines[name] = []
        async with connect(f"{url}?name={name}") as client:

            async def acks() -> None:
                for number in range(4 * units):
                    await asyncio.sleep(0.25)
                    await client.send(f"ack {number}")

            async def listen() -> None:
                async for message in client:
                    lines[name].append(f"{now():.6f} heard {len(message)} bytes")

            acking, listening = asyncio.create_task(acks()), asyncio.create_task(listen())
            for _ in range(units):
                await asyncio.sleep(1)
                await client.send("x" * 42_000)
                lines[name].append(f"{now():.6f} sent")
            await acking
            await asyncio.sleep(5)
            await client.close()
            await listening

    async def main() -> None:
        loop.client_sndbuf_bytes = 4096
        async with served(server, receive_bytes=4096) as url:
            await asyncio.gather(*(session(url, name) for name in range(8)))

    run_virtual(main, loop=loop)

    assert loop.unrested == []
    return [f"{name}: {line}" for name in sorted(lines) for line in lines[name]]


@pytest.mark.slow
def test_eight_sessions_in_lock_step_give_one_trace_beside_two_busy_loops() -> None:
    with two_busy_loops():
        traces = [eight_sessions_in_lock_step(units=4) for _ in range(20)]

    assert len(traces[0]) == 8 * (4 + 16 + 4 + 4)
    assert all(trace == traces[0] for trace in traces)
