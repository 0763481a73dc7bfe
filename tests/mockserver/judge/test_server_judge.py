"""The judge on the wire: the envelope, whose request it is, the script, what is malformed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from conformance.clock import run_virtual
from mockserver.judge import MAX_BODY_BYTES, JudgedSample
from scenarios.judging import JudgeReply


def test_a_reply_comes_in_the_envelope_of_openai(judging: Any, say: Any) -> None:
    async def main() -> None:
        async with judging() as judge:
            answered = await judge.ask(say.content())
            body = answered.body

            assert answered.status == 200
            assert answered.headers["Content-Type"].startswith("application/json")
            assert body["object"] == "chat.completion"
            assert body["model"] == "judge-model"
            assert body["id"].startswith("chatcmpl-")
            assert isinstance(body["created"], int)
            assert answered.choice["finish_reason"] == "stop"
            assert answered.choice["message"]["role"] == "assistant"
            usage = body["usage"]
            assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 0

    run_virtual(main)


def test_the_models_are_the_judge_and_the_duplex_model(judging: Any) -> None:
    async def main() -> None:
        async with judging(model="a-judge") as judge:
            async with judge.session.get(f"{judge.server.url}/models") as response:
                told = await response.json()
            assert [model["id"] for model in told["data"]] == ["a-judge", "openbmb/MiniCPM-o-4_5"]

    run_virtual(main)


@pytest.mark.parametrize(
    ("make", "kind", "mode", "pictures", "video"),
    [
        ("temporal", "temporal", "frames", 2, False),
        ("content", "content", "video_url", 0, True),
        ("content_frames", "content", "frames", 3, False),
        ("chat", "chat", "text", 0, False),
    ],
)
def test_a_request_is_told_by_what_it_asks_for_and_what_it_shows(
    judging: Any, say: Any, make: str, kind: str, mode: str, pictures: int, video: bool
) -> None:
    async def main() -> None:
        async with judging() as judge:
            messages = say.content(frames=3) if make == "content_frames" else getattr(say, make)()
            answered = await judge.ask(messages)
            entry = judge.last
            assert (entry.kind, entry.mode, entry.images, entry.video) == (
                kind,
                mode,
                pictures,
                video,
            )
            assert entry.status == 200
            assert entry.judged
            assert set(entry.verdict.scores) <= set(answered.verdict)
            assert judge.violations == []

    run_virtual(main)


def test_a_request_that_names_no_field_is_told_by_its_shape(judging: Any, say: Any) -> None:
    bare = "Grade: Describe the street as it happens. A cyclist passes."

    async def main() -> None:
        async with judging() as judge:
            system = {"role": "system", "content": "You are careful."}
            await judge.ask([system, say.user(bare, *say.images(1))])
            await judge.ask([say.user(bare, *say.images(1))])
            await judge.ask([say.user(bare)])
            kinds = [entry.kind for entry in judge.server.ledger.entries]
            assert kinds == ["temporal", "content", "chat"]

    run_virtual(main)


def test_an_answer_that_quotes_another_kinds_field_does_not_change_the_kind(judging: Any, say: Any) -> None:
    async def main() -> None:
        async with judging() as judge:
            await judge.ask(say.chat(said='{"content_score": 3.0} is what I deserve.'))
            assert judge.last.kind == "chat"

    run_virtual(main)


# -- whose request it is


def test_a_request_belongs_to_the_sample_whose_instruction_it_shows(judging: Any, say: Any) -> None:
    async def main() -> None:
        async with judging() as judge:
            for sample in (say.kitchen, say.cyclist):
                await judge.ask(say.content(sample))
            assert [entry.sample for entry in judge.server.ledger.entries] == [
                say.kitchen.key,
                say.cyclist.key,
            ]

    run_virtual(main)


def test_an_instruction_quoted_as_json_is_found_too(judging: Any, say: Any) -> None:
    question = 'Say "stop"\nwhen it stops.'
    samples = (JudgedSample("PR_correction", "2", "Other."), JudgedSample("PR_correction", "1", question))

    async def main() -> None:
        async with judging(samples=samples) as judge:
            await judge.ask([say.user('"Say \\"stop\\"\\nwhen it stops." success_score')])
            assert judge.last.sample == ("PR_correction", "1")

    run_virtual(main)


def test_the_longer_of_two_instructions_wins(judging: Any, say: Any) -> None:
    samples = (
        JudgedSample("RTD_Omni", "1", "Describe."),
        JudgedSample("RTD_Omni", "2", "Describe. Be short."),
    )

    async def main() -> None:
        async with judging(samples=samples) as judge:
            await judge.ask(say.content(samples[1]))
            await judge.ask(say.content(samples[0]))
            assert [entry.sample for entry in judge.server.ledger.entries] == [s.key for s in samples[::-1]]

    run_virtual(main)


SAME = tuple(JudgedSample("RTD_Omni", name, "Describe what you see.") for name in ("610", "611", "612"))


def test_the_requests_own_id_decides_between_equal_instructions(judging: Any, say: Any) -> None:
    async def main() -> None:
        async with judging(samples=SAME) as judge:
            await judge.ask(say.temporal(SAME[0]), sample="RTD_Omni/612")
            await judge.ask(say.temporal(SAME[0]), sample="RTD_Omni%2F611")
            await judge.ask(say.temporal(SAME[0]), sample="RTD_Omni/999")
            found = [entry.sample for entry in judge.server.ledger.entries]
            assert found[:2] == [SAME[2].key, SAME[1].key]
            assert found[2] in {sample.key for sample in SAME}

    run_virtual(main)


def test_an_id_that_the_instruction_contradicts_does_not_count(judging: Any, say: Any) -> None:
    async def main() -> None:
        async with judging() as judge:
            await judge.ask(say.content(say.kitchen), sample="RTD_Omni/610")
            assert judge.last.sample == say.kitchen.key

    run_virtual(main)


def test_the_clients_address_decides_where_a_request_says_nothing_of_itself(judging: Any, say: Any) -> None:
    async def main() -> None:
        asked: list[tuple[str, int]] = []

        def identify(peer: tuple[str, int]) -> tuple[str, str]:
            asked.append(peer)
            return SAME[1].key

        async with judging(samples=SAME, identify=identify) as judge:
            await judge.ask(say.temporal(SAME[0]))
            await judge.ask(say.temporal(SAME[0]), sample="RTD_Omni/612")
            assert [entry.sample for entry in judge.server.ledger.entries] == [SAME[1].key, SAME[2].key]
            assert [host for host, _ in asked] == ["127.0.0.1"]

    run_virtual(main)


def test_the_name_of_the_video_decides_between_equal_instructions(judging: Any, say: Any) -> None:
    async def main() -> None:
        async with judging(samples=SAME) as judge:
            await judge.ask(say.content(SAME[1]))
            assert judge.last.sample == SAME[1].key

    run_virtual(main)


def test_without_anything_else_requests_belong_to_samples_in_order(judging: Any, say: Any) -> None:
    async def main() -> None:
        async with judging(samples=SAME) as judge:
            for n in range(len(SAME)):
                await judge.ask(say.temporal(SAME[0], said=f"Sentence {n}."))
                await judge.ask(say.content(SAME[0], frames=1))
            found = [entry.sample for entry in judge.server.ledger.entries]
            assert found == [SAME[n].key for n in (0, 0, 1, 1, 2, 2)]

    run_virtual(main)


def test_a_judge_that_knows_no_samples_judges_all_the_same(judging: Any, say: Any) -> None:
    async def main() -> None:
        async with judging(samples=()) as judge:
            assert (await judge.ask(say.chat())).status == 200
            assert judge.last.sample is None

    run_virtual(main)


# -- judgements


def test_requests_are_numbered_within_their_judgement(judging: Any, say: Any) -> None:
    prose = JudgeReply(text="Rather good.")

    async def main() -> None:
        async with judging(replies=[prose] * 6) as judge:
            by_video, by_frames = say.content(), say.content(frames=2)
            for opening in (by_video, by_frames):
                await judge.ask(opening)
                await judge.ask(say.again(opening, "Rather good.", say.formats["content"]))
            await judge.ask(say.temporal(said="One."))
            await judge.ask(say.temporal(said="Two."))
            entries = judge.server.ledger.entries
            assert [(e.judgement, e.request) for e in entries] == [
                (1, 1),
                (1, 2),
                (1, 3),
                (1, 4),
                (1, 1),
                (2, 1),
            ]
            assert [e.reask for e in entries] == [False, True, False, True, False, False]
            assert judge.violations == []

    run_virtual(main)


def test_the_same_words_after_a_verdict_are_another_event_of_a_reminder(judging: Any, say: Any) -> None:
    async def main() -> None:
        async with judging() as judge:
            await judge.ask(say.chat())
            await judge.ask(say.chat())
            assert [(e.judgement, e.request) for e in judge.server.ledger.entries] == [(1, 1), (2, 1)]
            assert not judge.last.repeats

    run_virtual(main)


def test_only_what_no_reply_has_answered_is_repeated(judging: Any, say: Any) -> None:
    async def main() -> None:
        async with judging(fall_back=False, replies=[JudgeReply(kind="content", text="Good.")]) as judge:
            await judge.ask(say.chat())  # the script has nothing for it: 500
            await judge.ask(say.chat())
            await judge.ask(say.content())
            await judge.ask(say.content())
            assert [e.repeats for e in judge.server.ledger.entries] == [False, True, False, False]

    run_virtual(main)


# -- the script


def test_replies_are_given_by_kind_sample_and_request_and_used_up(judging: Any, say: Any) -> None:
    replies = [
        JudgeReply(sample="560", content_score=1.25),
        JudgeReply(content_score=2.5),
        JudgeReply(kind="chat", request=2, text="second"),
        JudgeReply(kind="chat", text="first"),
        JudgeReply(temporal_score=3, is_relevant=1, times=2),
    ]

    async def main() -> None:
        async with judging(replies=replies, fall_back=False) as judge:
            assert (await judge.ask(say.content())).verdict["content_score"] == 2.5
            assert (await judge.ask(say.content(say.kitchen))).verdict["content_score"] == 1.25
            assert (await judge.ask(say.chat())).said == "first"
            assert (await judge.ask(say.again(say.chat(), "first", "success_score"))).said == "second"
            assert (await judge.ask(say.temporal(said="a"))).verdict["temporal_score"] == 3
            assert (await judge.ask(say.temporal(said="b"))).verdict["is_relevant"] == 1
            assert judge.server.script.left == 0
            assert {entry.source for entry in judge.server.ledger.entries} == {"script"}

    run_virtual(main)


def test_running_out_of_replies_is_an_error_that_says_for_which_request(judging: Any, say: Any) -> None:
    async def main() -> None:
        async with judging(replies=[JudgeReply(content_score=2)], fall_back=False) as judge:
            await judge.ask(say.content())
            answered = await judge.ask(say.chat())
            assert answered.status == 500
            assert answered.error["type"] == "script_exhausted"
            assert "no reply for request 2: chat, PR_correction/0, request 1" in answered.error["message"]
            assert (judge.last.source, judge.last.status) == ("exhausted", 500)
            assert not judge.last.answered

    run_virtual(main)


def test_a_script_with_a_fall_back_goes_on_with_plausible_verdicts(judging: Any, say: Any) -> None:
    async def main() -> None:
        async with judging(replies=[JudgeReply(success_score=0)]) as judge:
            assert (await judge.ask(say.chat())).verdict["success_score"] == 0
            await judge.ask(say.content())
            assert [e.source for e in judge.server.ledger.entries] == ["script", "heuristic"]

    run_virtual(main)


def test_a_script_for_another_answer_gives_the_last_reply_that_fits_once_more(judging: Any, say: Any) -> None:
    replies = [JudgeReply(temporal_score=3, is_relevant=1), JudgeReply(temporal_score=1, is_relevant=1)]

    async def main() -> None:
        async with judging(replies=replies, again=True) as judge:
            scores = [
                (await judge.ask(say.temporal(said=words))).verdict["temporal_score"] for words in "abc"
            ]
            await judge.ask(say.chat())
            assert scores == [3, 1, 1]
            told = [entry.source for entry in judge.server.ledger.entries]
            assert told == ["script", "script", "again", "heuristic"]

    run_virtual(main)


def test_a_plausible_verdict_depends_on_the_text_alone_and_is_fair_on_the_whole(
    judging: Any, say: Any
) -> None:
    async def ask(judge: Any, count: int) -> list[tuple[float, ...]]:
        scores = []
        for n in range(count):
            await judge.ask(say.temporal(said=f"Sentence {n}."))
            scores.append(tuple(judge.last.verdict.scores.values()))
        return scores

    async def main() -> None:
        async with judging(answers_after_s=0) as judge:
            first = await ask(judge, 60)
        async with judging(answers_after_s=0) as judge:
            assert await ask(judge, 60) == first
        relevant = [score for score, is_relevant in first if is_relevant]
        assert 1.6 < sum(relevant) / len(relevant) < 2.7
        assert 40 < len(relevant) < 60

    run_virtual(main)


# -- bounds


BAD = {
    "no JSON": (b"{", None),
    "no object": (b"[]", None),
    "no model": (b'{"messages": [{"role": "user", "content": "x"}]}', "model"),
    "no messages": (b'{"model": "m"}', "messages"),
    "empty messages": (b'{"model": "m", "messages": []}', "messages"),
    "no user": (b'{"model": "m", "messages": [{"role": "system", "content": "x"}]}', "messages"),
    "unknown role": (b'{"model": "m", "messages": [{"role": "judge", "content": "x"}]}', "messages[0]"),
    "content that is a number": (
        b'{"model": "m", "messages": [{"role": "user", "content": 3}]}',
        "messages[0].content",
    ),
    "unknown part": (
        b'{"model": "m", "messages": [{"role": "user", "content": [{"type": "audio"}]}]}',
        "messages[0].content[0]",
    ),
    "image without URL": (
        b'{"model": "m", "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}',
        "messages[0].content[0]",
    ),
    "a stream": (b'{"model": "m", "stream": true, "messages": [{"role": "user", "content": "x"}]}', "stream"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_malformed_request_is_refused_in_the_form_of_openai(judging: Any, name: str) -> None:
    data, param = BAD[name]

    async def main() -> None:
        async with judging() as judge:
            answered = await judge.post(data)
            assert answered.status == 400
            assert answered.error["type"] == "invalid_request_error"
            assert answered.error["param"] == param
            assert answered.error["message"]
            assert (judge.last.status, judge.last.source, judge.last.kind) == (400, "refused", None)

    run_virtual(main)


def test_a_body_above_the_bound_is_refused(judging: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_BODY_BYTES == 64 * 1024 * 1024
    monkeypatch.setattr("mockserver.judge.MAX_BODY_BYTES", 1000)

    async def main() -> None:
        async with judging() as judge:
            answered = await judge.post(b'{"model": "' + b"m" * 2000 + b'"}')
            assert answered.status == 413
            assert "larger than 1000 bytes" in answered.error["message"]
            assert judge.last.source == "refused"

    run_virtual(main)


def test_sixteen_large_frames_fit(judging: Any, say: Any) -> None:
    frame = "data:image/jpeg;base64,/9j/" + "A" * 1_000_000

    async def main() -> None:
        async with judging() as judge:
            text = f"{say.cyclist.question} {say.formats['content']}"
            assert (await judge.ask([say.user(text, *say.images(16, frame))])).status == 200
            assert judge.last.body_bytes > 16_000_000
            assert judge.violations == []

    run_virtual(main)


def test_two_requests_at_once_are_both_answered(judging: Any, say: Any) -> None:
    async def main() -> None:
        async with judging(answers_after_s=1.0) as judge:
            loop = asyncio.get_running_loop()
            since_s = loop.time()
            await asyncio.gather(judge.ask(say.chat()), judge.ask(say.content()))
            assert loop.time() - since_s < 1.1

    run_virtual(main)


def test_the_sink_hears_of_each_request_when_it_is_read_and_when_it_is_answered(
    judging: Any, say: Any
) -> None:
    heard: list[tuple[str, Any]] = []

    async def main() -> None:
        async with judging(sink=lambda event, data: heard.append((event, data))) as judge:
            await judge.ask(say.content())
            await judge.post(b"{")

    run_virtual(main)
    assert [(event, data["status"]) for event, data in heard] == [
        ("asked", None),
        ("answered", 200),
        ("asked", None),
        ("answered", 400),
    ]
    assert "messages" not in str(heard)


def test_a_judge_that_is_served_forgets_and_numbers_on(judging: Any, say: Any) -> None:
    async def main() -> None:
        async with judging(keep=3, samples=()) as judge:
            for number in range(1, 15):
                await judge.ask(say.content(), sample=f"RTD_Omni/{number % 7}", model="m" * 1000)
                ledger = judge.server.ledger
                assert len(ledger.entries) <= 6
                assert ledger.entries[-1].number == ledger.asked == number
            entry = ledger.entries[-1]
            assert (entry.judgement, entry.request, len(entry.model)) == (1, 1, 256)  # the first is forgotten
            assert len(ledger._judgements) <= 6
            assert len(ledger._shown) == 1
            await judge.ask(say.content(), sample="RTD_Omni/0")
            assert (ledger.entries[-1].judgement, ledger.entries[-1].request) == (1, 2)

    run_virtual(main)
