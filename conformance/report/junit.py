"""The run as JUnit XML, for CI systems.

One suite, one test case a scenario. Names are stable: `classname` is `conformance.` and the scenario's area
with dots, `name` is the scenario's id. What the run was (target, client, clock, seed, versions) stands in the
suite's properties; the schema knows none for a test case, so a case's own facts are in its `system-out`.

    pass                          no child but system-out
    fail, inert, indeterminate    <failure>
    harness-error                 <error>: ours, never the client's
    not-observable, skipped       <skipped>
    an expected failure           <skipped>; a stale or expired entry is a test case of its own, with a <failure>
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from conformance.outcome import Outcome, RunReport, ScenarioResult, kind_of
from conformance.report.escape import one_line
from conformance.report.explain import explain
from conformance.report.publish import publish
from conformance.report.tally import tally

SUITE = "conformance"
MESSAGE_LIMIT = 300
"""Characters of a message attribute (count)."""


def render(report: RunReport, requirements: Mapping[str, str] | None = None) -> bytes:
    """The document as UTF-8 bytes.

    Args:
        report: the run.
        requirements: text of each requirement by its id, for the failures; None: ids alone.
    """
    counts = tally(report.results)
    errors = counts.by_outcome[Outcome.HARNESS_ERROR.value]
    totals = {
        "name": SUITE,
        "tests": str(len(report.results) + len(report.complaints)),
        "failures": str(counts.failed - errors + len(report.complaints)),
        "errors": str(errors),
        "time": _seconds(report.real_s),
    }
    root = ElementTree.Element("testsuites", totals)
    suite = ElementTree.SubElement(
        root, "testsuite", {**totals, "skipped": str(counts.skipped + counts.expected)}
    )
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in _properties(report):
        ElementTree.SubElement(properties, "property", {"name": one_line(name), "value": one_line(value)})
    for result in report.results:
        _case(suite, result, requirements or {})
    for number, complaint in enumerate(report.complaints, start=1):
        names = {"classname": f"{SUITE}.expected-failures", "name": f"entry {number}", "time": "0.000"}
        told = ElementTree.SubElement(suite, "testcase", names)
        ElementTree.SubElement(
            told, "failure", {"type": "stale", "message": one_line(complaint, MESSAGE_LIMIT)}
        ).text = one_line(complaint)
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def write(report: RunReport, path: Path, requirements: Mapping[str, str] | None = None) -> None:
    """Write the document; the file appears whole or not at all.

    Raises OSError: the folder cannot be made or written.
    """
    publish(path, render(report, requirements))


def _properties(report: RunReport) -> list[tuple[str, str]]:
    fixed = [
        ("target", report.target),
        ("clock", report.clock),
        ("client", report.client),
        ("seed", str(report.seed)),
        ("interrupted", "true" if report.interrupted else "false"),
    ]
    return fixed + [(f"version.{name}", report.environment[name]) for name in sorted(report.environment)]


def _case(suite: ElementTree.Element, result: ScenarioResult, requirements: Mapping[str, str]) -> None:
    area = one_line(result.id).split("/")[:-1]
    attributes = {
        "classname": ".".join([SUITE, *area]),
        "name": one_line(result.id),
        "time": _seconds(result.real_s),
    }
    case = ElementTree.SubElement(suite, "testcase", attributes)
    element = "skipped" if kind_of(result) == "expected" else _ELEMENTS[result.outcome]
    if element is not None:
        verdict = ElementTree.SubElement(case, element, {"type": _type(result), "message": _message(result)})
        verdict.text = "\n".join(explain(result, requirements))
    facts = [
        f"title: {one_line(result.title)}",
        f"outcome: {result.outcome.value}",
        f"requires: {one_line(', '.join(result.requires))}",
        f"virtual_s: {result.virtual_s:.3f}",
    ]
    ElementTree.SubElement(case, "system-out").text = "\n".join(facts)


_ELEMENTS: dict[Outcome, str | None] = {
    Outcome.PASS: None,
    Outcome.FAIL: "failure",
    Outcome.INERT: "failure",
    Outcome.INDETERMINATE: "failure",
    Outcome.HARNESS_ERROR: "error",
    Outcome.NOT_OBSERVABLE: "skipped",
    Outcome.SKIPPED: "skipped",
}


def _type(result: ScenarioResult) -> str:
    """Finding ids for a failure, so that a CI system groups by what broke; else the outcome."""
    ids = sorted({finding.id for finding in result.findings})
    return one_line(" ".join(ids), MESSAGE_LIMIT) if ids else result.outcome.value


def _message(result: ScenarioResult) -> str:
    if result.expected:
        return one_line(f"expected failure: {result.expected[0]}", MESSAGE_LIMIT)
    if result.findings and result.outcome is Outcome.FAIL:
        first = result.findings[0]
        return one_line(f"{first.id}: expected {first.expected}; actual {first.actual}", MESSAGE_LIMIT)
    return one_line(result.reason or result.outcome.value, MESSAGE_LIMIT)


def _seconds(seconds: float) -> str:
    """At most three decimals: what the schema allows."""
    return f"{max(seconds, 0.0):.3f}"
