"""The exported JSON Schema says what the loader says, as far as a schema can."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scenarios import json_schema
from scenarios.faults import FAULTS, FaultBase, Layer
from scenarios.faults_judge import FOREIGN_KEYS
from scenarios.source import parse_source, read_source

CATALOGUE = Path(__file__).resolve().parents[2] / "scenarios" / "catalogue"
SCHEMA = json_schema()
ANNOTATIONS = {"title", "description", "default", "$schema", "$defs"}


def _typed(value: Any, name: str) -> bool:
    if name in ("number", "integer"):
        return isinstance(value, int if name == "integer" else (int, float)) and not isinstance(value, bool)
    plain = {"string": str, "boolean": bool, "null": type(None), "array": list, "object": dict}
    return isinstance(value, plain[name])


def _listed(value: Any, allowed: Any) -> bool:
    return (
        _typed(value, allowed) if isinstance(allowed, str) else any(_typed(value, name) for name in allowed)
    )


RULES: dict[str, Callable[[Any, Any], bool]] = {
    "type": _listed,
    "enum": lambda value, allowed: value in allowed,
    "const": lambda value, allowed: value == allowed,
    "pattern": lambda value, pattern: not isinstance(value, str) or re.search(pattern, value) is not None,
    "minLength": lambda value, least: not isinstance(value, str) or len(value) >= least,
    "minItems": lambda value, least: not isinstance(value, list) or len(value) >= least,
    "minProperties": lambda value, least: not isinstance(value, dict) or len(value) >= least,
    "minimum": lambda value, least: not _typed(value, "number") or value >= least,
    "maximum": lambda value, most: not _typed(value, "number") or value <= most,
    "exclusiveMinimum": lambda value, least: not _typed(value, "number") or value > least,
    "required": lambda value, keys: not isinstance(value, dict) or set(keys) <= set(value),
    "$ref": lambda value, ref: valid(value, SCHEMA["$defs"][ref.removeprefix("#/$defs/")]),
    "anyOf": lambda value, options: any(valid(value, option) for option in options),
    "items": lambda value, schema: not isinstance(value, list) or all(valid(item, schema) for item in value),
    "propertyNames": lambda value, schema: (
        not isinstance(value, dict) or all(valid(key, schema) for key in value)
    ),
    "properties": lambda value, properties: (
        not isinstance(value, dict) or all(valid(value[k], s) for k, s in properties.items() if k in value)
    ),
}


def valid(value: Any, schema: dict[str, Any]) -> bool:
    """Whether a value meets a schema; a keyword this test does not know is an error, never ignored."""
    for keyword, operand in schema.items():
        if keyword == "additionalProperties":
            others = set(value) - set(schema.get("properties", {})) if isinstance(value, dict) else set()
            if not all(
                operand is not False and (operand is True or valid(value[k], operand)) for k in others
            ):
                return False
        elif keyword not in ANNOTATIONS and not RULES[keyword](value, operand):
            return False
    return True


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        for value in schema.values():
            yield from nodes(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from nodes(value)


def example(**changes: str) -> Any:
    lines = {
        "title": "title: A rule",
        "about": "about: A story.",
        "requires": "requires: [R2]",
        "clip": "clip: {seconds: 3.4}",
        "expect": "expect: {close: forced}",
    }
    return parse_source("\n".join({**lines, **changes}.values()).encode(), "f").data


@pytest.mark.parametrize("path", sorted(CATALOGUE.rglob("*.yaml")), ids=lambda path: path.stem)
def test_every_file_of_the_catalogue_meets_the_schema(path: Path) -> None:
    assert valid(read_source(path).data, SCHEMA)


@pytest.mark.parametrize(
    "changes",
    [
        {"x": "abuot: x"},
        {"x": "id: x"},
        {"about": "tags: []"},
        {"requires": "requires: [R64]"},
        {"clip": "clip: {second: 3}"},
        {"clip": "clip: {seconds: '3'}"},
        {"x": "server: {profile: juli}"},
        {"x": "faults: [stop_readng: {at_s: 3}]"},
        {"x": "faults: [late_session_closed]"},
        {"x": "faults: [stop_reading: {at: 3}]"},
        {"x": "faults: [late_session_closed: {}]"},
        {"x": "faults: [{never_done: {}, no_transport: {}}]"},
        {"x": "client: {deadlines: {reqest_s: 3}}"},
        {"x": "samples: [{id: a/b, clip: {seconds: 1}}]"},
        {"x": "cases: {}"},
        {"x": "cases: {A: {x: 1}}"},
        {"expect": "expect: {metadata: {ack_timout: null}}"},
        {"expect": "expect: {sample: {attempts: {atleast: 1}}}"},
        {"expect": "expect: {wire: {appends: {}}}"},
        {"expect": "expect: {run: {publishd: 1}}"},
    ],
    ids=lambda changes: next(iter(changes.values())),
)
def test_an_editor_marks_what_the_loader_refuses(changes: dict[str, str]) -> None:
    assert valid(example(), SCHEMA)
    assert not valid(example(**changes), SCHEMA)


def test_a_matcher_may_be_a_literal_or_a_mapping() -> None:
    for text in ("3", "set", "null", '""', "{at_least: 1, at_most: 3}", "{one_of: [1, 2]}", "true"):
        assert valid(example(expect=f"expect: {{sample: {{attempts: {text}}}}}"), SCHEMA)


def test_every_reference_resolves_and_the_schema_is_json() -> None:
    references = {
        node["$ref"].removeprefix("#/$defs/") for node in nodes(SCHEMA) if isinstance(node.get("$ref"), str)
    }

    assert references == set(SCHEMA["$defs"])
    assert json.loads(json.dumps(SCHEMA)) == SCHEMA


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_every_fault_and_parameter_is_told_to_the_editor(fault: type[FaultBase]) -> None:
    told = SCHEMA["$defs"][fault.__name__]

    foreign = set(FOREIGN_KEYS) if fault.layer is Layer.JUDGE else set()
    assert set(told["properties"]) == set(fault.model_fields) - foreign
    assert told["description"]
    assert [name for name, field in told["properties"].items() if not field.get("description")] == []


def test_every_section_of_a_file_is_told_to_the_editor() -> None:
    assert [name for name, field in SCHEMA["properties"].items() if not field.get("description")] == []
