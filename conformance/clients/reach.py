"""Which requirements a client of others can be seen to break: by what it can be told, and by what it leaves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from conformance import checks, checks_judge
from conformance.abilities import Abilities
from conformance.clients.adapting import adapted
from conformance.clients.choice import ClientChoice, abilities_of
from conformance.clients.making import unplayable
from conformance.clients.outside_facts import OWN_KEYS
from conformance.invariants import INVARIANTS
from conformance.options import RunOptions
from scenarios.model import Scenario

OWN_STATEMENTS = (
    "sample.anomalies",
    "sample.attempt_files",
    "sample.first_attempt",
    "sample.last_attempt",
    "sample.late_text",
    *(f"metadata.{key}" for key in sorted(OWN_KEYS)),
)
"""Statements on files that evaluation.md 12 does not name: a client of others rarely has them."""


BY_INVARIANTS: Mapping[str, tuple[str, ...]] = {
    "append-before-commit": ("R37", "R38"),
    "clip-altered": ("R51",),
    "exception-never-retrieved": ("R9",),
    "more-than-two-attempts": ("R26",),
    "padded-unit": ("R39",),
    "padding-after-settle": ("R43", "R44"),
    "task-leak": ("R9", "R14"),
    "unbounded-await": ("R1", "R5", "R6", "R11", "R13", "R14"),
}
"""Requirements that an invariant shows broken, by its name; those of judging and attempts stand in statements too."""


def out_of_reach(
    scenarios: Iterable[Scenario], choice: ClientChoice, network: Literal["own", "shared"] = "own"
) -> dict[str, str]:
    """Requirements that no scenario can show broken with such a client, each with the reason.

    Args:
        scenarios: all there are.
        choice: a client of others, which leaves the files of evaluation.md 12 and nothing more.
        network: that a program has; its socket is taken for one that cannot be filled where it is shared.
    Returns: by requirement that some scenario requires; the reason is that of most of these scenarios.
    """
    abilities = abilities_of(choice, network)
    options = RunOptions(client=choice, abilities=abilities)
    reasons: dict[str, list[str]] = {}
    reached: set[str] = set()
    for scenario in scenarios:
        cannot = unplayable(scenario, options)
        seen = set() if cannot is not None else set(_spoken_for(adapted(scenario), abilities))
        for requirement in scenario.requires:
            if requirement in seen:
                reached.add(requirement)
            elif cannot is not None:
                first = cannot.unobserved[0]
                told = f"{first.id}: {first.reason}" if first.what == "setting" else first.reason
                reasons.setdefault(requirement, []).append(told)
            else:
                reasons.setdefault(requirement, []).append(_why(scenario, requirement, abilities))
    return {
        requirement: max(sorted(set(told)), key=told.count)
        for requirement, told in sorted(reasons.items(), key=lambda one: int(one[0][1:]))
        if requirement not in reached
    }


def _statements(scenario: Scenario) -> Iterator[str]:
    """Ids of the checks that a scenario's `expect` asks for."""
    expect = scenario.expect
    samples = [one for one in (expect.sample, *expect.samples.values()) if one is not None]
    for sample in samples:
        for name in sample.model_fields_set:
            mapping = getattr(sample, name)
            prefix = "metadata" if name == "metadata" else f"sample.{name}"
            if isinstance(mapping, dict) and name in (
                "metadata",
                "first_attempt",
                "last_attempt",
                "anomalies",
            ):
                yield from (f"{prefix}.{key}" for key in mapping)
            else:
                yield prefix
    yield from (f"metadata.{key}" for key in expect.metadata)
    yield from ["sample.close"] if expect.close is not None else []
    for section in ("run", "verdicts", "accuracy"):
        yield from (f"{section}.{key}" for key in getattr(expect, section))
    for section in ("wire", "judge"):
        part = getattr(expect, section)
        if part is not None:
            yield from (f"{section}.{name}" for name in part.model_fields_set)
    judged = expect.judge
    for one in [] if judged is None else [judged.sample, *judged.samples.values()]:
        if one is not None:
            yield from (f"judge.{name}" for name in one.model_fields_set)
    for name in ("finishes_within_s", "deadlines", "socket_evidence", "log", "warnings"):
        if name in expect.model_fields_set:
            yield name


def _speaks(statement: str) -> tuple[str, ...]:
    tables: tuple[Mapping[str, tuple[str, ...]], ...] = (checks.REQUIREMENTS, checks_judge.REQUIREMENTS)
    return tuple(
        requirement
        for table in tables
        for requirement in table.get(statement, table.get(statement.split(".", 1)[0], ()))
    )


def _is_seen(statement: str, abilities: Abilities) -> bool:
    own = any(statement == name or statement.startswith(f"{name}.") for name in OWN_STATEMENTS)
    return not own and abilities.missing(checks.needs_of(statement)) is None


def _spoken_for(scenario: Scenario, abilities: Abilities) -> Iterator[str]:
    """Requirements that a statement speaks for which can be seen, and those of invariants that can."""
    for statement in _statements(scenario):
        if _is_seen(statement, abilities):
            yield from _speaks(statement)
    for one in INVARIANTS:
        if abilities.missing(one.needs) is None:
            yield from BY_INVARIANTS.get(one.id, ())


def _why(scenario: Scenario, requirement: str, abilities: Abilities) -> str:
    speaking = [name for name in _statements(scenario) if requirement in _speaks(name)]
    missing = [need for name in speaking if (need := abilities.missing(checks.needs_of(name))) is not None]
    if missing:
        return abilities.why_not[missing[0]]
    return (
        "it shows in files that evaluation.md 12 does not name" if speaking else "no statement speaks for it"
    )
