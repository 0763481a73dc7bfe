"""`conformance defects --ablate`: which scenario depends on which mitigation, alone and in pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from conformance.defects.changes import Plan, Reference, Rewrites, run_plans, run_watched
from conformance.defects.mitigations import MITIGATIONS, PAIRS, Mitigation
from conformance.options import RunOptions
from conformance.outcome import Outcome, ScenarioResult
from scenarios.model import Scenario


@dataclass(frozen=True)
class Dependent:
    """A scenario that does not pass without something."""

    scenario: str
    findings: tuple[str, ...]
    lost: bool
    """A sample that should have been published was not, or the client never came back."""


@dataclass(frozen=True)
class Removal:
    """What the catalogue says of the client with one or two mitigations taken away."""

    taken: tuple[str, ...]
    about: str
    ran: int
    """Scenarios that come to a place where it matters."""
    dependents: tuple[Dependent, ...]
    error: str = ""
    """Why it could not be taken away."""

    @property
    def failing(self) -> frozenset[str]:
        """Scenarios that do not pass."""
        return frozenset(d.scenario for d in self.dependents)

    @property
    def losing(self) -> frozenset[str]:
        """Scenarios that lose a sample."""
        return frozenset(d.scenario for d in self.dependents if d.lost)


@dataclass(frozen=True)
class Shares:
    """How two mitigations share a set of scenarios; each scenario stands in one place."""

    either: tuple[str, ...]
    """Saved by each one alone: broken only when both are gone."""
    first: tuple[str, ...]
    """Broken without the first, whatever the second does."""
    second: tuple[str, ...]
    """Broken without the second, whatever the first does."""
    both: tuple[str, ...]
    """Needs both: broken without either one."""
    hidden: tuple[str, ...]
    """Broken without one of them and whole again without both: the other one's doing."""


@dataclass(frozen=True)
class Pair:
    """Two mitigations, alone and together."""

    names: tuple[str, str]
    passing: Shares
    """By scenarios that pass as they should."""
    samples: Shares
    """By scenarios that keep their samples, whatever else is noticed."""


def share(first: frozenset[str], second: frozenset[str], together: frozenset[str]) -> Shares:
    """Sort scenarios by what breaks them: without the first, without the second, without both."""
    alone = first | second
    return Shares(
        either=tuple(sorted(together - alone)),
        first=tuple(sorted((first - second) & together)),
        second=tuple(sorted((second - first) & together)),
        both=tuple(sorted(first & second & together)),
        hidden=tuple(sorted(alone - together)),
    )


def measure(
    scenarios: Sequence[Scenario],
    options: RunOptions,
    processes: int,
    mitigations: Sequence[Mitigation] = MITIGATIONS,
) -> tuple[Reference, Iterator[Removal]]:
    """The reference run, and each removal as it is done: the single ones in order, then the pairs of them."""
    singles: dict[tuple[str, ...], tuple[str, Rewrites]] = {
        (m.name,): (m.about, m.without) for m in mitigations
    }
    by_name = {m.name: m for m in mitigations}
    pairs: dict[tuple[str, ...], tuple[str, Rewrites]] = {
        pair: ("both gone", by_name[pair[0]].without + by_name[pair[1]].without)
        for pair in PAIRS
        if by_name.keys() >= set(pair)
    }
    changes = {**singles, **pairs}
    watched = {" + ".join(taken): rewrites for taken, (_, rewrites) in changes.items()}
    reference = run_watched(scenarios, options, processes, watched)

    def removals() -> Iterator[Removal]:
        plans = [
            Plan(name, rewrites, tuple(reference.concerned(name, scenarios)))
            for name, rewrites in watched.items()
        ]
        for (taken, (about, _)), results in zip(
            changes.items(), run_plans(plans, options, processes), strict=True
        ):
            if isinstance(results, str):
                yield Removal(taken, about, 0, (), results)
            else:
                yield Removal(taken, about, len(results), tuple(_dependents(results)))

    return reference, removals()


def _dependents(results: Sequence[ScenarioResult]) -> Iterator[Dependent]:
    for result in results:
        if result.outcome is not Outcome.PASS:
            findings = tuple(dict.fromkeys(f.id for f in result.findings)) or (str(result.outcome),)
            yield Dependent(result.id, findings, is_lost(result))


def is_lost(result: ScenarioResult) -> bool:
    """Whether a scenario lost a sample that it should have kept, or never came to its end."""
    return any(
        finding.id in ("unbounded-await", "client-crashed")
        or (finding.id == "sample.outcome" and "published" in finding.expected)
        or (finding.id == "judge.scored")
        for finding in result.findings
    )


def pairs_of(removals: Sequence[Removal]) -> list[Pair]:
    """The pairs, from the removals of one measurement."""
    by_taken: Mapping[tuple[str, ...], Removal] = {r.taken: r for r in removals}
    found = []
    for names in PAIRS:
        one, other, together = by_taken[names[:1]], by_taken[names[1:]], by_taken[names]
        found.append(
            Pair(
                names,
                share(one.failing, other.failing, together.failing),
                share(one.losing, other.losing, together.losing),
            )
        )
    return found
