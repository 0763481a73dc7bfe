"""Where the blocks of a campaign are played: here, in worker processes, or on a Ray cluster.

All give the results in the order of the blocks, and the cases do not know who plays them: what is found for a seed does
not depend on the executor. A worker that dies costs nothing but time: its blocks are played again.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from conformance.fuzz.case import Block, BlockResult, CaseResult, Found
from conformance.fuzz.play import harness_finding
from conformance.options import ConfigurationError
from conformance.outcome import Outcome
from conformance.pool import forked, freeze_once
from conformance.scratch import scratch_folder

Play = Callable[[Block], BlockResult]
AHEAD = 2
"""Blocks handed out for each worker."""
DEATHS = 3
"""Times that a block is handed out before its cases count as what kills the worker."""


def local(blocks: Iterable[Block], play: Play, jobs: int) -> Generator[BlockResult, None, None]:
    """Play blocks in this process (one job), or in forked workers."""
    freeze_once()
    if jobs <= 1:
        for block in blocks:
            yield play(block)
        return
    with scratch_folder() as scratch:
        yield from _Workers(play, jobs, scratch).run(iter(blocks))


class _Workers:
    """A pool that is made anew when one of its processes dies."""

    def __init__(self, play: Play, jobs: int, scratch: Path) -> None:
        self._play = play
        self._jobs = jobs
        self._scratch = scratch
        self._pool = forked(jobs, scratch)
        self._pending: deque[tuple[Block, Future[BlockResult], int]] = deque()

    def run(self, blocks: Iterator[Block]) -> Iterator[BlockResult]:
        """Results in the order of the blocks."""
        try:
            self._fill(blocks)
            while self._pending:
                block, future, tries = self._pending[0]
                result: BlockResult | None
                try:
                    result = future.result()
                except BrokenProcessPool:
                    result = self._after_a_death(block, tries)
                if result is None:
                    continue
                self._pending.popleft()
                self._fill(blocks)
                yield result
            self._pool.shutdown()
        except BaseException:
            workers = list((self._pool._processes or {}).values())
            for worker in workers:
                worker.kill()
            self._pool.shutdown(wait=False, cancel_futures=True)
            for worker in workers:
                worker.join()  # what it was writing must not come back behind the folder's removal
            raise

    def _fill(self, blocks: Iterator[Block]) -> None:
        while len(self._pending) < AHEAD * self._jobs:
            block = next(blocks, None)
            if block is None:
                return
            self._pending.append((block, self._pool.submit(self._play, block), 1))

    def _after_a_death(self, block: Block, tries: int) -> BlockResult | None:
        """Hand everything pending out again; the oldest block, after too many deaths, is told as what it is."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._pool = forked(self._jobs, self._scratch)
        if tries >= DEATHS:
            rest = list(self._pending)[1:]
            self._pending = deque([self._pending[0]])
            self._pending.extend((b, self._pool.submit(self._play, b), 1) for b, _, _ in rest)
            return killed(block)
        again = [(b, t + (1 if b is block else 0)) for b, _, t in self._pending]
        self._pending = deque((b, self._pool.submit(self._play, b), t) for b, t in again)
        return None


def killed(block: Block) -> BlockResult:
    """The result of a block that no worker survived."""
    told = f"a worker died {DEATHS} times over cases {block.numbers[0]} to {block.numbers[-1]}"
    found = Found(harness_finding(told), block.seed, block.numbers[0], {})
    case = CaseResult(block.numbers[0], Outcome.HARNESS_ERROR, (found,), frozenset(), 0.0, 0)
    return BlockResult((case,), 0.0)


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Signals are handled as before: Ray puts handlers of its own in, and its SIGTERM ends the process on the spot."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # one that Python did not set cannot be set again
                signal.signal(number, handler)


def on_ray(
    blocks: Iterable[Block], play: Play, jobs: int, address: str | None
) -> Generator[BlockResult, None, None]:
    """Play blocks on a Ray cluster.

    Args:
        jobs: blocks that are out at a time for each of which the cluster should have a core; without an address also
            the cores of the local cluster that is started.
        address: of a running cluster; None: one is started here.
    Raises ConfigurationError: Ray is not installed, or the cluster cannot be reached.
    """
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError:
        raise ConfigurationError("--executor ray needs the extra `cluster` (pip install ray)") from None
    try:
        with _own_signals():
            ray.init(
                address=address,
                **({} if address else {"num_cpus": jobs, "include_dashboard": False}),
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ConfigurationError(f"--executor ray: {error}") from None
    try:
        # Ray itself runs a task again whose worker has died.
        remote: Any = ray.remote(max_retries=DEATHS, num_cpus=1)(play)
        source = iter(blocks)
        pending: deque[tuple[Block, Any]] = deque()
        while True:
            while len(pending) < AHEAD * jobs and (block := next(source, None)) is not None:
                pending.append((block, remote.remote(block)))
            if not pending:
                return
            block, reference = pending.popleft()
            try:
                yield ray.get(reference)
            except ray.exceptions.WorkerCrashedError:
                yield killed(block)
    finally:
        ray.shutdown()
