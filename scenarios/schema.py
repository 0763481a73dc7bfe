"""JSON Schema of a scenario file, for editors; made from the models, which stay the only source."""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise
from typing import Any

from pydantic.json_schema import models_json_schema

from scenarios import (
    faults,
    faults_base,
    faults_judge,
    faults_response,
    faults_seam,
    faults_session,
    faults_transport,
    judging,
    model,
    probing,
)
from scenarios.faults import FAULTS, FaultBase
from scenarios.faults_judge import FOREIGN_KEYS, JUDGE_FAULTS
from scenarios.model import Scenario
from scenarios.names import (
    ACCURACY_KEYS,
    ANOMALIES,
    DEADLINES,
    METADATA_KEYS,
    REQUIREMENTS,
    RUN_KEYS,
    TRACE_KEYS,
)
from scenarios.rules import SAFE_ID

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_FAULT_MODULES = (
    faults_base,
    faults_transport,
    faults_session,
    faults_response,
    faults_judge,
    faults_seam,
    faults,
)
_LITERAL: dict[str, Any] = {"type": ["string", "number", "boolean", "null", "array"]}
_MATCHER: dict[str, Any] = {
    "description": "A literal, `set`, null, or a mapping whose keys must all hold.",
    "anyOf": [
        _LITERAL,
        {
            "type": "object",
            "minProperties": 1,
            "additionalProperties": False,
            "properties": {
                "contains": {"type": "string", "minLength": 1},
                "not_contains": {"type": "string", "minLength": 1},
                "at_least": {"type": "number"},
                "at_most": {"type": "number"},
                "one_of": {"type": "array", "minItems": 1},
            },
        },
    ],
}


def json_schema() -> dict[str, Any]:
    """The schema of one file of the catalogue (JSON Schema 2020-12).

    Rules between keys (docs/writing-scenarios.md) are not in it; `conformance validate` checks them.
    """
    classes: list[type[Scenario] | type[FaultBase]] = [Scenario, *FAULTS.values()]
    _, together = models_json_schema([(owner, "validation") for owner in classes])
    definitions: dict[str, Any] = together["$defs"]
    root = definitions.pop("Scenario")
    definitions.pop("FaultBase", None)
    definitions["Matcher"] = _MATCHER
    properties = root["properties"]
    del properties["id"]
    properties["faults"] = {**_without(properties["faults"], "items"), "items": _fault_items()}
    properties["requires"]["items"] = {"enum": sorted(REQUIREMENTS, key=lambda name: int(name[1:]))}
    properties["cases"] = {
        "description": "Scenarios that differ by a value: short id to dotted keys and their values.",
        "type": "object",
        "minProperties": 1,
        "propertyNames": {"pattern": "^[a-z0-9][a-z0-9._-]*$"},
        "additionalProperties": {"type": "object", "minProperties": 1},
    }
    for fault in JUDGE_FAULTS:
        for foreign in FOREIGN_KEYS:
            del definitions[fault.__name__]["properties"][foreign]
    _name_keys(definitions)
    _describe({**definitions, "Scenario": root})
    root["required"] = [name for name in root["required"] if name != "id"]
    root["anyOf"] = [{"required": ["expect"]}, {"required": ["probe"]}]
    return {"$schema": _DIALECT, **root, "title": "Scenario", "$defs": definitions}


def _without(schema: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in schema.items() if name != key}


def _fault_items() -> dict[str, Any]:
    bare = [name for name, fault in FAULTS.items() if _needs_nothing(fault)]
    mappings = [
        {
            "type": "object",
            "properties": {name: {"$ref": f"#/$defs/{fault.__name__}"}},
            "required": [name],
            "additionalProperties": False,
        }
        for name, fault in FAULTS.items()
    ]
    return {"anyOf": [{"enum": bare}, *mappings]}


def _needs_nothing(fault: type[FaultBase]) -> bool:
    return not any(f.is_required() for f in fault.model_fields.values())


def _name_keys(definitions: dict[str, Any]) -> None:
    """Close the mappings whose keys are names that the models keep as text."""
    matcher = {"$ref": "#/$defs/Matcher"}
    closed: dict[tuple[str, str], tuple[list[str], dict[str, Any]]] = {
        ("ClientSpec", "deadlines"): (list(DEADLINES), {"type": "number"}),
        ("Expect", "metadata"): (sorted(METADATA_KEYS), matcher),
        ("SampleExpect", "metadata"): (sorted(METADATA_KEYS), matcher),
        ("SampleExpect", "anomalies"): (sorted(ANOMALIES), matcher),
        ("Expect", "run"): (sorted(RUN_KEYS), matcher),
        ("Expect", "accuracy"): (sorted(ACCURACY_KEYS), matcher),
    }
    for (owner, field), (names, value) in closed.items():
        schema = definitions[owner]["properties"][field]
        schema["properties"] = dict.fromkeys(names, value)
        schema["additionalProperties"] = False
    definitions["Expect"]["properties"]["log"]["items"] = matcher
    lines = definitions["JudgedExpect"]["properties"]["trace"]["anyOf"][0]
    lines["items"] = {
        "type": "object",
        "properties": dict.fromkeys(sorted(TRACE_KEYS), matcher),
        "additionalProperties": False,
    }
    for name in ("SampleExpect", "WireExpect", "JudgeExpect", "JudgedExpect"):
        for schema in definitions[name]["properties"].values():
            if schema.get("default") == "unchecked":
                schema["$ref"] = "#/$defs/Matcher"
    for field in ("id", "split"):
        definitions["SampleSpec"]["properties"][field]["pattern"] = f"^{SAFE_ID.pattern}$"


def _describe(definitions: dict[str, dict[str, Any]]) -> None:
    """Give each key the text that stands under it in the models, so that an editor shows it."""
    texts: dict[str, dict[str, str]] = {}
    for module in (*_FAULT_MODULES, judging, probing, model):
        for node in ast.parse(inspect.getsource(module)).body:
            if isinstance(node, ast.ClassDef):
                texts[node.name] = _field_texts(node)
    faults_by_name = {fault.__name__: fault for fault in FAULTS.values()}
    for name, schema in definitions.items():
        told: dict[str, str] = {}
        for owner in reversed(faults_by_name[name].__mro__ if name in faults_by_name else ()):
            told |= texts.get(owner.__name__, {})
        told |= texts.get(name, {})
        for key, field in schema.get("properties", {}).items():
            if key in told:
                field.setdefault("description", told[key])


def _field_texts(node: ast.ClassDef) -> dict[str, str]:
    texts: dict[str, str] = {}
    for field, after in pairwise(node.body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
        ):
            texts[field.target.id] = str(after.value.value)
    return texts
