"""Findings as files: a scenario that anybody can read and run, with what is needed to see the finding again."""

from __future__ import annotations

import importlib.metadata
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from conformance import __version__
from conformance.fuzz.case import Found
from conformance.fuzz.drawing import Kinds
from conformance.fuzz.hostile_form import broken_in, is_hostile
from conformance.options import ConfigurationError
from scenarios import ScenarioError
from scenarios.errors import Problem, key_text
from scenarios.loader import build_scenarios
from scenarios.source import Source, is_plain_text, read_source

FORMAT = 1
"""Of the lines at the head of a file; raised when what they say changes."""
HEAD = "# conformance finding"
_LINE = re.compile(r"# (?P<key>[a-z]+): (?P<value>.*)")
_LIBRARIES = ("aiohttp", "hypothesis", "websockets")


def versions() -> str:
    """What a finding was found with."""
    libraries = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in _LIBRARIES)
    return f"duplex-conformance {__version__}, python {platform.python_version()}, {libraries}"


@dataclass(frozen=True)
class Saved:
    """A finding read from its file."""

    key: str
    """Finding id and digest of its stack or words."""
    seed: int
    case: int
    ties: int | None
    against: str
    versions: str
    data: dict[str, Any]
    requirements: tuple[str, ...] = ()
    drawn: str = ""
    """The command that draws it again; empty in a file of before this was told."""


def drawn_by(seed: int, case: int, kinds: Kinds) -> str:
    """The command that draws and plays one case again."""
    return f"conformance fuzz --seed {seed}{kinds.flags} --case {case}"


def write(found: Found, folder: Path, kinds: Kinds) -> Path:
    """Write a finding below a folder; its name follows from its key, so one finding is one file.

    Args:
        kinds: what the campaign that found it draws.
    Returns: the file.
    Raises OSError: it cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{found.key}.yaml"
    file.write_text(text_of(found, file, kinds), encoding="utf-8")
    return file


def text_of(found: Found, file: Path, kinds: Kinds) -> str:
    """The file's text: what was found, as comments, then the scenario."""
    finding = found.finding
    head: dict[str, Any] = {
        "finding": found.key,
        "requires": " ".join(finding.requirements) or "none named",
        "expected": finding.expected,
        "actual": finding.actual,
        "seed": found.seed,
        "case": found.number,
        "drawn": drawn_by(found.seed, found.number, kinds),
        "ties": "in order" if found.ties is None else found.ties,
        "against": found.against or "the invariants",
        "versions": versions(),
        "replay": f"conformance replay {file.name}",
    }
    lines = [f"{HEAD} {FORMAT}", *(f"# {key}: {_one_line(value)}" for key, value in head.items())]
    if "steps" in found.data:
        return "\n".join(lines) + "\n" + dumped(found.data)
    data = {
        **found.data,
        "title": f"Found by fuzzing: {finding.id}",
        "about": _one_line(f"Expected: {finding.expected}. Seen: {finding.actual}"),
        "requires": list(finding.requirements),
    }
    return "\n".join(lines) + "\n" + dumped(data)


def dumped(data: Mapping[str, Any]) -> str:
    """YAML for people: the order of the schema, short things in one line, and no aliases, which no file may have."""
    return yaml.dump(
        dict(data),
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=110,
        default_flow_style=None,
    )


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    """In quotes where the reader would take it for a number, which the writer's own YAML may not: 1e999."""
    style = None if is_plain_text(text) else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def _one_line(value: Any) -> str:
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+", " ", " ".join(str(value).split()))[:300]


def read(file: Path) -> Saved:
    """A finding from its file.

    Raises ConfigurationError: no such file, no finding, one of another version, or one whose scenario or hostile
        client is broken.
    """
    wanted_file(file)
    try:
        source = read_source(file)
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError, ScenarioError) as error:
        raise ConfigurationError(str(error)) from None
    first = lines[0] if lines else ""
    if not first.startswith(HEAD):
        raise ConfigurationError(
            f"{file}:1: {first[:60]!r} is no finding; wanted `{HEAD} {FORMAT}`, as `conformance fuzz --save` writes it"
        )
    said = first.removeprefix(HEAD).strip()
    if said != str(FORMAT):
        raise ConfigurationError(
            f"{file}:1: a finding of format {said!r}; this version reads {FORMAT}. The scenario itself can "
            f"still be run: conformance run {file}"
        )
    head = {m["key"]: m["value"] for line in lines if (m := _LINE.fullmatch(line))}
    saved = Saved(
        key=_wanted(head, "finding", file),
        seed=_number(head, "seed", file),
        case=_number(head, "case", file),
        ties=None if head.get("ties") in (None, "in order") else _number(head, "ties", file),
        against=head.get("against", "") if head.get("against") in ("ties", "chunks") else "",
        versions=head.get("versions", ""),
        data=source.data,
        requirements=tuple(r for r in head.get("requires", "").split() if r.startswith("R")),
        drawn=head.get("drawn", ""),
    )
    _check(source, file)
    return saved


def wanted_file(file: Path) -> None:
    """Raises ConfigurationError: it is a folder."""
    if file.is_dir():
        raise ConfigurationError(f"{file}: a folder; give one file of it, such as a finding's .yaml")


def _check(source: Source, file: Path) -> None:
    """Raises ConfigurationError: all that is wrong with a hostile client or a scenario, each with its line."""
    try:
        if not is_hostile(source.data):
            _only_one(source, file)
            return
        found = [*source.problems]
        for broken in broken_in(source.data):
            place = key_text(broken.path)
            found.append(Problem(source.file, source.line(broken.path), place, broken.found, broken.allowed))
        if found:
            raise ScenarioError(found)
    except ScenarioError as error:
        raise ConfigurationError(str(error)) from None


def _only_one(source: Source, file: Path) -> None:
    if isinstance(source.data, dict) and "cases" in source.data:
        raise ScenarioError(
            [Problem(source.file, source.line(("cases",)), "cases", "several scenarios", "a finding is one")]
        )
    build_scenarios(source, file.stem)


def _wanted(head: Mapping[str, str], key: str, file: Path) -> str:
    if not head.get(key):
        raise ConfigurationError(f"{file}: the line `# {key}: ...` is missing")
    return head[key]


def _number(head: Mapping[str, str], key: str, file: Path) -> int:
    value = _wanted(head, key, file)
    if not value.isdecimal():
        raise ConfigurationError(f"{file}: `# {key}: {value[:40]}`: a whole number is wanted")
    return int(value)
