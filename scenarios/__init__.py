"""The shared catalogue of scenarios, and the schema of scenarios and faults. Imports nothing of ours.

What stands here is imported when it is asked for: the schema takes longer to build than a list of the catalogue.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scenarios.errors import Problem, ScenarioError
    from scenarios.index import load_index
    from scenarios.loader import load_catalogue, load_scenario, load_scenarios
    from scenarios.model import Scenario
    from scenarios.schema import json_schema
    from scenarios.selection import select

__all__ = [
    "Problem",
    "Scenario",
    "ScenarioError",
    "json_schema",
    "load_catalogue",
    "load_index",
    "load_scenario",
    "load_scenarios",
    "select",
]

_PLACES = {
    "Problem": "errors",
    "ScenarioError": "errors",
    "load_index": "index",
    "load_catalogue": "loader",
    "load_scenario": "loader",
    "load_scenarios": "loader",
    "Scenario": "model",
    "json_schema": "schema",
    "select": "selection",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"scenarios.{_PLACES[name]}"), name)
