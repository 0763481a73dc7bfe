"""A verdict is read strictly from the judge's text (evaluation.md 16.4, 16.5; design.md 7)."""

from __future__ import annotations

from typing import Any

import pytest

from client.judge.errors import JudgeError, JudgeHttpError, JudgeResponseError, JudgeUnusableError, ReplyError
from client.judge.parsing import read_reply, read_verdict
from client.judge.replies import Reply, reply_of, without_thinking

SCORED: list[tuple[str, Any, str, dict[str, Any]]] = [
    ("plain", "content", '{"content_score": 2.5}', {"content_score": 2.5}),
    ("two decimals", "content", '{"content_score": 2.345}', {"content_score": 2.35}),
    ("numeric text", "content", '{"content_score": " 2.50 "}', {"content_score": 2.5}),
    ("whole float", "chat", '{"success_score": 1.0}', {"success_score": 1}),
    ("whole float as text", "chat", '{"success_score": "1.0"}', {"success_score": 1}),
    ("prose around", "chat", 'Well. {"success_score": 0} So be it.', {"success_score": 0}),
    ("fenced", "chat", '```json\n{"success_score": 1}\n```', {"success_score": 1}),
    ("trailing comma", "chat", '{"success_score": 1,}', {"success_score": 1}),
    ("leading empty object", "chat", '{} {"success_score": 1}', {"success_score": 1}),
    ("example without the field first", "chat", '{"a": 1} then {"success_score": 0}', {"success_score": 0}),
    ("nested", "chat", '{"verdict": {"success_score": 1}}', {"success_score": 1}),
    ("two that agree", "chat", '{"success_score": 1} {"success_score": 1.0}', {"success_score": 1}),
    (
        "brace in a text",
        "chat",
        '{"reasoning": "a } b", "success_score": 1}',
        {"success_score": 1, "reasoning": "a } b"},
    ),
    (
        "bare pieces",
        "temporal",
        '"temporal_score": 3 and "is_relevant": 1',
        {"temporal_score": 3, "is_relevant": 1},
    ),
    ("small", "content", '"content_score": 2e-1', {"content_score": 0.2}),
    ("format in words first", "chat", '"success_score": one digit. "success_score": 1', {"success_score": 1}),
    ("remark behind a number", "content", '{"content_score": 2.5 - no colour}', {"content_score": 2.5}),
    (
        "twice the same in one object",
        "chat",
        '{"success_score": 1, "success_score": 1}',
        {"success_score": 1},
    ),
    ("broken object", "chat", '{"success_score": 1, "reasoning": "cut', {"success_score": 1}),
    ("negative zero", "content", '{"content_score": -0.0}', {"content_score": 0.0}),
    (
        "reasoning kept",
        "content",
        '{"content_score": 3, "content_reasoning": "ok"}',
        {"content_score": 3.0, "content_reasoning": "ok"},
    ),
]


@pytest.mark.parametrize(("kind", "text", "fields"), [pytest.param(*c[1:], id=c[0]) for c in SCORED])
def test_a_usable_verdict_is_read(kind: Any, text: str, fields: dict[str, Any]) -> None:
    verdict = read_verdict(text, kind)

    assert verdict == fields
    assert [type(value) for value in verdict.values()] == [type(value) for value in fields.values()]


UNSCORED: list[tuple[str, Any, str, str]] = [
    ("prose", "chat", "It was named in time.", "Missing judge field: success_score"),
    ("one of two", "temporal", '{"temporal_score": 3}', "Missing judge field: is_relevant"),
    ("both of two", "temporal", '{"x": 3}', "Missing judge fields: temporal_score, is_relevant"),
    ("above", "content", '{"content_score": 85}', "Invalid judge field content_score: 85 is out of range"),
    ("just above", "content", '{"content_score": 3.004}', "out of range"),
    ("below", "temporal", '{"temporal_score": -1, "is_relevant": 1}', "-1 is out of range"),
    ("cut", "temporal", '{"temporal_score": 2.7, "is_relevant": 1}', "2.7 is not a whole number"),
    ("truth", "chat", '{"success_score": true}', "true is not a finite number"),
    ("word", "content", '{"content_score": "good"}', '"good" is not a finite number'),
    ("null", "chat", '{"success_score": null}', "null is not a finite number"),
    ("list", "chat", '{"success_score": [1]}', "[1] is not a finite number"),
    ("not a number", "content", '{"content_score": NaN}', "not a finite number"),
    ("huge", "content", '{"content_score": 1e999}', "not a finite number"),
    ("share", "content", '{"content_score": "2/3"}', "not a finite number"),
    ("underscore", "content", '{"content_score": "1_0"}', "not a finite number"),
    ("two that differ", "chat", '{"success_score": 1} {"success_score": 0}', "verdicts that disagree (1, 0)"),
    ("first invalid", "chat", '{"success_score": 7} {"success_score": 0}', "7 is out of range"),
    ("pieces that differ", "chat", '"success_score": 1 no, "success_score": 0', "several values"),
    ("share in pieces", "content", '"content_score": 2/3', "Invalid judge field content_score"),
    ("share cut short", "content", '{"content_score": "2/', "Invalid judge field content_score"),
    ("share behind a quote", "content", """'content_score': '2'/5""", "Invalid judge field content_score"),
    ("share in words", "content", '"content_score": 2 out of 5', "Invalid judge field content_score"),
    ("decimal comma", "content", '"content_score": 2,5', '"2,5" is no number'),
    ("decimal comma in an object", "content", '{"content_score": 2,5}', "is no number"),
    ("decimal comma in a text", "content", """{'content_score': "2,5"}""", "is no number"),
    ("small in pieces", "temporal", '"temporal_score": 2e-1, "is_relevant": 1', "2e-1"),
    ("range in pieces", "content", '"content_score": 2-3', "is no number"),
    ("range in words", "content", '"content_score": 2 to 3', "is no number"),
    ("percent in pieces", "content", '"content_score": 3%', "is no number"),
    ("word behind a number", "content", '{"content_score": 2pts}', "is no number"),
    ("format repeated", "chat", 'I fill in {"success_score": 0 or 1, "reasoning": ...}', "is no number"),
    ("word in pieces", "content", '{"content_score": high}', "Invalid judge field content_score"),
    ("null of another language", "chat", '{"success_score": None}', "Invalid judge field success_score"),
    (
        "word beside an object",
        "chat",
        '{"success_score": yes, "x": {"a": 1}}',
        "Invalid judge field success_score",
    ),
    (
        "twice in one object",
        "chat",
        '{"success_score": 1, "success_score": 0}',
        "Invalid judge field success_score",
    ),
    ("hostile nesting", "chat", '{"a":' * 30_000, "Missing judge field"),
    ("hostile braces", "chat", "{" * 100_000, "Missing judge field"),
    ("hostile names", "chat", '{"a":1' + ',"a":1,"a":2' * 8_000 + "}", "Missing judge field"),
    ("hostile pairs", "chat", "{" + "{}" * 40_000, "Missing judge field"),
]


@pytest.mark.parametrize(("kind", "text", "told"), [pytest.param(*c[1:], id=c[0]) for c in UNSCORED])
def test_a_reply_without_a_usable_verdict_says_what_is_wrong(kind: Any, text: str, told: str) -> None:
    with pytest.raises(ReplyError) as raised:
        read_verdict(text, kind)

    assert told in str(raised.value)
    assert ("Missing" in str(raised.value)) == ("Missing" in told)


VERDICT = '{"success_score": 1}'


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        (f"<think>{VERDICT}</think> done", " done"),
        (f"<think>no</think>{VERDICT}", VERDICT),
        (f"it seems {VERDICT}</think>", ""),
        (f"{VERDICT}<think>or is it", VERDICT),
        (f"<THINKING>a</THINKING>{VERDICT}", VERDICT),
        ("plain", "plain"),
        (f"<think>a<think>b</thinking>c</think>{VERDICT}", VERDICT),
        (f"<think>a</think>b<thinking>c</thinking>{VERDICT}", f"b {VERDICT}"),
        ("<think>" * 60_000, ""),
    ],
)
def test_think_blocks_are_taken_away(text: str, rest: str) -> None:
    assert without_thinking(text).strip() == rest.strip()


@pytest.mark.parametrize(
    ("reply", "error", "told"),
    [
        (Reply(VERDICT, "length"), JudgeResponseError, "truncated"),
        (Reply(VERDICT, "content_filter"), JudgeResponseError, "incomplete (finish_reason content_filter)"),
        (Reply(VERDICT, "5"), JudgeResponseError, "incomplete (finish_reason 5)"),
        (Reply("", "stop"), JudgeResponseError, "empty"),
        (Reply(" \n", None), JudgeResponseError, "empty"),
        (Reply(None, "stop", refusal="no"), JudgeResponseError, "refusal: no"),
        (Reply(None, "tool_calls", tool_calls="[]"), ReplyError, "tool call"),
        (Reply(VERDICT, "tool_calls"), ReplyError, "tool call"),
        (Reply(None, "stop", has_reasoning=True), ReplyError, "reasoning alone"),
        (Reply(f"<think>{VERDICT}</think>", "stop"), ReplyError, "Missing judge field"),
    ],
)
def test_a_reply_that_is_not_whole_is_never_scored(reply: Reply, error: type[JudgeError], told: str) -> None:
    with pytest.raises(error) as raised:
        read_reply(reply, "chat")

    assert told in str(raised.value)
    assert type(raised.value) is error


@pytest.mark.parametrize(
    ("body", "error", "told"),
    [
        ("<html>", JudgeUnusableError, "no JSON object: '<html>'"),
        ("[1]", JudgeUnusableError, "no JSON object"),
        ('{"choices": []}', JudgeResponseError, "no choices"),
        ('{"choices": null, "error": {"code": 429}}', JudgeHttpError, "HTTP 429"),
        ('{"error": {"message": "boom", "code": null}}', JudgeHttpError, "HTTP 500"),
        ('{"choices": ["x"]}', JudgeResponseError, "no choices"),
        ('{"choices": 5}', JudgeResponseError, "no choices"),
        ('{"choices": {"0": {}}}', JudgeResponseError, "no choices"),
        ('{"choices": true, "error": {"code": 429}}', JudgeHttpError, "HTTP 429"),
        ('{"choices": "\\ud83d', JudgeUnusableError, "no JSON object"),
    ],
)
def test_a_body_without_a_reply_is_named(body: str, error: type[JudgeError], told: str) -> None:
    with pytest.raises(error) as raised:
        reply_of(body.encode())

    assert told in str(raised.value)


def test_a_finish_reason_that_is_no_text_is_not_an_absent_one() -> None:
    reply = reply_of(b'{"choices": [{"message": {"content": "a"}, "finish_reason": 5}]}')

    assert reply.finish_reason == "5"


def test_half_a_character_makes_no_page_of_a_reply() -> None:
    reply = reply_of(rb'{"choices": [{"message": {"content": "cut \ud83d and \ud83d\ude00"}}]}')

    assert reply.text == "cut \ufffd and \U0001f600"


@pytest.mark.parametrize(
    ("choices", "text"),
    [
        ('[{"message": {"content": ""}}, {"message": {"content": "b"}}]', "b"),
        ('[{"message": {"content": "a"}}, {"modality": "text", "message": {"content": "b"}}]', "b"),
        (
            '[{"message": {"content": [{"type": "text", "text": "a"}, {"type": "image"}, {"text": "b"}]}}]',
            "ab",
        ),
    ],
)
def test_the_text_of_the_right_choice_is_taken(choices: str, text: str) -> None:
    assert reply_of(f'{{"choices": {choices}}}'.encode()).text == text
