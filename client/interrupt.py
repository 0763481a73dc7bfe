"""Ctrl-C and SIGTERM end a run alike: cancelled, torn down within its bounds, accounted for (evaluation.md 10.8)."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

INTERRUPTED: Final = 128 + signal.SIGINT
"""Exit code after Ctrl-C, as a shell has it."""
TERMINATED: Final = 128 + signal.SIGTERM
"""Exit code after SIGTERM, as a shell has it."""


def run_until_ended(work: Callable[[], Awaitable[Any]]) -> int:
    """Run `work` on a loop of its own; a first signal cancels it and waits for its clean-up.

    Returns: 0 when nobody interrupted, else the exit code that says who did.
    Raises whatever the work raises.
    """
    try:
        return asyncio.run(_watched(work))
    except KeyboardInterrupt:
        return INTERRUPTED


async def _watched(work: Callable[[], Awaitable[Any]]) -> int:
    asked: list[int] = []
    with _terminated_by(asked):
        try:
            await work()
        except asyncio.CancelledError:
            if not asked:
                raise
    return TERMINATED if asked else 0


@contextlib.contextmanager
def _terminated_by(asked: list[int]) -> Iterator[None]:
    """While inside, SIGTERM cancels the current task. Only a main thread hears of signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None, "called within a task"

    def end() -> None:
        asked.append(signal.SIGTERM)
        task.cancel()

    loop.add_signal_handler(signal.SIGTERM, end)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
