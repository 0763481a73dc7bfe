"""CPU that one session of 40 units costs the client and the server, with the shares of code, libraries and clock.

Both run in virtual time over real loopback sockets. A profiling timer of the process looks, every millisecond of CPU
(every four where the kernel ticks slower), at whose context runs (client, server, neither) and whose code is innermost;
counts become milliseconds by the process's own CPU time. So the figures have an error of sampling, printed with them;
nothing is instrumented, and nothing slowed down. Watched sockets of the virtual clock count for the clock.

Counted for a side: all that runs in its context, from the TCP connection to its end: its own code, its library,
asyncio's callbacks and transports, the kernel's part of its socket calls, what the garbage collector does meanwhile.
Not counted for either: the loop's own turns and its `poll`, the virtual clock, the media (made before). The server's
journal stays in memory and nobody reads it, so its lines are noted and not told; its strict reader, its hashes of all
media and its sequence numbers are on. A session has a second of PCM and a JPEG of 16 kB a unit, four acks a second from
the first reply on, a commit, silence after it.
Prints; asserts nothing. Usage: python bench/session_cost.py [--sessions N] [--units N] [--replies N]
"""

from __future__ import annotations

import argparse
import asyncio
import contextvars
import os
import platform
import signal
import time
from collections import Counter
from dataclasses import dataclass
from importlib.metadata import version
from types import FrameType

from client.deadlines import Deadlines
from client.media import Frame, Prepared, ReferenceVoice
from client.retry import request_sample
from client.settings import SessionSettings
from conformance.clock import SIDE, VirtualLoop, close_loop
from conformance.pool import freeze_once
from mockserver.app import MockServer
from scenarios.clips import make_frames, make_pcm
from scenarios.model import Clip, Reply

TICK_S = 0.001
OWNERS = ("client", "mockserver", "conformance", "websockets", "aiohttp", "orjson", "pybase64", "asyncio")
"""The innermost frame that belongs to one of these packages says whose code ran."""
ASYNCIO_STEP = "_read_ready__data_received"
"""Of the clock's transport, in the place of asyncio's own: what it costs is the reading."""


class Sampler:
    """Counts (side, package) at every tick of the process's CPU time."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()

    def start(self) -> None:
        signal.signal(signal.SIGPROF, self._tick)
        signal.setitimer(signal.ITIMER_PROF, TICK_S, TICK_S)

    def stop(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)

    def _tick(self, number: int, frame: FrameType | None) -> None:
        package = "other"
        while frame is not None:
            name = str(frame.f_globals.get("__name__", "")).partition(".")[0]
            if name in OWNERS:
                package = name if frame.f_code.co_name != ASYNCIO_STEP else "asyncio"
                break
            frame = frame.f_back
        self.counts[SIDE.get(), package] += 1


@dataclass
class Cost:
    """What a number of sessions cost together."""

    sessions: int
    cpu_s: float
    real_s: float
    session_s: float
    counts: Counter[tuple[str, str]]

    def ms(self, side: str, *packages: str) -> float:
        """CPU milliseconds a session in a side's context and these packages; all packages where none is named."""
        ticks = sum(n for (s, p), n in self.counts.items() if s == side and (not packages or p in packages))
        return self._ms(ticks)

    def _ms(self, ticks: float) -> float:
        return self.cpu_s * 1000 / self.sessions * ticks / max(1, self.counts.total())

    def error_ms(self, figure_ms: float) -> float:
        """One standard deviation of a figure that was counted in ticks."""
        ticks = figure_ms / max(1e-9, self._ms(1))
        return self._ms(ticks**0.5)


def sample_of(units: int) -> Prepared:
    """A clip of `units` seconds with a JPEG of 16 kB a second."""
    clip = Clip(seconds=float(units), frame_bytes=16_000)
    frames = tuple(Frame(float(t), jpeg) for t, jpeg in enumerate(make_frames(clip, 1, "1")))
    return Prepared("RTD_Omni", "1", make_pcm(clip, 1, "1"), frames, float(units))


def within(side: str) -> contextvars.Context:
    """A context whose tasks belong to this side."""
    context = contextvars.copy_context()
    context.run(SIDE.set, side)  # type: ignore[arg-type]
    return context


def measure(sessions: int, units: int, replies: int) -> Cost:
    """Run sessions one after another on one loop and server."""
    prepared = sample_of(units)
    script = [
        Reply(starts_at_unit=2 + 8 * n, units=4, text="A person walks in. The door closes. It is quiet.")
        for n in range(replies)
    ]
    sampler = Sampler()

    async def main() -> Cost:
        loop = asyncio.get_running_loop()
        server = MockServer(profile="july", replies=script, seed=1)
        await loop.create_task(server.start(), context=within("server"))
        settings = SessionSettings(
            url=server.url,
            model="bench",
            ref_audio=ReferenceVoice("data:audio/wav;base64,AAAA", "0"),
            deadlines=Deadlines(),
        )

        async def one() -> None:
            output = await loop.create_task(request_sample(prepared, settings), context=within("client"))
            assert output.success, output.error
            server.connections.clear()
            server.journal.forget()

        for _ in range(3):
            await one()
        freeze_once()  # as before every performance of the harness
        began_s = loop.time()
        sampler.start()
        cpu, real = time.process_time(), time.perf_counter()
        for _ in range(sessions):
            await one()
        cpu, real = time.process_time() - cpu, time.perf_counter() - real
        sampler.stop()
        cost = Cost(sessions, cpu, real, (loop.time() - began_s) / sessions, sampler.counts)
        await loop.create_task(server.stop(), context=within("server"))
        return cost

    loop = VirtualLoop()
    try:
        return loop.run_until_complete(main())
    finally:
        close_loop(loop)


def pace_ms() -> float:
    """CPU milliseconds of a fixed piece of Python: figures of two runs compare only in relation to it."""
    best = 1e9
    for _ in range(5):
        began = time.process_time()
        table = {k: str(k) for k in range(100_000)}
        sum(len(table[k]) for k in range(100_000))
        best = min(best, (time.process_time() - began) * 1000)
    return best


def show(cost: Cost, units: int, replies: int) -> None:
    """The table."""
    rest = ("asyncio", "other")
    rows: list[tuple[str, float, str]] = [
        ("client", cost.ms("client") - cost.ms("client", "conformance"), "< 10 ms"),
        ("  its own code", cost.ms("client", "client"), ""),
        ("  websockets", cost.ms("client", "websockets"), ""),
        ("  asyncio, stdlib, system calls", cost.ms("client", *rest), ""),
        ("server", cost.ms("server") - cost.ms("server", "conformance"), "< 6 ms"),
        ("  its own code", cost.ms("server", "mockserver"), ""),
        ("  aiohttp", cost.ms("server", "aiohttp"), ""),
        ("  asyncio, stdlib, system calls", cost.ms("server", *rest), ""),
        (
            "clock (virtual loop, watched sockets)",
            sum(cost.ms(s, "conformance") for s in ("client", "server")) + cost.ms("harness", "conformance"),
            "",
        ),
        ("loop without a side", cost.ms("harness") - cost.ms("harness", "conformance"), ""),
    ]
    print(
        f"Python {platform.python_version()}, websockets {version('websockets')}, aiohttp {version('aiohttp')}, "
        f"{os.cpu_count()} cores; {cost.sessions} sessions of {units} units, {replies} replies, "
        f"{cost.session_s:.1f} s each: CPU {cost.cpu_s:.2f} s, real {cost.real_s:.2f} s "
        f"({cost.session_s * cost.sessions / cost.real_s:.0f} x session time)"
    )
    for name, figure, wanted in rows:
        print(f"{name:<40} {figure:6.2f} ms  +- {cost.error_ms(figure):.2f}  {wanted}")
    print(f"{'a session in all':<40} {cost.cpu_s * 1000 / cost.sessions:6.2f} ms")
    print(
        f"{'this machine: a fixed piece of Python':<40} {pace_ms():6.2f} ms  (compare figures in relation to it)"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, default=300)
    parser.add_argument("--units", type=int, default=40)
    parser.add_argument("--replies", type=int, default=1)
    given = parser.parse_args()
    show(measure(given.sessions, given.units, given.replies), given.units, given.replies)


if __name__ == "__main__":
    main()
