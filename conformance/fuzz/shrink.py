"""From a scenario that fails to the smallest one that fails the same way.

Each step takes something away or makes it plainer, keeps the result valid and plays it; in virtual time a step costs
milliseconds. What is left is what the finding needs.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from typing import Any

from conformance.fuzz.case import Found
from conformance.fuzz.playing import Player

Data = dict[str, Any]
Path = tuple[str | int, ...]

BUDGET_S = 20.0
"""Real seconds that one finding may take."""
KEPT = frozenset(
    {
        "title",
        "about",
        "requires",
        "expect",
        "clip",
        "samples",
        "server",
        "id",
        "split",
        "seconds",
        "starts_at_unit",
        "units",
        "text",
    }
)
"""Keys that are made plainer and never taken away."""
PLAIN: dict[str, tuple[Any, ...]] = {
    "seconds": (1.4, 2.4, 3.0),
    "units": (1, 2),
    "starts_at_unit": (0, 1, 2),
    "text": ("A cyclist passed.", "One. Two."),
    "profile": ("july",),
    "nth": (1, 2),
    "frames": (False,),
    "delay_s": (1.0, 22.0),
    "count": (1,),
    "times": (2,),
    "split": ("RTD_Omni",),
    "request_s": (120.0,),
    "drain_slack_s": (10.0,),
    "cancel_at_s": (1.0, 2.0, 5.0, 10.0),
    "at_s": (1.0, 2.0, 5.0),
}
"""Plainer values by key, the plainest first."""


def shrink(found: Found, player: Player, *, budget_s: float = BUDGET_S) -> Found:
    """The smallest scenario that gives the same finding; the given one when nothing smaller does.

    Args:
        found: what was found; a finding of the same key counts as the same.
        player: of the same seed.
        budget_s: real seconds.
    """
    until_s = time.monotonic() + budget_s

    def still_fails(data: Data) -> Found | None:
        if not player.valid(data):
            return None
        return next((one for one in player.check(found, data) if one.key == found.key), None)

    best = found
    while True:
        better = _one_round(best, still_fails, until_s)
        if better is best or time.monotonic() >= until_s:
            return better
        best = better


def _one_round(best: Found, still_fails: Callable[[Data], Found | None], until_s: float) -> Found:
    """Try every step from where the last success has led."""
    for step in _steps(best.data):
        if time.monotonic() >= until_s:
            return best
        data = step(copy.deepcopy(best.data))
        if data is None or data == best.data:
            continue
        smaller = still_fails(data)
        if smaller is not None:
            best = smaller
    return best


Step = Callable[[Data], Data | None]


def _steps(data: Data) -> list[Step]:
    """Big steps first: whole faults, samples, replies, sections; then keys; then values."""
    steps: list[Step] = []
    for section in (("faults",), ("server", "reply"), ("samples",), ("judge", "replies"), ("steps",)):
        items = _at(data, section)
        if isinstance(items, list):
            steps += [_without((*section, index)) for index in reversed(range(len(items)))]
            steps.append(_without(section))
    steps += [_single_clip, _without(("judge",)), _without(("client",))]
    paths = sorted(_paths(data), key=len)
    steps += [_without(path) for path in paths if path[-1] not in KEPT and not isinstance(path[-1], int)]
    for path in paths:
        steps += [_with(path, value) for value in PLAIN.get(str(path[-1]), ())]
    return steps


def _paths(data: Any, path: Path = ()) -> Iterator[Path]:
    items: Any = ()
    if isinstance(data, dict):
        items = data.items()
    elif isinstance(data, list):
        items = enumerate(data)
    for key, value in items:
        yield (*path, key)
        yield from _paths(value, (*path, key))


def _at(data: Any, path: Path) -> Any:
    for key in path:
        try:
            data = data[key]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def _without(path: Path) -> Step:
    """Take a key or an item away; a mapping that it leaves empty goes with it."""

    def step(data: Data) -> Data | None:
        holder = _at(data, path[:-1])
        key = path[-1]
        if _at(data, path) is None:
            return None
        del holder[key]
        if not holder and len(path) == 2 and path[0] in ("client", "faults"):
            del data[path[0]]
        return data

    return step


def _with(path: Path, value: Any) -> Step:
    """Put a plainer value in the place of another."""

    def step(data: Data) -> Data | None:
        holder = _at(data, path[:-1])
        key: Any = path[-1]
        if _at(data, path) is None or (type(holder[key]) is bool and type(value) is not bool):
            return None
        if value in PLAIN[str(key)] and holder[key] in PLAIN[str(key)]:
            # No plain value is given up for one that is less so: shrinking must end.
            choices = PLAIN[str(key)]
            if choices.index(value) >= choices.index(holder[key]):
                return None
        holder[key] = value
        return data

    return step


def _single_clip(data: Data) -> Data | None:
    """One sample without a judge needs no list."""
    samples = data.get("samples")
    if not samples or len(samples) > 1 or "judge" in data:
        return None
    clip = samples[0]["clip"]
    return {"title": data["title"], "about": data["about"], "requires": data["requires"], "clip": clip} | {
        key: value for key, value in data.items() if key != "samples"
    }
