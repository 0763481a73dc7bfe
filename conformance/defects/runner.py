"""Runs the catalogue against the client with each defect put in, and says which scenario caught it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from conformance.defects.changes import Plan, Reference, run_plans, run_watched
from conformance.defects.model import Catch, Defect, DefectResult
from conformance.options import RunOptions
from conformance.outcome import Finding, Outcome, ScenarioResult
from conformance.report.explain import explain
from scenarios.model import Scenario

MANY_SAMPLES = 20
"""From here on a scenario is a whole run."""


def run_reference(
    scenarios: Sequence[Scenario], options: RunOptions, processes: int, defects: Sequence[Defect] = ()
) -> Reference:
    """The same scenarios with the reference client; only those that pass can catch anything.

    Args:
        defects: whose places are watched, so that each is run only where it can make a difference.
    """
    return run_watched(scenarios, options, processes, {d.name: d.rewrites for d in defects})


def run_defects(
    defects: Sequence[Defect],
    scenarios: Sequence[Scenario],
    reference: Reference,
    options: RunOptions,
    *,
    processes: int,
    stop_at_first: bool = False,
) -> Iterator[DefectResult]:
    """One result a defect, in order.

    Args:
        reference: from the same run; scenarios that did not pass there, or that never come to the place of a defect,
            are left out.
        stop_at_first: a defect ends at its first true catch.
    """
    plans = [
        Plan(
            defect.name,
            defect.rewrites,
            tuple(_likely_first(defect, reference.concerned(defect.name, subjects_of(defect, scenarios)))),
            partial(is_caught, defect) if stop_at_first else None,
        )
        for defect in defects
    ]
    for defect, results in zip(defects, run_plans(plans, options, processes), strict=True):
        if isinstance(results, str):
            yield DefectResult(defect.name, defect.breaks, (), missed_reason=results)
        else:
            yield _read(defect, results)


def subjects_of(defect: Defect, scenarios: Sequence[Scenario]) -> list[Scenario]:
    """A session's defect is looked for where a session is the subject, a judge's where a judge is.

    A run of many samples costs as much as fifty scenarios and asks each defect the same again and again: where there
    are smaller ones, it is played only for the defects that name it.
    """
    whole_runs = {s.id for s in scenarios if len(s.specs) >= MANY_SAMPLES}
    left_out = whole_runs - set(defect.first) if len(whole_runs) < len(scenarios) else set()
    return [
        s
        for s in scenarios
        if s.id in defect.first or ((s.judge is not None) is defect.of_the_judge and s.id not in left_out)
    ]


def _likely_first(defect: Defect, scenarios: Sequence[Scenario]) -> list[Scenario]:
    return sorted(scenarios, key=lambda s: (s.id not in defect.first, s.id))


def is_caught(defect: Defect, result: ScenarioResult) -> bool:
    """Whether this result is a true catch of the defect."""
    return catch_of(defect, result) is not None


def catch_of(defect: Defect, result: ScenarioResult) -> Catch | None:
    """The catch in a scenario's result, if it is one.

    Only an outcome of `fail` counts, and only through a finding that the defect named beforehand and whose printed
    message names a requirement that the defect breaks. A defect that breaks no numbered requirement breaks a section
    of evaluation.md, and is caught by its finding alone.
    """
    if result.outcome is not Outcome.FAIL:
        return None
    counting: list[tuple[str, tuple[str, ...]]] = []
    for finding in result.findings:
        if finding.id in defect.findings:
            named = tuple(r for r in named_requirements(result, finding) if r in defect.breaks)
            if named or not defect.breaks:
                counting.append((finding.id, named))
    if not counting:
        return None
    covers = dict.fromkeys(r for _, requirements in counting for r in requirements)
    every = tuple(dict.fromkeys(finding.id for finding in result.findings))
    return Catch(result.id, *counting[0], covers=tuple(covers), all_findings=every)


def named_requirements(result: ScenarioResult, finding: Finding) -> tuple[str, ...]:
    """The requirements of a finding that the message a person reads does name, in its own line."""
    lines = [line for line in explain(result, _NO_TEXTS) if line.startswith(f"  finding    {finding.id}")]
    words = {word.strip("(),") for line in lines for word in line.split()}
    return tuple(r for r in finding.requirements if r in words)


_NO_TEXTS: Mapping[str, str] = {}


def _read(defect: Defect, results: Sequence[ScenarioResult]) -> DefectResult:
    catches: list[Catch] = []
    others: list[str] = []
    for result in results:
        catch = catch_of(defect, result)
        if catch is not None:
            catches.append(catch)
        elif result.outcome is not Outcome.PASS:
            others.append(f"{result.id}: {_why_no_catch(defect, result)}")
    missed = ""
    if not catches:
        missed = "; ".join(others) or (
            "every scenario passed" if results else "no scenario comes to its place"
        )
    return DefectResult(defect.name, defect.breaks, tuple(catches), missed, tuple(others), ran=len(results))


def _why_no_catch(defect: Defect, result: ScenarioResult) -> str:
    """What a scenario that did not pass says, and what it lacks to be a catch."""
    seen = ", ".join(f.id for f in result.findings) or result.reason.splitlines()[-1][:120]
    told = f"{result.outcome} ({seen})"
    if result.outcome is not Outcome.FAIL:
        return told
    if not any(finding.id in defect.findings for finding in result.findings):
        return f"{told}, but by none of the findings it is known by: {', '.join(defect.findings)}"
    return f"{told}, but names none of {', '.join(defect.breaks)}: list it under `requires`"
