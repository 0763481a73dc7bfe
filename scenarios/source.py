"""YAML read into plain data, with the line of every key, within bounds.

The parser's events are read directly: nothing is ever constructed from a tag, so no input can run code.
Aliases, tags, duplicate keys and a second document are refused. Plain scalars follow YAML 1.2: `on`, `off`,
`yes`, `no` are text (YAML 1.1 would read the key `on` of a fault as true).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import yaml

from scenarios.errors import Problem, ScenarioError, key_text, shown

MAX_FILE_BYTES = 256 * 1024
MAX_DEPTH = 20
MAX_NODES = 20_000
MAX_NUMBER_CHARACTERS = 24

_Path = tuple[str | int, ...]
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INT = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: dict[str, bool | None] = {"": None, "~": None, "null": None, "true": True, "false": False}


@dataclass
class Source:
    """One file's data and where each key stands."""

    file: str
    data: Any
    """Mappings with text keys, lists, text, numbers, booleans, None."""
    lines: dict[_Path, int] = field(default_factory=dict)
    """Line, from 1, of every key and list item by path; () is the document."""
    problems: list[Problem] = field(default_factory=list)
    """What the data itself breaks (duplicate keys, aliases, tags); the rest was read on."""

    def line(self, path: _Path) -> int:
        """The line of a key, or of the nearest thing around it."""
        while path not in self.lines and path:
            path = path[:-1]
        return self.lines.get(path, 1)


def is_plain_text(text: str) -> bool:
    """Whether a plain scalar is read as this text, and not as a number or a word."""
    return not (text.lower() in _WORDS or _INT.fullmatch(text) or _FLOAT.fullmatch(text))


def read_source(path: Path) -> Source:
    """Read one file.

    Args:
        path: a regular file of at most `MAX_FILE_BYTES`.
    Raises ScenarioError: it cannot be read, is too large, is not UTF-8 or not YAML.
    """
    try:
        if not path.is_file():
            found = "a folder" if path.is_dir() else "no regular file" if path.exists() else "no such file"
            raise _unusable(str(path), found, "give the path of a .yaml file")
        with path.open("rb") as stream:
            raw = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise _unusable(str(path), f"cannot be read: {error.strerror}", "give a readable file") from error
    return parse_source(raw, str(path))


def parse_source(raw: bytes, file: str) -> Source:
    """Parse the bytes of one file.

    Args:
        raw: UTF-8 YAML, one document.
        file: name for errors.
    Raises ScenarioError: too large, not UTF-8, not YAML, too deep, too many nodes, more than one document.
    """
    if len(raw) > MAX_FILE_BYTES:
        raise _unusable(file, "file too large", f"at most {MAX_FILE_BYTES} bytes are read")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise ScenarioError(
            [Problem(file, line, "", f"byte {error.start} is not UTF-8", "write the file in UTF-8")]
        ) from error
    source = Source(file, None)
    try:
        _Reader(text, source).read()
    except yaml.YAMLError as error:
        raise ScenarioError([_no_yaml(error, text, file)]) from error
    return source


def _no_yaml(error: yaml.YAMLError, text: str, file: str) -> Problem:
    """What the parser says, and where that began which it could not end."""
    mark = getattr(error, "problem_mark", None)
    line = mark.line + 1 if mark is not None else 1
    what = getattr(error, "problem", None) or str(error).split("\n", 1)[0]
    written = text.split("\n")[line - 1 : line]
    if written and "\t" in written[0][: len(written[0]) - len(written[0].lstrip())]:
        return Problem(file, line, "", "not YAML: the line is indented with a tab", "indent with spaces")
    begun = getattr(error, "context_mark", None)
    if begun is None:
        return Problem(file, line, "", f"not YAML: {what}", "one YAML mapping is allowed")
    context = str(error.context).removeprefix("while ")  # type: ignore[attr-defined]
    found = f"not YAML: {what}, {context} that begins on line {begun.line + 1}, column {begun.column + 1}"
    return Problem(
        file, line, "", found, "close what was opened; text with ': ' or ' #' in it stands in quotes"
    )


def _unusable(file: str, found: str, allowed: str) -> ScenarioError:
    return ScenarioError([Problem(file, 0, "", found, allowed)])


class _Reader:
    """Walks the parser's events once."""

    def __init__(self, text: str, source: Source) -> None:
        self._parser = _Loader(text)
        self._source = source
        self._nodes = 0

    def read(self) -> None:
        """Fill the source's data, lines and problems."""
        try:
            self._parser.get_event()  # stream start
            if self._parser.check_event(yaml.StreamEndEvent):
                return
            self._parser.get_event()  # document start
            event = self._parser.get_event()
            self._source.lines[()] = event.start_mark.line + 1
            self._source.data = self._node(event, (), 1)
            self._parser.get_event()  # document end
            after = self._parser.get_event()
            if not isinstance(after, yaml.StreamEndEvent):
                self._stop(after, "a second document", "one document a file")
        finally:
            self._parser.dispose()

    def _node(self, event: Any, path: _Path, depth: int) -> Any:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            self._stop(event, f"more than {MAX_NODES} values", f"at most {MAX_NODES} are read")
        if depth > MAX_DEPTH:
            self._stop(event, f"nested deeper than {MAX_DEPTH}", f"at most {MAX_DEPTH} levels are read", path)
        if isinstance(event, yaml.AliasEvent):
            self._tell(event, path, f"alias *{event.anchor}", "write the value out, or use `cases`")
            return None
        if event.tag is not None:
            self._tell(event, path, f"tag {event.tag}", "tags are not allowed, write the plain value")
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(path, depth)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(path, depth)
        return self._scalar(event, path)

    def _mapping(self, path: _Path, depth: int) -> dict[str, Any]:
        data: dict[str, Any] = {}
        while not isinstance(key_event := self._parser.get_event(), yaml.MappingEndEvent):
            key = self._key(key_event, path, depth)
            inner = (*path, key)
            line = key_event.start_mark.line + 1
            value = self._node(self._parser.get_event(), inner, depth + 1)
            if key in data:
                first = self._source.lines[inner]
                self._tell(key_event, inner, f"the key stands twice, first on line {first}", "each key once")
                continue
            data[key] = value
            self._source.lines[inner] = line
        return data

    def _key(self, event: Any, path: _Path, depth: int) -> str:
        if isinstance(event, yaml.ScalarEvent) and event.tag is None and event.value:
            return str(event.value)
        found = (
            f"key {shown(event.value)}" if isinstance(event, yaml.ScalarEvent) else "a key that is not text"
        )
        return self._stop(event, found, "a key is plain text", path)

    def _sequence(self, path: _Path, depth: int) -> list[Any]:
        data: list[Any] = []
        while not isinstance(event := self._parser.get_event(), yaml.SequenceEndEvent):
            inner = (*path, len(data))
            self._source.lines[inner] = event.start_mark.line + 1
            data.append(self._node(event, inner, depth + 1))
        return data

    def _scalar(self, event: Any, path: _Path) -> Any:
        text = str(event.value)
        if not event.implicit[0]:  # quoted, or a block scalar
            return text
        if text.lower() in _WORDS:
            return _WORDS[text.lower()]
        is_int = _INT.fullmatch(text) is not None
        if is_int or _FLOAT.fullmatch(text):
            if len(text) > MAX_NUMBER_CHARACTERS:
                found = f"a number of {len(text)} characters"
                self._tell(event, path, found, f"at most {MAX_NUMBER_CHARACTERS}")
                return None
            number = int(text) if is_int else float(text)
            if math.isinf(number):
                self._tell(event, path, f"the number {text}", "a finite number")
                return None
            return number
        return text

    def _tell(self, event: Any, path: _Path, found: str, allowed: str) -> None:
        line = event.start_mark.line + 1
        self._source.problems.append(Problem(self._source.file, line, key_text(path), found, allowed))

    def _stop(self, event: Any, found: str, allowed: str, path: _Path = ()) -> NoReturn:
        self._tell(event, path, found, allowed)
        raise ScenarioError(self._source.problems)
