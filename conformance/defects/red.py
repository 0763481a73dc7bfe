"""Which defect turns a scenario red: the proof that the scenario can fail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from conformance.defects.model import Catch, DefectResult
from conformance.defects.unproven import NEVER_RED
from conformance.invariants import INVARIANTS
from scenarios.model import Scenario

INVARIANT_FINDINGS = frozenset(name for invariant in INVARIANTS for name in invariant.findings)


def best_catches(results: Sequence[DefectResult]) -> dict[str, tuple[str, Catch]]:
    """For each scenario the defect that says the most about it, with the catch.

    One that a scenario's own expectation shows goes before one that only an invariant shows, and one that turns few
    scenarios red before one that turns many.
    """
    found: dict[str, tuple[tuple[bool, int, str], str, Catch]] = {}
    for result in results:
        for catch in result.catches:
            rank = (not is_own(catch), len(result.catches), result.name)
            if catch.scenario not in found or rank < found[catch.scenario][0]:
                found[catch.scenario] = (rank, result.name, catch)
    return {scenario: (name, catch) for scenario, (_, name, catch) in found.items()}


def is_own(catch: Catch) -> bool:
    """Whether an expectation of the scenario failed, and not only what holds everywhere."""
    return any(name not in INVARIANT_FINDINGS for name in catch.all_findings)


def red_rows(scenarios: Sequence[Scenario], results: Sequence[DefectResult]) -> Iterator[list[str]]:
    """Two cells a scenario file: its name, and what turns its cases red. Probes assert nothing and are left out."""
    best = best_catches(results)
    asserting = [s for s in scenarios if s.probe is None]
    by_file: dict[str, list[str]] = {}
    for scenario in asserting:
        by_file.setdefault(scenario.id.split("[")[0], []).append(scenario.id)
    for file in sorted({*by_file, *NEVER_RED}):
        told: list[tuple[str, str]] = []
        for scenario_id in by_file.get(file, [file]):
            case = scenario_id.removeprefix(file).strip("[]")
            told.append((_by(scenario_id, file, best), case))
        told.sort()
        cells = [
            (words, [case for _, case in cases]) for words, cases in groupby(told, key=lambda pair: pair[0])
        ]
        whole = len(cells) == 1
        yield [
            f"`{file}`",
            "; ".join(words if whole else f"{words} in {', '.join(cases)}" for words, cases in cells),
        ]


def _by(scenario_id: str, file: str, best: dict[str, tuple[str, Catch]]) -> str:
    if scenario_id in best:
        name, catch = best[scenario_id]
        own = next((f for f in catch.all_findings if f not in INVARIANT_FINDINGS), catch.finding)
        return f"`{name}` by `{own}`" + ("" if is_own(catch) else " (invariant)")
    return NEVER_RED.get(file) or NEVER_RED.get(scenario_id) or "**nothing**"
