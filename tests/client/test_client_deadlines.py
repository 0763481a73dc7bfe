"""`bounded()`, sentence by sentence of design.md section 7, in virtual time."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from client.deadlines import CancelledInside, DeadlineExceeded, Deadlines, Signal, bounded, settle
from conformance.clock import run_virtual


def now_s() -> float:
    return asyncio.get_running_loop().time()


async def stubborn(until: asyncio.Event, *, cancellations: int = 1) -> None:
    """Swallow cancellations and wait on."""
    while True:
        try:
            await until.wait()
        except asyncio.CancelledError:
            cancellations -= 1
            if cancellations < 0:
                raise
        else:
            return


def test_result_and_exception_of_the_child_pass_through() -> None:
    async def good() -> int:
        await asyncio.sleep(1)
        return 7

    async def bad() -> None:
        raise KeyError("x")

    async def main() -> None:
        assert await bounded("good", good(), 5) == 7
        with pytest.raises(KeyError):
            await bounded("bad", bad(), 5)

    run_virtual(main)


def test_child_runs_in_its_own_named_task() -> None:
    async def name() -> str:
        task = asyncio.current_task()
        assert task is not None
        return task.get_name()

    async def main() -> None:
        assert await bounded("final ack", name(), 1) == "final ack"

    run_virtual(main)


def test_a_child_whose_timer_is_due_at_the_deadlines_instant_wins_though_it_was_made_later() -> None:
    async def child() -> str:
        await asyncio.sleep(0)  # so that its timer is made after the wait's own
        await asyncio.sleep(5)
        return "just in time"

    assert run_virtual(lambda: bounded("x", child(), 5)) == "just in time"


def test_a_child_that_is_an_instant_late_does_not_win() -> None:
    async def main() -> str:
        try:
            return await bounded("x", asyncio.sleep(5.000001, "late"), 5)
        except DeadlineExceeded as late:
            return late.state

    assert run_virtual(main) == "unwound"


def test_result_ready_at_the_deadlines_own_instant_wins() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[str] = loop.create_future()

        async def child() -> str:
            return await future

        loop.call_at(loop.time() + 5, lambda: future.done() or future.set_result("in time"))
        assert await bounded("wait", child(), 5) == "in time"

    run_virtual(main)


def test_expiry_cancels_and_names_the_wait() -> None:
    async def main() -> None:
        began_s = now_s()
        with pytest.raises(DeadlineExceeded, match=r"^session\.created: 20\.0 s passed$") as caught:
            await bounded("session.created", asyncio.sleep(100), 20)
        assert isinstance(caught.value, TimeoutError)
        assert (caught.value.what, caught.value.seconds, caught.value.state) == (
            "session.created",
            20,
            "unwound",
        )
        assert now_s() - began_s == pytest.approx(20)

    run_virtual(main)


def test_late_value_is_dropped_and_late_exception_becomes_the_cause() -> None:
    async def swallow(then: Callable[[], Any]) -> Any:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            await asyncio.sleep(1)
        return then()

    def fail() -> None:
        raise KeyError("late")

    async def main() -> None:
        with pytest.raises(DeadlineExceeded) as value:
            await bounded("value", swallow(lambda: 1), 2)
        with pytest.raises(DeadlineExceeded) as error:
            await bounded("error", swallow(fail), 2)
        assert (value.value.state, value.value.__cause__) == ("late", None)
        assert error.value.state == "late"
        assert isinstance(error.value.__cause__, KeyError)

    run_virtual(main)


def test_swallowed_cancellation_is_abandoned_after_the_grace() -> None:
    async def main() -> None:
        release = asyncio.Event()
        began_s = now_s()
        with pytest.raises(DeadlineExceeded) as caught:
            await bounded("write", stubborn(release), 20, grace_s=5)
        assert caught.value.state == "abandoned"
        assert now_s() - began_s == pytest.approx(25)
        release.set()
        await asyncio.sleep(0.1)

    run_virtual(main)


def test_exception_of_an_abandoned_child_is_consumed(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        release = asyncio.Event()

        async def child() -> None:
            await stubborn(release)
            raise KeyError("minutes later")

        with pytest.raises(DeadlineExceeded):
            await bounded("write", child(), 1, grace_s=0)
        release.set()
        await asyncio.sleep(60)
        gc.collect()

    run_virtual(main)

    assert "never retrieved" not in caplog.text


def test_child_cancelled_from_inside_raises_an_ordinary_error() -> None:
    async def self_cancelling() -> None:
        raise asyncio.CancelledError

    async def main() -> None:
        with pytest.raises(CancelledInside, match="write: cancelled from inside"):
            await bounded("write", self_cancelling(), 5)

    run_virtual(main)


@pytest.mark.parametrize("at_s", [3.0, 12.0], ids=["in the wait", "in the grace"])
def test_outer_cancellation_propagates_at_once_and_cancels_the_child(at_s: float) -> None:
    async def main() -> None:
        release = asyncio.Event()
        children: list[asyncio.Task[Any]] = []

        async def child() -> None:
            task = asyncio.current_task()
            assert task is not None
            children.append(task)
            await stubborn(release, cancellations=9)

        outer = asyncio.create_task(bounded("write", child(), 10, grace_s=5))
        await asyncio.sleep(at_s)
        outer.cancel()
        began_s = now_s()
        await asyncio.wait([outer])
        assert outer.cancelled()
        assert now_s() == pytest.approx(began_s)
        assert not children[0].done()
        release.set()
        await asyncio.sleep(0.1)

    run_virtual(main)


def test_outer_expiry_cancels_the_inner_wait() -> None:
    async def main() -> None:
        began_s = now_s()
        with pytest.raises(DeadlineExceeded, match="outer: 5"):
            await bounded("outer", bounded("inner", asyncio.sleep(100), 50), 5)
        assert now_s() - began_s == pytest.approx(5)

    run_virtual(main)


@pytest.mark.parametrize("run", [run_virtual, lambda main: asyncio.run(main())], ids=["virtual", "real"])
def test_equal_deadlines_report_the_outer_one(
    run: Callable[[Callable[[], Coroutine[Any, Any, None]]], None],
) -> None:
    async def main() -> None:
        with pytest.raises(DeadlineExceeded, match=r"^outer"):
            await bounded("outer", bounded("inner", asyncio.sleep(9), 0.02), 0.02)

    run(main)


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_no_time_at_all_still_gives_the_child_one_turn(seconds: float) -> None:
    async def ready() -> str:
        return "turn"

    async def main() -> None:
        assert await bounded("now", ready(), seconds) == "turn"
        with pytest.raises(DeadlineExceeded):
            await bounded("later", asyncio.sleep(1), seconds)

    run_virtual(main)


def test_wait_for_would_hang_where_bounded_returns() -> None:
    """Why the primitive exists: the library's own bound waits for a child that swallowed its cancellation."""

    async def main() -> float:
        release = asyncio.Event()
        asyncio.get_running_loop().call_later(500, release.set)
        began_s = now_s()
        try:
            await asyncio.wait_for(stubborn(release), 10)
        except TimeoutError:
            pass
        return now_s() - began_s

    assert run_virtual(main) == pytest.approx(500)


def test_settle_reports_who_is_left_in_order() -> None:
    async def main() -> None:
        release = asyncio.Event()
        tasks = [asyncio.create_task(stubborn(release), name=name) for name in "abc"]
        tasks.insert(1, asyncio.create_task(asyncio.sleep(1), name="quick"))
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        left = await settle(tasks, 5)
        assert [task.get_name() for task in left] == ["a", "b", "c"]
        release.set()
        assert await settle(left, 5) == []

    run_virtual(main)


def test_signal_remembers_a_change_and_times_out() -> None:
    async def main() -> None:
        signal = Signal()
        signal.set()
        assert await signal.wait_until(now_s() + 10)
        began_s = now_s()
        assert not await signal.wait_until(began_s + 10)
        assert now_s() == pytest.approx(began_s + 10)
        asyncio.get_running_loop().call_later(3, signal.set)
        assert await signal.wait_until(now_s() + 10)
        assert now_s() == pytest.approx(began_s + 13)

    run_virtual(main)


def test_worst_teardown_is_the_sum_of_its_steps() -> None:
    assert Deadlines().worst_teardown_s == 65
    assert Deadlines().close_outer_s > Deadlines().close_s
    assert Deadlines().handshake_s > Deadlines().library_close_s


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), "20"])
def test_deadline_that_is_no_positive_number_is_refused_by_name(value: Any) -> None:
    with pytest.raises(ValueError, match="ack_s: wanted a positive number"):
        Deadlines(ack_s=value)


class TestBegunInPlace:
    """A write that the socket takes at once needs no task; one that waits is bounded as ever."""

    @staticmethod
    def run(
        child: Any, *, seconds: float = 5.0, grace_s: float = 2.0, cancel_after_s: float | None = None
    ) -> Any:
        """(result or exception, tasks told, loop seconds, the child's task of the second step)."""
        told: list[asyncio.Task[Any]] = []

        async def main() -> Any:
            loop = asyncio.get_running_loop()
            began_s = loop.time()
            waiting = asyncio.create_task(
                bounded("write x", child(), seconds, grace_s=grace_s, on_wait=told.append)
            )
            if cancel_after_s is not None:
                await asyncio.sleep(cancel_after_s)
                waiting.cancel()
            await asyncio.wait([waiting])
            took_s = loop.time() - began_s
            outcome = "cancelled" if waiting.cancelled() else waiting.exception() or waiting.result()
            for task in told:
                task.cancel()
            await asyncio.sleep(1)
            return outcome, told, took_s

        return run_virtual(main, allow_leaks=True)

    def test_child_that_does_not_wait_has_no_task(self) -> None:
        async def child() -> int:
            return 7

        assert self.run(child) == (7, [], 0.0)

    def test_child_that_fails_at_once_raises_its_own_error(self) -> None:
        async def child() -> None:
            raise OSError(32, "Broken pipe")

        outcome, told, _ = self.run(child)
        assert isinstance(outcome, OSError)
        assert told == []

    def test_child_cancelled_from_inside_is_an_ordinary_error(self) -> None:
        async def child() -> None:
            raise asyncio.CancelledError

        assert isinstance(self.run(child)[0], CancelledInside)

    @pytest.mark.parametrize("seconds", [0.0, 3.0])
    def test_child_that_waits_goes_on_where_it_was_in_a_named_task(self, seconds: float) -> None:
        steps: list[Any] = []

        async def child() -> str:
            steps.append(asyncio.current_task())
            for _ in range(3):
                await asyncio.sleep(0 if seconds == 0 else 0.9)
                steps.append(asyncio.current_task())
            return "done"

        outcome, told, took_s = self.run(child, seconds=5.0)

        assert outcome == "done"
        assert took_s == pytest.approx(0.0 if seconds == 0 else 2.7)
        assert [task.get_name() for task in told] == ["write x"]
        assert steps[0] is not told[0]
        assert steps[1:] == told * 3

    def test_expiry_cancels_it(self) -> None:
        ended: list[str] = []

        async def child() -> None:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                ended.append("unwound")

        outcome, _, took_s = self.run(child)

        assert isinstance(outcome, DeadlineExceeded)
        assert (outcome.state, round(took_s, 6), ended) == ("unwound", 5.0, ["unwound"])

    def test_swallowed_cancellation_is_abandoned_after_the_grace(self) -> None:
        async def child() -> None:
            for _ in range(3):
                try:
                    await asyncio.get_running_loop().create_future()
                except asyncio.CancelledError:
                    pass

        outcome, _, took_s = self.run(child)

        assert isinstance(outcome, DeadlineExceeded)
        assert (outcome.state, round(took_s, 6)) == ("abandoned", 7.0)

    @pytest.mark.parametrize("after_s", [0.0, 1.0, 6.0])
    def test_outer_cancellation_reaches_the_child_even_before_its_tasks_first_step(
        self, after_s: float
    ) -> None:
        seen: list[str] = []

        async def child() -> None:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                seen.append("cancelled")
                if after_s == 6.0:
                    await asyncio.sleep(60)
                raise

        outcome, _, took_s = self.run(child, cancel_after_s=after_s)

        assert outcome == "cancelled"
        assert took_s == after_s
        assert seen == ["cancelled"]

    def test_stack_of_the_waiting_task_is_the_childs(self) -> None:
        async def child() -> None:
            await asyncio.get_running_loop().create_future()

        _, told, _ = self.run(child)

        assert "child" in repr(told[0].get_coro().__qualname__)
        assert told[0].get_coro().cr_code.co_name == "child"  # type: ignore[union-attr]


def test_overshoot_is_how_late_our_own_loop_was() -> None:
    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        seen = []
        for blocked_s in (0.0, 7.0):
            late = asyncio.create_task(bounded("x", asyncio.sleep(100), 5.0))
            await asyncio.sleep(1)
            loop._now_s += blocked_s  # type: ignore[attr-defined]  # as if this thread had slept
            await asyncio.wait([late])
            error = late.exception()
            assert isinstance(error, DeadlineExceeded)
            seen.append(round(error.overshoot_s, 6))
        return seen

    assert run_virtual(main) == [0.0, 3.0]
