"""A scenario told to a person, as YAML that can be pasted into a file."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

import yaml

from conformance.requirements import requirement_texts
from scenarios.model import Scenario
from scenarios.source import is_plain_text

WIDTH = 100
"""Columns of a line, where it can be broken."""


_STYLE: dict[str, Any] = {
    "sort_keys": False,
    "allow_unicode": True,
    "width": WIDTH,
    "default_flow_style": None,
}


class _Story(str):
    """Text that is folded over lines."""


class _Dumper(yaml.SafeDumper):
    """YAML as scenarios.source reads it: plain scalars follow YAML 1.2."""

    def ignore_aliases(self, data: Any) -> bool:
        """A value that stands twice is written twice; the reader refuses aliases."""
        return True


_Dumper.yaml_implicit_resolvers = {
    first: [one for one in resolvers if first not in "yYnNoO" or one[0] != "tag:yaml.org,2002:bool"]
    for first, resolvers in yaml.SafeDumper.yaml_implicit_resolvers.items()
}  # `on` and `yes` are text here
_BREAKS = "\x85\u2028\u2029"
"""Would end the line of a plain scalar."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    is_plain = is_plain_text(value) and not any(char in value for char in _BREAKS)
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, None if is_plain else '"')


def _number(dumper: yaml.SafeDumper, value: float) -> yaml.ScalarNode:
    return dumper.represent_int(int(value)) if value.is_integer() else dumper.represent_float(value)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(float, _number)
_Dumper.add_representer(
    _Story, lambda dumper, value: dumper.represent_scalar("tag:yaml.org,2002:str", str(value), ">")
)


def show_lines(scenario: Scenario) -> Iterator[str]:
    """The id and the requirements with their texts as comments, then the scenario as it would be written."""
    yield f"# {scenario.id}"
    texts = requirement_texts()
    for requirement in scenario.requires:
        told = f"{requirement}: {texts.get(requirement, '')}"
        yield from textwrap.wrap(told, WIDTH, initial_indent="# ", subsequent_indent="#   ")
    yield from yaml.dump(written(scenario), Dumper=_Dumper, **_STYLE).rstrip("\n").split("\n")


def written(scenario: Scenario) -> dict[str, Any]:
    """What stands in the file of a scenario, the values of its case in place: only what was given."""
    data = scenario.model_dump(exclude_unset=True, exclude={"id", "faults"})
    data["about"] = _Story(scenario.about)
    if scenario.faults:
        given = [(fault.name, fault.model_dump(exclude_unset=True)) for fault in scenario.faults]
        data["faults"] = [{name: parameters} if parameters else name for name, parameters in given]
    return {name: data[name] for name in type(scenario).model_fields if name in data}
