"""A run that is killed and begun again: the kill is real, and each thing that holds afterwards can be seen broken."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.defects.rewrite import Rewrite, applied
from conformance.killing import KilledRun, KillingError, LastWords, killed_run, torn_files
from conformance.options import RunOptions
from conformance.outcome import Outcome, ScenarioResult
from conformance.runner import run_scenario
from scenarios import load_catalogue
from scenarios.faults_seam import KillClient
from scenarios.model import Expect
from tests.conformance.refusing import refusal

SCENARIOS = {s.id: s for s in load_catalogue()}
ANSWER = "resume/killed[half-an-answer]"
SCORE = "resume/killed-judging[half-a-score]"
KILL = KillClient(file="*")


def with_kill(name: str, **values: Any) -> ScenarioResult:
    scenario = SCENARIOS[name]
    kill = scenario.faults[0].model_copy(update=values)
    return run_scenario(scenario.model_copy(update={"faults": [kill]}), RunOptions())


def with_mistake(name: str, function: str, old: str, new: str) -> dict[str, list[str]]:
    """Findings by id of a scenario with a mistake in the client."""
    with applied((Rewrite(function, old, new),)):
        result = run_scenario(SCENARIOS[name], RunOptions())
    assert result.outcome is Outcome.FAIL, result.reason
    found: dict[str, list[str]] = {}
    for finding in result.findings:
        found.setdefault(finding.id, []).append(f"{finding.sample}: {finding.actual}")
    return found


def killed(play: Callable[[Callable[[LastWords], None]], None], out: Path) -> KilledRun:
    return killed_run(0, KILL, play, out, [("RTD_Omni", "1")])


def test_the_process_of_the_run_dies_by_sigkill_and_says_where_it_was() -> None:
    result = run_scenario(SCENARIOS[ANSWER], RunOptions())

    (report,) = result.faults
    assert report.state == "observed"
    assert report.evidence == {
        "file": "RTD_Omni/3.json",
        "when": "half_written",
        "bytes_there": 41,
        "signal": "SIGKILL",
    }


def test_a_finished_sample_that_is_run_again_is_found() -> None:
    found = with_mistake(
        ANSWER,
        "client.response_root:finished_metadata",
        "return metadata if isinstance(sentences, list) and isinstance(metadata, dict) else None",
        "return None",
    )

    assert found["finished-run-again"] == [
        "RTD_Omni/1: published, 1 session(s)",
        "RTD_Omni/2: published, 1 session(s)",
    ]


def test_figures_that_a_second_run_forgets_are_found() -> None:
    found = with_mistake(
        ANSWER, "client.run:Run._finalise", '("published", "skipped_finished")', '("published",)'
    )

    assert found["figures-lost"] == ["RTD_Omni/1: 0 row(s)", "RTD_Omni/2: 0 row(s)"]


def test_a_score_that_is_made_again_is_found() -> None:
    found = with_mistake(SCORE, "client.judge.evaluation:Evaluation.take_stock", "score is not None", "False")

    assert found["judged-again"] == ["PR_correction/0: 1 request(s)"]


def test_a_trace_that_is_begun_anew_by_the_second_run_is_found() -> None:
    found = with_mistake(
        SCORE, "client.judge.evaluation:Evaluation._sample", "self.settings.overwrite", "True"
    )

    assert "PR_correction/1: 1" in found["judge-ledger"]


def test_the_line_of_a_trace_that_a_kill_cut_must_not_stay() -> None:
    found = with_mistake(
        "resume/killed-judging[half-a-line-of-the-trace]",
        "client.artifacts:append_line",
        "end = cut_torn_line(file)",
        "end = 0",
    )

    assert any(told.startswith("PR_correction/1: 1.judge.jsonl") for told in found["torn-artifact"])


def test_a_run_before_that_does_not_end_well_is_found() -> None:
    found = with_mistake(
        "resume/answer-changed",
        "client.session:ClientSession.completed_replies",
        'r.status == "completed"',
        "False",
    )

    assert sorted(told.split(" ")[0] for told in found["earlier-run"]) == ["None:", "None:"]
    assert all("failed no completed response" in told for told in found["earlier-run"])


def test_a_refusal_that_nothing_expects_is_told_as_a_crash() -> None:
    scenario = SCENARIOS["resume/other-settings[model]"]
    expect = Expect.model_validate({"wire": {"connections": 0}})
    result = run_scenario(scenario.model_copy(update={"expect": expect}), RunOptions())

    assert [finding.id for finding in result.findings] == ["client-crashed"]
    assert "model 'lab/model-a'" in result.findings[0].actual


@pytest.mark.parametrize(
    ("name", "values"),
    [
        (ANSWER, {"file": "RTD_Omni/9.json"}),
        (ANSWER, {"nth": 2}),
        (ANSWER, {"file": ".metrics.jsonl", "when": "before_rename"}),
    ],
    ids=["no-such-file", "no-second-write", "never-renamed"],
)
def test_a_run_that_nothing_killed_makes_the_scenario_inert(name: str, values: dict[str, Any]) -> None:
    result = with_kill(name, **values)

    assert result.faults[0].state == "armed"
    assert result.outcome is Outcome.INERT


def test_a_defect_that_was_put_in_is_in_the_process_that_dies() -> None:
    found = with_mistake(
        ANSWER, "client.artifacts:write_whole", "path.with_name(path.name + '.part')", "path"
    )

    assert [told for told in found["torn-artifact"] if "RTD_Omni/3.json" in told]


def test_what_breaks_in_the_process_is_an_error_of_the_harness(tmp_path: Path) -> None:
    def play(die: Callable[[LastWords], None]) -> None:
        raise LookupError("no such stage")

    with pytest.raises(KillingError, match="LookupError: no such stage"):
        killed(play, tmp_path)


def test_a_process_that_ends_otherwise_is_an_error_of_the_harness(tmp_path: Path) -> None:
    with pytest.raises(KillingError, match="ended without a word"):
        killed(lambda die: os._exit(3), tmp_path)


def test_torn_files_are_those_with_a_final_name(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"whole": 1}')
    (tmp_path / "b.json").write_text('{"half')
    (tmp_path / "c.json.part").write_text('{"half')
    (tmp_path / "d.jsonl").write_text('{"n": 1}\n{"ha')
    (tmp_path / "e.jsonl").write_text('{"ha\n{"n": 2}\n')

    assert [told.partition(":")[0] for told in torn_files(tmp_path)] == ["b.json", "e.jsonl"]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("{file: RTD_Omni/1.json}", "{}", "faults[0].kill_client.file: missing"),
        (
            "{file: RTD_Omni/1.json}",
            "{file: a, sample: '1'}",
            "this fault goes by file; use `file` and `nth`",
        ),
        ("{file: RTD_Omni/1.json}", "{file: a, at_s: 1}", "this fault takes no trigger"),
        ("{file: RTD_Omni/1.json}", "{file: a, when: later}", "half_written"),
        ("{concurrency: 1}", "{cancel_at_s: 2}", "given with the fault kill_client"),
        (
            "faults: [kill_client: {file: RTD_Omni/1.json}]",
            "faults: []",
            "'skipped_finished' without kill_client",
        ),
    ],
)
def test_what_cannot_be_is_refused(old: str, new: str, told: str, tmp_path: Path) -> None:
    text = """\
title: A run
about: It is killed.
requires: [R20]
clip: {seconds: 1.4}
faults: [kill_client: {file: RTD_Omni/1.json}]
client: {concurrency: 1}
expect: {sample: {outcome: skipped_finished}}
"""
    assert told in refusal(tmp_path / "killed.yaml", text, old, new)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("again: ['1']", "again: ['2']", "unknown sample '2'"),
        ("again: ['1']", "judge_model: j", "a judge's model without a judge"),
        ("again: ['1']", "modle: x", "earlier.modle: unknown key"),
        ("faults: []", "faults: [kill_client: {file: a}]", "earlier: given with the fault kill_client"),
        ("earlier: {again: ['1']}", "tags: [a]", "expected without an earlier run"),
    ],
)
def test_a_run_before_that_cannot_be_is_refused(old: str, new: str, told: str, tmp_path: Path) -> None:
    text = """\
title: A run
about: It comes second.
requires: [R20]
clip: {seconds: 1.4}
faults: []
earlier: {again: ['1']}
expect: {refused: set}
"""
    assert told in refusal(tmp_path / "second.yaml", text, old, new)


def test_the_traces_of_killed_runs_stand_beside_the_trace(tmp_path: Path) -> None:
    options = replace(RunOptions(), out=tmp_path, keep_trace=True)
    run_scenario(SCENARIOS[ANSWER], options)

    folder = tmp_path / ANSWER
    assert sorted(path.name for path in folder.glob("trace*")) == ["trace-killed-1.ndjson", "trace.ndjson"]
    assert b"RTD_Omni/3#1" in (folder / "trace-killed-1.ndjson").read_bytes()
