"""What is wrong with a scenario file: every problem, with its place, what stands there and what may."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic_core import PydanticCustomError

MAX_SHOWN_CHARACTERS = 80


@dataclass(frozen=True, order=True)
class Problem:
    """One thing that is wrong in one file."""

    file: str
    line: int
    """Counted from 1; 0 when no line can be named (an unreadable file, a pattern of the command line)."""
    key: str
    """Path of the key, such as `server.reply[0].units`; empty for the file as a whole."""
    found: str
    """What stands there."""
    allowed: str
    """What may stand there."""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        subject = f"{self.key}: " if self.key else ""
        return f"{place}: {subject}{self.found}; {self.allowed}"


class ScenarioError(ValueError):
    """A scenario cannot be used. It lists every problem found, in the order of the file.

    `file`, `line`, `key`, `found` and `allowed` are those of the first problem.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(sorted(set(problems)))
        if not self.problems:
            raise ValueError("a ScenarioError needs at least one problem")
        first = self.problems[0]
        self.file, self.line, self.key = first.file, first.line, first.key
        self.found, self.allowed = first.found, first.allowed
        super().__init__("\n".join(str(problem) for problem in self.problems))


@dataclass(frozen=True)
class Broken:
    """A rule between keys that does not hold, before it has a file and a line."""

    path: tuple[str | int, ...]
    """Where, relative to the object that was checked."""
    found: str
    allowed: str


def impossible(broken: Sequence[Broken]) -> PydanticCustomError:
    """The error a model's validator raises for keys that cannot stand together; the loader reads it back."""
    from pydantic_core import PydanticCustomError  # late: a list of the catalogue needs nothing of it

    text = "; ".join(f"{key_text(b.path) or 'here'}: {b.found}; {b.allowed}" for b in broken)
    return PydanticCustomError("impossible", "{text}", {"text": text, "broken": list(broken)})


def key_text(path: Sequence[str | int]) -> str:
    """A path in words: `faults[0].stop_reading.on`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def shown(value: object) -> str:
    """A value as an error shows it: short, quoted where it is text."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    text = repr(value)
    return text if len(text) <= MAX_SHOWN_CHARACTERS else text[:MAX_SHOWN_CHARACTERS] + "…"


def known(name: str, names: Iterable[str]) -> str:
    """Help for an unknown name: the likely one first, then all."""
    ordered = sorted(names)
    near = difflib.get_close_matches(name, ordered, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"{hint}known: {', '.join(ordered)}"
