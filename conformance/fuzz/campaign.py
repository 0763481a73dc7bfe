"""A campaign: cases one after another, what they reached and what they found, kept as it comes."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from conformance.fuzz import executors, files
from conformance.fuzz.case import Block, BlockResult, Found
from conformance.fuzz.drawing import Kinds
from conformance.fuzz.playing import play_block, player_for
from conformance.fuzz.replaying import write_trace
from conformance.fuzz.shrink import shrink
from conformance.fuzz.summary import write_summary
from conformance.options import ConfigurationError
from conformance.outcome import Outcome
from conformance.scratch import scratch_folder

BLOCK = 20
"""Cases in a block."""
SHRUNK = 25
"""Findings of one campaign that are made small; more than that have a common cause."""
SUMMARY_EVERY_S = 5.0
"""Between two writings of `campaign.json` while nothing is found."""


@dataclass(frozen=True)
class Plan:
    """What to draw, how much of it, and where to play it."""

    seed: int
    cases: int | None = None
    """How many in all shards together; None: until the time is over."""
    for_s: float | None = None
    """Real seconds."""
    jobs: int = 1
    shard: tuple[int, int] = (1, 1)
    """(K, N): every N-th case from the K-th on."""
    kinds: Kinds = field(default_factory=Kinds)
    executor: str = "local"
    """`local`, `ray` or `ray:ADDRESS`."""
    case: int | None = None
    """The only one to play."""

    def blocks(self, until_s: float | None) -> Iterator[Block]:
        """Blocks of case numbers, without end when only the time is limited; one, however short that is."""
        if self.case is not None:
            yield Block(self.seed, (self.case,), self.kinds)
            return
        first, step = self.shard[0] - 1, self.shard[1]
        numbers: Iterator[int] = itertools.count(first, step)
        if self.cases is not None:
            numbers = iter(range(first, self.cases, step))
        while chunk := tuple(itertools.islice(numbers, BLOCK)):
            yield Block(self.seed, chunk, self.kinds)
            if until_s is not None and time.monotonic() >= until_s:
                return


@dataclass
class Group:
    """One finding, however often it was seen."""

    found: Found
    """The first case that showed it, made small when there was time."""
    count: int = 1
    first_case: int = 0


@dataclass
class Tally:
    """What a campaign did."""

    cases: int = 0
    runs: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    groups: dict[str, Group] = field(default_factory=dict)
    cpu_s: float = 0.0
    real_s: float = 0.0
    virtual_s: float = 0.0
    interrupted: bool = False

    def add(self, block: BlockResult) -> list[Group]:
        """Count a block; returns the findings that are new."""
        fresh: list[Group] = []
        self.cpu_s += block.cpu_s
        for case in block.cases:
            self.cases += 1
            self.runs += 1 + case.extra_runs
            self.virtual_s += case.virtual_s
            self.outcomes[case.outcome.value] += 1
            self.states.update(case.states)
            for found in case.found:
                known = self.groups.get(found.key)
                if known is not None:
                    known.count += 1
                    continue
                group = Group(found, first_case=case.number)
                self.groups[found.key] = group
                fresh.append(group)
        return fresh

    @property
    def harness_errors(self) -> bool:
        """Whether anything found is ours."""
        return any(group.found.finding.id == "harness-error" for group in self.groups.values())


Told = Callable[[Tally, list[Group]], None]


class _Kept:
    """The folder of a campaign: its findings as they come, and how far it is, so that a kill loses little."""

    def __init__(self, plan: Plan, tally: Tally, folder: Path | None) -> None:
        self._plan = plan
        self._tally = tally
        self._folder = folder
        self._next_s = 0.0
        self._written: set[str] = set()

    def block(self, fresh: list[Group]) -> None:
        """A block was counted."""
        for group in fresh:
            self.finding(group.found)
        if fresh or time.monotonic() >= self._next_s:
            self.summary()

    def finding(self, found: Found) -> Path | None:
        """Write it, or write it again. Returns: its file. Raises ConfigurationError."""
        if self._folder is None:
            return None
        self._written.discard(found.key)
        with _writing(self._folder):
            file = files.write(found, self._folder, self._plan.kinds)
        self._written.add(found.key)
        return file

    def trace(self, found: Found, file: Path) -> None:
        """Write the trace beside the finding's file. Raises ConfigurationError."""
        with _writing(file.parent):
            write_trace(found, file.with_suffix(".trace.ndjson"))

    def end(self) -> None:
        """Write what an interrupt came before, or cut short, and the summary. Raises ConfigurationError."""
        for key, group in self._tally.groups.items():
            if key not in self._written:
                self.finding(group.found)
        self.summary(whole=not self._tally.interrupted)

    def summary(self, *, whole: bool = False) -> None:
        """Write how far it is; as interrupted until it is whole. Raises ConfigurationError."""
        if self._folder is None:
            return
        self._next_s = time.monotonic() + SUMMARY_EVERY_S
        with _writing(self._folder):
            write_summary(self._plan, replace(self._tally, interrupted=not whole), self._folder)


@contextlib.contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        place = error.filename or folder
        raise ConfigurationError(f"{place}: cannot be written: {error.strerror or error}") from None


def run_campaign(plan: Plan, *, save: Path | None, on_block: Told) -> Tally:
    """Play a campaign; an interrupt ends it and keeps what was found.

    Args:
        plan: what and how much.
        save: each finding is written there at once, and again when it has been made small, and `campaign.json` as it
            goes on; None: nowhere.
        on_block: called after each block with the tally and the findings that are new.
    Raises ConfigurationError: something cannot be written; what was found was told.
    """
    tally = Tally()
    kept = _Kept(plan, tally, save)
    began_s = time.monotonic()
    until_s = None if plan.for_s is None else began_s + plan.for_s
    results = _executed(plan, plan.blocks(until_s))
    try:
        kept.summary()
        for block in results:
            fresh = tally.add(block)
            tally.real_s = time.monotonic() - began_s
            on_block(tally, fresh)
            kept.block(fresh)
        _make_small(plan, tally, kept)
    except KeyboardInterrupt:
        tally.interrupted = True
    finally:
        results.close()
    kept.end()
    return tally


def _executed(plan: Plan, blocks: Iterator[Block]) -> Generator[BlockResult, None, None]:
    kind, _, address = plan.executor.partition(":")
    if kind == "ray":
        return executors.on_ray(blocks, play_block, plan.jobs, address or None)
    return executors.local(blocks, play_block, plan.jobs)


def _make_small(plan: Plan, tally: Tally, kept: _Kept) -> None:
    with scratch_folder() as scratch:
        for group in list(tally.groups.values())[:SHRUNK]:
            if not group.found.data:
                continue
            group.found = shrink(group.found, player_for(group.found.data, plan.seed, scratch))
            file = kept.finding(group.found)
            if file is not None and "steps" not in group.found.data and not group.found.against:
                kept.trace(group.found, file)


def outcome_words(tally: Tally) -> str:
    """How the cases ended, in the order of a reader's interest."""
    order = (Outcome.FAIL, Outcome.HARNESS_ERROR, Outcome.INDETERMINATE, Outcome.INERT, Outcome.PASS)
    return ", ".join(f"{tally.outcomes[o.value]} {o.value}" for o in order if tally.outcomes[o.value])
