"""Every way to write the judge of a scenario wrongly is told with its key, what stands there and what may."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenarios import ScenarioError, load_scenario
from scenarios.judging import JudgeReply, JudgeSpec

GOOD = """\
title: A rule
about: A story.
requires: [R52]
samples: [{id: "610", clip: {seconds: 3.4}}]
server: {reply: [{starts_at_unit: 1, units: 2, text: "Hello."}]}
judge: {replies: [{content_score: 2.5}]}
faults: [prose]
expect: {judge: {requests: 2}}
"""
LINES = {line.split(":")[0]: line for line in GOOD.splitlines()}

WRONG = {
    "unknown key": ("judge", "judge: {reply: []}", "judge.reply", "unknown key"),
    "unknown mode": ("judge", "judge: {mode: kind}", "judge.mode", "'scripted'"),
    "a script without replies": (
        "judge",
        "judge: {mode: scripted}",
        "judge.replies",
        "a scripted judge has replies",
    ),
    "a reply of nothing": (
        "judge",
        "judge: {replies: [{kind: chat}]}",
        "judge.replies[0]",
        "give text, or the fields",
    ),
    "a reply of two forms": (
        "judge",
        "judge: {replies: [{text: x, content_score: 1}]}",
        "judge.replies[0].text",
        "one of the two",
    ),
    "a verdict of two kinds": (
        "judge",
        "judge: {replies: [{content_score: 1, success_score: 1}]}",
        "judge.replies[0]",
        "one verdict",
    ),
    "half a verdict": (
        "judge",
        "judge: {replies: [{temporal_score: 1}]}",
        "judge.replies[0].is_relevant",
        "to leave it out, use text",
    ),
    "a verdict of another kind": (
        "judge",
        "judge: {replies: [{kind: chat, content_score: 1}]}",
        "judge.replies[0].kind",
        "'content'",
    ),
    "a score that is a word": (
        "judge",
        "judge: {replies: [{content_score: good}]}",
        "judge.replies[0].content_score",
        "a broken verdict is a fault",
    ),
    "a score that is a truth value": (
        "judge",
        "judge: {replies: [{success_score: true}]}",
        "judge.replies[0].success_score",
        "a number",
    ),
    "a mode without content": (
        "judge",
        "judge: {replies: [{success_score: 1, mode: frames}]}",
        "judge.replies[0].mode",
        "only content requests",
    ),
    "a reply used no time": (
        "judge",
        "judge: {replies: [{success_score: 1, times: 0}]}",
        "judge.replies[0].times",
        "1",
    ),
    "a reply for nobody": (
        "judge",
        'judge: {replies: [{success_score: 1, sample: "6"}]}',
        "judge.replies[0].sample",
        "known: 610",
    ),
    "a fault without a judge": ("judge", "tags: [x]", "faults[0].prose", "give a `judge` section"),
    "a trigger": ("faults", "faults: [{prose: {at_s: 1}}]", "faults[0].prose.at_s", "kind, mode, sample"),
    "an attempt": (
        "faults",
        "faults: [{stall: {attempt: 1}}]",
        "faults[0].stall.attempt",
        "kind, mode, sample",
    ),
    "a mode of another kind": (
        "faults",
        "faults: [{prose: {kind: chat, mode: frames}}]",
        "faults[0].prose.mode",
        "only content",
    ),
    "a field of another kind": (
        "faults",
        "faults: [{missing_field: {kind: chat, field: content_score}}]",
        "faults[0].missing_field.field",
        "success_score",
    ),
    "a status that is no error": (
        "faults",
        "faults: [{http_status: {status: 200}}]",
        "faults[0].http_status.status",
        "400",
    ),
    "a fault for an unknown sample": (
        "faults",
        'faults: [{prose: {sample: "1"}}]',
        "faults[0].prose.sample",
        "known: 610",
    ),
    "nothing expected of the judge": ("expect", "expect: {judge: {}}", "expect.judge", "at least one thing"),
    "nothing expected of a sample": (
        "expect",
        "expect: {judge: {sample: {}}}",
        "expect.judge.sample",
        "at least one thing",
    ),
    "an unknown expectation": (
        "expect",
        "expect: {judge: {requets: 1}}",
        "expect.judge.requets",
        "'requests'",
    ),
    "an unknown key of a trace line": (
        "expect",
        "expect: {judge: {sample: {trace: [{finish: stop}]}}}",
        "expect.judge.sample.trace[0].finish",
        "finish_reason",
    ),
    "an unknown key of the accuracy": (
        "expect",
        "expect: {accuracy: {evaluatd: 1}}",
        "expect.accuracy.evaluatd",
        "'evaluated'",
    ),
    "a judged sample that is not there": (
        "expect",
        'expect: {judge: {samples: {"1": {scored: true}}}}',
        "expect.judge.samples.1",
        "known: 610",
    ),
    "a question of nothing": (
        "samples",
        'samples: [{id: "610", clip: {seconds: 1}, question_text: ""}]',
        "samples[0].question_text",
        "1",
    ),
    "a reminder before the clip": (
        "samples",
        'samples: [{id: "610", clip: {seconds: 1}, reminder1: -1}]',
        "samples[0].reminder1",
        "0",
    ),
}


def write(folder: Path, text: str) -> Path:
    file = folder / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_judge_is_told(name: str, tmp_path: Path) -> None:
    section, text, key, allowed = WRONG[name]
    file = write(tmp_path, GOOD.replace(LINES[section], text))

    with pytest.raises(ScenarioError) as caught:
        load_scenario(file)
    problems = {problem.key: problem for problem in caught.value.problems}
    assert key in problems, caught.value
    assert allowed in f"{problems[key].found}; {problems[key].allowed}"
    assert problems[key].line == GOOD.splitlines().index(LINES[section]) + 1 or section == "judge"


def test_an_expectation_without_a_judge_is_told(tmp_path: Path) -> None:
    text = GOOD.replace(LINES["judge"] + "\n", "").replace(LINES["faults"], "tags: [x]")
    with pytest.raises(ScenarioError) as caught:
        load_scenario(write(tmp_path, text))
    assert [problem.key for problem in caught.value.problems] == ["expect.judge"]


def test_the_good_one_is_good(tmp_path: Path) -> None:
    scenario = load_scenario(write(tmp_path, GOOD))
    assert scenario.judge is not None
    assert scenario.judge.is_scripted
    assert scenario.judge.replies[0].wanted_kind == "content"


def test_samples_have_questions_that_tell_them_apart(tmp_path: Path) -> None:
    samples = (
        'samples: [{id: "610", clip: {seconds: 1}}, {id: "611", clip: {seconds: 1}, question_text: Count.}]'
    )
    one, other = load_scenario(write(tmp_path, GOOD.replace(LINES["samples"], samples))).specs
    assert "RTD_Omni/610" in one.question
    assert other.question == "Count."


def test_a_judge_is_scripted_where_it_has_replies_and_nothing_else_is_said() -> None:
    reply = JudgeReply(content_score=1)
    assert JudgeSpec(replies=[reply]).is_scripted
    assert not JudgeSpec().is_scripted
    assert not JudgeSpec(replies=[reply], mode="heuristic").is_scripted
