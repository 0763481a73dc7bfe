"""What a job spends of the loop's time passes when it hands its result over, however fast its thread is."""

from __future__ import annotations

import asyncio
import time

import pytest

from conformance.clock import VirtualLoop, run_virtual


def _spending(loop: VirtualLoop, pause_s: float) -> str:
    for _ in range(3):
        loop.spend(4.0)
        time.sleep(pause_s)  # real time of the thread: whatever the loop could do meanwhile, it must not
    return "done"


@pytest.mark.parametrize("pause_s", [0.0, 0.01])
def test_what_a_job_spends_passes_at_its_end_and_at_once(pause_s: float) -> None:
    async def main() -> list[tuple[str, float]]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        begun_s = loop.time()
        seen: list[tuple[str, float]] = []

        async def beat() -> None:
            while True:
                await asyncio.sleep(1.0)
                seen.append(("beat", loop.time() - begun_s))

        beating = asyncio.create_task(beat())
        seen.append((await asyncio.to_thread(_spending, loop, pause_s), loop.time() - begun_s))
        await asyncio.sleep(2.5)
        beating.cancel()
        return seen

    assert run_virtual(main, allow_leaks=True) == [
        ("done", 12.0),
        ("beat", 12.0),
        ("beat", 13.0),
        ("beat", 14.0),
    ]


def test_a_job_that_nobody_waits_for_still_spends_and_ends() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        begun_s = loop.time()
        waiting = asyncio.ensure_future(asyncio.to_thread(_spending, loop, 0.01))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(1.0)
        return loop.time() - begun_s

    assert run_virtual(main) == pytest.approx(12.0)


def test_the_error_of_a_job_is_handed_over_as_its_own() -> None:
    async def main() -> None:
        await asyncio.to_thread(int, "no number")

    with pytest.raises(ValueError, match="no number"):
        run_virtual(main)
