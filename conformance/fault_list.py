"""Every fault told from its own docstring and its schema: for a terminal, as JSON, as docs/faults.md."""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from conformance.options import ConfigurationError
from scenarios import json_schema
from scenarios.errors import known
from scenarios.faults import FAULTS, FaultBase, Layer
from scenarios.faults_judge import JudgeFault

SHARED = ("on", "at_s", "for_s", "attempt", "sample", "connection")
"""Keys of every fault of the wire; told once."""
UNITS: Mapping[str, str] = {
    "bytes_per_s": "bytes a second",
    "_ms": "milliseconds",
    "_s": "seconds",
    "_bytes": "bytes",
    "_hz": "hertz",
}
"""What the end of a parameter's name says."""
REQUIRED = "required"
"""Stands for the default of a parameter that has none."""
_PART = re.compile(r"^ *(Wire|Parameters|Survive): ", re.MULTILINE)

INTRODUCTION = """\
# Faults

Every fault a scenario can script, as `conformance faults --markdown` tells it from the code: change the docstrings, not
this file. [writing-scenarios.md](writing-scenarios.md) says how a scenario names one.

A fault of the wire (layers transport, session, response) takes a trigger and a scope beside its own parameters; one
that has only its own moment takes no trigger:

| key | what it says |
|---|---|
"""


@dataclass(frozen=True)
class Parameter:
    """One key of a fault."""

    name: str
    kind: str
    """Type, or the values allowed."""
    unit: str
    """Empty where it has none."""
    default: str
    """As in YAML; `required` where there is none."""
    text: str


@dataclass(frozen=True)
class Told:
    """One fault in words."""

    name: str
    layer: str
    summary: str
    wire: str
    survive: str
    takes_trigger: bool
    parameters: tuple[Parameter, ...]


def told_faults(names: Sequence[str] = ()) -> list[Told]:
    """Faults by layer and then in the order of `scenarios.faults`.

    Args:
        names: only these; none: all.
    Raises ConfigurationError: a name that is no fault.
    """
    for name in names:
        if name not in FAULTS:
            raise ConfigurationError(f"fault {name!r}: unknown; {known(name, FAULTS)}")
    schema = json_schema()["$defs"]
    told = [_told(fault, schema) for name, fault in FAULTS.items() if not names or name in names]
    layers = [layer.value for layer in Layer]
    return sorted(told, key=lambda fault: layers.index(fault.layer))


def shared_parameters(layer: Layer) -> list[Parameter]:
    """The keys that every fault of a layer has."""
    schema = json_schema()["$defs"]
    fault = next(fault for fault in FAULTS.values() if fault.layer is layer)
    properties = schema[fault.__name__]["properties"]
    return [_parameter(name, properties[name], (), schema) for name in _shared(layer) if name in properties]


def _shared(layer: Layer) -> tuple[str, ...]:
    return tuple(JudgeFault.model_fields) if layer is Layer.JUDGE else SHARED


def lines(faults: Sequence[Told]) -> Iterator[str]:
    """For a terminal."""
    layer = ""
    for fault in faults:
        if fault.layer != layer:
            layer = fault.layer
            yield f"{layer}:"
        yield f"  {fault.name:<24} {fault.summary}"
        if len(faults) <= 3:
            for title, text in (("wire", fault.wire), ("survive", fault.survive)):
                yield from textwrap.wrap(
                    f"{title}: {text}", 110, initial_indent="    ", subsequent_indent="      "
                )
        for parameter in fault.parameters:
            unit = f", {parameter.unit}" if parameter.unit else ""
            given = "required" if parameter.default == REQUIRED else f"default {parameter.default}"
            yield f"    {parameter.name:<22} {parameter.kind}{unit} ({given})"


def as_json(faults: Sequence[Told]) -> list[dict[str, Any]]:
    """One object a fault."""
    return [asdict(fault) for fault in faults]


def as_markdown(faults: Sequence[Told]) -> str:
    """The text of docs/faults.md."""
    parts = [INTRODUCTION + _shared_rows(Layer.TRANSPORT)]
    layer = ""
    for fault in faults:
        if fault.layer != layer:
            layer = fault.layer
            parts.append(f"## {layer.capitalize()}\n")
            if layer == Layer.JUDGE:
                parts.append("| key of every one | what it says |\n|---|---|\n" + _shared_rows(Layer.JUDGE))
        of_the_wire = layer in (Layer.TRANSPORT, Layer.SESSION, Layer.RESPONSE)
        trigger = " Takes no trigger." if of_the_wire and not fault.takes_trigger else ""
        parts.append(f"### `{fault.name}`\n")
        parts.append(_wrapped(fault.summary + trigger))
        parts.append(_wrapped(f"* Wire: {fault.wire}") + _wrapped(f"* Survive: {fault.survive}"))
        if fault.parameters:
            rows = [
                f"| `{p.name}` | {_cell(p.kind)} | {p.unit} | {_cell(p.default)} | {_cell(p.text)} |"
                for p in fault.parameters
            ]
            head = ["| parameter | values | unit | default | |", "|---|---|---|---|---|"]
            parts.append("\n".join([*head, *rows]) + "\n")
    return "\n".join(parts)


def _shared_rows(layer: Layer) -> str:
    return "\n".join(f"| `{p.name}` | {_cell(p.text)} |" for p in shared_parameters(layer)) + "\n"


def show(names: Sequence[str], *, json: bool, markdown: bool) -> str:
    """What `conformance faults` prints.

    Raises ConfigurationError: an unknown name, or both forms at once.
    """
    if json and markdown:
        raise ConfigurationError("--json and --markdown: give one of them")
    faults = told_faults(names)
    if markdown:
        return as_markdown(faults).rstrip()
    if json:
        import orjson

        return orjson.dumps(as_json(faults), option=orjson.OPT_INDENT_2).decode()
    return "\n".join(lines(faults))


def _told(fault: type[FaultBase], schema: Mapping[str, Any]) -> Told:
    summary, parts = _docstring(fault)
    definition = schema[fault.__name__]
    return Told(
        name=fault.name,
        layer=fault.layer.value,
        summary=summary,
        wire=parts["Wire"],
        survive=parts["Survive"],
        takes_trigger=fault.takes_trigger,
        parameters=tuple(
            _parameter(name, field, definition.get("required", ()), schema)
            for name, field in definition["properties"].items()
            if name not in _shared(fault.layer)
        ),
    )


def _docstring(fault: type[FaultBase]) -> tuple[str, dict[str, str]]:
    """Summary and parts of the docstring of what plays the fault.

    Raises ValueError: a fault without the three parts.
    """
    homes = {Layer.SEAM: "conformance.seams.", Layer.JUDGE: "mockserver.faults.judge_"}
    module = importlib.import_module(homes.get(fault.layer, "mockserver.faults.") + fault.name)
    for _, member in inspect.getmembers(module, inspect.isclass):
        doc = inspect.cleandoc(member.__doc__ or "")
        if member.__module__ == module.__name__ and "Wire:" in doc:
            head, *pieces = _PART.split(doc)
            parts = {title: " ".join(text.split()) for title, text in zip(*[iter(pieces)] * 2, strict=True)}
            if {"Wire", "Parameters", "Survive"} <= set(parts):
                return " ".join(head.split()), parts
    raise ValueError(f"{module.__name__}: no class whose docstring has Wire, Parameters and Survive")


def _parameter(
    name: str, field: Mapping[str, Any], required: Sequence[str], schema: Mapping[str, Any]
) -> Parameter:
    unit = next((unit for end, unit in UNITS.items() if name.endswith(end)), "")
    default = REQUIRED if name in required else _yaml(field.get("default"))
    text = " ".join(str(field.get("description", "")).split())
    return Parameter(name, _kind(field, schema), unit, default, text)


def _kind(field: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    if "enum" in field:
        return ", ".join(_yaml(value) for value in field["enum"])
    if "const" in field:
        return _yaml(field["const"])
    if "anyOf" in field:
        return " or ".join(_kind(one, schema) for one in field["anyOf"])
    if "$ref" in field:
        return "{" + ", ".join(schema[field["$ref"].rsplit("/", 1)[-1]]["properties"]) + "}"
    kind = {"string": "text", "object": "mapping", "array": "list", "boolean": "true or false"}
    named = kind.get(str(field.get("type", "any value")), str(field.get("type", "any value")))
    bounds = [
        f"{sign} {field[key]}"
        for key, sign in (("minimum", ">="), ("exclusiveMinimum", ">"), ("maximum", "<="))
        if key in field
    ]
    return " ".join([named, ", ".join(bounds)]).strip()


def _yaml(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return '""' if value == "" else str(value)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _wrapped(text: str) -> str:
    indent = "  " if text.startswith("* ") else ""
    return textwrap.fill(text, 118, subsequent_indent=indent, break_on_hyphens=False) + "\n"
