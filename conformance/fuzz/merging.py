"""Shards put together: what each job of a CI reached and found, as one table."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.fuzz.campaign import Plan, Tally
from conformance.options import ConfigurationError

SUMMARY = "campaign.json"
FORMAT = 1


def write_summary(plan: Plan, tally: Tally, folder: Path) -> Path:
    """What a campaign did, beside its findings."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / SUMMARY
    file.write_text(json.dumps(summary(plan, tally), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return file


def summary(plan: Plan, tally: Tally) -> dict[str, Any]:
    """A campaign as JSON."""
    return {
        "format": FORMAT,
        "seed": plan.seed,
        "shard": list(plan.shard),
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


@dataclass
class Merged:
    """Several campaigns as one."""

    seed: int
    shards: list[tuple[int, int]] = field(default_factory=list)
    cases: int = 0
    cpu_s: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    findings: dict[str, dict[str, Any]] = field(default_factory=dict)
    sources: dict[str, Path] = field(default_factory=dict)
    """Folder of the file that is kept for a finding."""
    interrupted: bool = False

    @property
    def missing(self) -> list[str]:
        """Shards that nobody brought."""
        of = max((n for _, n in self.shards), default=1)
        there = {k for k, _ in self.shards}
        return [f"{k}/{of}" for k in range(1, of + 1) if k not in there]


def merge(folders: Sequence[Path], save: Path | None) -> Merged:
    """Put the folders of several shards together; a finding that several have is kept once, from its lowest case.

    Args:
        folders: each as `conformance fuzz --save` wrote it.
        save: where the findings that are kept are copied to.
    Raises ConfigurationError: a folder without a summary, of another version, of another seed, the same shard twice.
    """
    merged: Merged | None = None
    for folder in folders:
        told = _read(folder / SUMMARY)
        if merged is None:
            merged = Merged(int(told["seed"]))
        if told["seed"] != merged.seed:
            raise ConfigurationError(
                f"{folder}: seed {told['seed']}; the shards before have seed {merged.seed}, and only shards of "
                "one campaign can be merged"
            )
        shard = (int(told["shard"][0]), int(told["shard"][1]))
        if shard in merged.shards or (merged.shards and shard[1] != merged.shards[0][1]):
            raise ConfigurationError(f"{folder}: shard {shard[0]}/{shard[1]} stands beside {merged.shards}")
        merged.shards.append(shard)
        _take(merged, told, folder)
    if merged is None:
        raise ConfigurationError("no folder to merge")
    if save is not None:
        save.mkdir(parents=True, exist_ok=True)
        for key, folder in merged.sources.items():
            for file in sorted(folder.glob(f"{key}.*")):
                if file.resolve() != (save / file.name).resolve():
                    shutil.copyfile(file, save / file.name)
    return merged


def _take(merged: Merged, told: Mapping[str, Any], folder: Path) -> None:
    merged.cases += told["cases"]
    merged.cpu_s += told["cpu_s"]
    merged.interrupted |= told["interrupted"]
    merged.outcomes.update(told["outcomes"])
    merged.states.update(told["states"])
    for finding in told["findings"]:
        key = finding["key"]
        known = merged.findings.get(key)
        if known is None:
            merged.findings[key] = dict(finding)
            merged.sources[key] = folder
            continue
        known["count"] += finding["count"]
        if finding["first_case"] < known["first_case"]:
            merged.findings[key] = {**finding, "count": known["count"]}
            merged.sources[key] = folder


_KEYS = ("seed", "shard", "cases", "cpu_s", "interrupted", "outcomes", "states", "findings")


def _read(file: Path) -> dict[str, Any]:
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{file}: cannot be read: {error}") from None
    if not isinstance(told, dict) or told.get("format") != FORMAT:
        raise ConfigurationError(
            f"{file}: no summary of format {FORMAT}, as `conformance fuzz --save` writes it"
        )
    missing = [key for key in _KEYS if key not in told]
    if missing:
        raise ConfigurationError(f"{file}: without {', '.join(missing)}")
    return told
