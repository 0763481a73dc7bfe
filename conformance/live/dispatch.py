"""Scenarios side by side, one process each, ended gently: a process that is told to stop closes its sessions first."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections.abc import Callable, Generator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any, TypeVar

from conformance.pool import freeze_once

Job = TypeVar("Job")
Result = TypeVar("Result")

GENTLE_S = 12.0
"""Real seconds that a process gets to close its sessions once it was told to stop."""


def dispatch(
    next_job: Callable[[int], tuple[Job, int] | None],
    work: Callable[[Job], Result],
    lost: Callable[[Job, str], Result],
    *,
    at_once: int,
    late: Callable[[Job, Result], None] = lambda job, result: None,
) -> Generator[tuple[Job, Result], None, None]:
    """Results as they come.

    Args:
        next_job: asked while there is room, told how much; a job with the room it takes, 1 or more; None: nothing
            that fits, now or, while nothing runs, for good.
        work: runs in a process of its own; what it returns must pickle.
        lost: what stands for the result of a process that died, with the reason.
        at_once: room in all, such as sessions that may be open.
        late: told of results that come once everybody was told to stop.
    Leaving early, by Ctrl-C too, tells every process to stop and waits until its sessions are closed.
    """
    freeze_once()
    context = multiprocessing.get_context("fork")
    running: dict[Connection, tuple[BaseProcess, Job]] = {}
    taken: dict[Connection, int] = {}
    try:
        while True:
            while (room := at_once - sum(taken.values())) > 0 and (found := next_job(room)) is not None:
                job, weight = found
                ours, theirs = context.Pipe(duplex=False)
                started = context.Process(target=_play, args=(theirs, work, job))
                started.start()
                theirs.close()
                running[ours] = (started, job)
                taken[ours] = weight
            if not running:
                return
            for ready in wait(list(running)):
                assert isinstance(ready, Connection)
                process, job = running[ready]
                try:
                    result = ready.recv()
                except EOFError:
                    process.join(GENTLE_S)
                    result = lost(job, f"its process ended with {process.exitcode}")
                del running[ready], taken[ready]
                ready.close()
                process.join(GENTLE_S)
                yield job, result
    finally:
        _end(running, late)


def _end(running: dict[Connection, tuple[BaseProcess, Any]], late: Callable[[Any, Any], None]) -> None:
    """Everybody at once is told to stop, then heard and waited for."""
    for process, _ in running.values():
        process.terminate()
    for pipe, (process, job) in running.items():
        if pipe.poll(GENTLE_S):
            with contextlib.suppress(EOFError):  # it had nothing to tell
                late(job, pipe.recv())
            process.join(GENTLE_S)
        if process.is_alive():
            process.kill()
            process.join()
        pipe.close()


def _play(pipe: Connection, work: Callable[[Any], Any], job: Any) -> None:
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches the whole group; the parent says what it means
    signal.signal(signal.SIGTERM, _stop)
    try:
        pipe.send(work(job))
    except KeyboardInterrupt:
        pass  # told to stop before there was anything to tell; its sessions are closed by now
    finally:
        pipe.close()


def _stop(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: closing sessions must not be cut short
    raise KeyboardInterrupt
