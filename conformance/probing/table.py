"""Facts of several targets side by side, on disk and as a table (docs/probes.md).

The file is one JSON object: `format`, `version`, `targets`: a list of {target, facts: {`probe.fact`: value}, failed:
{probe: reason}}. A value is null where the probe did not come to the point that the fact is about.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.options import ConfigurationError
from conformance.outcome import Outcome, ScenarioResult
from conformance.report.escape import one_line
from conformance.report.publish import publish
from scenarios.probing import FACTS

FORMAT = "duplex-conformance/probes"
VERSION = 1
MAX_FILE_BYTES = 4_000_000
_CELL = 34


@dataclass(frozen=True)
class Target:
    """What one server was seen to do."""

    name: str
    facts: dict[str, Any] = field(default_factory=dict)
    """`probe.fact` to value."""
    failed: dict[str, str] = field(default_factory=dict)
    """Probes that could not be played, and why."""


def target_of(name: str, results: Iterable[ScenarioResult]) -> Target:
    """The facts of one target from the results of its probes; other scenarios are passed over."""
    target = Target(name)
    for result in results:
        probe = result.id.rsplit("/", 1)[-1]
        for fact, value in result.facts.items():
            target.facts[f"{probe}.{fact}"] = value
        if result.id.startswith("probes/") and result.outcome is not Outcome.PASS:
            target.failed[probe] = result.reason
    return target


def dumps(targets: Sequence[Target]) -> str:
    """The file's text."""
    rows = [{"target": t.name, "facts": t.facts, "failed": t.failed} for t in targets]
    return json.dumps({"format": FORMAT, "version": VERSION, "targets": rows}, indent=2) + "\n"


def write(path: Path, targets: Sequence[Target]) -> None:
    """Write the file, whole or not at all.

    Raises OSError: it cannot be written.
    """
    publish(path, dumps(targets).encode("ascii"))


def load(path: Path) -> list[Target]:
    """The targets of a file.

    Raises ConfigurationError: it cannot be read, or is no file of ours; the message names it.
    """
    wanted = f"wanted a file of `conformance probe --out` ({FORMAT}, version {VERSION})"
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ConfigurationError(f"{path}: more than {MAX_FILE_BYTES} bytes; {wanted}")
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, ConfigurationError):
            raise
        raise ConfigurationError(f"{path}: {error}; {wanted}") from error
    try:
        if data["format"] != FORMAT or data["version"] != VERSION:
            raise ConfigurationError(f"{path}: {data['format']!r} version {data['version']!r}; {wanted}")
        return [Target(str(t["target"]), dict(t["facts"]), dict(t["failed"])) for t in data["targets"]]
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, ConfigurationError):
            raise
        raise ConfigurationError(f"{path}: {type(error).__name__}: {error}; {wanted}") from error


def differ(fact: str, values: Sequence[Any]) -> bool:
    """Whether targets are seen to do different things; one that was not asked, or came to no answer, says nothing.

    Times may lie a quarter of a second or of themselves apart, audio and input lengths a tenth.
    """
    told = [value for value in values if value is not None]
    numbers = [v for v in told if isinstance(v, int | float) and not isinstance(v, bool)]
    if told and len(numbers) == len(told):
        spread, most = max(numbers) - min(numbers), max(abs(v) for v in numbers)
        if "_per_" in fact and not fact.split(".")[-1].startswith(("audio_ms", "input_ms")):
            return spread > 0.2
        if fact.endswith("_s"):
            return spread > max(0.25, 0.25 * most)
        return spread > 0.1 * most
    return any(value != told[0] for value in told[1:])


def facts_of(targets: Sequence[Target]) -> list[str]:
    """Every `probe.fact` of any of them, by probe and in the order of scenarios.probing.FACTS."""
    names = {name for target in targets for name in target.facts}
    order = list(FACTS)

    def place(name: str) -> tuple[str, int, str]:
        probe, _, fact = name.partition(".")
        return probe, order.index(fact) if fact in order else len(order), fact

    return sorted(names, key=place)


def differing(targets: Sequence[Target]) -> list[str]:
    """The facts in which the targets differ."""
    return [name for name in facts_of(targets) if differ(name, [t.facts.get(name) for t in targets])]


def lines(targets: Sequence[Target]) -> list[str]:
    """The table: a row a fact, a column a target; `*` marks the rows that differ."""
    names, unlike = facts_of(targets), set(differing(targets))
    rows = [["", "probe.fact", *(t.name for t in targets)]]
    rows += [
        ["*" if name in unlike else "", one_line(name, 80), *(told(t.facts.get(name)) for t in targets)]
        for name in names
    ]
    cells = [[*row[:2], *(_cut(one_line(cell)) for cell in row[2:])] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    table = [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
    failed = [
        one_line(f"{t.name}: probes/{probe} could not be played: {why}")
        for t in targets
        for probe, why in t.failed.items()
    ]
    return [*table, *failed]


def told(value: Any) -> str:
    """A value as a table shows it; `-` where there is none."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _cut(text: str) -> str:
    return text if len(text) <= _CELL else text[: _CELL - 3] + "..."
