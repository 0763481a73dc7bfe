"""Spread independent jobs over processes, results in the order of the jobs."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from types import FrameType
from typing import TypeVar

from conformance.scratch import make_below, scratch_folder

Job = TypeVar("Job")
Result = TypeVar("Result")
WORKERS_END_S = 8.0
"""Workers that are still there then are killed."""
INTERRUPTED = 130
_PR_SET_PDEATHSIG = 1
"""prctl(2): the signal that a process gets when its parent dies."""


def spread(
    function: Callable[[Job], Result], jobs: Sequence[Job], processes: int
) -> Generator[Result, None, None]:
    """Results of `function` for every job, in order, as they become ready.

    Args:
        function: a module-level function; job and result must pickle.
        processes: 1 runs everything in this process.

    Workers are forked: all that the parent holds, results of earlier workers too, is shared and frozen out of the
    garbage collector, so that collecting after each scenario is cheap.
    """
    if processes <= 1 or len(jobs) <= 1:
        freeze_once()
        for job in jobs:
            yield function(job)
        return
    freeze()  # the scenarios are played in the workers: here is no garbage of theirs to hide
    with scratch_folder("conformance-pool-") as scratch:
        pool = forked(min(processes, len(jobs)), scratch)
        try:
            # Not `map`: it cancels what is left, and the pool's thread, which finds the workers gone, trips over that.
            waiting = deque(pool.submit(_interruptible, function, job) for job in jobs)
            while waiting:
                yield waiting.popleft().result()
            pool.shutdown()
        except BaseException:
            _end_workers()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def forked(processes: int, scratch: Path) -> ProcessPoolExecutor:
    """Workers that leave interrupts to this process and do not outlive it.

    Args:
        scratch: they make their own folders below it, so that nothing stays of one that is killed.
    """
    return ProcessPoolExecutor(
        max_workers=processes,
        mp_context=multiprocessing.get_context("fork"),
        initializer=_begin_worker,
        initargs=(os.getpid(), scratch),
    )


@contextlib.contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """SIGTERM and SIGHUP are what Ctrl-C is, once; it leaves no more behind. Of the main thread alone.

    A SIGHUP that is ignored (`nohup`) stays so.
    """
    numbers = [signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        numbers.append(signal.SIGHUP)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        numbers.append(signal.SIGINT)
    before = {number: signal.signal(number, _interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_workers() -> None:
    """Let each put its own things away, a program of others with all its group; no job is waited for."""
    workers = multiprocessing.active_children()
    for worker in workers:
        worker.terminate()

    def kill() -> None:
        for worker in workers:
            worker.kill()

    late = threading.Timer(WORKERS_END_S, kill)
    late.start()
    for worker in workers:
        worker.join()
    late.cancel()


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


def _begin_worker(parent: int, scratch: Path) -> None:
    """Ctrl-C reaches the whole process group; the parent alone decides what it means, and tells by SIGTERM."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    make_below(scratch)
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:  # it was gone before it could be heard of
        os._exit(INTERRUPTED)


def _interruptible(function: Callable[[Job], Result], job: Job) -> Result:
    """In a worker: SIGTERM is to a job what Ctrl-C is without workers, and the worker's end."""
    try:
        with interrupted_by_sigterm():
            return function(job)
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)


def _interrupt(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once: what is put away must not be cut short
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if number == signal.SIGINT:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    _let_half_made_objects_go()
    raise KeyboardInterrupt


def _let_half_made_objects_go() -> None:
    """An interrupt may cut a constructor short; what such an object says at its end is nobody's fault."""
    otherwise = sys.unraisablehook

    def hook(told: sys.UnraisableHookArgs) -> None:
        if getattr(told.object, "__name__", "") != "__del__":
            otherwise(told)

    sys.unraisablehook = hook
