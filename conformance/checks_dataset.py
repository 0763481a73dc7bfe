"""What a scenario expects of the client's loader: which rows became samples, which were refused, and why."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.checks import UNCHECKED, Told, matches, requirements_of, told
from conformance.observation import Observation
from conformance.outcome import Finding


def check_dataset(observation: Observation) -> Iterator[Told]:
    """Every statement under `expect.dataset`; every sample must have loaded unless an error is expected."""
    scenario, facts = observation.scenario, observation.dataset
    expect = scenario.expect.dataset
    if expect is None or facts is None:
        return
    if expect.error != UNCHECKED:
        if not matches(expect.error, facts.error):
            actual = repr(facts.error) if facts.error else f"it loads: {', '.join(facts.names)}"
            yield _finding(observation, "dataset.error", told(expect.error), actual)
        return
    if facts.error:
        yield _finding(observation, "dataset.error", "it loads", facts.error)
        return
    names = [f"{sample.split}/{sample.id}" for sample in scenario.specs]
    if sorted(names) != sorted(facts.names):
        yield _finding(observation, "dataset.samples", ", ".join(names), ", ".join(facts.names) or "none")
    if expect.rows is not None and expect.rows != facts.rows:
        yield _finding(observation, "dataset.rows", str(expect.rows), str(facts.rows))
    wanted = [one.id for one in expect.refused]
    refused = [row_id for row_id, _ in facts.refused]
    if wanted != refused:
        yield _finding(observation, "dataset.refused", f"rows {wanted}", f"rows {refused}")
        return
    for one, (row_id, reason) in zip(expect.refused, facts.refused, strict=True):
        if not matches(one.reason, reason):
            yield _finding(observation, "dataset.refused", f"row {row_id}: {told(one.reason)}", repr(reason))


def _finding(observation: Observation, name: str, expected: str, actual: str) -> Finding:
    return Finding(name, requirements_of("dataset", observation.scenario.requires), expected, actual)
