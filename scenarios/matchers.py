"""The forms of a matcher, and which of them can ever be met by what it is held against."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from scenarios.errors import Broken, impossible, known, shown
from scenarios.names import MATCHER_KEYS

UNCHECKED = "unchecked"
"""Default of a matcher that is not given."""
_OPERANDS: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "contains": (str, "text"),
    "not_contains": (str, "text"),
    "at_least": ((int, float), "a number"),
    "at_most": ((int, float), "a number"),
    "one_of": (list, "a list"),
}


@dataclass(frozen=True)
class Kind:
    """What a matcher is held against, as far as the key says it."""

    literals: str
    """The literals that can be met, in words."""
    fits: Callable[[Any], bool]
    """Whether a literal can be met."""
    keys: tuple[str, ...]
    """The keys of the mapping form that can be met."""


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


BOUNDS = ("at_least", "at_most", "one_of")
COUNT = Kind("a whole number from 0 up", _is_count, BOUNDS)
MAYBE_COUNT = Kind(
    "a whole number from 0 up, or null", lambda value: value is None or _is_count(value), BOUNDS
)
NUMBER = Kind("a number, or null", _is_number, BOUNDS)
FLAG = Kind("true, false or null", lambda value: value is None or isinstance(value, bool), ("one_of",))
TEXT = Kind(
    "text, or null",
    lambda value: value is None or isinstance(value, str),
    ("contains", "not_contains", "one_of"),
)


def matcher(value: Any) -> Any:
    """Check the form of a matcher: a mapping holds only matcher keys, with operands of the right type."""
    _hold(_form(value))
    return value


def matcher_of(kind: Kind) -> Callable[[Any], Any]:
    """A check of the form of a matcher that also refuses what no value of a kind can meet."""

    def check(value: Any) -> Any:
        _hold(_form(value) or _unmet(value, kind))
        return value

    return check


def log_matcher(value: Any) -> Any:
    """Check the form of a matcher for log messages: literal text or a mapping."""
    if value == "set" or not isinstance(value, str | dict):
        raise impossible([Broken((), shown(value), "a whole message, or a mapping such as {contains: TEXT}")])
    return matcher(value)


def _hold(broken: list[Broken]) -> None:
    if broken:
        raise impossible(broken)


def _form(value: Any) -> list[Broken]:
    if value == UNCHECKED:
        return [Broken((), shown(value), "another value; what is not to be checked is left out")]
    if not isinstance(value, dict):
        return []
    broken = [] if value else [Broken((), "an empty mapping", f"one of {', '.join(MATCHER_KEYS)}")]
    for key, operand in value.items():
        if key not in _OPERANDS:
            broken.append(Broken((key,), f"unknown matcher {key!r}", known(key, MATCHER_KEYS)))
            continue
        types, words = _OPERANDS[key]
        if isinstance(operand, bool) or not isinstance(operand, types):
            broken.append(Broken((key,), shown(operand), words))
        elif operand in ("", []):
            broken.append(Broken((key,), "empty", f"{words} that is not empty"))
    if not broken and {"at_least", "at_most"} <= value.keys() and value["at_least"] > value["at_most"]:
        found = f"at_least {value['at_least']} and at_most {value['at_most']}"
        broken.append(Broken((), found, "at_least is not above at_most; nothing is both"))
    return broken


def _unmet(value: Any, kind: Kind) -> list[Broken]:
    if not isinstance(value, dict):
        allowed = f"{kind.literals}, `set`, or a mapping of {', '.join(kind.keys)}"
        return [] if value == "set" or kind.fits(value) else [Broken((), shown(value), allowed)]
    broken = [
        Broken((key,), f"{key!r} cannot be met here", f"a mapping of {', '.join(kind.keys)}")
        for key in value
        if key not in kind.keys
    ]
    for index, one in enumerate(value.get("one_of", [])):
        if not kind.fits(one):
            broken.append(Broken(("one_of", index), shown(one), kind.literals))
    if kind in (COUNT, MAYBE_COUNT) and value.get("at_most", 0) < 0:
        broken.append(
            Broken(("at_most",), shown(value["at_most"]), "at least 0; nothing is counted below it")
        )
    return broken
