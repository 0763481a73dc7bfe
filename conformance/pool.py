"""Spread independent jobs over processes, results in the order of the jobs."""

from __future__ import annotations

import gc
import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from typing import TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")


def spread(function: Callable[[Job], Result], jobs: Sequence[Job], processes: int) -> Iterator[Result]:
    """Results of `function` for every job, in order, as they become ready.

    Args:
        function: a module-level function; job and result must pickle.
        processes: 1 runs everything in this process.

    Workers are forked: what the parent has imported is shared and frozen out of the garbage collector, so
    that collecting after each scenario is cheap.
    """
    freeze_once()
    if processes <= 1 or len(jobs) <= 1:
        for job in jobs:
            yield function(job)
        return
    pool = ProcessPoolExecutor(
        max_workers=min(processes, len(jobs)),
        mp_context=multiprocessing.get_context("fork"),
        initializer=_leave_interrupts_to_the_parent,
    )
    try:
        yield from pool.map(function, jobs)
        pool.shutdown()
    except BaseException:
        # Waiting for the workers could take as long as a job on the real clock: minutes.
        for worker in multiprocessing.active_children():
            worker.kill()
        pool.shutdown(wait=False, cancel_futures=True)
        raise


_OBJECTS_BETWEEN = 50_000
"""So many new objects are collected at once while a scenario goes on; few make as many."""


@cache
def freeze_once() -> None:
    """Keep what the process holds by now out of the garbage collector, once and for good.

    A scenario ends with a whole collection, so that what was never retrieved is told in time; it costs what has
    been made since. Freezing again later would hide the garbage of the scenarios in between.
    """
    freeze()


def freeze() -> None:
    """As `freeze_once`, for who knows that nothing was played yet."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS_BETWEEN, 10, 10)  # what it would find in the middle is found at the end


def _leave_interrupts_to_the_parent() -> None:
    """Ctrl-C reaches the whole process group; the parent alone decides what it means."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
