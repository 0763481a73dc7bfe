"""From what was observed to an outcome (design.md section 8)."""

from __future__ import annotations

import shlex

from conformance.checks import check_expectations
from conformance.checks_judge import check_judging
from conformance.invariants import check_invariants
from conformance.observation import Observation
from conformance.options import RunOptions
from conformance.outcome import FaultReport, Finding, Outcome, ScenarioResult
from conformance.trace import last_of_both_sides


def judge(observation: Observation, options: RunOptions, *, real_s: float) -> ScenarioResult:
    """The verdict on one scenario.

    An error of ours is a harness error whatever else was seen. A broken invariant is the client's failure. A
    fault that could have bitten and did not makes the scenario inert, unless the client failed an expectation
    beside a fault that did bite.
    """
    scenario = observation.scenario
    broken = [*crash(observation), *check_invariants(observation)]
    findings: list[Finding] = [
        *broken,
        *check_expectations(observation),
        *check_judging(observation),
    ]
    unproven = [report for report in observation.faults if report.state != "observed"]
    proven = [report for report in observation.faults if report.state == "observed"]
    outcome, reason = Outcome.PASS, ""
    if observation.harness_errors:
        outcome, reason = Outcome.HARNESS_ERROR, "\n".join(observation.harness_errors)
    elif broken or (findings and (proven or not observation.faults)):
        outcome = Outcome.FAIL
    elif unproven:
        outcome, reason = Outcome.INERT, inert_reason(unproven)
    elif findings:
        outcome = Outcome.FAIL
    passed = outcome is Outcome.PASS
    assert observation.recorder is not None
    return ScenarioResult(
        id=scenario.id,
        title=scenario.title,
        requires=tuple(scenario.requires),
        outcome=outcome,
        findings=tuple(findings),
        faults=tuple(observation.faults),
        reason=reason,
        virtual_s=round(observation.client_s, 6),
        real_s=real_s,
        last_events=() if passed else last_of_both_sides(observation.recorder),
        reproduce=reproduce(scenario.id, options),
        trace_path=None,
    )


def crash(observation: Observation) -> list[Finding]:
    """The client itself raised instead of accounting for its samples."""
    error = observation.client_error
    if error is None:
        return []
    return [
        Finding(
            "client-crashed",
            ("R31",),
            "the run ends with an account of every sample",
            f"{type(error).__name__}: {error}",
        )
    ]


def inert_reason(unproven: list[FaultReport]) -> str:
    """Which faults were never seen to bite."""
    return "; ".join(
        f"fault {report.index} {report.name}: {report.state}, never observed"
        + (f" (connection {report.connection})" if report.connection else "")
        for report in unproven
    )


def reproduce(scenario_id: str, options: RunOptions) -> str:
    """One command that runs the scenario again the same way."""
    source = options.files.get(scenario_id)
    parts = [
        "conformance run",
        shlex.quote(scenario_id if source is None else str(source)),
        f"--seed {options.seed}",
    ]
    if options.clock != "virtual":
        parts.append(f"--clock {options.clock}")
    parts += [f"--dataset {shlex.quote(f'{name}={path}')}" for name, path in sorted(options.datasets.items())]
    return " ".join(parts)
