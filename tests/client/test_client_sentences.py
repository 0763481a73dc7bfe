"""Timed sentences (evaluation.md 11, protocol.md 14.1)."""

from __future__ import annotations

from typing import Any

import pytest

from client.sentences import TextDelta, clock_of, seconds_of, timed_sentences


def sentences(*deltas: tuple[Any, str]) -> list[tuple[str, float, float]]:
    items = timed_sentences(TextDelta(clock, text) for clock, text in deltas)
    return [(item["sentence"], item["start"], item["end"]) for item in items]


TABLE: list[tuple[str, list[tuple[Any, str]], list[tuple[str, float, float]]]] = [
    ("nothing", [], []),
    ("one delta", [(3000, "That is a red mug.")], [("That is a red mug.", 3.0, 3.0)]),
    ("two deltas", [(1000, "That is "), (2000, "a mug.")], [("That is a mug.", 1.0, 2.0)]),
    (
        "tokens with leading spaces keep their places",
        [(1000, " It"), (1000, " stops."), (2000, " Then"), (3000, " it"), (4000, " goes.")],
        [("It stops.", 1.0, 1.0), ("Then it goes.", 2.0, 4.0)],
    ),
    (
        "remainder restarts at the clock of its delta",
        [(1000, "A cat"), (2000, " sits. A dog"), (3000, " runs.")],
        [("A cat sits.", 1.0, 2.0), ("A dog runs.", 2.0, 3.0)],
    ),
    (
        "two in one delta share the start",
        [(1000, "One. Two. Th"), (2000, "ree.")],
        [("One.", 1.0, 1.0), ("Two.", 1.0, 1.0), ("Three.", 1.0, 2.0)],
    ),
    (
        "line break and double space",
        [(0, "One.\n\n  Two.  Three")],
        [("One.", 0, 0), ("Two.", 0, 0), ("Three", 0, 0)],
    ),
    ("runs of marks", [(0, "Really?! Yes...")], [("Really?!", 0, 0), ("Yes...", 0, 0)]),
    (
        "mark inside a number stays inside",
        [(0, "It is 3.5 m. Yes.")],
        [("It is 3.5 m.", 0, 0), ("Yes.", 0, 0)],
    ),
    (
        "white space alone opens nothing and moves no clock",
        [(1000, "  "), (2000, "Hi"), (9000, " "), (3000, "there")],
        [("Hi there", 2.0, 3.0)],
    ),
    (
        "space at the end of a remainder joins the next delta",
        [(0, "A. B "), (1000, "c.")],
        [("A.", 0, 0), ("B c.", 0, 1)],
    ),
    (
        "CJK without spaces splits where a mark is last",
        [(1000, "你好。世"), (2000, "界。")],
        [("你好。世界。", 1.0, 2.0)],
    ),
    (
        "CJK mark at the end of a delta",
        [(1000, "你好。"), (2000, "世界！")],
        [("你好。", 1, 1), ("世界！", 2, 2)],
    ),
    ("full-width question", [(0, "什么？ 是")], [("什么？", 0, 0), ("是", 0, 0)]),
    (
        "unfinished last sentence that began at 0 keeps 0",
        [(0, "He "), (5000, "pours")],
        [("He pours", 0.0, 5.0)],
    ),
    ("empty deltas are skipped", [(1000, ""), (2000, "Hi.")], [("Hi.", 2.0, 2.0)]),
    (
        "unparsable clock: the previous one",
        [(1000, "A"), ("soon", " b."), (3000, "C.")],
        [("A b.", 1, 1), ("C.", 3, 3)],
    ),
    ("clock that runs back never ends before the start", [(5000, "A"), (1000, " b.")], [("A b.", 5.0, 5.0)]),
    ("numbers as text", [("1500", "A.")], [("A.", 1.5, 1.5)]),
    ("rounded to 3 decimals", [(1234.5678, "A.")], [("A.", 1.235, 1.235)]),
    ("a character cut in two", [(0, "ok \ud83d"), (0, "\udc4d done")], [("ok 👍 done", 0, 0)]),
    ("half a character", [(0, "ok \ud83d.")], [("ok \ufffd.", 0, 0)]),
]


@pytest.mark.parametrize(("deltas", "wanted"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_sentences(deltas: list[tuple[Any, str]], wanted: list[tuple[str, float, float]]) -> None:
    assert sentences(*deltas) == wanted


@pytest.mark.parametrize("cut", range(1, 30))
def test_text_is_never_lost_or_doubled_wherever_deltas_are_cut(cut: int) -> None:
    text = " It stops. Then  it goes!\nWhy? 你好。 Fin"
    parts = [(0, text[k : k + cut]) for k in range(0, len(text), cut)]

    said = "".join(item[0] for item in sentences(*parts))

    assert "".join(said.split()) == "".join(text.split())


@pytest.mark.parametrize(
    ("event", "clock"),
    [
        ({"audio_end_ms": 1, "_media_clock_ms": 2, "current_time_ms": 3}, 1),
        ({"_media_clock_ms": 2, "current_time_ms": 3}, 2),
        ({"current_time_ms": 3}, 9000),
        ({"audio_end_ms": None}, 9000),
        ({"_media_clock_ms": None, "current_time_ms": 3}, 3),
        ({"_media_clock_ms": None}, 0),
    ],
)
def test_first_present_clock_wins(event: dict[str, Any], clock: int) -> None:
    assert clock_of(event, 9000) == clock


@pytest.mark.parametrize("clock", [None, "x", [], float("nan"), float("inf"), 10**400, True])
def test_clock_that_is_no_finite_number_gives_the_previous(clock: Any) -> None:
    assert seconds_of(clock, otherwise_s=4.5) == 4.5
