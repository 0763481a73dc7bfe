"""Which scenarios a command line means."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Protocol, TypeVar

from scenarios.errors import Problem, ScenarioError, known


class Selectable(Protocol):
    """What a selection looks at."""

    @property
    def id(self) -> str: ...
    @property
    def tags(self) -> Sequence[str]: ...


S = TypeVar("S", bound=Selectable)


def select(
    scenarios: Sequence[S],
    patterns: Sequence[str] = (),
    tags: Sequence[str] = (),
    *,
    files: dict[str, Path] | None = None,
) -> list[S]:
    """The scenarios that patterns and tags pick, each once.

    Args:
        scenarios: what to pick from, in the order of the answer.
        patterns: each an id, the id of a file with cases (all of them), a glob over ids, or the path of a
            YAML file, whose scenarios come last when they are not among the others. None: all.
        files: filled with the file of each scenario that came from one; None: nobody asks.
        tags: keep only scenarios with at least one of these. None: no matter which.
    Returns: may be empty when patterns and tags exclude each other.
    Raises ScenarioError: a pattern or a tag that picks nothing at all, or a broken file.
    """
    problems: list[Problem] = []
    wanted: set[str] = set()
    outside: list[Any] = []
    for pattern in patterns:
        if pattern.endswith((".yaml", ".yml")):
            from scenarios.loader import load_scenarios  # late: a list of the catalogue builds no scenario

            loaded = load_scenarios(Path(pattern))
            if files is not None:
                files.update(dict.fromkeys((scenario.id for scenario in loaded), Path(pattern)))
            here = {scenario.id for scenario in scenarios}
            wanted |= {scenario.id for scenario in loaded}
            outside += [scenario for scenario in loaded if scenario.id not in here]
            continue
        picked = {scenario.id for scenario in scenarios if picks(pattern, scenario.id)}
        if not picked:
            ids = [scenario.id for scenario in scenarios]
            problems.append(Problem(pattern, 0, "", "no scenario has this id", _near(pattern, ids)))
        wanted |= picked
    everything = [*scenarios, *outside]
    words = {tag for scenario in everything for tag in scenario.tags}
    problems += [
        Problem(tag, 0, "", "no scenario has this tag", known(tag, words)) for tag in tags if tag not in words
    ]
    if problems:
        raise ScenarioError(problems)
    return [
        scenario
        for scenario in everything
        if (not patterns or scenario.id in wanted) and (not tags or set(tags) & set(scenario.tags))
    ]


def picks(pattern: str, scenario_id: str) -> bool:
    """Whether a pattern, no file, means this scenario: its id, the id of its file with cases, or a glob."""
    if pattern in (scenario_id, scenario_id.split("[", 1)[0]):
        return True
    return any(sign in pattern for sign in "*?") and fnmatchcase(scenario_id, pattern)


def _near(pattern: str, ids: list[str]) -> str:
    help_text = known(pattern, ids)
    near = help_text.split("known:", 1)[0]
    return f"{near}`conformance list` prints all {len(ids)}"
