"""What the judge itself holds of a reply: a verdict, or what is wrong with it (evaluation.md 16.4 to 16.6)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from mockserver.judge_reading import REQUIRED_FIELDS, Kind

Standing = Literal["verdict", "missing", "invalid", "incomplete", "none"]
"""verdict: it can be scored. missing, invalid: a required field is not there, or holds what cannot be used.
incomplete: cut short or empty. none: no reply reached the client."""
NumberOf = Callable[[Any], float | None]
"""A field's number; None: it holds none."""
_RANGES: Mapping[str, tuple[float, float, bool]] = {
    "temporal_score": (0, 3, True),
    "is_relevant": (0, 1, True),
    "content_score": (0.0, 3.0, False),
    "success_score": (0, 1, True),
}
"""Least, most, whole numbers only."""
_OBJECT = re.compile(r"\{(?:[^{}]|\{[^{}]*\})*\}")
_TRAILING_COMMA = re.compile(r",\s*([}\]])")
_THOUGHT = re.compile(r"<think>.*?</think>", re.DOTALL)
_PLAIN_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
"""A number in quotes that everybody reads: of "1e0", " 2 ", "+2", "0_1", other digits a client may think otherwise."""


@dataclass(frozen=True)
class Verdict:
    """How a reply stands."""

    standing: Standing
    scores: Mapping[str, float] = field(default_factory=dict)
    """Of a verdict: its required fields."""
    detail: str = ""


def read_verdict(kind: Kind, content: str | None, finish_reason: str | None) -> Verdict:
    """How a reply of the judge stands.

    It is read as leniently as evaluation.md 16.5 allows, so that no client is blamed for a score that it may
    take: bare `"name": number` fragments count, an object may be fenced, numbers may be text.
    """
    if finish_reason not in (None, "stop"):
        return Verdict("incomplete", detail=f"finish_reason {finish_reason}")
    text = _THOUGHT.sub("", content or "").strip()
    if not text:
        return Verdict("incomplete", detail="no content")
    required = REQUIRED_FIELDS[kind]
    # Braces within a string open and close nothing to who reads JSON, and do to who looks for fragments.
    as_json = _verdict_of(list(_lenient_objects(text)), {}, required, _as_number)
    if as_json.standing == "verdict":
        return as_json
    fragments = [found for found in map(_parsed, _OBJECT.findall(text)) if isinstance(found, dict)]
    return _verdict_of(fragments, _fragments(text, required), required, _as_number)


def _verdict_of(
    outer: Sequence[Mapping[str, Any]],
    bare: Mapping[str, Any],
    required: tuple[str, ...],
    number_of: NumberOf,
) -> Verdict:
    """What some objects and those inside them come to; where there is no object, what bare fields do."""
    objects = [one for found in outer for one in (found, *_inside(found))]
    whole = [found for found in objects if all(name in found for name in required)]
    found = whole[0] if whole else (objects[0] if objects else bare)
    absent = [name for name in required if name not in found]
    if absent:
        return Verdict("missing", detail=f"missing {', '.join(absent)}")
    verdicts = [_scores(candidate, required, number_of) for candidate in whole or [found]]
    if any(isinstance(scores, str) for scores in verdicts):
        return Verdict("invalid", detail=next(scores for scores in verdicts if isinstance(scores, str)))
    if any(scores != verdicts[0] for scores in verdicts):
        return Verdict("invalid", detail="two verdicts that disagree")
    scores = verdicts[0]
    assert not isinstance(scores, str)
    return Verdict("verdict", scores)


def _lenient_objects(text: str) -> Iterator[Mapping[str, Any]]:
    """Objects that some reader of JSON takes: NaN and trailing commas are none to it but no reason to see nothing."""
    at = text.find("{")
    for _ in range(_MOST_OBJECTS):
        if at < 0:
            return
        found, at = _object_at(text, at)
        if found is not None:
            yield found
        at = text.find("{", at)


def _object_at(text: str, at: int) -> tuple[Mapping[str, Any] | None, int]:
    """The object that begins at a brace, and where to look for the next."""
    try:
        found, end = _LENIENT.raw_decode(text, at)
    except (ValueError, RecursionError):
        fragment = _OBJECT.match(text, at)
        found = _parsed(fragment[0]) if fragment is not None else None
        end = fragment.end() if fragment is not None else at
    return (found, end) if isinstance(found, dict) else (None, at + 1)


def _inside(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Objects right inside an object: a fragment between braces too, which a client may take."""
    return [value for value in found.values() if isinstance(value, dict)]


def plain_standing(kind: Kind, content: str | None) -> Standing:
    """How a reply stands by the outermost objects that any JSON reader takes, outside of all thoughts.

    `none` where no such object holds the required fields. Elsewhere (in bare fragments, beside `NaN`, in a thought that
    never ends, inside another object) a client may see no field at all, or others. `none` too where a number stands in
    quotes in a doubtful form: evaluation.md 16.5 does not say whether "1e0" is one; nor which of two values counts that
    one object has under one name.
    """
    text = _THOUGHT.sub("", content or "")
    if "<think>" in text:
        return "none"
    required = REQUIRED_FIELDS[kind]
    whole = [found for found in _plain_objects(text) if all(name in found for name in required)]
    if not whole:
        return "none"
    verdicts = [_scores(found, required, _as_number) for found in whole]
    if isinstance(verdicts[0], str) or any(scores != verdicts[0] for scores in verdicts):
        return "invalid"
    # Who also reads what has a comma too many, or stands inside, may see another verdict beside it.
    more = _verdict_of(list(_lenient_objects(text)), {}, required, _as_plain_number)
    return "verdict" if more.standing == "verdict" else "none"


def _plain_objects(text: str) -> Iterator[Mapping[str, Any]]:
    at = text.find("{")
    for _ in range(_MOST_OBJECTS):
        if at < 0:
            return
        try:
            found, at = _PLAIN.raw_decode(text, at)
        except _NoJson:
            return  # some readers take what stands here, and so may begin elsewhere
        except (ValueError, RecursionError):
            at = text.find("{", at + 1)
            continue
        yield found
        at = text.find("{", at)


class _NoJson(ValueError):
    """What JSON does not have, such as NaN, or leaves open, such as a name that stands twice in an object."""


def _refuse(constant: str) -> Any:
    raise _NoJson(constant)


def _unambiguous(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    for name, value in pairs:
        if found[name] != value:
            raise _NoJson(name)
    return found


_LENIENT = json.JSONDecoder()
"""Takes NaN, which then is an invalid verdict."""
_PLAIN = json.JSONDecoder(parse_constant=_refuse, object_pairs_hook=_unambiguous)
_MOST_OBJECTS = 400
"""Braces that are tried: enough for any verdict, and cheap for any flood."""


def _parsed(fragment: str) -> Any:
    try:
        return json.loads(_TRAILING_COMMA.sub(r"\1", fragment))
    except ValueError:
        return None


def _fragments(text: str, required: tuple[str, ...]) -> dict[str, str]:
    # A number before a full stop may have been cut short, one before a slash is a fraction: neither is taken.
    found: dict[str, str] = {}
    for name in required:
        match = re.search(
            rf"[\"']?{name}[\"']?\s*[:=]\s*[\"']?"
            r"([+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)(?![0-9.]|\s*/)",
            text,
        )
        if match is not None:
            found[name] = match[1]
    return found


def _scores(
    found: Mapping[str, Any], required: tuple[str, ...], number_of: NumberOf
) -> dict[str, float] | str:
    scores: dict[str, float] = {}
    for name in required:
        least, most, whole = _RANGES[name]
        number = number_of(found[name])
        if number is None or not least <= number <= most or (whole and number != int(number)):
            return f"invalid {name}: {found[name]!r}"
        scores[name] = round(number, 2)
    return scores


def _as_number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):  # no number; a whole one of hundreds of digits
        return None
    return number if math.isfinite(number) else None


def _as_plain_number(value: Any) -> float | None:
    """Only what every client must take for a number."""
    if isinstance(value, str) and _PLAIN_NUMBER.fullmatch(value) is None:
        return None
    return _as_number(value)
