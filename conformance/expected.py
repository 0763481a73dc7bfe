"""Failures that are expected of a client that is not there yet, and flakes that are known (docs/verdicts.md).

An entry excuses one finding in some scenarios. It never hides more: another finding in the same scenario fails, and an
entry that nothing needs any more fails the run.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator

from conformance.checks import NEEDS
from conformance.invariants import INVARIANTS
from conformance.outcome import Finding, Outcome, ScenarioResult
from scenarios.errors import Problem, ScenarioError, key_text, known
from scenarios.explain import problems_of
from scenarios.selection import picks
from scenarios.source import Source, read_source

INERT = "inert"
"""Stands for a fault that never bit, where a client does not get that far."""
_ALONE = ("client-crashed", INERT)


class Entry(BaseModel):
    """One finding that is excused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    scenario: Annotated[str, Field(min_length=1)]
    """An id, the id of a file with cases, or a glob over ids."""
    finding: Annotated[str, Field(min_length=1)]
    """The id of a finding, as reports tell it, or `inert`."""
    reason: Annotated[str, Field(min_length=1)]
    """Why it is expected."""
    issue: str = ""
    """Where it is followed up."""

    def covers(self, scenario_id: str, finding: str) -> bool:
        """Whether this entry speaks of that finding in that scenario."""
        return finding == self.finding and picks(self.scenario, scenario_id)

    def told(self) -> str:
        """`scenario: finding (reason)`."""
        return f"{self.scenario}: {self.finding} ({self.reason})"


class Flake(Entry):
    """A finding that comes and goes, within a budget and until a day."""

    at_most: Annotated[int, Field(ge=1)]
    """Runs that may fail by it, out of `of`."""
    of: Annotated[int, Field(ge=2, le=100)]
    """How often the scenario is run once it has failed."""
    expires: datetime.date
    """The last day on which it is excused."""

    @field_validator("expires", mode="before")
    @classmethod
    def _day(cls, value: object) -> object:
        return datetime.date.fromisoformat(value) if isinstance(value, str) else value


class Excuses(BaseModel):
    """A whole file."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    expected: list[Entry] = []
    """Failures that are expected; in any run."""
    flakes: list[Flake] = []
    """Known flakes; only on the real clock."""

    def covering(self, result: ScenarioResult) -> list[Entry] | None:
        """The expected entries that excuse a result; None: it is no failure, or not all of it is excused."""
        return covering(self.expected, result)

    def flake_of(self, result: ScenarioResult, today: datetime.date) -> Flake | None:
        """The known flake that alone explains a result; None: none does."""
        open_ = [flake for flake in self.flakes if today <= flake.expires]
        found = covering(open_, result)
        return next((flake for flake in open_ if found is not None and flake in found), None)


NONE = Excuses()


def covering(entries: Sequence[Entry], result: ScenarioResult) -> list[Entry] | None:
    """The entries that excuse every finding of a failed result; None: it did not fail, or they do not."""
    if result.outcome is Outcome.INERT:
        ids = {INERT}
    elif result.outcome is Outcome.FAIL:
        ids = {finding.id for finding in result.findings}
    else:
        return None
    found = {one: [entry for entry in entries if entry.covers(result.id, one)] for one in sorted(ids)}
    return [group[0] for group in found.values()] if all(found.values()) else None


def load_excuses(path: Path, ids: Iterable[str]) -> Excuses:
    """Read and check a file of expected failures and known flakes.

    Args:
        ids: of every scenario there is, those given as files included.
    Raises ScenarioError: everything that is wrong with it, by file, line and key.
    """
    source = read_source(path)
    problems = list(source.problems)
    try:
        excuses = TypeAdapter(Excuses).validate_python(source.data if source.data is not None else {})
    except (ValidationError, ValueError) as error:
        if not isinstance(error, ValidationError):
            raise
        problems += [
            _problem(source, where, found, allowed)
            for where, found, allowed in problems_of(error, (), Excuses)
        ]
        raise ScenarioError(problems) from None
    everywhere = list(ids)
    for section, entries in (("expected", excuses.expected), ("flakes", excuses.flakes)):
        for position, entry in enumerate(entries):
            here = (section, position)
            if not any(picks(entry.scenario, one) for one in everywhere):
                allowed = known(entry.scenario, everywhere).split("known:", 1)[0]
                found = f"{entry.scenario!r}: no scenario has this id"
                problems.append(
                    _problem(source, (*here, "scenario"), found, f"{allowed}see `conformance list`")
                )
            if not is_finding(entry.finding):
                found = f"{entry.finding!r}: no finding has this id"
                problems.append(
                    _problem(source, (*here, "finding"), found, known(entry.finding, finding_ids()))
                )
    if problems:
        raise ScenarioError(problems)
    return excuses


def finding_ids() -> list[str]:
    """Every id that a finding can have; those of keys are shown by their first part, as `metadata.*`."""
    fixed = [one for invariant in INVARIANTS for one in invariant.findings]
    return sorted({*fixed, *_ALONE, *(f"{name}.*" if name in _FAMILIES else name for name in NEEDS)})


_FAMILIES = ("sample", "metadata", "run", "wire", "judge", "accuracy")


def is_finding(name: str) -> bool:
    """Whether a finding can have this id."""
    family, dot, rest = name.partition(".")
    return (family in _FAMILIES and bool(dot and rest)) or name in finding_ids()


def _problem(source: Source, where: tuple[str | int, ...], found: str, allowed: str) -> Problem:
    return Problem(source.file, source.line(where), key_text(where), found, allowed)


def excused(result: ScenarioResult, excuses: Excuses) -> ScenarioResult:
    """The result with the reasons why its failure is expected, where it is."""
    entries = excuses.covering(result)
    return result if entries is None else replace(result, expected=tuple(entry.told() for entry in entries))


def complaints(
    excuses: Excuses, results: Iterable[ScenarioResult], today: datetime.date, file: str
) -> tuple[str, ...]:
    """What is wrong with the entries after a run: those that nothing needed, and flakes past their day.

    An entry is stale when a scenario that it speaks of was judged and none showed its finding. What was skipped, could
    not be seen or ended in an error of ours shows nothing about it.
    """
    told: list[str] = []
    judged = [r for r in results if r.outcome in (Outcome.PASS, Outcome.FAIL, Outcome.INERT)]
    for entry in excuses.expected:
        mine = [r for r in judged if picks(entry.scenario, r.id)]
        if mine and not any(entry.finding in _ids(r) for r in mine):
            told.append(
                f"{file}: stale: {entry.told()}: not seen in {len(mine)} scenario(s); take the entry out"
            )
    for flake in excuses.flakes:
        if flake.expires < today:
            told.append(f"{file}: expired on {flake.expires}: {flake.told()}; mend it or give it a new day")
    return tuple(told)


def _ids(result: ScenarioResult) -> set[str]:
    told: Iterable[Finding] = result.findings
    return {finding.id for finding in told} | ({INERT} if result.outcome is Outcome.INERT else set())
