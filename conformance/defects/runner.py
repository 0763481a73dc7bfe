"""Runs the catalogue against the client with each defect put in, and says which scenario caught it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from conformance.defects.model import Catch, Defect, DefectResult
from conformance.defects.rewrite import RewriteError, applied
from conformance.options import RunOptions
from conformance.outcome import Outcome, ScenarioResult
from conformance.pool import spread
from conformance.runner import run_scenario
from scenarios.model import Scenario


@dataclass(frozen=True)
class _Job:
    defect: Defect | None
    scenarios: tuple[Scenario, ...]
    options: RunOptions
    stop_at_first: bool


def run_reference(
    scenarios: Sequence[Scenario], options: RunOptions, processes: int
) -> dict[str, ScenarioResult]:
    """The same scenarios with the reference client; only those that pass can catch anything."""
    jobs = [_Job(None, (scenario,), options, False) for scenario in scenarios]
    return {result.id: result for results in spread(_run, jobs, processes) for result in _results(results)}


def run_defects(
    defects: Sequence[Defect],
    scenarios: Sequence[Scenario],
    reference: Mapping[str, ScenarioResult],
    options: RunOptions,
    *,
    processes: int,
    stop_at_first: bool = False,
) -> Iterator[DefectResult]:
    """One result a defect, in order.

    Args:
        reference: results of `run_reference` from the same run; scenarios that did not pass there are left out.
        stop_at_first: a defect ends at its first true catch.
    """
    usable = [s for s in scenarios if reference[s.id].outcome is Outcome.PASS]
    jobs = [_Job(d, tuple(_likely_first(d, _concerned(d, usable))), options, stop_at_first) for d in defects]
    for defect, results in zip(defects, spread(_run, jobs, processes), strict=True):
        if isinstance(results, str):
            yield DefectResult(defect.name, defect.breaks, (), missed_reason=results)
        else:
            yield _read(defect, results)


def _concerned(defect: Defect, scenarios: Sequence[Scenario]) -> list[Scenario]:
    """A session's defect is looked for where a session is the subject, a judge's where a judge is."""
    return [
        s
        for s in scenarios
        if s.probe is None and ((s.judge is not None) is defect.of_the_judge or s.id in defect.first)
    ]


def _likely_first(defect: Defect, scenarios: Sequence[Scenario]) -> list[Scenario]:
    return sorted(scenarios, key=lambda s: (s.id not in defect.first, s.id))


def _results(results: list[ScenarioResult] | str) -> list[ScenarioResult]:
    assert not isinstance(results, str)
    return results


def _run(job: _Job) -> list[ScenarioResult] | str:
    if job.defect is None:
        return [run_scenario(scenario, job.options) for scenario in job.scenarios]
    results: list[ScenarioResult] = []
    try:
        with applied(job.defect.rewrites):
            for scenario in job.scenarios:
                result = run_scenario(scenario, job.options)
                results.append(result)
                if job.stop_at_first and catch_of(job.defect, result) is not None:
                    break
    except RewriteError as error:
        return str(error)
    return results


def catch_of(defect: Defect, result: ScenarioResult) -> Catch | None:
    """The catch in a scenario's result, if it is one.

    Only an outcome of `fail` counts, and only through a finding that the defect named beforehand and that
    names a requirement the defect breaks.
    """
    if result.outcome is not Outcome.FAIL:
        return None
    named = [
        (finding.id, tuple(r for r in finding.requirements if r in defect.breaks))
        for finding in result.findings
        if finding.id in defect.findings
    ]
    counting = [(name, requirements) for name, requirements in named if requirements]
    if not counting:
        return None
    covers = dict.fromkeys(r for _, requirements in counting for r in requirements)
    return Catch(result.id, *counting[0], covers=tuple(covers))


def _read(defect: Defect, results: Sequence[ScenarioResult]) -> DefectResult:
    catches: list[Catch] = []
    others: list[str] = []
    for result in results:
        catch = catch_of(defect, result)
        if catch is not None:
            catches.append(catch)
        elif result.outcome is not Outcome.PASS:
            why = ", ".join(f.id for f in result.findings) or result.reason.splitlines()[-1][:120]
            others.append(f"{result.id}: {result.outcome} ({why})")
    missed = "" if catches else ("; ".join(others) or "every scenario passed")
    return DefectResult(defect.name, defect.breaks, tuple(catches), missed, tuple(others))
