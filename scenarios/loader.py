"""A scenario file read, checked and built; everything that is wrong with it is told at once.

A file holds one scenario, or several that differ by a value (`cases`). A case names dotted keys and values,
which take the place of the file's own: `cases: {late: {faults.0.late_session_closed.delay_s: 19.9}}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError

from scenarios.cases import cases_of, merged, yaml_files
from scenarios.errors import Problem, ScenarioError, key_text, known, shown
from scenarios.explain import problems_of
from scenarios.faults import FAULTS, FaultBase
from scenarios.model import Scenario, whole_rules
from scenarios.source import Source, parse_source, read_source

_Path = tuple[str | int, ...]
_SECTIONS: tuple[str, ...] = tuple(name for name in Scenario.model_fields if name != "id")


def load_scenario(path: Path | str) -> Scenario:
    """The only scenario of a file.

    Args:
        path: a YAML file without `cases`.
    Raises ScenarioError: the file is broken, or it has cases.
    """
    found = load_scenarios(path)
    if len(found) > 1:
        ids = ", ".join(scenario.id for scenario in found)
        raise ScenarioError(
            [Problem(str(path), 0, "cases", f"{len(found)} scenarios: {ids}", "one is wanted here")]
        )
    return found[0]


def load_scenarios(path: Path | str) -> list[Scenario]:
    """The scenarios of a file, in the order of its cases.

    Args:
        path: a YAML file; below the catalogue its ids are those of the catalogue, elsewhere its stem.
    Raises ScenarioError: all problems of the file.
    """
    file = Path(path)
    return build_scenarios(read_source(file), _id_of(file))


def load_catalogue() -> list[Scenario]:
    """All scenarios of the catalogue, sorted by id; package data, so an installed wheel has it as well.

    Raises ScenarioError: all problems of all files; ids and titles are unique.
    """
    root = files("scenarios") / "catalogue"
    problems: list[Problem] = []
    found: list[Scenario] = []
    for entry, relative in sorted(yaml_files(root, ""), key=lambda pair: pair[1]):
        if not relative.endswith(".yaml"):
            problems.append(Problem(str(entry), 0, "", f"{relative} is no .yaml file", "only .yaml files"))
            continue
        try:
            source = parse_source(entry.read_bytes(), str(entry))
            found += build_scenarios(source, relative.removesuffix(".yaml"))
        except ScenarioError as error:
            problems += error.problems
    titles: dict[str, str] = {}
    for scenario in found:
        other = titles.setdefault(scenario.title, scenario.id)
        if other != scenario.id:
            text = f"{scenario.title!r} is the title of {other} as well"
            problems.append(Problem(f"{root}/{scenario.id}", 0, "title", text, "titles differ"))
    if problems:
        raise ScenarioError(problems)
    return sorted(found, key=lambda scenario: scenario.id)


def read_fault(data: Any, file: str) -> FaultBase:
    """One fault outside a scenario, held to what a scenario's is held to.

    Args:
        data: as it stands in a list of `faults`: `{name: {parameters}}`, or the name alone.
        file: name for errors.
    Raises ScenarioError: all problems of it.
    """
    places = _Places(Source(file, None, {(): 0}), {})
    found: list[Problem] = []
    faults = _faults([data], places, found) or []
    found += [places.problem(b.path, b.found, b.allowed) for b in whole_rules({"faults": faults})]
    if found:
        raise ScenarioError(found)
    return faults[0]


def build_scenarios(source: Source, base_id: str) -> list[Scenario]:
    """Turn a file's data into scenarios.

    Args:
        source: the parsed file; what it already found wrong is told with the rest.
        base_id: id of the file; a case's is `base_id[case]`.
    Raises ScenarioError: all problems, each once.
    """
    if not isinstance(source.data, dict):
        found = "an empty file" if source.data is None else shown(source.data)
        raise ScenarioError([*source.problems, Problem(source.file, 1, "", found, "a mapping with a title")])
    problems = list(source.problems)
    base = {key: value for key, value in source.data.items() if key != "cases"}
    built: list[Scenario | None] = []
    if "cases" not in source.data:
        built.append(_build(source, base, base_id, {}, problems))
    else:
        for case, values in cases_of(source, problems):
            data, origins = merged(source, base, case, values, problems)
            built.append(_build(source, data, f"{base_id}[{case}]", origins, problems))
    if problems:
        raise ScenarioError(problems)
    return [scenario for scenario in built if scenario is not None]


class _Places:
    """Turns paths of the merged data into lines of the file."""

    def __init__(self, source: Source, origins: Mapping[_Path, _Path]) -> None:
        self._source = source
        self._origins = origins

    def problem(self, path: _Path, found: str, allowed: str) -> Problem:
        origin = self._origin(path)
        key = path if origin == path else (*origin[:2], *path)  # a case's value is told with its case
        return Problem(self._source.file, self._source.line(origin), key_text(key), found, allowed)

    def _origin(self, path: _Path) -> _Path:
        """Where the value at a path of the merged data stands in the file, be it in a case."""
        for length in range(len(path), 0, -1):
            if path[:length] in self._origins:
                return self._origins[path[:length]] + path[length:]
        if path and path not in self._source.lines:
            return next((at for put, at in self._origins.items() if put[: len(path)] == path), path)
        return path


def _build(
    source: Source,
    data: dict[str, Any],
    scenario_id: str,
    origins: Mapping[_Path, _Path],
    problems: list[Problem],
) -> Scenario | None:
    """One scenario, or None after telling what is wrong with it."""
    places = _Places(source, origins)
    found: list[Problem] = []
    parts: dict[str, Any] = {}
    for key in data:
        if key not in _SECTIONS:
            found.append(places.problem((key,), f"unknown key {key!r}", known(key, [*_SECTIONS, "cases"])))
    for name in _SECTIONS:
        field = Scenario.model_fields[name]
        if name not in data:
            if field.is_required():
                found.append(places.problem((name,), "missing", "required"))
            else:
                parts[name] = field.get_default(call_default_factory=True)
        elif name == "faults":
            faults = _faults(data[name], places, found)
            if faults is not None:
                parts[name] = faults
        else:
            try:
                parts[name] = _adapter(name).validate_python(data[name], strict=True)
            except ValidationError as error:
                annotation = field.annotation
                found += [places.problem(*wrong) for wrong in problems_of(error, (name,), annotation)]
    found += [places.problem(broken.path, broken.found, broken.allowed) for broken in whole_rules(parts)]
    if found:
        problems += found
        return None
    return Scenario(id=scenario_id, **{name: part for name, part in parts.items() if name in data})


def _faults(data: Any, places: _Places, found: list[Problem]) -> list[FaultBase] | None:
    allowed = "a list of `- name: {parameters}`, or `- name` without parameters"
    if not isinstance(data, list):
        found.append(places.problem(("faults",), shown(data), allowed))
        return None
    faults: list[FaultBase] = []
    for index, item in enumerate(data):
        path: _Path = ("faults", index)
        name: Any = item
        parameters: Any = {}
        if isinstance(item, dict) and len(item) == 1:
            ((name, parameters),) = item.items()
            parameters = {} if parameters is None else parameters
        if not isinstance(name, str) or not isinstance(parameters, dict):
            found.append(places.problem(path, shown(item), allowed))
        elif name not in FAULTS:
            found.append(places.problem((*path, name), f"unknown fault {name!r}", known(name, FAULTS)))
        else:
            try:
                faults.append(FAULTS[name].model_validate(parameters, strict=True))
            except ValidationError as error:
                wrongs = problems_of(error, (*path, name), FAULTS[name])
                found += [places.problem(*wrong) for wrong in wrongs]
    return faults if len(faults) == len(data) else None


@cache
def _adapter(section: str) -> TypeAdapter[Any]:
    field = Scenario.model_fields[section]
    whole: Any = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    return TypeAdapter(whole)


def _id_of(file: Path) -> str:
    root = files("scenarios") / "catalogue"
    if isinstance(root, Path) and file.resolve().is_relative_to(root.resolve()):
        return file.resolve().relative_to(root.resolve()).with_suffix("").as_posix()
    return file.stem
