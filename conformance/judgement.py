"""From what was observed to an outcome (design.md section 8)."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from conformance.abilities import Need, fault_needs
from conformance.checks import UNCHECKED, Told, check_expectations
from conformance.checks_dataset import check_dataset
from conformance.checks_judge import check_judging
from conformance.doubts import coincidences
from conformance.invariants import check_invariants, check_warnings
from conformance.lateness import excuse
from conformance.observation import Observation
from conformance.options import RunOptions
from conformance.outcome import FaultReport, Finding, Outcome, ScenarioResult, Unobserved
from conformance.overdue import with_deadline
from conformance.trace import last_of_both_sides
from conformance.unplayed import unplayed_replies


def judge(observation: Observation, options: RunOptions, *, real_s: float) -> ScenarioResult:
    """The verdict on one scenario (docs/verdicts.md).

    An error of ours is a harness error whatever else was seen. Bytes that never arrived make everything doubtful, an
    answer that came beside its deadline every statement. A broken invariant is the client's failure; so is a
    statement that does not hold, where a fault was seen to bite or none was scripted. A fault that could have bitten
    and did not makes the scenario inert; one that cannot act or be seen here, or a statement that cannot be checked,
    makes it not observable.
    """
    scenario = observation.scenario
    invariants = list(check_invariants(observation))
    warnings = list(check_warnings(observation))
    statements = [
        *check_expectations(observation),
        *check_dataset(observation),
        *check_judging(_as_scripted(observation)),
    ]
    unseen_faults = unobservable_faults(observation)
    if observation.conversation is not None:
        from conformance.live.premises import held_against, missed_moments

        statements = held_against(statements, observation, observation.conversation)
        unseen_faults |= missed_moments(observation, observation.conversation)
    broken = [*crash(observation), *_findings(invariants), *observation.left_open]
    failed = [with_deadline(observation, finding) for finding in _findings(statements)]
    blind = [*_unobserved(statements), *unseen_faults.values()]
    unproven = [r for r in observation.faults if r.state != "observed" and r.index not in unseen_faults]
    outcome, reason = _outcome(observation, broken, failed, unproven, blind)
    assert observation.recorder is not None
    return ScenarioResult(
        id=scenario.id,
        title=scenario.title,
        requires=tuple(scenario.requires),
        outcome=outcome,
        findings=(*broken, *failed),
        faults=tuple(observation.faults),
        reason=reason,
        virtual_s=round(observation.client_s, 6),
        real_s=real_s,
        last_events=() if outcome is Outcome.PASS else last_of_both_sides(observation.recorder),
        output=() if outcome is Outcome.PASS else observation.output,
        reproduce=reproduce(scenario.id, options),
        trace_path=None,
        unobserved=(*blind, *_unobserved(invariants), *_unobserved(warnings)),
        warnings=tuple(_findings(warnings)),
    )


def _as_scripted(observation: Observation) -> Observation:
    """On a live server a judge's script is counted by itself, whatever the answer has beside."""
    if observation.conversation is None:
        return observation
    from conformance.live.judged import by_the_script

    return by_the_script(observation)


def _outcome(
    observation: Observation,
    broken: list[Finding],
    failed: list[Finding],
    unproven: list[FaultReport],
    blind: list[Unobserved],
) -> tuple[Outcome, str]:
    proven = any(report.state == "observed" for report in observation.faults)
    if observation.harness_errors:
        return Outcome.HARNESS_ERROR, "\n".join(observation.harness_errors)
    if observation.doubts:
        return Outcome.INDETERMINATE, "\n".join(observation.doubts)
    late = excuse(observation.lateness.worst_s, [finding.id for finding in [*broken, *failed]])
    if late and observation.conversation is not None:
        return Outcome.INDETERMINATE, late
    if broken:
        return Outcome.FAIL, ""
    if near := list(coincidences(observation)):
        return Outcome.INDETERMINATE, "\n".join(near[:5])
    if failed and (proven or not observation.scenario.faults):
        return Outcome.FAIL, ""
    if unproven:
        return Outcome.INERT, inert_reason(unproven)
    if not failed and (unplayed := list(unplayed_replies(observation))):
        return Outcome.INERT, "; ".join(unplayed)
    if blind:
        return Outcome.NOT_OBSERVABLE, "; ".join(dict.fromkeys(told.told() for told in blind))
    return (Outcome.FAIL, "") if failed else (Outcome.PASS, "")


def _findings(told: Iterable[Told]) -> list[Finding]:
    return [one for one in told if isinstance(one, Finding)]


def _unobserved(told: Iterable[Told]) -> list[Unobserved]:
    return [one for one in told if isinstance(one, Unobserved)]


def unobservable_faults(observation: Observation) -> dict[int, Unobserved]:
    """The scenario's faults that cannot act or be seen here, by position; not those seen to bite all the same."""
    unseen: dict[int, Unobserved] = {}
    for index, fault in enumerate(observation.scenario.faults):
        need = observation.abilities.missing(fault_needs(fault))
        bit = any(r.index == index and r.state == "observed" for r in observation.faults)
        if need is not None and not bit:
            unseen[index] = Unobserved(fault.name, "fault", need, observation.abilities.why_not[need])
        elif observation.outside and not bit and Need.TRANSPORT in fault_needs(fault):
            waiting = [
                report.evidence.get("waiting_bytes", 0)
                for report in observation.faults
                if report.index == index and report.state == "triggered"
            ]
            if waiting:  # a client of others cannot be made to write so much that a write must wait
                told = f"no write of the client had to wait: at most {max(waiting)} bytes lay in the sockets"
                unseen[index] = Unobserved(fault.name, "fault", Need.TRANSPORT, told)
    return unseen


def crash(observation: Observation) -> list[Finding]:
    """The client itself raised instead of accounting for its samples."""
    error = observation.client_error
    if error is None and observation.refused is not None and observation.scenario.expect.refused == UNCHECKED:
        error = RuntimeError(observation.refused)
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
        + (
            f": {report.evidence['reason']}"
            if report.state == "armed" and "reason" in report.evidence
            else ""
        )
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
    if options.client.outside:
        parts.append(f"--client {shlex.quote(options.client.told)}")
        if options.client.shows is not None:
            parts.append(f"--client-shows {options.client.shows}")
        if options.client_deadline_s is not None:
            parts.append(f"--client-deadline {options.client_deadline_s:g}")
    elif options.clock != "virtual" and options.live is None:
        parts.append(f"--clock {options.clock}")
    if options.model != RunOptions.model:
        parts.append(f"--model {shlex.quote(options.model)}")
    if options.ref_audio is not None:
        parts.append(f"--ref-audio {shlex.quote(str(options.ref_audio))}")
    if options.live is not None and options.live.again:
        parts.append(options.live.again)
    parts += [f"--dataset {shlex.quote(f'{name}={path}')}" for name, path in sorted(options.datasets.items())]
    return " ".join(parts)
