"""The files of a catalogue, and the cases of one: dotted keys and values that take the place of the file's own.

Nothing here knows more of the schema than which keys are lists, so that listing a catalogue need not build it.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Sequence
from importlib.resources.abc import Traversable
from typing import Any

from scenarios.errors import Problem, key_text, shown
from scenarios.source import Source

CASE_ID = re.compile(r"[a-z0-9][a-z0-9._-]*")
_Path = tuple[str | int, ...]
_LISTS: frozenset[_Path] = frozenset({("faults",), ("samples",), ("server", "reply"), ("judge", "replies")})
"""Lists that a case may lead into; one that is absent has no items."""


def yaml_files(folder: Traversable, prefix: str) -> Iterable[tuple[Traversable, str]]:
    """Every file below a folder, with its path below it."""
    for entry in folder.iterdir():
        name = f"{prefix}{entry.name}"
        if entry.is_dir():
            yield from yaml_files(entry, f"{name}/")
        else:
            yield entry, name


def cases_of(source: Source, problems: list[Problem]) -> Iterable[tuple[str, dict[str, Any]]]:
    """The cases of a file, each with its dotted keys and values; what is none is told in `problems`."""
    cases = source.data["cases"]
    if not isinstance(cases, dict) or not cases:
        allowed = "a mapping of short ids, each to a mapping of dotted keys and values"
        problems.append(Problem(source.file, source.line(("cases",)), "cases", shown(cases), allowed))
        return
    for case, values in cases.items():
        path: _Path = ("cases", case)
        if CASE_ID.fullmatch(case) is None:
            allowed = "lower-case letters, digits, '.', '_', '-'"
            problems.append(Problem(source.file, source.line(path), key_text(path), "no case id", allowed))
        elif not isinstance(values, dict) or not values:
            problems.append(
                Problem(
                    source.file,
                    source.line(path),
                    key_text(path),
                    shown(values),
                    "dotted keys and their values",
                )
            )
        else:
            yield case, values


def merged(
    source: Source, base: dict[str, Any], case: str, values: dict[str, Any], problems: list[Problem]
) -> tuple[dict[str, Any], dict[_Path, _Path]]:
    """The file's data with the case's values in place, and where each of these stands in the file."""
    data = copy.deepcopy(base)
    if isinstance(data.get("title"), str):
        data["title"] = f"{data['title']} [{case}]"
    origins: dict[_Path, _Path] = {}
    for dotted, value in values.items():
        origin: _Path = ("cases", case, dotted)
        try:
            origins[_put(data, dotted.split("."), copy.deepcopy(value))] = origin
        except _NoSuchPlace as wrong:
            problems.append(
                Problem(source.file, source.line(origin), key_text(origin), wrong.found, wrong.allowed)
            )
    return data, origins


class _NoSuchPlace(Exception):
    """A dotted key of a case leads nowhere."""

    def __init__(self, found: str, allowed: str) -> None:
        super().__init__(found)
        self.found, self.allowed = found, allowed


def _put(data: Any, steps: Sequence[str], value: Any) -> _Path:
    """Set the value at a dotted key, making mappings on the way; returns its path.

    Raises _NoSuchPlace: the way leads through a list by a wrong index, or through a plain value.
    """
    path: _Path = ()
    for number, step in enumerate(steps, start=1):
        here = key_text(path) or "the file"
        key: str | int = step
        if isinstance(data, list):
            key = int(step) if step.isdecimal() else len(data)
            if key >= len(data):
                raise _NoSuchPlace(f"{here} has no item {step}", f"an index from 0 to {len(data) - 1}")
        elif not isinstance(data, dict):
            raise _NoSuchPlace(f"{here} is {shown(data)}", "a dotted key leads through mappings and lists")
        path = (*path, key)
        container: Any = data
        if number == len(steps):
            container[key] = value
        elif path in _LISTS and key not in data and steps[number].isdecimal():
            found = f"{key_text(path)} does not stand in the file, so there is no item {steps[number]}"
            raise _NoSuchPlace(found, f"give the list {key_text(path)} in the file, or whole in the case")
        else:
            data = container[key] if isinstance(data, list) else container.setdefault(step, {})
    return path
