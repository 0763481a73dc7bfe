"""Time passes only by jumps: exactly to the next timer, one timer a jump, ties first-in first-out."""

import asyncio
import math
import time

import pytest

from conformance.clock import TimersEmpty, VirtualLoop, close_loop, run_virtual


def now() -> float:
    return asyncio.get_running_loop().time()


def test_the_clock_jumps_exactly_to_the_next_timer() -> None:
    loop = VirtualLoop()

    async def main() -> float:
        await asyncio.sleep(0.1)
        await asyncio.sleep(86400 * 3)  # longer than asyncio lets one select() wait
        return now()

    assert run_virtual(main, loop=loop) == 1000.1 + 86400 * 3
    assert loop.jumps == 2


def test_a_long_wait_costs_one_jump_and_no_real_time() -> None:
    async def main() -> int:
        await asyncio.sleep(900)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        return loop.jumps

    began = time.monotonic()

    assert run_virtual(main) == 1
    assert time.monotonic() - began < 5


def test_timers_of_one_instant_run_in_the_order_they_were_made() -> None:
    async def main() -> list[int]:
        loop = asyncio.get_running_loop()
        ran: list[int] = []
        for number in range(50):
            loop.call_at(1001.0, ran.append, number)
        await asyncio.sleep(2)
        return ran

    assert run_virtual(main) == list(range(50))


def test_a_cancelled_timer_leaves_no_gap_for_a_later_one_to_overtake() -> None:
    async def main() -> list[str]:
        loop = asyncio.get_running_loop()
        ran: list[str] = []
        cancelled = loop.call_at(1001.0, ran.append, "cancelled")
        loop.call_at(1001.0, ran.append, "earlier")
        cancelled.cancel()
        loop.call_at(1001.0, ran.append, "later")
        await asyncio.sleep(2)
        return ran

    assert run_virtual(main) == ["earlier", "later"]


def test_between_two_timers_of_one_instant_everything_ready_runs() -> None:
    async def main() -> list[str]:
        loop = asyncio.get_running_loop()
        ran: list[str] = []

        def first() -> None:
            ran.append("first timer")
            loop.call_soon(lambda: loop.call_soon(ran.append, "what it started"))

        loop.call_at(1001.0, first)
        loop.call_at(1001.0, ran.append, "second timer")
        await asyncio.sleep(2)
        return ran

    assert run_virtual(main) == ["first timer", "what it started", "second timer"]


def test_between_two_timers_of_one_instant_bytes_arrive_and_are_answered() -> None:
    async def main() -> list[str]:
        loop = asyncio.get_running_loop()
        ran: list[str] = []

        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readexactly(4))
            writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        loop.call_at(1001.0, writer.write, b"ping")
        loop.call_at(1001.0, ran.append, "second timer")
        ran.append((await reader.readexactly(4)).decode())
        await asyncio.sleep(1)
        writer.close()
        server.close()
        return ran

    assert run_virtual(main) == ["ping", "second timer"]


def test_a_timer_that_is_due_already_still_waits_for_what_is_ready() -> None:
    async def main() -> list[str]:
        loop = asyncio.get_running_loop()
        ran: list[str] = []
        loop.call_at(1.0, ran.append, "overdue")
        loop.call_soon(lambda: loop.call_soon(ran.append, "ready"))
        await asyncio.sleep(1)
        return ran

    assert run_virtual(main) == ["ready", "overdue"]


def test_ulps_between_ties_do_not_add_up_to_anything_that_shows() -> None:
    async def main() -> float:
        async def beat() -> None:
            for _ in range(1000):
                await asyncio.sleep(0.25)

        await asyncio.gather(*(beat() for _ in range(20)))
        return now()

    assert run_virtual(main) == pytest.approx(1250.0, abs=1e-7)


def test_acks_and_units_that_tie_every_second_give_one_trace() -> None:
    async def main() -> list[str]:
        trace: list[str] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while line := await reader.readline():
                trace.append(f"{now():.6f} server {line.decode().strip()}")
                writer.write(b"got " + line)
            writer.close()

        async def beat(writer: asyncio.StreamWriter, what: str, period_s: float, times: int) -> None:
            for number in range(times):
                await asyncio.sleep(period_s)
                trace.append(f"{now():.6f} client {what} {number}")
                writer.write(f"{what} {number}\n".encode())

        async def session(port: int, name: int) -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            acks = asyncio.create_task(beat(writer, f"ack of {name}", 0.25, 40))
            units = asyncio.create_task(beat(writer, f"unit of {name}", 1.0, 10))
            for _ in range(50):
                trace.append(f"{now():.6f} client {(await reader.readline()).decode().strip()}")
            await asyncio.gather(acks, units)
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        await asyncio.gather(*(session(port, name) for name in range(3)))
        server.close()
        await server.wait_closed()
        return trace

    traces = [run_virtual(main) for _ in range(10)]

    assert len(traces[0]) == 3 * 50 * 3
    assert all(trace == traces[0] for trace in traces)


@pytest.mark.parametrize("start_s", [1000.5, 0.0, -3.0, 1e7, math.nan, math.inf])
def test_the_clock_starts_at_a_whole_number_below_ten_million(start_s: float) -> None:
    with pytest.raises(ValueError, match="start_s"):
        VirtualLoop(start_s=start_s)


def test_a_timer_at_infinity_is_no_timer() -> None:
    loop = VirtualLoop()

    async def main() -> None:
        loop.call_at(math.inf, print, "never")
        await asyncio.sleep(1)
        await loop.create_future()

    with pytest.raises(TimersEmpty):
        run_virtual(main, loop=loop)
    assert loop.time() == 1001.0


def test_a_timer_that_is_not_a_number_is_refused() -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match="not a number"):
            asyncio.get_running_loop().call_later(math.nan, print)

    run_virtual(main)


def test_many_long_timers_that_are_cancelled_are_forgotten() -> None:
    loop = VirtualLoop()

    async def main() -> None:
        for _ in range(30_000):
            loop.call_later(900, print).cancel()
            await asyncio.sleep(1)

    run_virtual(main, loop=loop)

    assert len(loop._taken) < 3000


def test_timeouts_of_asyncio_keep_to_the_virtual_clock() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.sleep(1000), 60)
        return now()

    assert run_virtual(main) == 1060.0


def test_two_loops_do_not_share_a_clock() -> None:
    first, second = VirtualLoop(start_s=5.0), VirtualLoop(start_s=7.0)
    first.run_until_complete(asyncio.sleep(100))

    assert (first.time(), second.time()) == (105.0, 7.0)
    assert close_loop(first) == close_loop(second) == []
