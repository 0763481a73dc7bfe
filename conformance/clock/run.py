"""Run one coroutine on a fresh virtual loop, and end a loop in bounded time whatever its tasks do."""

import asyncio
import concurrent.futures
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from conformance.clock.hooks import HookedLoop, RealLoop
from conformance.clock.loop import Livelock, VirtualLoop
from conformance.clock.tasks import describe, tasks_of

T = TypeVar("T")

_ROUNDS = 3
"""How often a task is cancelled at the end: one that swallows its first cancellation ends with the second."""


class ClockError(RuntimeError):
    """A run on the virtual clock that did not end as it should."""


class LeakedTasks(ClockError):
    """The main coroutine returned and tasks were left pending. `tasks` names them in order of creation."""

    def __init__(self, tasks: list[str]) -> None:
        self.tasks = tasks
        super().__init__("left pending at the end: " + "; ".join(tasks))


class TimersEmpty(ClockError):
    """Nothing can ever happen again and the main coroutine is not done. `tasks` names the pending tasks."""

    def __init__(self, tasks: list[str]) -> None:
        self.tasks = tasks
        super().__init__("no timer is left, nothing is on its way, and these tasks wait: " + "; ".join(tasks))


class LivelockError(ClockError):
    """The clock stood still. `livelock` says where, for how long, and who ran."""

    def __init__(self, livelock: Livelock) -> None:
        self.livelock = livelock
        super().__init__(str(livelock))


def make_loop(clock: str, *, tie_seed: int | None = None) -> VirtualLoop | RealLoop:
    """A loop for one scenario.

    Args:
        clock: `virtual` or `real`.
        tie_seed: of the order of simultaneous events; the real clock has no such order to draw.
    """
    return VirtualLoop(tie_seed=tie_seed) if clock == "virtual" else RealLoop()


def run_virtual(
    main: Callable[[], Coroutine[Any, Any, T]],
    *,
    start_s: float = 1000.0,
    allow_leaks: bool = False,
    loop: VirtualLoop | None = None,
) -> T:
    """Run `main()` on a fresh virtual loop and end the loop, in bounded time.

    Args:
        main: makes the coroutine to run.
        start_s: loop time at the start (a whole number of seconds).
        allow_leaks: do not complain of tasks that are pending when `main` has returned.
        loop: a VirtualLoop of the caller's, unused so far; it is closed at the end.
    Returns: what `main()` returns. What it raises is raised; tasks left over then stand in a note.
    Raises:
        LeakedTasks: tasks were pending once everything that could happen at that instant had happened.
        TimersEmpty: `main()` waits for something that can never come.
        LivelockError: the clock stood still for the loop's `livelock_s` of real time.
    Source: design.md section 4, rules 2 and 5.
    """
    if loop is None:
        loop = VirtualLoop(start_s=start_s)
    try:
        result = _run_main(loop, main)
        if not allow_leaks:
            left = [describe(task) for task in tasks_of(loop)]
            if left:
                raise LeakedTasks(left)
        return result
    except BaseException as exc:
        left = [describe(task) for task in tasks_of(loop)]
        if left and not isinstance(exc, ClockError):
            exc.add_note("left pending at the end: " + "; ".join(left))
        raise
    finally:
        close_loop(loop)


def _run_main(loop: VirtualLoop, main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run until main is done and the network is at rest again; the clock does not move after main's end."""
    failure: list[ClockError] = []

    def fail(error: ClockError) -> None:
        if not failure:
            failure.append(error)
        loop.stop()

    def timers_empty() -> None:
        fail(TimersEmpty([describe(left) for left in tasks_of(loop)]))

    def livelock(found: Livelock) -> None:
        fail(LivelockError(found))

    loop.on_timers_empty = timers_empty
    loop.on_livelock = livelock
    task = loop.create_task(main(), name="main")
    # What main left to be done at its last instant (callbacks, bytes, cancelled tasks) is no leak.
    task.add_done_callback(lambda _: loop.stop_at_rest())
    try:
        loop.run_forever()
    finally:
        loop.on_timers_empty = loop.on_livelock = None
    if failure and not task.done():
        raise failure[0]
    return task.result()


def close_loop(loop: HookedLoop, grace_s: float = 5.0, *, real_s: float = 2.0) -> list[str]:
    """End the loop in bounded time: cancel tasks, end async generators and jobs, abort transports, close.

    Args:
        loop: one of ours, not running; already closed is fine.
        grace_s: how long cancelled tasks may take altogether (seconds of the loop's own clock).
        real_s: real seconds that a task may spin, and a job may go on (on the virtual clock `grace_s` passes in
            no time, or, while a task spins, never).
    Returns: what would not end: tasks (abandoned, so that nothing more is said of them) and executor jobs.
    Raises RuntimeError: the loop is running.
    Source: design.md section 4, rule 5.
    """
    if loop.is_running():
        raise RuntimeError("close_loop: the loop is running")
    if loop.is_closed():
        return []
    if isinstance(loop, VirtualLoop):
        loop.limit_standstill(real_s / _ROUNDS)
        loop.on_timers_empty = None
        loop.on_livelock = lambda _: loop.stop()
    for _ in range(_ROUNDS):
        tasks = tasks_of(loop)
        if not tasks:
            break
        for task in tasks:
            task.cancel()
        _run_until_done(loop, tasks, grace_s / _ROUNDS)
    ending = loop.create_task(loop.shutdown_asyncgens(), name="shutdown_asyncgens")
    _run_until_done(loop, [ending], grace_s / _ROUNDS)
    for transport in loop.open_transports():
        if isinstance(transport, asyncio.WriteTransport):
            transport.abort()
    _run_until_done(loop, [loop.create_task(asyncio.sleep(0), name="transports")], grace_s / _ROUNDS)
    left = _abandon(tasks_of(loop))
    left += _end_jobs(loop, real_s)
    loop.close()
    return left


def stuck_of_ours(stuck: Sequence[str]) -> list[str]:
    """Errors of the harness for what would not end with the loop and is ours.

    A task of the client's is in a finding by then, pending or left.

    Args:
        stuck: as `close_loop` tells them.
    """
    ours = [name for name in stuck if not name.startswith("client task ")]
    return [f"task would not end with the loop: {name}" for name in ours]


def _run_until_done(loop: HookedLoop, tasks: list[asyncio.Task[Any]], grace_s: float) -> None:
    """Run the loop until these tasks are done or the grace is over."""
    waiting = len(tasks)

    def one_done(_: asyncio.Task[Any]) -> None:
        nonlocal waiting
        waiting -= 1
        if not waiting:
            loop.stop()

    for task in tasks:
        task.add_done_callback(one_done)
    timer = loop.call_later(grace_s, loop.stop)
    loop.run_forever()  # on_livelock stops it as well: a task that spins keeps the timer from ever being due
    timer.cancel()
    for task in tasks:
        task.remove_done_callback(one_done)


def _abandon(tasks: list[asyncio.Task[Any]]) -> list[str]:
    names = []
    for task in tasks:
        names.append(describe(task))
        # They are named in our result; asyncio would name them again, at some later collection.
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    return names


def _end_jobs(loop: HookedLoop, real_s: float) -> list[str]:
    """Wait for running jobs, drop the others; a thread cannot be stopped, so what runs on is named."""
    loop.executor.shutdown(wait=False, cancel_futures=True)
    concurrent.futures.wait(loop.job_futures(), timeout=real_s)
    return [f"executor job {what}" for what in loop.jobs]
