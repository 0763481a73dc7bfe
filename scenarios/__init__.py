"""The shared catalogue of scenarios, and the schema of scenarios and faults. Imports nothing of ours."""

from scenarios.errors import Problem, ScenarioError
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
    "load_scenario",
    "load_scenarios",
    "select",
]
