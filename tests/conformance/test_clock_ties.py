"""Ties shuffled on request, and waits that nearly missed their deadline."""

import asyncio

from conformance.clock import VirtualLoop, run_virtual


def order_of_a_tie(tie_seed: int | None) -> list[int]:
    async def main() -> list[int]:
        loop = asyncio.get_running_loop()
        ran: list[int] = []
        for number in range(20):
            loop.call_at(1001.0, ran.append, number)
        await asyncio.sleep(2)
        return ran

    return run_virtual(main, loop=VirtualLoop(tie_seed=tie_seed))


def test_timers_of_one_instant_run_in_an_order_drawn_from_the_seed() -> None:
    first = order_of_a_tie(7)

    assert sorted(first) == list(range(20))
    assert first != list(range(20))
    assert order_of_a_tie(7) == first
    assert order_of_a_tie(8) != first
    assert order_of_a_tie(None) == list(range(20))


def test_a_shuffled_tie_never_passes_a_timer_of_another_instant() -> None:
    async def main() -> list[str]:
        loop = asyncio.get_running_loop()
        ran: list[str] = []
        for number in range(50):
            at_s = 1001 + number * 1e-6
            loop.call_at(at_s, ran.append, f"{number:02}")
        await asyncio.sleep(2)
        return ran

    assert run_virtual(main, loop=VirtualLoop(tie_seed=3)) == [f"{number:02}" for number in range(50)]


def test_a_wait_that_ends_just_before_its_deadline_is_told() -> None:
    told: list[float] = []
    loop = VirtualLoop()
    loop.on_near_miss = lambda timer: told.append(timer.when())

    async def main() -> None:
        near = loop.call_at(1002.0, lambda: None)
        far = loop.call_at(1003.0, lambda: None)
        loop.call_at(1001.9995, near.cancel)
        loop.call_at(1002.5, far.cancel)
        await asyncio.sleep(5)

    run_virtual(main, loop=loop)
    assert told == [1002.0]
