"""A verdict read from the judge's text: which object, which fields, which values (evaluation.md 16.4, 16.5)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from client.judge.errors import ReplyError
from client.judge.replies import Reply, check_complete, without_thinking

Kind = Literal["temporal", "content", "chat"]
Fields = dict[str, Any]

_LONGEST_TEXT: Final = 100_000
"""Characters read; a verdict has some hundred. Keeps hostile nesting cheap."""
_MOST_STARTS: Final = 400
"""Opening braces tried."""
_FRAGMENT: Final = re.compile(r"\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}")
_TRAILING_COMMA: Final = re.compile(r",(\s*[}\]])")
_NUMBER: Final = re.compile(r"\s*[+-]?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?\s*")
_BARE: Final = re.compile(
    r"""["']?(?P<number>[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)["']?+"""
    # What follows may show that this is a part of something else: 2.5.1, 2x, 2/5, 2,5, 0, 1 or 2, 2-3, 2 out of 5.
    r"""(?![\w.%]|\s*(?:/|,\s*[0-9]|(?:[-\u2013\u2014~]|to|or|of)\s*[0-9]|out\s+of\b))"""
)
"""A number outside JSON, alone."""
_NUMERIC: Final = re.compile(r"""["']?\s*[+-]?\.?[0-9]""")


@dataclass(frozen=True)
class Field:
    """A required field: a number in a range."""

    name: str
    low: int
    high: int
    whole: bool = True

    @property
    def allowed(self) -> str:
        """For messages."""
        if self.high - self.low == 1:
            return f"{self.low} or {self.high}"
        return f"a {'whole number' if self.whole else 'number'} from {self.low} to {self.high}"


REQUIRED: Final[Mapping[Kind, tuple[Field, ...]]] = {
    "temporal": (Field("temporal_score", 0, 3), Field("is_relevant", 0, 1)),
    "content": (Field("content_score", 0, 3, whole=False),),
    "chat": (Field("success_score", 0, 1),),
}
REASONING: Final[Mapping[Kind, str]] = {
    "temporal": "temporal_reasoning",
    "content": "content_reasoning",
    "chat": "reasoning",
}
"""The optional text field of each kind."""


def read_reply(reply: Reply, kind: Kind) -> Fields:
    """The verdict of a reply: every required field as a number in range, and the reasoning where there is one.

    Raises: JudgeResponseError: the reply is not whole. ReplyError: whole, and no usable verdict in it.
    """
    check_complete(reply)
    return read_verdict(without_thinking(reply.text or ""), kind)


def read_verdict(text: str, kind: Kind) -> Fields:
    """The one verdict in a text.

    The first object that holds all required fields counts; objects with all of them must agree. Where no JSON object
    can be read, bare `"name": number` pieces are taken.

    Raises ReplyError: `Missing judge field`, `Invalid judge field`, or verdicts that disagree.
    """
    found = list(objects_in(text[:_LONGEST_TEXT]))
    if not found:
        found = [pieces_in(text[:_LONGEST_TEXT], kind)]
    names = [field.name for field in REQUIRED[kind]]
    whole = [candidate for candidate in found if all(name in candidate for name in names)]
    if not whole:
        nearest = max(found, key=lambda candidate: sum(name in candidate for name in names))
        raise unread([field for field in REQUIRED[kind] if field.name not in nearest], text[:_LONGEST_TEXT])
    return agreed([checked(candidate, kind) for candidate in whole], names)


def unread(fields: Sequence[Field], text: str) -> ReplyError:
    """Why there is no verdict. A field that is written there, with a value nobody can read, is not missing (R54)."""
    for field in fields:
        if _named(field, text) is not None:
            return ReplyError(
                f"Invalid judge field {field.name}: its value cannot be read; "
                f"allowed: {field.allowed}, in one whole JSON object"
            )
    missing = [field.name for field in fields]
    return ReplyError(f"Missing judge field{'s' * (len(missing) > 1)}: {', '.join(missing)}")


def agreed(verdicts: Sequence[Fields], names: Sequence[str]) -> Fields:
    """The first verdict, if all say the same. Raises ReplyError: they do not."""
    for name in names:
        values = list(dict.fromkeys(verdict[name] for verdict in verdicts))
        if len(values) > 1:
            told = ", ".join(str(value) for value in values)
            raise ReplyError(f"Invalid judge field {name}: the reply holds verdicts that disagree ({told})")
    return verdicts[0]


def checked(candidate: Mapping[str, Any], kind: Kind) -> Fields:
    """The fields of an object, converted. Raises ReplyError: `Invalid judge field ...`."""
    fields: Fields = {field.name: number_of(candidate[field.name], field) for field in REQUIRED[kind]}
    reasoning = candidate.get(REASONING[kind])
    if isinstance(reasoning, str):
        fields[REASONING[kind]] = reasoning
    return fields


def number_of(value: Any, field: Field) -> int | float:
    """A field's number. Texts that are numbers count, truth values do not, and nothing is clamped or cut.

    Raises ReplyError: saying what is wrong with the value.
    """
    number = math.nan
    if isinstance(value, str):
        number = float(value) if _NUMBER.fullmatch(value) else math.nan
    elif isinstance(value, int | float) and not isinstance(value, bool):
        number = float(value) if abs(value) <= 1e300 else math.inf
    told = f"Invalid judge field {field.name}: {json.dumps(value, ensure_ascii=False)[:80]}"
    if not math.isfinite(number):
        raise ReplyError(f"{told} is not a finite number; allowed: {field.allowed}")
    if not field.low <= number <= field.high:
        raise ReplyError(f"{told} is out of range; allowed: {field.allowed}")
    if not field.whole:
        return round(number, 2) + 0.0
    if not number.is_integer():
        raise ReplyError(f"{told} is not a whole number; allowed: {field.allowed}")
    return int(number)


def objects_in(text: str) -> Iterator[dict[str, Any]]:
    """JSON objects in a text, in order; one that is nested comes after the one around it."""
    at = 0
    for _ in range(_MOST_STARTS):
        at = text.find("{", at)
        if at < 0:
            return
        parsed, end = _object_at(text, at)
        if parsed is None:
            at += 1
            continue
        yield parsed
        yield from (value for value in parsed.values() if isinstance(value, dict))
        at = end


def _object_at(text: str, at: int) -> tuple[dict[str, Any] | None, int]:
    """The object that begins at a brace, and where it ends; with trailing commas if it must be."""
    parsed: Any
    try:
        parsed, end = _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        fragment = _FRAGMENT.match(text, at)
        if fragment is None:
            return None, at
        end = fragment.end()
        try:
            parsed = _DECODER.decode(_TRAILING_COMMA.sub(r"\1", fragment.group()))
        except (ValueError, RecursionError):
            return None, at
    return (parsed, end) if isinstance(parsed, dict) else (None, at)


def pieces_in(text: str, kind: Kind) -> dict[str, Any]:
    """Bare `"name": number` pieces of the required fields. What is a word, as in a format repeated, is passed over.

    Raises ReplyError: one name with two different numbers, or with what only begins like a number.
    """
    pieces: dict[str, Any] = {}
    for field in REQUIRED[kind]:
        values: list[str] = []
        for place in _places(field, text):
            number = _BARE.match(text, place)
            if number is not None:
                values.append(number["number"])
            elif _NUMERIC.match(text, place):
                told = json.dumps(text[place : place + 20].split("\n")[0], ensure_ascii=False)
                raise ReplyError(
                    f"Invalid judge field {field.name}: {told} is no number; allowed: {field.allowed}"
                )
        if len({float(value) for value in values}) > 1:
            told = ", ".join(dict.fromkeys(values))
            raise ReplyError(f"Invalid judge field {field.name}: the reply holds several values ({told})")
        if values:
            pieces[field.name] = values[0]
    return pieces


def _places(field: Field, text: str) -> Iterator[int]:
    """Where the values of a field begin."""
    return (named.end() for named in re.finditer(rf"""["']{field.name}["']\s*:\s*""", text))


def _named(field: Field, text: str) -> int | None:
    return next(_places(field, text), None)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; a name that stands in it twice with different values has all of them, so it is no number."""
    parsed = dict(pairs)
    if len(parsed) < len(pairs):
        several: dict[str, list[Any]] = {}
        for name, value in pairs:
            several.setdefault(name, []).append(value)
        parsed.update({name: all_ for name, all_ in several.items() if any(one != all_[0] for one in all_)})
    return parsed


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_once)
