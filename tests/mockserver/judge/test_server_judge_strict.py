"""The judge's strict reader: each thing that evaluation.md forbids is noted, and what it allows is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from conformance.clock import run_virtual
from mockserver.judge_verdict import read_verdict
from scenarios.faults_judge import HttpStatus, InvalidField, Prose, Truncated
from scenarios.judging import JudgeReply

FORMAT = "success_score"


def violations_of(judging: Any, messages: Sequence[Any], **body: Any) -> list[str]:
    async def main() -> list[str]:
        async with judging() as judge:
            answered = await judge.ask(messages, **body)
            assert answered.status == 200
            return list(judge.violations)

    return run_virtual(main)


def test_requests_of_the_form_laid_down_are_not_noted(judging: Any, say: Any) -> None:
    for messages in (say.temporal(), say.content(), say.content(frames=16), say.chat()):
        assert violations_of(judging, messages) == []
    assert violations_of(judging, say.temporal(), max_tokens=800) == []
    assert violations_of(judging, say.chat(), modalities=["text"]) == []


def test_sampling_settings_are_checked(judging: Any, say: Any) -> None:
    assert violations_of(judging, say.chat(), temperature=0) == ["temperature"]
    assert violations_of(judging, say.chat(), max_tokens=800) == ["max-tokens"]
    assert violations_of(judging, say.content(), max_tokens=None) == ["max-tokens"]


def test_headers_are_checked(judging: Any, say: Any) -> None:
    async def main() -> None:
        async with judging() as judge:
            judge.headers = {"Authorization": "Basic x", "Content-Type": "text/plain"}
            await judge.ask(say.chat())
            assert judge.violations == ["no-authorization", "no-json-type"]

    run_virtual(main)


def test_shapes_are_checked(judging: Any, say: Any) -> None:
    system = {"role": "system", "content": "You are careful."}
    video = {"type": "video_url", "video_url": {"url": "http://host/clip.mp4"}}
    text = say.formats["content"]

    assert violations_of(judging, say.temporal()[1:]) == ["roles"]
    assert violations_of(judging, [system, *say.chat()]) == ["roles"]
    assert violations_of(judging, [*say.chat(), *say.chat()]) == ["roles"]
    assert violations_of(judging, say.content(frames=17)) == ["too-many-frames"]
    assert violations_of(judging, [say.user(text, video)]) == ["video-url"]
    assert violations_of(judging, [say.user(text, *say.images(1, "https://host/a.jpg"))]) == ["image-url"]
    png = "data:image/jpeg;base64,iVBORw0KGgo="
    assert violations_of(judging, [say.user(text, *say.images(1, png))]) == ["image-url"]
    assert violations_of(judging, [say.user(say.formats["chat"], *say.images(1))]) == ["media"]
    both = [say.user(text, *say.content()[0]["content"][1:], *say.images(1))]
    assert violations_of(judging, both) == ["media"]


def test_a_prompt_that_does_not_name_the_fields_is_noted(judging: Any, say: Any) -> None:
    assert violations_of(judging, [say.user("Grade it: 0 or 1?")]) == ["format-not-told"]


# -- the re-ask


def reask(judging: Any, say: Any, told: str, *faults: Any, echo: str | None = None) -> list[str]:
    """A chat judgement asked twice; the second request says `told`."""

    async def main() -> list[str]:
        async with judging(replies=[JudgeReply(success_score=1, times=9)], faults=faults) as judge:
            first = await judge.ask(say.chat())
            await judge.ask(say.again(say.chat(), (first.said or "") if echo is None else echo, told))
            assert judge.last.reask
            return list(judge.violations)

    return run_virtual(main)


def test_a_reask_as_laid_down_is_not_noted(judging: Any, say: Any) -> None:
    assert reask(judging, say, "Missing success_score.", Prose(request=1)) == []
    assert reask(judging, say, "Invalid judge field success_score: 9.", InvalidField(request=1)) == []


def test_the_echo_is_the_judges_own_reply_word_for_word(judging: Any, say: Any) -> None:
    assert reask(judging, say, FORMAT, Prose(request=1), echo="Something else.") == ["reask-echo"]


def test_a_reask_that_is_sent_again_is_held_against_the_first_reply_too(judging: Any, say: Any) -> None:
    faults = [Prose(request=1), HttpStatus(request=2)]

    async def main() -> None:
        async with judging(faults=faults) as judge:
            await judge.ask(say.chat())
            statuses = [(await judge.ask(say.again(say.chat(), "Else.", FORMAT))).status for _ in range(2)]
            assert statuses == [500, 200]
            assert judge.violations == ["reask-echo", "reask-echo"]

    run_virtual(main)


def test_an_invalid_field_is_not_called_missing(judging: Any, say: Any) -> None:
    assert reask(judging, say, "success_score is missing.", InvalidField(request=1)) == ["reask-wrong-reason"]


def test_the_format_is_told_again(judging: Any, say: Any) -> None:
    assert reask(judging, say, "Try again.", Prose(request=1)) == ["reask-format"]


def test_a_verdict_is_not_asked_for_again_nor_is_what_was_cut(judging: Any, say: Any) -> None:
    assert reask(judging, say, FORMAT) == ["reask-of-a-verdict"]
    assert reask(judging, say, FORMAT, Truncated(request=1)) == ["reask-of-a-truncated-reply"]


def test_a_judgement_is_asked_again_once(judging: Any, say: Any) -> None:
    async def main() -> None:
        async with judging(faults=[Prose()]) as judge:
            said = (await judge.ask(say.chat())).said
            once = say.again(say.chat(), said, FORMAT)
            await judge.ask(once)
            await judge.ask(say.again(once, said, FORMAT))
            assert judge.violations == ["reask-of-a-reask"]
            assert [violation.requirement for violation in judge.last.violations] == ["R52"]

    run_virtual(main)


def test_the_opening_is_the_same_messages_media_included(judging: Any, say: Any) -> None:
    async def main() -> None:
        async with judging(faults=[Prose()]) as judge:
            said = (await judge.ask(say.content(frames=2))).said
            await judge.ask(say.again(say.content(frames=1), said, say.formats["content"]))
            assert judge.violations == ["reask-opening"]

    run_virtual(main)


def test_the_user_speaks_after_the_echo(judging: Any, say: Any) -> None:
    async def main() -> None:
        async with judging(faults=[Prose()]) as judge:
            said = (await judge.ask(say.chat())).said
            await judge.ask([*say.chat(), {"role": "assistant", "content": said}])
            assert "reask-roles" in judge.violations

    run_virtual(main)


# -- how a reply stands


@pytest.mark.parametrize(
    ("kind", "text", "standing"),
    [
        ("chat", '{"success_score": 1}', "verdict"),
        ("chat", '{"success_score": "1",}', "verdict"),
        ("chat", '```json\n{"success_score": 0, "reasoning": "no"}\n```', "verdict"),
        ("chat", 'I say "success_score": 1, all told.', "verdict"),
        ("chat", 'I say "success_score": 1.', "missing"),
        ("chat", 'I say "success_score": 1/2', "missing"),
        ("chat", '{} {"success_score": 1}', "verdict"),
        ("chat", '{"success_score": 2}', "invalid"),
        ("chat", '{"success_score": true}', "invalid"),
        ("chat", '{"success_score": 0.5}', "invalid"),
        ("chat", '{"success_score": 1} {"success_score": 0}', "invalid"),
        ("chat", "Well done.", "missing"),
        ("chat", '<think>{"success_score": 1}</think> Well done.', "missing"),
        ("chat", "", "incomplete"),
        ("chat", None, "incomplete"),
        ("temporal", '{"temporal_score": 3}', "missing"),
        ("temporal", '{"temporal_score": 3, "is_relevant": 1}', "verdict"),
        ("temporal", '{"temporal_score": 2.7, "is_relevant": 1}', "invalid"),
        ("content", '{"content_score": 2.7}', "verdict"),
        ("content", '{"content_score": 85}', "invalid"),
        ("content", '{"content_score": "good"}', "invalid"),
        ("content", '{"content_score": NaN}', "invalid"),
        ("chat", '{"success_score": 0} {"success_score": NaN}', "invalid"),
        ("chat", '{"success_score": 0} {"success_score": 1,}', "invalid"),
        ("chat", '{[} {"success_score": 0}', "verdict"),
    ],
)
def test_a_reply_stands_as_evaluation_md_has_it(kind: Any, text: str | None, standing: str) -> None:
    assert read_verdict(kind, text, "stop").standing == standing


def test_a_reply_that_was_cut_is_no_verdict_whatever_it_holds() -> None:
    assert read_verdict("chat", '{"success_score": 1}', "length").standing == "incomplete"
    assert read_verdict("chat", '{"success_score": 1}', None).standing == "verdict"
