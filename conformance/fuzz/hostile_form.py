"""What the data of a hostile client may hold: a finding that a person has edited is read back from its file."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from conformance.fuzz.hostile import ENDS, PROFILES
from scenarios.errors import Broken, known, shown

Data = dict[str, Any]

MOST_TIMES = 10_000
MOST_APPEND_MS = 60_000
MOST_BINARY_BYTES = 16 << 20
MOST_WAIT_S = 3600.0
KEYS = ("profile", "query", "reads", "steps", "end")
"""All of them are there."""
MARKS = frozenset({"query", "reads", "steps", "end"})
"""Keys that no scenario has."""


def is_hostile(data: Any) -> bool:
    """Whether it is meant as a hostile client, be it broken, and not as a scenario."""
    return isinstance(data, dict) and ("steps" in data or ("title" not in data and bool(MARKS & set(data))))


def broken_in(data: Data) -> Iterator[Broken]:
    """Everything that is wrong with a hostile client's data."""
    for key in data:
        if key not in KEYS:
            yield Broken((key,), "unknown key", known(key, KEYS))
    for key in KEYS:
        if key not in data:
            yield Broken((key,), "missing", f"a hostile client has {', '.join(KEYS)}")
    for key, holds, allowed in (
        ("profile", PROFILES.__contains__, f"one of {', '.join(PROFILES)}"),
        ("query", _is_text, "text that UTF-8 can hold"),
        ("reads", _is_flag, "true or false"),
        ("end", ENDS.__contains__, f"one of {', '.join(ENDS)}"),
    ):
        if key in data and not holds(data[key]):
            yield Broken((key,), shown(data[key]), allowed)
    if "steps" not in data:
        return
    if not isinstance(data["steps"], list):
        yield Broken(("steps",), shown(data["steps"]), "a list of steps")
        return
    for index, step in enumerate(data["steps"]):
        yield from _broken_step(step, ("steps", index))


def _broken_step(step: Any, path: tuple[str | int, ...]) -> Iterator[Broken]:
    if not isinstance(step, dict):
        yield Broken(path, shown(step), f"a mapping with one of {', '.join(STEPS)}")
        return
    kinds = [key for key in step if key in STEPS]
    unknown = [key for key in step if key not in STEPS and key != "times"]
    for key in unknown:
        yield Broken((*path, key), "unknown key", known(key, (*STEPS, "times")))
    if len(kinds) != 1 and not unknown:
        found = " and ".join(kinds) or "nothing to do"
        yield Broken(path, found, f"exactly one of {', '.join(STEPS)}, and `times`")
    for key in kinds:
        holds, allowed = STEPS[key]
        if not holds(step[key]):
            yield Broken((*path, key), shown(step[key]), allowed)
    if "times" in step and not _whole(1, MOST_TIMES)(step["times"]):
        yield Broken((*path, "times"), shown(step["times"]), f"a whole number from 1 to {MOST_TIMES}")


def _is_text(value: Any) -> bool:
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:  # half of a pair
        return False


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_mapping(value: Any) -> bool:
    return isinstance(value, dict)


def _is_hex(value: Any) -> bool:
    try:
        return isinstance(value, str) and bytes.fromhex(value) is not None
    except ValueError:
        return False


def _is_wait(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) and 0 <= value <= MOST_WAIT_S


def _whole(least: int, most: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


STEPS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "event": (_is_mapping, "a mapping, sent as JSON"),
    "append_ms": (_whole(0, MOST_APPEND_MS), f"a whole number from 0 to {MOST_APPEND_MS}"),
    "raw": (_is_hex, "bytes in hexadecimal, two digits each, in quotes"),
    "text": (_is_text, "text that UTF-8 can hold"),
    "binary_bytes": (_whole(0, MOST_BINARY_BYTES), f"a whole number from 0 to {MOST_BINARY_BYTES}"),
    "wait_s": (_is_wait, f"seconds from 0 to {MOST_WAIT_S:g}"),
}
"""What a step may do: whether a value fits, and what is allowed in words."""
