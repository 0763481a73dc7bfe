"""Each fault of the judge: what a bare client gets, its proof, and that an ineffective one proves nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from conformance.clock import run_virtual
from mockserver.faults import FAULTS as SESSION_FAULTS
from mockserver.faults.judging import JudgeFault
from mockserver.judge import JudgeServer
from mockserver.judge_faults import JUDGE_FAULTS
from scenarios.faults import FAULTS as SPECS
from scenarios.faults import Layer, NoSessionClosed
from scenarios.faults_judge import (
    ChoicesEmpty,
    Empty,
    Fenced,
    HttpStatus,
    InvalidField,
    MissingField,
    Prose,
    Refusal,
    Stall,
    ThinkBlock,
    ToolCall,
    Truncated,
)
from scenarios.judging import JudgeReply

VERDICT = JudgeReply(success_score=1, times=9)
SAID = '{"success_score":1,"reasoning":"scripted"}'


def report(judge: Any) -> Any:
    (only,) = judge.server.fault_reports()
    return only


def test_the_judge_plays_every_fault_of_its_layer_and_no_other_does() -> None:
    assert set(JUDGE_FAULTS) == {name for name, spec in SPECS.items() if spec.layer is Layer.JUDGE}
    assert set(JUDGE_FAULTS) & set(SESSION_FAULTS) == set()
    with pytest.raises(ValueError, match="does not play 'no_session_closed'"):
        JudgeServer(faults=[NoSessionClosed()])


@pytest.mark.parametrize("fault", JUDGE_FAULTS.values(), ids=JUDGE_FAULTS.keys())
def test_every_fault_says_what_it_does_and_how_to_survive_it(fault: type[JudgeFault]) -> None:
    assert fault.__doc__ is not None
    for part in ("Wire:", "Parameters:", "Survive:"):
        assert part in fault.__doc__


# -- what arrives, and the proof


def first(judging: Any, say: Any, fault: Any, **how: Any) -> tuple[Any, Any, Any]:
    """The answer to one chat request under a fault, the ledger's entry and the fault's report."""

    async def main() -> tuple[Any, Any, Any]:
        async with judging(**{"replies": [VERDICT], "faults": [fault], **how}) as judge:
            answered = await judge.ask(say.chat())
            return answered, judge.last, report(judge)

    return run_virtual(main)


def test_prose(judging: Any, say: Any) -> None:
    answered, entry, proof = first(judging, say, Prose(text="Well done."))
    assert (answered.said, answered.choice["finish_reason"]) == ("Well done.", "stop")
    assert (entry.verdict.standing, entry.faults) == ("missing", ["prose"])
    assert proof.state == "observed"
    assert proof.evidence["request"] == 1
    assert proof.evidence["sent"] == "Well done."
    assert proof.evidence["sample"] == "PR_correction/0"


def test_fenced(judging: Any, say: Any) -> None:
    answered, entry, proof = first(judging, say, Fenced())
    assert '```json\n{\n  "success_score": 1' in answered.said
    assert not answered.said.startswith("```")
    assert (entry.verdict.standing, proof.state) == ("verdict", "observed")


def test_think_block_before_the_verdict(judging: Any, say: Any) -> None:
    answered, entry, proof = first(judging, say, ThinkBlock())
    assert '<think>First: {"success_score":0' in answered.said
    assert answered.said.endswith(SAID)
    assert (entry.verdict.scores, proof.state) == ({"success_score": 1}, "observed")


@pytest.mark.parametrize("where", ["inside", "in_field"])
def test_think_block_with_the_verdict_in_it(judging: Any, say: Any, where: Any) -> None:
    answered, entry, proof = first(judging, say, ThinkBlock(verdict=where))
    thought = answered.choice["message"].get("reasoning_content", answered.said)
    assert SAID in thought
    assert (SAID in answered.said) is (where == "inside")
    assert (entry.verdict.standing, proof.state) == ("missing", "observed")


def test_missing_field(judging: Any, say: Any) -> None:
    answered, entry, proof = first(judging, say, MissingField())
    assert answered.verdict == {"reasoning": "scripted"}
    assert (entry.verdict.standing, proof.state) == ("missing", "observed")


@pytest.mark.parametrize("value", [9, "good", None, True, [1]])
def test_invalid_field(judging: Any, say: Any, value: Any) -> None:
    answered, entry, proof = first(judging, say, InvalidField(value=value))
    assert answered.verdict["success_score"] == value
    assert (entry.verdict.standing, proof.state) == ("invalid", "observed")


def test_truncated(judging: Any, say: Any) -> None:
    answered, entry, proof = first(judging, say, Truncated())
    assert (answered.said, answered.choice["finish_reason"]) == (SAID[:-1], "length")
    assert (entry.verdict.standing, proof.state) == ("incomplete", "observed")
    answered, _, _ = first(judging, say, Truncated(keep_characters=5))
    assert answered.said == SAID[:5]


@pytest.mark.parametrize(("content", "said"), [("text", ""), ("null", None)])
def test_empty(judging: Any, say: Any, content: Any, said: str | None) -> None:
    answered, entry, proof = first(judging, say, Empty(content=content))
    assert (answered.said, answered.choice["finish_reason"]) == (said, "stop")
    assert (entry.verdict.standing, proof.state) == ("incomplete", "observed")


def test_http_status_with_an_error_object(judging: Any, say: Any) -> None:
    answered, entry, proof = first(judging, say, HttpStatus(status=429, retry_after_s=7, message="slow down"))
    assert (answered.status, answered.headers["Retry-After"]) == (429, "7")
    assert answered.error == {"message": "slow down", "type": "rate_limit_error", "param": None, "code": None}
    assert (entry.status, entry.source, entry.answered) == (429, "fault", False)
    assert (proof.state, proof.evidence["status"]) == ("observed", 429)


def test_http_status_with_a_page(judging: Any, say: Any) -> None:
    answered, _, proof = first(judging, say, HttpStatus(status=502, body="html"))
    assert answered.headers["Content-Type"].startswith("text/html")
    assert '"success_score": 0' in answered.text
    assert proof.state == "observed"


def test_http_status_leaves_the_script_as_it_is(judging: Any, say: Any) -> None:
    async def main() -> None:
        replies = [JudgeReply(success_score=1)]
        async with judging(replies=replies, fall_back=False, faults=[HttpStatus(count=1)]) as judge:
            assert (await judge.ask(say.chat())).status == 500
            assert (await judge.ask(say.chat())).verdict["success_score"] == 1
            assert judge.last.repeats

    run_virtual(main)


@pytest.mark.parametrize(("choices", "seen"), [("empty", []), ("null", None)])
def test_choices_empty(judging: Any, say: Any, choices: Any, seen: Any) -> None:
    answered, entry, proof = first(judging, say, ChoicesEmpty(choices=choices))
    assert (answered.status, answered.body["choices"]) == (200, seen)
    assert (answered.body.get("error", {}).get("code") == 429) is (choices == "null")
    assert (entry.answered, proof.state) == (False, "observed")


def test_tool_call(judging: Any, say: Any) -> None:
    answered, entry, proof = first(judging, say, ToolCall())
    message = answered.choice["message"]
    assert (message["content"], answered.choice["finish_reason"]) == (None, "tool_calls")
    assert message["tool_calls"][0]["function"]["arguments"] == SAID
    assert (entry.verdict.standing, proof.state) == ("incomplete", "observed")


def test_refusal(judging: Any, say: Any) -> None:
    answered, entry, proof = first(judging, say, Refusal(text="No."))
    assert (answered.choice["message"]["content"], answered.choice["message"]["refusal"]) == (None, "No.")
    assert (entry.verdict.standing, proof.state) == ("incomplete", "observed")


# -- the stall


def test_a_stall_lasts_until_the_client_gives_up(judging: Any, say: Any) -> None:
    async def main() -> None:
        async with judging(faults=[Stall()]) as judge:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(600):
                    await judge.ask(say.chat())
            await asyncio.sleep(1)
            proof = report(judge)
            assert (proof.state, proof.evidence["held_s"]) == ("observed", 600)
            assert (judge.last.status, judge.last.answered) == (None, False)

    run_virtual(main)


def test_a_stall_with_a_delay_ends_in_the_models_answer(judging: Any, say: Any) -> None:
    async def main() -> None:
        async with judging(replies=[VERDICT], faults=[Stall(delay_s=30)]) as judge:
            since_s = asyncio.get_running_loop().time()
            assert (await judge.ask(say.chat())).verdict["success_score"] == 1
            assert 30 <= asyncio.get_running_loop().time() - since_s < 31
            assert report(judge).state == "observed"

    run_virtual(main)


def test_a_stall_is_released_with_the_faults(judging: Any, say: Any) -> None:
    async def main() -> None:
        async with judging(faults=[Stall()]) as judge:
            waiting = asyncio.create_task(judge.ask(say.chat()))
            await asyncio.sleep(5)
            assert report(judge).state == "triggered"
            judge.server.release_faults()
            assert (await waiting).status == 200
            assert report(judge).evidence["ended"] == "the scenario ended"

    run_virtual(main)


# -- scope


def test_a_fault_acts_only_on_the_requests_that_it_names(judging: Any, say: Any) -> None:
    prose = Prose(kind="content", mode="frames", sample="560", request=1)

    async def main() -> None:
        async with judging(faults=[prose]) as judge:
            await judge.ask(say.chat())
            await judge.ask(say.content(say.kitchen))
            await judge.ask(say.content(say.cyclist, frames=1))
            await judge.ask(say.content(say.kitchen, frames=1))  # the second request of its judgement
            assert report(judge).state == "armed"
        async with judging(faults=[prose]) as judge:
            await judge.ask(say.content(say.kitchen, frames=1))
            assert report(judge).state == "observed"

    run_virtual(main)


def test_a_fault_names_a_judgement_by_its_number(judging: Any, say: Any) -> None:
    async def main() -> None:
        async with judging(faults=[Prose(kind="temporal", judgement=2)]) as judge:
            for said in ("one", "two", "three"):
                await judge.ask(say.temporal(said=said))
            assert [entry.faults for entry in judge.server.ledger.entries] == [[], ["prose"], []]

    run_virtual(main)


def test_a_fault_acts_on_as_many_requests_as_it_says(judging: Any, say: Any) -> None:
    async def main() -> None:
        async with judging(faults=[HttpStatus(count=2)]) as judge:
            statuses = [(await judge.ask(say.chat())).status for _ in range(4)]
            assert statuses == [500, 500, 200, 200]
            assert report(judge).evidence["requests"] == 2

    run_virtual(main)


def test_faults_compose_in_their_order(judging: Any, say: Any) -> None:
    async def main() -> None:
        async with judging(replies=[VERDICT], faults=[InvalidField(value=7), Fenced()]) as judge:
            said = (await judge.ask(say.chat())).said
            assert '"success_score": 7' in said
            assert "```" in said
            assert judge.last.faults == ["invalid_field", "fenced"]

    run_virtual(main)


# -- what proves nothing


PROSE = JudgeReply(text="Well done.", times=9)
INEFFECTIVE = {
    "fenced": (Fenced(), PROSE),
    "think_block": (ThinkBlock(), PROSE),
    "missing_field": (MissingField(), PROSE),
    "missing_field of another kind": (MissingField(field="content_score"), VERDICT),
    "invalid_field": (InvalidField(), PROSE),
    "invalid_field that is what stands there": (InvalidField(value=1), VERDICT),
    "truncated": (Truncated(keep_characters=500), VERDICT),
}


@pytest.mark.parametrize("name", INEFFECTIVE)
def test_a_fault_that_found_nothing_to_change_is_not_observed(judging: Any, say: Any, name: str) -> None:
    fault, reply = INEFFECTIVE[name]
    answered, entry, proof = first(judging, say, fault, replies=[reply])
    assert answered.status == 200
    assert entry.faults == []
    assert proof.state == "triggered"


@pytest.mark.parametrize("spec", [Prose(kind="content"), Stall(kind="content"), HttpStatus(kind="content")])
def test_a_fault_whose_request_never_came_is_armed(judging: Any, say: Any, spec: Any) -> None:
    _, _, proof = first(judging, say, spec)
    assert (proof.state, proof.evidence) == ("armed", {})


def test_an_answer_that_the_client_did_not_wait_for_proves_nothing(judging: Any, say: Any) -> None:
    async def main() -> None:
        async with judging(faults=[Prose()], answers_after_s=10.0) as judge:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(5):
                    await judge.ask(say.chat())
            await asyncio.sleep(20)
            assert report(judge).state == "triggered"
            assert not judge.last.answered

    run_virtual(main)


def test_a_fault_tells_each_change_of_its_state(judging: Any, say: Any) -> None:
    heard: list[Any] = []

    async def main() -> None:
        sink = lambda event, data: heard.append((event, data))  # noqa: E731 - two lines of a test
        async with judging(faults=[Prose()], sink=sink) as judge:
            await judge.ask(say.chat())
            await judge.ask(say.chat())

    run_virtual(main)
    assert [data["state"] for event, data in heard if event == "fault"] == ["triggered", "observed"]
