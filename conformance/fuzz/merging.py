"""Shards put together: what each job of a CI reached and found, as one table."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from conformance.fuzz.files import drawn_by
from conformance.fuzz.summary import Told, ToldFinding, read_summary
from conformance.options import ConfigurationError

NAMED = 10
"""Missing shards that are named; a summary may speak of a million."""


@dataclass
class Merged:
    """Several campaigns as one."""

    first: Told
    """What was asked for, but for its shard."""
    folders: dict[int, Path] = field(default_factory=dict)
    """By number of the shard."""
    cases: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    findings: dict[str, ToldFinding] = field(default_factory=dict)
    sources: dict[str, Path] = field(default_factory=dict)
    """Folder of the file that is kept for a finding."""
    unfinished: list[str] = field(default_factory=list)
    """Shards that were interrupted or played less than their share, in words."""

    @property
    def missing(self) -> str:
        """Shards that nobody brought, in words."""
        of = self.first.shard[1]
        absent = of - len(self.folders)
        numbers = (number for number in range(1, of + 1) if number not in self.folders)
        named = ", ".join(f"{number}/{of}" for number, _ in zip(numbers, range(NAMED), strict=False))
        return named + (f" and {absent - NAMED} more" if absent > NAMED else "")

    def drawn_by(self, finding: ToldFinding) -> str:
        """The command that draws its first case again."""
        return drawn_by(self.first.seed, finding.first_case, self.first.kinds)

    def file_of(self, key: str) -> Path | None:
        """The finding's file; None: its folder has none."""
        file = self.sources[key] / f"{key}.yaml"
        return file if file.is_file() else None


def merge(folders: Sequence[Path]) -> Merged:
    """Put the folders of several shards together; a finding that several have is kept once, from its lowest case.

    Args:
        folders: each as `conformance fuzz --save` wrote it.
    Raises ConfigurationError: a folder without a summary, one of another version or another campaign, the same shard
        twice.
    """
    merged: Merged | None = None
    for folder in folders:
        told = read_summary(folder)
        if merged is None:
            merged = Merged(told)
        else:
            _same_campaign(told, folder, merged.first, folders[0])
        if told.planned.case is not None:
            raise ConfigurationError(f"{folder}: only case {told.planned.case} was played; that is no shard")
        number, of = told.shard
        if number in merged.folders:
            raise ConfigurationError(f"{folder}: shard {number}/{of}, and so is {merged.folders[number]}")
        merged.folders[number] = folder
        _take(merged, told, folder)
    if merged is None:
        raise ConfigurationError("no folder to merge")
    return merged


def _same_campaign(told: Told, folder: Path, first: Told, first_folder: Path) -> None:
    of, first_of = told.shard[1], first.shard[1]
    if (told.seed, told.planned, told.kinds) != (first.seed, first.planned, first.kinds):
        is_of, first_is_of = f"of `{told.command}`", f"of `{first.command}`"
    elif of != first_of:
        is_of, first_is_of = f"one of {of} shards", f"one of {first_of}"
    elif told.versions != first.versions:
        is_of, first_is_of = f"played with {told.versions}", f"played with {first.versions}"
    else:
        return
    raise ConfigurationError(
        f"{folder} is {is_of}, {first_folder} is {first_is_of}: only shards of one campaign can be merged"
    )


def _take(merged: Merged, told: Told, folder: Path) -> None:
    merged.cases += told.cases
    merged.outcomes.update(told.outcomes)
    merged.states.update(told.states)
    if told.interrupted or (told.share is not None and told.cases < told.share):
        why = "interrupted after " if told.interrupted else ""
        of = "" if told.share is None else f" of {told.share}"
        merged.unfinished.append(f"{told.shard[0]}/{told.shard[1]} ({why}{told.cases}{of} cases)")
    for finding in told.findings:
        known = merged.findings.get(finding.key)
        if known is None or finding.first_case < known.first_case:
            merged.sources[finding.key] = folder
        kept = finding if known is None or finding.first_case < known.first_case else known
        count = finding.count + (0 if known is None else known.count)
        merged.findings[finding.key] = kept.model_copy(update={"count": count})


def keep(merged: Merged, save: Path) -> None:
    """Copy the findings that are kept, and their traces, into one folder.

    Raises ConfigurationError: one cannot be copied.
    """
    for key, folder in merged.sources.items():
        for file in (folder / f"{key}.yaml", folder / f"{key}.trace.ndjson"):
            if not file.is_file() or file.resolve() == (save / file.name).resolve():
                continue
            try:
                shutil.copyfile(file, save / file.name)
            except OSError as error:
                place = error.filename2 or error.filename or file
                raise ConfigurationError(
                    f"{place}: {file} cannot be copied to {save}: {error.strerror}"
                ) from None
