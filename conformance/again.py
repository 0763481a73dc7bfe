"""Running a scenario again: known flakes within their budget, and failures that do not stay."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, replace

from conformance.expected import NONE, Excuses, Flake, excused
from conformance.options import RunOptions
from conformance.outcome import Outcome, ScenarioResult
from scenarios.model import Scenario

UNSTEADY = (Outcome.FAIL, Outcome.INERT, Outcome.INDETERMINATE)
"""Outcomes that another run could change."""

RunOnce = Callable[[Scenario, RunOptions], ScenarioResult]


@dataclass(frozen=True)
class Plan:
    """How a failure is treated."""

    excuses: Excuses = NONE
    max_retries: int = 0
    """Times that a failed scenario is run again, to tell a steady failure from one that comes and goes."""
    today: datetime.date = datetime.date.min


def run_with(scenario: Scenario, options: RunOptions, plan: Plan, run_once: RunOnce) -> ScenarioResult:
    """Run a scenario, and again where the plan asks for it.

    A failure that is expected is not repeated. One that only a known flake explains is, until its budget is spent or
    all its runs are done. Any other failure is repeated as often as `max_retries` says; one that does not come back
    makes the scenario indeterminate, never green: with one seed on the virtual clock nothing may come and go, and on
    the real one a flake that nobody has written down is a finding as well.
    """
    first = run_once(scenario, options)
    if first.outcome not in UNSTEADY or plan.excuses.covering(first) is not None:
        return excused(first, plan.excuses)
    flake = plan.excuses.flake_of(first, plan.today)
    if flake is not None:
        return _within_budget(first, flake, lambda: run_once(scenario, options), plan)
    outcomes = [first.outcome]
    for _ in range(plan.max_retries):
        again = run_once(scenario, options)
        outcomes.append(again.outcome)
        if again.outcome is Outcome.PASS:
            why = "it comes and goes, and is no known flake"
            if options.clock == "virtual":
                why = "one seed, two outcomes on the virtual clock"
            return replace(first, outcome=Outcome.INDETERMINATE, reason=f"{why}: {_told(outcomes)}")
    return replace(first, reason=_with(first.reason, outcomes)) if plan.max_retries else first


def _within_budget(
    first: ScenarioResult, flake: Flake, again: Callable[[], ScenarioResult], plan: Plan
) -> ScenarioResult:
    outcomes = [first.outcome]
    failed = 1
    while failed <= flake.at_most and len(outcomes) < flake.of:
        result = again()
        outcomes.append(result.outcome)
        if result.outcome is Outcome.PASS:
            continue
        if plan.excuses.flake_of(result, plan.today) is not flake:
            return replace(result, reason=_with(result.reason, outcomes))
        failed += 1
    told = f"known flake, {failed} of {len(outcomes)} runs failed, {flake.at_most} of {flake.of} allowed"
    if failed <= flake.at_most:
        return replace(first, expected=(f"{told}: {flake.told()}",))
    return replace(first, reason=f"{told}: over its budget")


def _with(reason: str, outcomes: list[Outcome]) -> str:
    return "\n".join(text for text in (f"{len(outcomes)} runs: {_told(outcomes)}", reason) if text)


def _told(outcomes: list[Outcome]) -> str:
    return ", ".join(outcome.value for outcome in outcomes)
