"""Runs scenarios against the client with a change put in, where the change can make a difference at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from conformance.defects.reach import fits, watched
from conformance.defects.rewrite import Rewrite, RewriteError, applied
from conformance.options import RunOptions
from conformance.outcome import Outcome, ScenarioResult
from conformance.pool import spread
from conformance.runner import run_scenario
from scenarios.model import Scenario

Rewrites = tuple[Rewrite, ...]
_CHUNK = 16
"""Scenarios of a job: few enough that no process waits long for the other's last one."""
_RAM_DISK = Path("/dev/shm")


@dataclass(frozen=True)
class Reference:
    """The reference client's run of the scenarios."""

    results: Mapping[str, ScenarioResult]
    reached: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Scenario to the changes whose place its run came to; one that could not be watched is in every set."""

    @property
    def unclean(self) -> list[ScenarioResult]:
        """What did not pass."""
        return [result for result in self.results.values() if result.outcome is not Outcome.PASS]

    def concerned(self, change: str, scenarios: Sequence[Scenario]) -> list[Scenario]:
        """The scenarios that passed and that a change can make a difference to."""
        return [
            s
            for s in scenarios
            if s.probe is None
            and self.results[s.id].outcome is Outcome.PASS
            and change in self.reached.get(s.id, (change,))
        ]


@dataclass(frozen=True)
class Plan:
    """What is run with one change put in."""

    name: str
    rewrites: Rewrites
    scenarios: tuple[Scenario, ...]
    """In the order in which they are run."""
    stop_at: Callable[[ScenarioResult], bool] | None = None
    """The change ends at the first result for which this holds; it must pickle."""


def run_watched(
    scenarios: Sequence[Scenario],
    options: RunOptions,
    processes: int,
    changes: Mapping[str, Sequence[Rewrite]],
) -> Reference:
    """The scenarios with the reference client, and the changes by name whose places each of them comes to."""
    chunks = [tuple(scenarios[at : at + _CHUNK]) for at in range(0, len(scenarios), _CHUNK)]
    with ram_disk():
        done = list(spread(partial(_run_watched, changes, options), chunks, processes))
    ran = [one for chunk in done for one in chunk]
    always = {name for name, rewrites in changes.items() if not fits(rewrites)}
    reached = {result.id: frozenset(names | always) for result, names in ran} if changes else {}
    return Reference({result.id: result for result, _ in ran}, reached)


def run_plans(
    plans: Sequence[Plan], options: RunOptions, processes: int
) -> Iterator[list[ScenarioResult] | str]:
    """For each plan, in order, the results in the order in which they ran, or why its change could not be made."""
    jobs: list[Plan] = []
    owners: list[int] = []
    for owner, plan in enumerate(plans):
        size = len(plan.scenarios) if plan.stop_at is not None else _CHUNK
        starts = range(0, max(len(plan.scenarios), 1), max(size, 1))
        pieces = [plan.scenarios[at : at + max(size, 1)] for at in starts]
        jobs += [Plan(plan.name, plan.rewrites, piece, plan.stop_at) for piece in pieces]
        owners += [owner] * len(pieces)
    together: list[ScenarioResult] | str = []
    with ram_disk():
        for at, results in enumerate(spread(partial(_run, options), jobs, processes)):
            if isinstance(results, str) or isinstance(together, str):
                together = results if isinstance(results, str) else together
            else:
                together = [*together, *results]
            if at + 1 == len(jobs) or owners[at + 1] != owners[at]:
                yield together
                together = []


def _run(options: RunOptions, plan: Plan) -> list[ScenarioResult] | str:
    results: list[ScenarioResult] = []
    try:
        with applied(plan.rewrites):
            for scenario in plan.scenarios:
                results.append(run_scenario(scenario, options))
                if plan.stop_at is not None and plan.stop_at(results[-1]):
                    break
    except RewriteError as error:
        return str(error)
    return results


def _run_watched(
    changes: Mapping[str, Sequence[Rewrite]], options: RunOptions, scenarios: Sequence[Scenario]
) -> list[tuple[ScenarioResult, set[str]]]:
    ran: list[tuple[ScenarioResult, set[str]]] = []
    with watched(changes) as reached:
        for scenario in scenarios:
            reached.clear()
            result = run_scenario(scenario, options)
            ran.append((result, set(reached)))
    return ran


@contextlib.contextmanager
def ram_disk() -> Iterator[None]:
    """Temporary files in memory where that is possible: a scenario makes and removes a dozen, thousands of times."""
    before = tempfile.tempdir
    if before is None and "TMPDIR" not in os.environ and os.access(_RAM_DISK, os.W_OK):
        tempfile.tempdir = str(_RAM_DISK)
    try:
        yield
    finally:
        tempfile.tempdir = before
