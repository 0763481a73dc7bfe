"""One result told in lines: what a person needs to see why a scenario did not pass.

The console shows these lines and JUnit carries them in its failure text, so both tell the same story.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from conformance.outcome import FaultReport, Finding, Outcome, ScenarioResult, kind_of
from conformance.report.escape import block, one_line

EVENTS_LIMIT = 40
"""Last events shown (lines)."""
EVIDENCE_LIMIT = 400
"""Characters of a fault's evidence that are shown (count)."""


def explain(result: ScenarioResult, requirements: Mapping[str, str]) -> list[str]:
    """The lines below a scenario's heading.

    Args:
        result: any result; one that passed without faults gives no lines.
        requirements: text of each requirement by its id (`R13`); an id that is missing is shown alone.
    Returns: printable lines, two spaces in; what came from outside stands behind `| ` or a label.
    """
    lines = _reason(result.reason)
    for finding in result.findings:
        lines += _finding(finding)
    narrow_first = sorted(result.findings, key=lambda finding: len(finding.requirements))
    broken = dict.fromkeys(number for finding in narrow_first for number in finding.requirements)
    if broken:
        lines += ["  broken requirements", *_requirements(broken, requirements)]
    elif result.outcome is not Outcome.PASS and result.requires and not result.no_slot:
        lines += ["  what the scenario requires", *_requirements(result.requires, requirements)]
    unseen = [told for told in result.unobserved if told.what != "invariant"]
    if unseen:
        lines.append("  not observable here")
        lines += [f"    {one_line(told.told(), 300)}" for told in dict.fromkeys(unseen)]
    if result.faults:
        lines.append("  faults")
        lines += [f"    {_fault(fault)}" for fault in result.faults]
    for told in result.injected:
        lines += _labelled("played here", told)
    for told in result.answers:
        lines += _labelled("unanswered", told)
    if result.last_events:
        lines.append("  last events, both sides")
        lines += [f"    | {line}" for line in block(result.last_events, limit=EVENTS_LIMIT)]
    if result.output:
        lines.append("  last lines of the program")
        lines += [f"    | {line}" for line in block(result.output, limit=EVENTS_LIMIT)]
    if result.trace_path:
        lines += _labelled("trace", result.trace_path)
    if result.reproduce:
        lines += _labelled("reproduce", result.reproduce)
    return lines


def needs_explaining(result: ScenarioResult) -> bool:
    """Whether a reader must be told more than the outcome: everything counted as failed."""
    return kind_of(result) == "failed"


def heading(result: ScenarioResult) -> str:
    """Outcome, id and title on one printable line."""
    return f"{result.outcome.value.upper()} {one_line(result.id, 200)}: {one_line(result.title, 200)}"


def _reason(reason: str) -> list[str]:
    """A short reason on its line; a stack below its last line, which says what happened."""
    told = reason.strip().split("\n")
    if not told[-1]:
        return []
    stack = [f"    | {line}" for line in block(told)] if len(told) > 1 else []
    return [*_labelled("reason", told[-1]), *stack]


def _finding(finding: Finding) -> list[str]:
    numbers = f" ({one_line(', '.join(finding.requirements), 200)})" if finding.requirements else ""
    lines = [f"  finding    {one_line(finding.id, 200)}{numbers}"]
    if finding.sample is not None:
        lines += _labelled("sample", finding.sample)
    lines += _labelled("expected", finding.expected)
    lines += _labelled("actual", finding.actual)
    if finding.deadline is not None:
        lines += _labelled("deadline", f"{finding.deadline} should have acted")
    lines += [f"    | {line}" for line in block(finding.details)]
    return lines


def _requirements(ids: Iterable[str], texts: Mapping[str, str]) -> list[str]:
    lines = []
    for number in ids:
        text = texts.get(number, "")
        shown = one_line(" ".join(text.split()), 300)
        lines.append(f"    {one_line(number, 40):<8} {shown}".rstrip())
    return lines


def _fault(fault: FaultReport) -> str:
    where = "no connection" if fault.connection is None else f"connection {fault.connection}"
    evidence = json.dumps(fault.evidence, default=str, sort_keys=True) if fault.evidence else "no evidence"
    name = one_line(fault.name, 100)
    return (
        f"{name} #{fault.index}, {where}: {one_line(fault.state, 40)}; {one_line(evidence, EVIDENCE_LIMIT)}"
    )


def _labelled(label: str, text: str) -> list[str]:
    return [f"  {label:<10} {one_line(text)}"]
