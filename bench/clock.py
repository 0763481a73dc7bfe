"""What virtual time costs: prints figures, asserts nothing. Run: python -m bench.clock

Figures of two runs compare only on the same machine with nothing else running.
"""

import asyncio
import time

import websockets
from aiohttp import WSMsgType, web

from conformance.clock import VirtualLoop, run_virtual

IDLE_S = 900
TIMERS = 200_000
ECHOES = 5_000


def _loop() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop


async def _echo(request: web.Request) -> web.WebSocketResponse:
    peer = web.WebSocketResponse(compress=False)
    await peer.prepare(request)
    async for message in peer:
        if message.type is WSMsgType.TEXT:
            await peer.send_str(message.data)
    return peer


async def _session() -> tuple[float, int, float]:
    """Real ms and jumps of 900 idle seconds (pings on), then real us of an echo that follows a jump."""
    app = web.Application()
    app.router.add_get("/", _echo)
    runner = web.AppRunner(app, shutdown_timeout=1, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"ws://127.0.0.1:{runner.addresses[0][1]}/"
    async with websockets.connect(url, compression=None, proxy=None) as client:
        jumps, began = _loop().jumps, time.perf_counter()
        await asyncio.sleep(IDLE_S)
        idle_ms, jumps = (time.perf_counter() - began) * 1e3, _loop().jumps - jumps
        began = time.perf_counter()
        for _ in range(ECHOES):
            await asyncio.sleep(0.25)
            await client.send("x" * 1000)
            await client.recv()
        echo_us = (time.perf_counter() - began) / ECHOES * 1e6
    await runner.cleanup()
    return idle_ms, jumps, echo_us


async def _jumps_a_second() -> float:
    began = time.perf_counter()
    for _ in range(TIMERS):
        await asyncio.sleep(0.25)
    return TIMERS / (time.perf_counter() - began)


def _empty_run_ms() -> float:
    began = time.perf_counter()
    for _ in range(200):
        run_virtual(lambda: asyncio.sleep(1))
    return (time.perf_counter() - began) / 200 * 1e3


def main() -> None:
    idle_ms, jumps, echo_us = run_virtual(_session)
    print(f"idle session of {IDLE_S} s: {idle_ms:.1f} ms of real time, {jumps} jumps")
    print(f"jump and echo of 1 kB: {echo_us:.0f} us")
    print(f"jumps a second, nothing else: {run_virtual(_jumps_a_second):,.0f}")
    print(f"a fresh loop, one jump, teardown: {_empty_run_ms():.2f} ms")


if __name__ == "__main__":
    main()
