"""A run ends: in bounded time, with what was wrong named, whatever its tasks do."""

import asyncio
import contextlib
import gc
import logging
import threading
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any

import pytest

from conformance.clock import (
    HookedLoop,
    LeakedTasks,
    Livelock,
    LivelockError,
    RealLoop,
    TimersEmpty,
    VirtualLoop,
    close_loop,
    run_virtual,
)


@contextlib.contextmanager
def ends_within(real_s: float) -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < real_s


def start(coro: Coroutine[Any, Any, Any], name: str | None = None) -> None:
    """A task that nobody keeps: the fault of several tests here."""
    asyncio.get_running_loop().create_task(coro, name=name)


async def swallow_cancellation(times: float = float("inf")) -> None:
    while times > 0:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            times -= 1


async def spin() -> None:
    while True:
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            continue


def test_a_run_returns_what_main_returns() -> None:
    async def main() -> int:
        return 7

    assert run_virtual(main) == 7


def test_a_run_raises_what_main_raises_and_notes_what_was_left() -> None:
    async def main() -> None:
        start(asyncio.sleep(5), name="forgotten")
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong") as caught:
        run_virtual(main)

    assert "forgotten" in caught.value.__notes__[0]


def test_a_leaked_task_is_named() -> None:
    async def main() -> None:
        for name in ("zebra", "ant"):
            start(asyncio.sleep(5), name=name)

    with pytest.raises(LeakedTasks) as caught:
        run_virtual(main)

    assert ["zebra" in caught.value.tasks[0], "ant" in caught.value.tasks[1]] == [True, True]


def test_leaks_are_let_pass_where_they_are_allowed() -> None:
    async def main() -> str:
        start(asyncio.sleep(5))
        return "ended"

    assert run_virtual(main, allow_leaks=True) == "ended"


def test_what_ends_at_the_last_instant_is_no_leak() -> None:
    async def main() -> None:
        async def end_slowly() -> None:
            try:
                await asyncio.sleep(5)
            finally:
                for _ in range(10):
                    await asyncio.sleep(0)

        ending = asyncio.create_task(end_slowly())
        await asyncio.sleep(0)
        ending.cancel()

    run_virtual(main)


def test_waiting_for_what_can_never_come_names_the_tasks_that_wait() -> None:
    async def main() -> None:
        never = asyncio.get_running_loop().create_future()
        start(asyncio.wait({never}), name="waits too")
        await never

    with pytest.raises(TimersEmpty) as caught:
        run_virtual(main)

    assert ["'main'" in caught.value.tasks[0], "waits too" in caught.value.tasks[1]] == [True, True]


def test_the_owner_of_a_loop_decides_what_empty_timers_mean() -> None:
    loop = VirtualLoop()
    never = loop.create_future()
    loop.on_timers_empty = lambda: never.set_result("decided")

    assert loop.run_until_complete(never) == "decided"
    assert close_loop(loop) == []


def test_an_error_in_the_owners_callback_goes_to_the_exception_handler() -> None:
    loop = VirtualLoop(livelock_s=0.05)
    seen: list[object] = []
    loop.set_exception_handler(lambda of, context: (seen.append(context["exception"]), of.stop()))  # type: ignore[arg-type,func-returns-value]
    loop.on_timers_empty = lambda: 1 / 0  # type: ignore[assignment,return-value]
    loop.run_forever()

    assert isinstance(seen[0], ZeroDivisionError)
    assert close_loop(loop) == []


def test_empty_timers_without_an_owner_are_reported_as_a_standstill() -> None:
    loop = VirtualLoop(livelock_s=0.05)
    found: list[Livelock] = []
    loop.on_livelock = lambda livelock: (found.append(livelock), loop.stop())  # type: ignore[assignment,func-returns-value]
    waiting = loop.create_task(asyncio.wait({loop.create_future()}), name="waits")
    loop.run_forever()

    assert "waiting: " in found[0].tasks[0]
    assert "'waits'" in found[0].tasks[0]
    waiting.cancel()
    assert close_loop(loop) == []


def test_a_livelock_names_the_tasks_that_run_and_not_those_that_wait() -> None:
    async def main() -> None:
        mine, theirs = asyncio.Event(), asyncio.Event()

        async def play(own: asyncio.Event, other: asyncio.Event) -> None:
            while True:
                await own.wait()
                own.clear()
                other.set()

        start(play(mine, theirs), name="ping")
        start(play(theirs, mine), name="pong")
        mine.set()
        await asyncio.sleep(900)

    with ends_within(5), pytest.raises(LivelockError) as caught:
        run_virtual(main, loop=VirtualLoop(livelock_s=0.05))

    named = " ".join(caught.value.livelock.tasks)
    assert ["'ping'" in named, "'pong'" in named, "'main'" in named] == [True, True, False]
    assert caught.value.livelock.at_s == 1000.0


def test_callbacks_that_call_each_other_for_ever_are_a_livelock() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()

        def again() -> None:
            loop.call_soon(again)

        again()
        await asyncio.sleep(900)

    with ends_within(5), pytest.raises(LivelockError, match="again"):
        run_virtual(main, loop=VirtualLoop(livelock_s=0.05))


def test_timers_of_no_length_for_ever_are_a_livelock() -> None:
    async def main() -> None:
        while True:
            await asyncio.wait({asyncio.get_running_loop().create_future()}, timeout=0)

    with ends_within(5), pytest.raises(LivelockError, match="main"):
        run_virtual(main, loop=VirtualLoop(livelock_s=0.05))


def test_a_livelock_nobody_asked_for_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    loop = VirtualLoop(livelock_s=0.05)
    spinning = loop.create_task(spin(), name="spins")
    threading.Timer(0.2, loop.call_soon_threadsafe, (loop.stop,)).start()
    with caplog.at_level(logging.ERROR):
        loop.run_forever()

    assert "'spins'" in caplog.text
    assert close_loop(loop)
    assert not spinning.done()


@pytest.mark.parametrize("times", [1, 2])
def test_a_task_that_swallows_a_cancellation_or_two_still_ends(times: int) -> None:
    loop = VirtualLoop()
    loop.create_task(swallow_cancellation(times))
    loop.run_until_complete(asyncio.sleep(1))

    with ends_within(2):
        assert close_loop(loop) == []


@pytest.mark.parametrize("make", [VirtualLoop, RealLoop])
def test_a_task_that_swallows_every_cancellation_does_not_hang_the_end(make: type[HookedLoop]) -> None:
    loop = make()
    loop.create_task(swallow_cancellation(), name="stubborn")
    loop.run_until_complete(asyncio.sleep(0))

    with ends_within(3):
        left = close_loop(loop, grace_s=0.1)

    assert len(left) == 1
    assert "'stubborn'" in left[0]
    assert loop.is_closed()


def test_an_abandoned_task_is_not_reported_a_second_time(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        start(swallow_cancellation())
        await asyncio.sleep(1)

    with ends_within(3), pytest.raises(LeakedTasks):
        run_virtual(main)
    gc.collect()

    assert "destroyed" not in caplog.text


def test_a_task_that_spins_through_its_cancellation_does_not_hang_the_end() -> None:
    loop = VirtualLoop()
    loop.create_task(spin(), name="spins")
    loop.run_until_complete(asyncio.sleep(0))

    with ends_within(15):
        left = close_loop(loop, real_s=0.05)

    assert "'spins'" in left[0]


def test_a_job_that_never_ends_does_not_hang_the_end() -> None:
    loop = VirtualLoop()
    release = threading.Event()
    loop.run_in_executor(None, release.wait)
    queued = loop.run_in_executor(None, print, "never runs")

    with ends_within(3):
        left = close_loop(loop, real_s=0.05)
    release.set()

    assert left == ["executor job Event.wait"]
    assert not queued.done()


def test_the_end_waits_for_a_job_that_ends_soon() -> None:
    loop = VirtualLoop()
    ended = threading.Event()
    loop.run_in_executor(None, lambda: (time.sleep(0.02), ended.set()))

    assert close_loop(loop) == []
    assert ended.is_set()


def test_async_generators_are_closed_at_the_end() -> None:
    closed: list[str] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            await asyncio.sleep(0)
            closed.append("closed")

    async def main() -> AsyncIterator[int]:
        generator = numbers()
        await anext(generator)
        return generator

    generator = run_virtual(main)

    assert closed == ["closed"]
    del generator


def test_transports_left_open_are_aborted_at_the_end() -> None:
    lost: list[str] = []

    class Peer(asyncio.Protocol):
        def connection_lost(self, exc: Exception | None) -> None:
            lost.append("lost")

    async def main() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Peer, "127.0.0.1", 0)
        await loop.create_connection(Peer, *server.sockets[0].getsockname())
        await asyncio.sleep(1)
        server.close()

    run_virtual(main)
    gc.collect()  # an unclosed transport would warn here, and a warning is an error

    assert lost == ["lost", "lost"]


def test_closing_twice_does_no_harm_and_a_running_loop_is_refused() -> None:
    loop = VirtualLoop()

    async def main() -> None:
        with pytest.raises(RuntimeError, match="running"):
            close_loop(loop)

    loop.run_until_complete(main())

    assert close_loop(loop) == close_loop(loop) == []


def test_an_exception_nobody_took_shows_after_a_collection(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async def fail() -> None:
            raise ValueError("nobody took it")

        start(fail())
        await asyncio.sleep(1)
        gc.collect()

    run_virtual(main)

    assert "never retrieved" in caplog.text
