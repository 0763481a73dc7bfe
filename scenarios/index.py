"""What the catalogue holds, without building it: ids, titles, tags, requirements.

Building it takes three times as long as reading it, and the tests build it anyway.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from scenarios.cases import cases_of, merged, yaml_files
from scenarios.errors import Problem
from scenarios.source import parse_source


@dataclass(frozen=True)
class Listed:
    """One scenario as a list shows it."""

    id: str
    title: str
    tags: tuple[str, ...]
    requires: tuple[str, ...]


def load_index() -> list[Listed]:
    """The catalogue's scenarios, sorted by id.

    Raises ScenarioError: a file is no YAML within the bounds of `scenarios.source`.
    """
    found: list[Listed] = []
    for entry, relative in yaml_files(files("scenarios") / "catalogue", ""):
        source = parse_source(entry.read_bytes(), str(entry))
        base_id = relative.removesuffix(".yaml")
        base = {key: value for key, value in source.data.items() if key != "cases"}
        if "cases" not in source.data:
            found.append(_listed(base_id, base))
            continue
        told: list[Problem] = []  # what is wrong is for who builds the file
        for case, values in cases_of(source, told):
            found.append(_listed(f"{base_id}[{case}]", merged(source, base, case, values, told)[0]))
    return sorted(found, key=lambda listed: listed.id)


def _listed(scenario_id: str, data: dict[str, Any]) -> Listed:
    return Listed(
        scenario_id, data["title"], tuple(data.get("tags") or ()), tuple(data.get("requires") or ())
    )
