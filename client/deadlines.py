"""Every wait of the client, and the one primitive that carries them (docs/evaluation.md 10).

`bounded()` is not built on `asyncio.timeout` or `asyncio.wait_for`: both hang when the awaited code swallows its
cancellation. It stands on `asyncio.wait`, which returns in time whatever the child does.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar

T = TypeVar("T")

ExceededState = Literal["unwound", "late", "abandoned"]
"""What became of a child past its deadline: it ended cancelled, it ended by itself within the grace, or it runs on."""


@dataclass(frozen=True)
class Deadlines:
    """Every wait in seconds. Each field is positive and finite; ValueError names the field that is not."""

    connect_s: float = 20.0
    """TCP, TLS and the WebSocket upgrade together."""
    created_s: float = 20.0
    """From the write of `session.update` to `session.created` (evaluation.md 4.3)."""
    write_s: float = 30.0
    """One write while streaming, the commit, one padded unit, one round of periodic acks."""
    ack_period_s: float = 0.25
    """Between two rounds of playback acks."""
    ack_s: float = 20.0
    """The closing playback ack (evaluation.md 10, R1)."""
    close_s: float = 20.0
    """Waiting for `session.closed`, after the write of `session.close` (the inner close deadline)."""
    grace_s: float = 5.0
    """Joining cancelled tasks; closing a forced socket; the extra on the outer close deadline."""
    drain_slack_s: float = 120.0
    """Added to the clip's duration: the drain window (evaluation.md 9)."""
    settle_s: float = 2.0
    """Quiet that ends a drain (evaluation.md 7)."""
    request_s: float = 900.0
    """The per-request timeout around one attempt, connect to close (evaluation.md 15)."""

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
                raise ValueError(f"{entry.name}: wanted a positive number of seconds, got {value!r}")

    @property
    def close_outer_s(self) -> float:
        """The whole close, its write included: longer than the inner wait, so that a slow good close wins (R12)."""
        return self.close_s + self.grace_s

    @property
    def handshake_s(self) -> float:
        """The WebSocket closing handshake after `session.closed`, as bounded by us."""
        return 2.0 * self.grace_s

    @property
    def library_close_s(self) -> float:
        """The same handshake, as bounded by the library: shorter, or it could never end by itself."""
        return 1.8 * self.grace_s

    @property
    def worst_teardown_s(self) -> float:
        """A fully stuck teardown: pad join, ack join, final ack, whole close, its grace, forced close (65 s)."""
        return self.grace_s + self.grace_s + self.ack_s + self.close_outer_s + self.grace_s + self.grace_s

    @property
    def worst_attempt_s(self) -> float:
        """The longest an attempt can occupy its caller: the per-request timeout and a stuck teardown."""
        return self.request_s + self.worst_teardown_s


class DeadlineExceeded(TimeoutError):
    """A wait ran past its deadline.

    Attributes: `what` was awaited; `seconds` it was given; `state` of the awaited code afterwards (`ExceededState`);
    `overshoot_s`, how late our own loop was at noticing. An exception that came late is the cause.
    """

    overshoot_s = 0.0

    def __init__(self, what: str, seconds: float, state: ExceededState, detail: str = "") -> None:
        super().__init__(f"{what}: {seconds:.1f} s passed{detail}")
        self.what = what
        self.seconds = seconds
        self.state: ExceededState = state


class CancelledInside(RuntimeError):
    """The awaited code ended cancelled though nobody here cancelled it.

    An ordinary error, so that a CancelledError out of `bounded()` always means an outer cancellation.
    """


async def bounded(
    what: str,
    coro: Coroutine[Any, Any, T],
    seconds: float,
    *,
    grace_s: float = 5.0,
    on_wait: Callable[[asyncio.Task[T]], None] | None = None,
) -> T:
    """Await `coro` in a task of its own for at most `seconds`, then for at most `grace_s` more after its cancellation.

    Args:
        what: names the wait, in the task's name and in the error.
        coro: run at once; zero or negative `seconds` still give it one turn.
        grace_s: seconds allowed to unwind after the deadline; zero gives one turn.
        on_wait: `coro` begins in place, and gets its task, told here, only once it has to wait: a write that the
            socket takes at once costs no task and no timer. Not for code that cares which task it begins in, as
            `asyncio.timeout` does.
    Returns: the result of `coro`; one that is ready at the deadline's own instant counts.
    Raises:
        DeadlineExceeded: the deadline passed; its state tells what became of the child.
        CancelledInside: the child ended cancelled and nobody here did it.
        CancelledError: an outer cancellation, always; the child is cancelled and not waited for.
        Exception: whatever the child raised.
    Source: design.md 7.
    """
    if on_wait is not None:
        try:
            coro = Begun(coro, coro.send(None))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        except asyncio.CancelledError:
            raise CancelledInside(f"{what}: cancelled from inside") from None
    loop = asyncio.get_running_loop()
    due_s = loop.time() + max(seconds, 0.0)
    task = asyncio.create_task(coro, name=what)
    task.add_done_callback(consume_exception)
    if on_wait is not None:
        on_wait(task)
    try:
        await asyncio.wait((task,), timeout=max(seconds, 0.0))
        if not task.done():
            await rest_of_this_instant()
        if task.done():
            return outcome_of(what, task)
        overshoot_s = loop.time() - due_s
        task.cancel()
        await asyncio.wait((task,), timeout=max(grace_s, 0.0))
    except asyncio.CancelledError:
        task.cancel()
        raise
    late = exceeded(what, seconds, task)
    late.overshoot_s = overshoot_s
    raise late


class Begun(Coroutine[Any, Any, T]):
    """A coroutine that has run up to its first wait, for a task to carry on from there.

    The task's first step gets what the coroutine waits for; a cancellation before that step reaches the coroutine too.
    """

    def __init__(self, coro: Coroutine[Any, Any, T], awaited: Any) -> None:
        self._coro = coro
        self._awaited = [awaited]
        self.__qualname__ = getattr(coro, "__qualname__", type(coro).__name__)

    def send(self, value: Any) -> Any:
        """The next wait; the first one is known already."""
        return self._awaited.pop() if self._awaited else self._coro.send(value)

    def throw(self, *error: Any) -> Any:
        """Into the coroutine, which may catch it and wait on."""
        self._awaited.clear()
        return self._coro.throw(*error)

    def close(self) -> None:
        """End the coroutine."""
        self._coro.close()

    def __await__(self) -> Generator[Any, Any, T]:
        raise TypeError("run by a task, not awaited")

    def __getattr__(self, name: str) -> Any:
        """`cr_frame` and the like: who looks at a task's stack sees the coroutine's."""
        if not name.startswith("cr_"):
            raise AttributeError(name)
        return getattr(self._coro, name)


async def rest_of_this_instant() -> None:
    """Let run what is due now: a timer of our own, due now, comes after every timer that was due before it.

    Giving up one turn of the loop is not enough where each timer has a turn of its own, as on the virtual clock.
    """
    loop = asyncio.get_running_loop()
    turn: asyncio.Future[None] = loop.create_future()
    timer = loop.call_at(loop.time(), wake, turn)
    try:
        await turn
    finally:
        timer.cancel()


def consume_exception(task: asyncio.Task[Any]) -> None:
    """Collect a task's exception, so that an abandoned one never ends as "exception was never retrieved" (R9)."""
    if not task.cancelled():
        task.exception()


def outcome_of(what: str, task: asyncio.Task[T]) -> T:
    """The result or exception of a finished child; its own cancellation becomes an ordinary error."""
    if task.cancelled():
        raise CancelledInside(f"{what}: cancelled from inside")
    return task.result()


def exceeded(what: str, seconds: float, task: asyncio.Task[Any]) -> DeadlineExceeded:
    """The error for a child that ran past its deadline, told by the child's state after the grace."""
    if not task.done():
        return DeadlineExceeded(what, seconds, "abandoned")
    if task.cancelled():
        return DeadlineExceeded(what, seconds, "unwound")
    error = DeadlineExceeded(what, seconds, "late")
    error.__cause__ = task.exception()
    return error


async def settle(tasks: Sequence[asyncio.Task[Any]], grace_s: float) -> list[asyncio.Task[Any]]:
    """Wait for tasks to end, at most `grace_s` seconds in all.

    Returns: those that still run, in the order given; they are abandoned, their later exceptions collected.
    Raises CancelledError: an outer cancellation; nothing a child does looks like one.
    """
    for task in tasks:
        task.add_done_callback(consume_exception)
    running = [task for task in tasks if not task.done()]
    if running:
        await asyncio.wait(running, timeout=max(grace_s, 0.0))
    return [task for task in running if not task.done()]


class Signal:
    """Wakes one waiter when something changed; remembers a change that nobody was waiting for."""

    def __init__(self) -> None:
        self._changed = False
        self._waiter: asyncio.Future[None] | None = None

    def set(self) -> None:
        """Something changed: the waiter, or the next one, runs."""
        self._changed = True
        wake(self._waiter)

    async def wait_until(self, at_s: float) -> bool:
        """Wait for a change, at most until `at_s` on the loop's clock. Returns whether there was one.

        Own future only: nothing here can swallow a cancellation, so the wait needs no `bounded()`.
        """
        if not self._changed:
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            timer = loop.call_at(at_s, wake, self._waiter)
            try:
                await self._waiter
            finally:
                timer.cancel()
                self._waiter = None
        changed, self._changed = self._changed, False
        return changed


def wake(waiter: asyncio.Future[None] | None) -> None:
    """Release a waiter that still waits."""
    if waiter is not None:
        with contextlib.suppress(asyncio.InvalidStateError):
            waiter.set_result(None)
