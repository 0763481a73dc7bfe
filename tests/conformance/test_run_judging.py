"""What always holds of the judging, and what a scenario may expect of it: each of them can fail."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.checks_judge import check_judging, judge_ledger, tally
from conformance.clients import builtin
from conformance.clock import VirtualLoop
from conformance.defects.rewrite import Rewrite, applied
from conformance.judging import Judged, JudgedFacts, JudgeStage
from conformance.observation import Observation
from conformance.options import RunOptions
from conformance.outcome import Finding, Outcome
from conformance.runner import perform, run_scenario
from mockserver.judge_ledger import JudgeViolation
from mockserver.judge_verdict import Verdict
from scenarios.faults import On, StopReading
from scenarios.faults_judge import Prose
from scenarios.judging import JudgedExpect, JudgeExpect, JudgeReply, JudgeSpec
from scenarios.loader import load_catalogue
from scenarios.model import Expect, Scenario

SCENARIOS = {scenario.id: scenario for scenario in load_catalogue()}
NEVER = {"one_of": ["no such value"]}
"""A matcher that no text meets."""
TOO_MANY = {"at_least": 1_000_000_000}
"""A matcher that no number meets."""


def observed(name: str, folder: Path) -> Observation:
    scenario = SCENARIOS[name]
    return perform(scenario, RunOptions(), folder, builtin.prepare(scenario, RunOptions()))


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Observation:
    """An RTD sample asked twice and a PR sample: every kind of fact is there."""
    return observed("judge/prose-once[temporal]", tmp_path_factory.mktemp("both"))


@pytest.fixture(scope="module")
def retried(tmp_path_factory: pytest.TempPathFactory) -> Observation:
    """Three tries that were not answered, and one that was."""
    return observed("judge/overloaded[three-times]", tmp_path_factory.mktemp("retried"))


def told_of(observation: Observation, change: Callable[[Judged], Judged | None]) -> list[Finding]:
    """The invariant's findings over changed facts."""
    assert observation.judged is not None
    before = observation.judged
    observation.judged = change(copy.deepcopy(before)) or observation.judged
    try:
        return list(judge_ledger(observation))
    finally:
        observation.judged = before


def with_sample(judged: Judged, index: int, **changes: Any) -> Judged:
    samples: list[JudgedFacts] = list(judged.samples)
    score = samples[index].score
    if "requests" in changes and score is not None:  # the client would have counted them too
        changes["score"] = {**score, "judge_requests": tally(changes["requests"])}
    samples[index] = replace(samples[index], **changes)
    return replace(judged, samples=samples)


def test_what_was_seen_breaks_nothing(both: Observation, retried: Observation) -> None:
    for observation in (both, retried):
        assert told_of(observation, lambda judged: judged) == []


# -- the invariant


def test_a_missing_trace_line_is_found(both: Observation) -> None:
    (finding, *_) = told_of(both, lambda j: with_sample(j, 0, trace=j.samples[0].trace[:-1]))
    assert (finding.id, finding.sample) == ("judge-ledger", "RTD_Omni/610")
    assert "R58" in finding.requirements
    assert (finding.expected[:13], finding.actual) == ("3 trace lines", "2")


@pytest.mark.parametrize("key", ["requests", "reasks", "transport_retries"])
def test_a_score_that_miscounts_its_requests_is_found(both: Observation, key: str) -> None:
    score = both.judged.samples[0].score  # type: ignore[union-attr]
    assert score is not None
    said = {**score, "judge_requests": {**score["judge_requests"], key: 9}}
    (finding,) = told_of(both, lambda j: with_sample(j, 0, score=said))
    assert finding.id == "judge-ledger"
    assert (finding.expected.partition(" ")[0], finding.actual) == (f"judge_requests.{key}", "9")


def test_a_line_too_many_is_found(both: Observation) -> None:
    assert told_of(both, lambda j: with_sample(j, 0, trace=(*j.samples[0].trace, {})))


@pytest.mark.parametrize("key", ["judge_retry", "transport_retry"])
def test_a_line_that_hides_what_it_was_is_found(both: Observation, retried: Observation, key: str) -> None:
    observation = both if key == "judge_retry" else retried
    hidden = [{**line, key: False} for line in observation.judged.samples[0].trace]  # type: ignore[union-attr]
    (finding,) = told_of(observation, lambda j: with_sample(j, 0, trace=tuple(hidden)))
    assert finding.id == "judge-ledger"
    assert key in finding.expected


def test_a_trace_that_does_not_parse_is_torn(both: Observation) -> None:
    ids = [f.id for f in told_of(both, lambda j: with_sample(j, 0, torn="610.judge.jsonl: line 3"))]
    assert ids == ["torn-artifact"]


def test_a_second_reask_is_found(both: Observation) -> None:
    def change(judged: Judged) -> Judged:
        requests = judged.samples[0].requests
        return with_sample(
            judged, 0, requests=(*requests, requests[1]), trace=(*judged.samples[0].trace, REASK)
        )

    REASK = {"judge_retry": True}
    (finding,) = told_of(both, change)
    assert (finding.expected, finding.requirements) == ("at most one re-ask a judgement", ("R52",))


@pytest.mark.parametrize(
    ("task", "asked", "found"),
    [
        ("proactive_reminder", "qrqr", 0),
        ("proactive_reminder", "qrr", 1),
        ("proactive_reminder", "qqrr", 1),
        ("proactive_reminder", "qrqrr", 1),
        ("correction", "qrqr", 1),
    ],
)
def test_two_events_with_the_same_words_may_each_be_asked_again(
    both: Observation, task: str, asked: str, found: int
) -> None:
    """The judge gave no verdict, so the ledger calls both one judgement; r: a re-ask, q: the question afresh."""

    def change(judged: Judged) -> Judged:
        (chat,) = judged.samples[1].requests
        requests = tuple(replace(chat, reask=letter == "r") for letter in asked)
        trace = tuple({"judge_retry": request.reask} for request in requests)
        return with_sample(judged, 1, requests=requests, trace=trace, task=task)

    expected = [finding.expected for finding in told_of(both, change)]
    assert expected == ["at most one re-ask a judgement"] * found


def test_a_fifth_answered_content_request_is_found(both: Observation) -> None:
    def change(judged: Judged, count: int) -> Judged:
        facts = judged.samples[0]
        (content,) = (entry for entry in facts.requests if entry.kind == "content")
        more = count - 1
        return with_sample(
            judged, 0, requests=(*facts.requests, *[content] * more), trace=(*facts.trace, *[{}] * more)
        )

    assert told_of(both, lambda j: change(j, 4)) == []
    (finding,) = told_of(both, lambda j: change(j, 5))
    assert (finding.expected, finding.actual) == ("at most 4 answered content requests", "5")
    assert finding.requirements == ("R59",)


def test_endless_repeats_are_found(retried: Observation) -> None:
    def change(judged: Judged, count: int) -> Judged:
        facts = judged.samples[0]
        first, repeated, line = facts.requests[0], facts.requests[1], facts.trace[1]
        return with_sample(
            judged,
            0,
            requests=(first, *[repeated] * count, facts.requests[-1]),
            trace=(facts.trace[0], *[line] * count, facts.trace[-1]),
        )

    assert told_of(retried, lambda j: change(j, 4)) == []
    (finding,) = told_of(retried, lambda j: change(j, 5))
    assert (finding.expected, finding.actual) == ("a request is repeated at most 5 times", "6")


@pytest.mark.parametrize(("kind", "sample"), [("temporal", 0), ("content", 0), ("chat", 1)])
def test_a_score_that_no_complete_reply_gave_is_found(both: Observation, kind: str, sample: int) -> None:
    def change(judged: Judged) -> Judged:
        for entry in judged.samples[sample].requests:
            if entry.kind == kind and entry.judged:
                entry.verdict = Verdict("incomplete", detail="cut")
        return judged

    (finding,) = told_of(both, change)
    assert finding.id == "judge-ledger"
    assert finding.requirements == ("R60",)
    assert f"each {kind} score" in finding.expected


def test_a_score_that_is_not_the_replys_is_found(both: Observation) -> None:
    score = copy.deepcopy(both.judged.samples[0].score)  # type: ignore[union-attr]
    assert score is not None
    score["content"]["content_score"] = 2.6
    (finding,) = told_of(both, lambda j: with_sample(j, 0, score=score))
    assert "2.6" in finding.actual


def with_text(judged: Judged, kind: str, change: Callable[[str], str]) -> Judged:
    for facts in judged.samples:
        for entry in facts.requests:
            if entry.kind == kind:
                entry.text = change(entry.text)
    return judged


@pytest.mark.parametrize(
    ("scenario", "kind", "lost", "expected"),
    [
        ("scored", "content", "Another one follows.", "a content request shows every sentence"),
        ("scored", "content", "A cyclist passes, then another.", "a content request shows every reference"),
        ("scored", "temporal", "Another one follows.", "a temporal request shows its sentence"),
        ("overloaded[429]", "chat", "The man did not hang up.", "a chat request shows every reference"),
        ("overloaded[429]", "chat", "He did not hang up.", "a chat request shows every sentence"),
    ],
)
def test_a_request_that_leaves_out_what_is_judged_is_found(
    tmp_path: Path, scenario: str, kind: str, lost: str, expected: str
) -> None:
    seen = observed(f"judge/{scenario}", tmp_path)
    assert told_of(seen, lambda judged: judged) == []
    (finding,) = told_of(seen, lambda judged: with_text(judged, kind, lambda text: text.replace(lost, "")))
    assert (finding.id, finding.expected) == ("judge-request-text", expected)


def test_a_violation_is_told_once_with_its_requirement(both: Observation) -> None:
    def change(judged: Judged) -> Judged:
        for entry in judged.ledger:
            entry.violations.append(JudgeViolation("16.7", "reask-echo", "not verbatim", "R53"))
        return judged

    (finding,) = told_of(both, change)
    assert (finding.id, finding.requirements) == ("judge-violation", ("R53",))
    assert finding.expected == "evaluation.md 16.7"


def test_a_request_beyond_the_script_is_found(both: Observation) -> None:
    def change(judged: Judged) -> Judged:
        judged.ledger[-1].source = "exhausted"
        return judged

    (finding,) = told_of(both, change)
    assert finding.expected == "no request beyond the judge's script"


@pytest.mark.parametrize(
    "wrong",
    [
        {"status": "partial"},
        {"evaluated": 1},
        {"total": 3},
        {"evaluated": 2, "skipped": 1, "failed": 0},
    ],
)
def test_an_accuracy_object_that_miscounts_is_found(both: Observation, wrong: dict[str, Any]) -> None:
    ids = {f.id for f in told_of(both, lambda j: replace(j, accuracy={**j.accuracy, **wrong}))}
    assert ids == {"judge-conservation"}


def test_a_lost_summary_is_found(both: Observation) -> None:
    assert told_of(both, lambda j: replace(j, accuracy={}))


def test_a_sample_without_score_and_reason_is_found(both: Observation) -> None:
    def change(judged: Judged) -> Judged:
        lost = with_sample(judged, 1, score=None)
        return replace(lost, accuracy={**judged.accuracy, "status": "partial", "evaluated": 1, "failed": 1})

    (finding,) = told_of(both, change)
    assert (finding.id, finding.sample) == ("judge-conservation", "PR_correction/0")
    assert finding.expected == "a sample without a score has a reason"


# -- expectations


def expecting(observation: Observation, expect: dict[str, Any]) -> list[str]:
    before = observation.scenario
    observation.scenario = before.model_copy(update={"expect": Expect.model_validate(expect)})
    try:
        return [finding.id for finding in check_judging(observation)]
    finally:
        observation.scenario = before


FORMS: dict[str, Any] = {
    "segments": ["no such segment"],
    "reason": NEVER,
    "scored": False,
    "trace": [{"kind": NEVER}],
    "sample": {"scored": False},
    "samples": {"0": {"scored": False}},
}


@pytest.mark.parametrize("key", sorted(JudgeExpect.model_fields))
def test_a_wrong_expectation_of_the_judge_is_found(both: Observation, key: str) -> None:
    form = TOO_MANY if key == "scored" else FORMS.get(key, TOO_MANY)
    assert expecting(both, {"judge": {key: form}})


@pytest.mark.parametrize("key", sorted(JudgedExpect.model_fields))
def test_a_wrong_expectation_of_a_judged_sample_is_found(both: Observation, key: str) -> None:
    found = expecting(both, {"judge": {"sample": {key: FORMS.get(key, TOO_MANY)}}})
    assert set(found) == {f"judge.{key}"}


def test_a_trace_of_another_length_is_found(both: Observation) -> None:
    assert expecting(both, {"judge": {"samples": {"0": {"trace": []}}}}) == ["judge.trace"]


@pytest.mark.parametrize(
    "key", ["status", "errors", "rtd.mean_content_score", "pr.mean_all_success", "error"]
)
def test_a_wrong_expectation_of_the_accuracy_is_found(both: Observation, key: str) -> None:
    assert expecting(both, {"accuracy": {key: NEVER}}) == [f"accuracy.{key}"]


def test_what_was_seen_is_met(both: Observation) -> None:
    expect = {
        "judge": {"requests": 4, "reasks": 1, "samples": {"0": {"total_score": 1, "rows": 1, "reason": ""}}},
        "accuracy": {"rtd.mean_content_score": 2.5, "pr.mean_all_success": 1.0, "judge_model": "judge-model"},
    }
    assert expecting(both, expect) == []


# -- whole scenarios


def altered(name: str, **changes: Any) -> Scenario:
    return SCENARIOS[name].model_copy(update=changes)


def test_a_judge_fault_whose_request_never_comes_leaves_the_scenario_inert() -> None:
    result = run_scenario(altered("judge/scored", faults=[Prose(kind="chat")]), RunOptions())
    assert result.outcome is Outcome.INERT
    assert "prose: armed" in result.reason


def test_a_script_that_runs_out_fails_the_scenario_and_says_so() -> None:
    script = JudgeSpec(replies=[JudgeReply(temporal_score=3, is_relevant=1, times=2)])
    result = run_scenario(altered("judge/scored", judge=script), RunOptions())
    assert result.outcome is Outcome.FAIL
    assert any(f.expected == "no request beyond the judge's script" for f in result.findings)


def test_a_judge_without_script_makes_a_whole_scenario_work(tmp_path: Path) -> None:
    scenario = altered(
        "judge/prose-once[temporal]",
        judge=JudgeSpec(),
        faults=[],
        expect=Expect.model_validate({"accuracy": {"status": "completed"}, "judge": {"scored": 2}}),
    )
    assert run_scenario(scenario, RunOptions()).outcome is Outcome.PASS


def test_the_judge_is_asked_without_small_buffers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int | None] = []
    evaluate = JudgeStage.evaluate

    async def spy(stage: JudgeStage, subjects: Any = None) -> Any:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        sizes.append(loop.client_sndbuf_bytes)
        return await evaluate(stage, subjects)

    monkeypatch.setattr(JudgeStage, "evaluate", spy)
    stalled = StopReading(on=On(received="input_audio_buffer.commit"), attempt=1)
    scenario = altered("judge/scored", faults=[stalled])
    observation = perform(scenario, RunOptions(), tmp_path, builtin.prepare(scenario, RunOptions()))
    assert observation.faults[0].state == "observed"
    assert sizes == [None]
    assert observation.judged is not None
    assert [entry.status for entry in observation.judged.ledger] == [200, 200, 200]


def test_the_trace_of_a_scenario_tells_each_request_and_keeps_no_media(both: Observation) -> None:
    assert both.recorder is not None
    asked = [r for r in both.recorder.records if r.what == "judge asked"]
    assert [r.data["kind"] for r in asked] == ["temporal", "temporal", "content", "chat"]
    assert all(len(r.line()) < 600 for r in asked)


@pytest.mark.parametrize("name", ["judge/prose-once[temporal]", "judge/invalid-field[out-of-range]"])
@pytest.mark.parametrize("said", ["", "the reply could not be used", "invalid or missing fields"])
def test_a_reask_that_keeps_the_reason_to_itself_is_found(name: str, said: str) -> None:
    mistake = Rewrite(
        "client.judge.judge:reask_messages", "reask_text(kind, str(error))", f"reask_text(kind, {said!r})"
    )
    with applied((mistake,)):
        result = run_scenario(SCENARIOS[name], RunOptions())

    assert "judge-reask-reason" in [finding.id for finding in result.findings]
