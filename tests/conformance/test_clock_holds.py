"""Threads, jobs and signals: the clock waits for what it cannot foresee, and wakes for what comes from outside."""

import asyncio
import concurrent.futures
import os
import signal
import socket
import threading
import time

import pytest

from conformance.clock import Livelock, VirtualLoop, run_virtual


def virtual() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop


def work(real_s: float = 0.02) -> str:
    time.sleep(real_s)
    return "done"


def test_an_executor_job_holds_the_clock() -> None:
    async def main() -> tuple[str, float]:
        async with asyncio.timeout(10):
            return await asyncio.get_running_loop().run_in_executor(None, work), virtual().time()

    assert run_virtual(main) == ("done", 1000.0)


def test_to_thread_and_name_lookup_hold_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow_lookup(*args: object, **kwargs: object) -> list[object]:
        work()
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 80))]

    async def main() -> float:
        async with asyncio.timeout(10):
            await asyncio.to_thread(work)
            await virtual().getaddrinfo("name.invalid", 80)
            return virtual().time()

    monkeypatch.setattr(socket, "getaddrinfo", slow_lookup)

    assert run_virtual(main) == 1000.0


def test_a_job_in_an_executor_of_its_own_holds_the_clock() -> None:
    async def main() -> float:
        with concurrent.futures.ThreadPoolExecutor() as pool:
            async with asyncio.timeout(10):
                await virtual().run_in_executor(pool, work)
        return virtual().time()

    assert run_virtual(main) == 1000.0


def test_jobs_run_one_after_the_other_in_one_thread() -> None:
    async def main() -> list[int]:
        order: list[int] = []

        def job(number: int) -> int:
            time.sleep(0.01 - number / 1000)
            order.append(number)
            return threading.get_ident()

        threads = await asyncio.gather(*(asyncio.to_thread(job, number) for number in range(5)))
        assert len(set(threads)) == 1
        return order

    assert run_virtual(main) == [0, 1, 2, 3, 4]


def test_a_job_whose_await_was_cancelled_still_holds_the_clock() -> None:
    async def main() -> bool:
        ended = threading.Event()
        began = virtual().create_future()

        def job() -> None:
            virtual_loop.call_soon_threadsafe(began.set_result, None)
            work()
            ended.set()

        virtual_loop = virtual()
        waiting = asyncio.create_task(asyncio.to_thread(job))
        await began
        waiting.cancel()
        await asyncio.sleep(100)
        return ended.is_set()

    assert run_virtual(main)


def test_a_job_holds_the_clock_until_its_result_has_reached_the_loop() -> None:
    class Future(concurrent.futures.Future[str]):
        def _invoke_callbacks(self) -> None:  # as it does, but so slowly that the loop looks in between
            for callback in self._done_callbacks:  # type: ignore[attr-defined]
                callback(self)
                time.sleep(0.02)

    class Executor(concurrent.futures.Executor):
        def submit(self, *args: object, **kwargs: object) -> Future:  # type: ignore[override]
            future = Future()
            threading.Timer(0.01, future.set_result, ("done",)).start()
            return future

    async def main() -> tuple[str, float]:
        async with asyncio.timeout(10):
            return await virtual().run_in_executor(Executor(), work), virtual().time()

    assert run_virtual(main) == ("done", 1000.0)


def test_a_job_that_fails_lets_the_clock_go() -> None:
    async def main() -> float:
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 / 0)
        await asyncio.sleep(5)
        return virtual().time()

    assert run_virtual(main) == 1005.0


def test_an_explicit_hold_keeps_the_clock_until_a_thread_lets_go() -> None:
    async def main() -> tuple[float, float]:
        hold = virtual().hold("a thread of the test")
        hold.__enter__()
        assert virtual().held == ["a thread of the test"]
        threading.Timer(0.02, hold.__exit__, (None, None, None)).start()
        began = time.monotonic()
        await asyncio.sleep(50)
        return time.monotonic() - began, virtual().time()

    real_s, ended_s = run_virtual(main)

    assert real_s >= 0.015
    assert ended_s == 1050.0


def test_a_hold_lets_the_loop_go_on_working() -> None:
    async def main() -> str:
        with virtual().hold("a subprocess"):
            process = await asyncio.create_subprocess_exec("echo", "hello", stdout=asyncio.subprocess.PIPE)
            out, _ = await process.communicate()
        assert virtual().time() == 1000.0
        return out.decode().strip()

    assert run_virtual(main) == "hello"


def test_a_job_that_never_ends_is_named_at_the_cap_and_does_not_end_the_run() -> None:
    loop = VirtualLoop(hold_cap_s=0.2)
    release = threading.Event()
    named: list[Livelock] = []

    async def main() -> float:
        loop.on_livelock = named.append
        waiting = asyncio.ensure_future(asyncio.to_thread(release.wait))
        await asyncio.sleep(900)
        ended_s = loop.time()
        threading.Timer(0.02, release.set).start()
        await waiting  # no timer is left, yet something can still happen
        return ended_s

    assert run_virtual(main, loop=loop) == pytest.approx(1900.0)
    assert [found.held for found in named] == [("Event.wait",)]


def test_a_call_from_another_thread_wakes_the_loop() -> None:
    async def main() -> str:
        came = virtual().create_future()
        threading.Timer(0.02, virtual().call_soon_threadsafe, (came.set_result, "from outside")).start()
        with virtual().hold("the thread"):
            return str(await came)

    assert run_virtual(main) == "from outside"


def test_a_signal_wakes_the_loop_when_nothing_else_would() -> None:
    async def main() -> str:
        virtual().on_timers_empty = None
        came = virtual().create_future()
        virtual().add_signal_handler(signal.SIGUSR1, came.set_result, "signal")
        threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        try:
            return str(await came)
        finally:
            virtual().remove_signal_handler(signal.SIGUSR1)

    assert run_virtual(main) == "signal"


def test_ctrl_c_ends_a_run_that_jumps_without_pause() -> None:
    async def main() -> None:
        signal.raise_signal(signal.SIGINT)
        for _ in range(1_000_000):
            await asyncio.sleep(1)

    with pytest.raises(KeyboardInterrupt):
        run_virtual(main)
