"""`campaign.json`: what a campaign was asked for, how far it came and what it found, written while it goes on."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from conformance.fuzz.drawing import Kinds
from conformance.fuzz.files import versions
from conformance.options import ConfigurationError
from scenarios.errors import key_text
from scenarios.explain import problems_of

if TYPE_CHECKING:
    from conformance.fuzz.campaign import Plan, Tally

SUMMARY = "campaign.json"
FORMAT = 2
MAX_BYTES = 64 * 1024 * 1024
"""Of a file that is read: a campaign with ten thousand findings has a tenth of it."""
Count = Annotated[int, Field(ge=0)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)


class ToldFinding(_Part):
    """A finding in few words; its file lies beside the summary."""

    key: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$")]
    id: str
    requirements: list[str]
    expected: str
    actual: str
    first_case: Count
    count: Count


class Planned(_Part):
    """How much was asked for of all shards together."""

    cases: Count | None
    for_s: Amount | None
    case: Count | None
    """The only one that was played."""


class Told(_Part):
    """A campaign, or one shard of it."""

    seed: Count
    shard: Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=2, max_length=2)]
    """K and N."""
    planned: Planned
    kinds: Kinds
    versions: str
    cases: Count
    interrupted: bool
    """Also while it goes on, and for good when its process was killed."""
    outcomes: dict[str, Count]
    states: dict[str, Count]
    findings: list[ToldFinding]

    @property
    def command(self) -> str:
        """What was asked for, without the shard."""
        asked = "" if self.planned.cases is None else f" --cases {self.planned.cases}"
        asked += "" if self.planned.for_s is None else f" --for {self.planned.for_s:g}s"
        asked += "" if self.planned.case is None else f" --case {self.planned.case}"
        return f"conformance fuzz --seed {self.seed}{self.kinds.flags}{asked}"

    @property
    def share(self) -> int | None:
        """How many cases this shard was to play; None: until its time was over."""
        if self.planned.cases is None:
            return None
        return len(range(self.shard[0] - 1, self.planned.cases, self.shard[1]))


def write_summary(plan: Plan, tally: Tally, folder: Path) -> Path:
    """What a campaign did by now, beside its findings; a reader never sees half of it.

    Raises OSError: it cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / SUMMARY
    half = folder / f".{SUMMARY}.part"
    text = json.dumps(summary(plan, tally), indent=2, ensure_ascii=False) + "\n"
    half.write_text(text, encoding="utf-8", errors="replace")
    os.replace(half, file)
    return file


def summary(plan: Plan, tally: Tally) -> dict[str, Any]:
    """A campaign as JSON."""
    return {
        "format": FORMAT,
        "seed": plan.seed,
        "shard": list(plan.shard),
        "planned": {"cases": plan.cases, "for_s": plan.for_s, "case": plan.case},
        "kinds": dataclasses.asdict(plan.kinds),
        "versions": versions(),
        "cases": tally.cases,
        "runs": tally.runs,
        "cpu_s": round(tally.cpu_s, 3),
        "real_s": round(tally.real_s, 3),
        "virtual_s": round(tally.virtual_s, 3),
        "interrupted": tally.interrupted,
        "outcomes": dict(sorted(tally.outcomes.items())),
        "states": dict(sorted(tally.states.items())),
        "findings": [
            {
                "key": key,
                "id": group.found.finding.id,
                "requirements": list(group.found.finding.requirements),
                "expected": group.found.finding.expected[:400],
                "actual": group.found.finding.actual[:400],
                "first_case": group.first_case,
                "count": group.count,
            }
            for key, group in sorted(tally.groups.items())
        ],
    }


def read_summary(folder: Path) -> Told:
    """The summary of a folder that `conformance fuzz --save` wrote.

    Raises ConfigurationError: there is none, it is of another version, or something in it is not what it must be; names
        file, place, what was found and what is allowed.
    """
    file = folder / SUMMARY
    try:
        with file.open("rb") as source:
            raw = source.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"{file}: cannot be read: {error.strerror or error}") from None
    if len(raw) > MAX_BYTES:
        raise ConfigurationError(f"{file}: more than {MAX_BYTES} bytes")
    try:
        told = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{file}: cannot be read: {error}") from None
    if not isinstance(told, dict) or told.get("format") != FORMAT:
        found = f"format {told.get('format')!r:.60}" if isinstance(told, dict) else f"a {type(told).__name__}"
        raise ConfigurationError(
            f"{file}: {found}; a summary of format {FORMAT} is wanted, as `conformance fuzz --save` writes it"
        )
    return _checked(file, raw)


def _checked(file: Path, raw: bytes) -> Told:
    try:
        told = Told.model_validate_json(raw)
    except ValidationError as error:
        path, found, allowed = next(iter(problems_of(error, (), Told)))
        raise ConfigurationError(f"{file}: {key_text(path)}: {found}; {allowed}") from None
    if told.shard[0] > told.shard[1]:
        raise ConfigurationError(f"{file}: shard: {told.shard}; [K, N] with K <= N")
    return told
