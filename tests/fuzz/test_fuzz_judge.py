"""Judge's replies drawn from a grammar, against a reader that is slow and obviously right: no score is made up."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from client.judge.errors import JudgeError, ReplyError
from client.judge.parsing import REQUIRED, Kind, read_reply
from client.judge.replies import Reply
from conformance.defects.all import ALL_DEFECTS
from conformance.defects.rewrite import applied
from conformance.fuzz.dice import Dice
from conformance.fuzz.drawing import Kinds
from conformance.fuzz.drawing import draw as draw_case
from conformance.fuzz.judging import FIELDS, KINDS, WRAPPINGS, reply_text
from conformance.fuzz.play import play
from conformance.fuzz.strategies import build
from conformance.options import RunOptions
from conformance.scratch import scratch_folder

DEFECTS = {defect.name: defect for defect in ALL_DEFECTS}
SETTINGS = settings(
    max_examples=400, database=None, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


@st.composite
def replies(draw: Any) -> tuple[str, str]:
    """(kind, what the judge says)."""
    dice = Dice.drawn(draw)
    kind = dice.pick(KINDS)
    return kind, reply_text(dice, kind)


# -- the reference: everything that could be called a score in a text ------------------------------------------


def visible(text: str) -> str:
    """Without thoughts: what stands between an opening and its close, or after one that is never closed."""
    shown, depth = "", 0
    for part in re.split(r"(</?think>)", text):
        if part == "<think>":
            depth += 1
        elif part == "</think>":
            depth = 0
        elif depth == 0:
            shown += part
    return shown


def all_objects(text: str) -> list[dict[str, Any]]:
    """Every stretch between any two braces that is a JSON object, whatever stands around it."""
    found = []
    for start in (i for i, c in enumerate(text) if c == "{"):
        for end in (i for i, c in enumerate(text) if c == "}" and i > start):
            try:
                value = json.loads(re.sub(r",\s*([}\]])", r"\1", text[start : end + 1]))
            except ValueError:
                continue
            if isinstance(value, dict):
                found.append(value)
    return found


def numbers_said(text: str, field: str) -> set[float]:
    """Every number that the text gives for a field, in an object or bare."""
    values = [o[field] for o in all_objects(text) if field in o]
    values += re.findall(rf"[\"']?{field}[\"']?\s*[:=]\s*[\"']?([-+]?[0-9.]+)", text)
    said = set()
    for value in values:
        if isinstance(value, bool):
            continue
        try:
            said.add(round(float(value), 2))
        except (TypeError, ValueError, OverflowError):
            continue
    return said


def scores(kind: str, text: str, finish_reason: str | None = "stop") -> dict[str, Any] | None:
    """What the client makes of a reply; None: no score."""
    try:
        return read_reply(Reply(text, finish_reason), kind)  # type: ignore[arg-type]
    except JudgeError:
        return None


def made_up(kind: str, text: str) -> list[str]:
    """Scores of the client that nobody gave, or that no scale has."""
    got = scores(kind, text)
    wrong = []
    for field in REQUIRED[kind] if got is not None else ():  # type: ignore[index]
        value = got[field.name]
        if not field.low <= value <= field.high or round(value, 2) not in numbers_said(
            visible(text), field.name
        ):
            wrong.append(f"{field.name}: {value!r} from {text!r}")
    return wrong


# -- properties -------------------------------------------------------------------------------------------------


@SETTINGS
@given(replies())
def test_no_score_is_made_up(reply: tuple[str, str]) -> None:
    assert made_up(*reply) == []


@SETTINGS
@given(replies())
def test_a_cut_at_any_character_never_makes_up_a_score(reply: tuple[str, str]) -> None:
    kind, text = reply
    for end in range(0, len(text), max(1, len(text) // 25)):
        assert made_up(kind, text[:end]) == []
        assert scores(kind, text[:end], "length") is None


@SETTINGS
@given(st.sampled_from(KINDS), st.data())
def test_a_plain_verdict_is_read_whatever_stands_around_it(kind: str, data: st.DataObject) -> None:
    values = {name: data.draw(st.sampled_from(given)) for name, given in FIELDS[kind].items()}
    plain = [w for w in WRAPPINGS if "think" not in w and w.count("{}") == 1]
    text = data.draw(st.sampled_from(plain)).replace("{}", json.dumps(values), 1)

    assert scores(kind, text) == values


@pytest.mark.parametrize("kind", KINDS)
def test_a_reply_without_a_verdict_is_an_error_and_no_zero(kind: Kind) -> None:
    for text in ("Rather good.", "{}", "[]", "null", '{"other": 0}', "<think>{}</think> Fine."):
        with pytest.raises(ReplyError):
            read_reply(Reply(text, "stop"), kind)


def test_the_reference_sees_a_client_that_clamps() -> None:
    with applied(DEFECTS["judge-clamps"].rewrites):
        assert made_up("content", '{"content_score": 9}') != []
    assert made_up("content", '{"content_score": 9}') == []


def test_drawn_judges_are_asked_at_most_twice_and_score_nothing_by_themselves() -> None:
    """End to end: the ledger's invariants and the model hold, and only a reply that holds scores gives any."""
    judged = 0
    with scratch_folder() as scratch:
        for number in range(400):
            data = draw_case(Kinds(media=False), 9, number)
            if "judge" not in data or data["server"]["reply"] == []:
                continue
            judged += 1
            played = play(build(data, f"fuzz/9-{number}"), RunOptions(seed=9), Path(scratch))
            assert played.findings == (), number
            if judged == 25:
                break
    assert judged == 25
