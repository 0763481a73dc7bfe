"""A folder of answers is judged sample by sample and can be resumed (evaluation.md 19; R52 to R61)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from client.clips import StillClip
from client.judge.evaluation import Evaluation, EvaluationError, EvaluationResult, EvaluationSettings
from client.judge.score_files import score_path, trace_path
from client.judge.trace import read_trace
from client.response_root import RunError, locked
from client.summary import summarize_scores
from conformance.clock import run_virtual

GRADES = {
    "is_relevant": '{"temporal_score": 2, "is_relevant": 1}',
    "content_score": '{"content_score": 2.25}',
    "success_score": '{"success_score": 1}',
}


class Folder:
    """Answers on disk, and evaluations of them."""

    def __init__(self, bench: Any, root: Path) -> None:
        self.bench, self.root, self.scores = bench, root, root / "evaluation"
        self.peer: Any = None

    def answer(
        self, split: str, sample_id: str, *, late: Any = (), clock: str = "media", text: str = "It passes."
    ) -> None:
        folder = self.root / split
        folder.mkdir(parents=True, exist_ok=True)
        sentences = [{"sentence": text, "start": 4.0, "end": 5.0}]
        metadata = {"clock": clock, "late_sentences": list(late)}
        (folder / f"{sample_id}.json").write_text(json.dumps(sentences))
        (folder / f"{sample_id}.meta.json").write_text(json.dumps(metadata))

    def subject(self, sample_id: str, family: str = "rtd", **more: Any) -> Any:
        split = "RTD_Omni" if family == "rtd" else "PR_correction"
        return self.bench.subject(
            family, None if family == "rtd" else "correction", split=split, id=sample_id, **more
        )

    def judge(
        self,
        subjects: Any,
        *script: Any,
        during: Callable[[Evaluation], Any] | None = None,
        judge: dict[str, Any] | None = None,
        **changes: Any,
    ) -> EvaluationResult:
        """Judge with a peer that plays a script; grades everything well without one."""
        completion = self.bench.completion

        def grade(body: dict[str, Any]) -> Any:
            text = json.dumps(body["messages"][-1 if len(body["messages"]) < 3 else 0])
            return completion(next(reply for field, reply in GRADES.items() if field in text))

        self.peer = self.bench.ScriptedJudge(*(script or (grade,)))

        async def main() -> EvaluationResult:
            async with self.peer.running():
                settings = replace(self.bench.settings, base_url=self.peer.url, **(judge or {}))
                evaluation = Evaluation(
                    subjects, EvaluationSettings(settings, self.root, self.scores, **changes)
                )
                return await (during(evaluation) if during else evaluation.run())

        return run_virtual(main)

    def score(self, sample_id: str, split: str = "RTD_Omni") -> Any:
        return json.loads(score_path(self.scores, split, sample_id).read_text())

    def trace(self, sample_id: str, split: str = "RTD_Omni") -> Any:
        return read_trace(trace_path(self.scores, split, sample_id))


@pytest.fixture
def folder(bench: Any, tmp_path: Path) -> Folder:
    return Folder(bench, tmp_path / "run")


def test_every_answer_gets_its_score_and_the_evaluation_its_summary(folder: Folder) -> None:
    folder.answer("RTD_Omni", "1")
    folder.answer("PR_correction", "2")

    result = folder.judge([folder.subject("1"), folder.subject("2", "pr"), folder.subject("3")])

    accuracy = json.loads((folder.scores / "evaluation_summary.json").read_text())
    assert accuracy == result.accuracy()
    assert {
        key: accuracy[key]
        for key in ("status", "total", "evaluated", "skipped", "failed", "errors", "judge_model")
    } == {
        "status": "partial",
        "total": 3,
        "evaluated": 2,
        "skipped": 1,
        "failed": 0,
        "errors": [],
        "judge_model": "judge-model",
    }
    assert accuracy["rtd"] == {
        "samples": 1,
        "mean_content_score": 2.25,
        "mean_avg_temporal_score": 2.0,
        "by_task": {"RTD_Omni": {"mean_content_score": 2.25, "mean_avg_temporal_score": 2.0}},
    }
    assert accuracy["pr"] == {"samples": 1, "mean_all_success": 1.0, "by_task": {"correction": 1.0}}


def test_a_score_file_holds_what_evaluation_says(folder: Folder) -> None:
    folder.answer("RTD_Omni", "1")
    folder.answer("PR_correction", "2")
    folder.judge([folder.subject("1"), folder.subject("2", "pr")])

    rtd, pr = folder.score("1"), folder.score("2", "PR_correction")
    assert set(rtd) >= {
        "id",
        "family",
        "task_type",
        "protocol_pin",
        "response_meta",
        "judge_model",
        "judge_video_mode",
    }
    assert (set(rtd["temporal"]), set(rtd["content"])) == (
        {"sentences", "summary"},
        {"content_score", "mode"},
    )
    assert (set(pr["pr"]), pr["pr"]["all_success"], pr["pr"]["total_score"]) == (
        {"events", "all_success", "total_score"},
        True,
        1,
    )
    assert (rtd["task_type"], pr["task_type"]) == (None, "correction")


def test_means_are_reproducible_from_score_files_alone(folder: Folder) -> None:
    folder.answer("RTD_Omni", "1")
    folder.answer("RTD_Omni", "x_summary")
    accuracy = folder.judge([folder.subject("1"), folder.subject("x_summary")]).accuracy()

    again = summarize_scores(folder.scores)
    assert again["samples"] == 2
    assert {key: accuracy[key] for key in again} == again


def test_one_lost_judgement_costs_one_sample_and_is_named(folder: Folder) -> None:
    for name in ("1", "2", "3"):
        folder.answer("PR_correction", name)
    subjects = [folder.subject(name, "pr") for name in ("1", "2", "3")]
    good, prose = folder.bench.completion(GRADES["success_score"]), folder.bench.completion("It was fine.")

    accuracy = folder.judge(subjects, good, prose, prose, good).accuracy()

    assert (accuracy["status"], accuracy["evaluated"], accuracy["failed"]) == ("partial", 2, 1)
    assert accuracy["errors"] == ["PR_correction/2.json: Missing judge field: success_score"]
    assert not score_path(folder.scores, "PR_correction", "2").exists()
    assert [line["judge_retry"] for line in folder.trace("2", "PR_correction")] == [False, True]


def test_a_sample_without_its_question_is_named_and_costs_no_request(folder: Folder) -> None:
    folder.answer("RTD_Omni", "1")
    folder.answer("RTD_Omni", "2")

    result = folder.judge([folder.subject("1", instruction=" "), folder.subject("2")])

    accuracy = result.accuracy()
    assert (accuracy["evaluated"], accuracy["failed"], accuracy["status"]) == (1, 1, "partial")
    assert accuracy["errors"] == [
        "RTD_Omni/1.json: no question_text, so the judge would not know what was asked"
    ]
    assert (result.records[0].requests, folder.trace("1")) == (0, [])


def test_a_failed_sentence_leaves_no_half_score(folder: Folder) -> None:
    folder.answer("RTD_Omni", "1")

    result = folder.judge([folder.subject("1")], folder.bench.completion("no idea"))
    assert (result.records[0].outcome, result.records[0].requests) == ("failed", 2)
    assert list(folder.scores.rglob("1.json*")) == []


def test_what_was_judged_is_not_judged_again(folder: Folder) -> None:
    folder.answer("RTD_Omni", "1")
    folder.judge([folder.subject("1")])
    before = score_path(folder.scores, "RTD_Omni", "1").read_bytes()

    folder.answer("RTD_Omni", "2")
    result = folder.judge([folder.subject("1"), folder.subject("2")])

    assert [record.outcome for record in result.records] == ["judged_before", "scored"]
    assert (len(folder.peer.requests), result.accuracy()["status"]) == (2, "completed")
    assert score_path(folder.scores, "RTD_Omni", "1").read_bytes() == before


@pytest.mark.parametrize("content", [b'{"family": "rtd", "con', b"", b"\xff\xfe"])
def test_a_torn_score_is_judged_again(folder: Folder, content: bytes) -> None:
    folder.answer("RTD_Omni", "1")
    folder.judge([folder.subject("1")])
    score_path(folder.scores, "RTD_Omni", "1").write_bytes(content)

    result = folder.judge([folder.subject("1")])
    assert [record.outcome for record in result.records] == ["scored"]
    assert folder.score("1")["content"]["content_score"] == 2.25


@pytest.mark.parametrize("overwrite", [False, True])
def test_answers_in_the_place_of_scores_are_not_touched(folder: Folder, overwrite: bool) -> None:
    folder.answer("RTD_Omni", "1")
    folder.scores = folder.root
    answer = score_path(folder.root, "RTD_Omni", "1")
    before = answer.read_bytes()

    with pytest.raises(
        EvaluationError, match=r"1.json: found an answer where a score .*a score root of its own"
    ):
        folder.judge([folder.subject("1")], overwrite=overwrite)

    assert (answer.read_bytes(), folder.peer.requests) == (before, [])


def test_what_a_decoder_raises_costs_one_sample(folder: Folder) -> None:
    class Broken(StillClip):
        def held(self, times_s: Any) -> Any:
            raise TypeError("no picture")

    for name in ("1", "2"):
        folder.answer("RTD_Omni", name)

    result = folder.judge([folder.subject("1", clip=Broken(())), folder.subject("2")])

    assert [record.outcome for record in result.records] == ["failed", "scored"]
    assert result.records[0].error.splitlines()[-1] == "TypeError: no picture"


def test_the_key_is_in_no_score_of_late_sentences(folder: Folder) -> None:
    folder.answer("PR_correction", "1", late=LATE)
    good, key = folder.bench.completion(GRADES["success_score"]), "sk-very-secret-77"

    refused = folder.bench.Exchange(f"bad key {key}", 400)
    folder.judge([folder.subject("1", "pr")], good, refused, judge={"api_key": key})

    assert folder.score("1", "PR_correction")["with_late_sentences"]["error"] == "HTTP 400: bad key ***"


def test_the_score_of_another_answer_does_not_count(folder: Folder) -> None:
    folder.answer("RTD_Omni", "1")
    folder.judge([folder.subject("1")])
    folder.answer("RTD_Omni", "1", text="Something else.")

    assert [r.outcome for r in folder.judge([folder.subject("1")]).records] == ["scored"]


@pytest.mark.parametrize(("failed_again", "kept"), [(True, False), (False, True)])
def test_a_score_does_not_outlive_its_answer(folder: Folder, failed_again: bool, kept: bool) -> None:
    folder.answer("RTD_Omni", "1")
    folder.judge([folder.subject("1")])
    (folder.root / "RTD_Omni" / "1.json").unlink()
    if not failed_again:  # a folder in which the sample was never run
        (folder.root / "RTD_Omni" / "1.meta.json").unlink()

    result = folder.judge([folder.subject("1")])

    assert [record.outcome for record in result.records] == ["skipped"]
    assert score_path(folder.scores, "RTD_Omni", "1").exists() == kept


def test_a_score_that_is_judged_again_does_not_outlive_a_failure(folder: Folder) -> None:
    folder.answer("PR_correction", "1")
    folder.judge([folder.subject("1", "pr")])

    result = folder.judge([folder.subject("1", "pr")], folder.bench.completion("hm"), overwrite=True)
    assert result.accuracy()["status"] == "failed"
    assert not score_path(folder.scores, "PR_correction", "1").exists()
    assert len(folder.trace("1", "PR_correction")) == 2


def test_earlier_trace_lines_stay_when_a_failed_sample_is_judged_again(folder: Folder) -> None:
    folder.answer("PR_correction", "1")
    folder.judge([folder.subject("1", "pr")], folder.bench.completion("hm"))
    folder.judge([folder.subject("1", "pr")])

    assert [line["error"] is None for line in folder.trace("1", "PR_correction")] == [False, False, True]


def test_scores_of_another_judge_are_not_mixed_with_ours(folder: Folder) -> None:
    folder.answer("RTD_Omni", "1")
    folder.judge([folder.subject("1")])

    with pytest.raises(EvaluationError, match=r"RTD_Omni/1 was judged with another judge_model, judge_fps"):
        folder.judge([folder.subject("1")], judge={"model": "other", "fps": 1.0})
    assert folder.peer.requests == []
    assert folder.judge([folder.subject("1")], judge={"model": "other"}, overwrite=True).count("scored") == 1


def test_answers_without_a_clock_are_refused_unless_told_otherwise(folder: Folder) -> None:
    folder.answer("RTD_Omni", "1", clock="invalid")

    with pytest.raises(EvaluationError, match="RTD_Omni/1: clock 'invalid'"):
        folder.judge([folder.subject("1")])
    assert folder.peer.requests == []
    assert folder.judge([folder.subject("1")], allow_invalid_clock=True).count("scored") == 1


def test_an_answer_that_cannot_be_read_costs_its_sample(folder: Folder) -> None:
    folder.answer("RTD_Omni", "1")
    folder.answer("RTD_Omni", "2")
    (folder.root / "RTD_Omni" / "1.json").write_bytes(b'[{"sent')

    result = folder.judge([folder.subject("1"), folder.subject("2")])
    assert [record.outcome for record in result.records] == ["failed", "scored"]
    assert "1.json: not JSON" in result.records[0].error


@pytest.mark.parametrize(
    ("exchange", "told", "requests"),
    [
        ({"body": "<html>hello</html>"}, "is no judge we can use: the judge's reply is no JSON object", 1),
        ({"body": "no", "status": 401}, "HTTP 401", 1),
        ({"body": "no such model", "status": 404}, "HTTP 404", 1),
        (
            {"body": "<html>\n <p>Error</p>\n</html>", "status": 501},
            "HTTP 501: <html> <p>Error</p> </html>",
            4,
        ),
    ],
)
def test_what_is_no_judge_ends_the_evaluation_with_one_message(
    folder: Folder, exchange: dict[str, Any], told: str, requests: int
) -> None:
    for name in ("1", "2"):
        folder.answer("PR_correction", name)

    result = folder.judge([folder.subject(n, "pr") for n in ("1", "2")], folder.bench.Exchange(**exchange))

    assert told in result.stopped
    assert (result.away, len(folder.peer.requests)) == (False, requests)
    assert [record.outcome for record in result.records] == ["failed", "failed"]
    assert result.records[1].error.startswith("not judged: ")


def test_a_judge_that_worked_once_is_not_given_up(folder: Folder) -> None:
    for name in ("1", "2", "3"):
        folder.answer("PR_correction", name)
    good, page = folder.bench.completion(GRADES["success_score"]), folder.bench.Exchange("<html>")

    result = folder.judge([folder.subject(n, "pr") for n in ("1", "2", "3")], good, page, good)
    assert ([r.outcome for r in result.records], result.stopped) == (["scored", "failed", "scored"], "")


def test_a_judge_that_is_away_is_told_as_that(folder: Folder) -> None:
    folder.answer("PR_correction", "1")

    async def main() -> EvaluationResult:
        settings = EvaluationSettings(folder.bench.settings, folder.root, folder.scores)
        return await Evaluation([folder.subject("1", "pr")], settings).run()

    result = run_virtual(main)
    assert result.away
    assert result.stopped.startswith("no answer from http://127.0.0.1:9/v1/chat/completions")


def test_a_cancelled_evaluation_accounts_for_every_sample(folder: Folder) -> None:
    for name in ("1", "2", "3"):
        folder.answer("PR_correction", name)
    slow = folder.bench.Exchange({}, wait_s=25.0)
    results: list[EvaluationResult] = []

    async def during(evaluation: Evaluation) -> EvaluationResult:
        task = asyncio.create_task(evaluation.run())
        await asyncio.sleep(5.0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        results.append(evaluation.result)
        return evaluation.result

    good = folder.bench.completion(GRADES["success_score"])
    folder.judge([folder.subject(n, "pr") for n in ("1", "2", "3")], good, slow, during=during)

    assert [record.outcome for record in results[0].records] == ["scored", "failed", "failed"]
    assert json.loads((folder.scores / "evaluation_summary.json").read_text())["status"] == "partial"
    assert folder.trace("2", "PR_correction")[-1]["error"] == "cancelled"
    result = folder.judge([folder.subject(n, "pr") for n in ("1", "2", "3")])
    assert [record.outcome for record in result.records] == ["judged_before", "scored", "scored"]


def test_one_evaluation_at_a_time_writes_into_a_score_root(folder: Folder) -> None:
    folder.answer("PR_correction", "1")

    with locked(folder.scores), pytest.raises(RunError, match="another run is writing here"):
        folder.judge([folder.subject("1", "pr")])


@pytest.mark.parametrize("blocked", ["1.json", "1.judge.jsonl"])
def test_a_file_that_cannot_be_written_is_told_by_its_path_and_costs_one_sample(
    folder: Folder, blocked: str
) -> None:
    for name in ("1", "2"):
        folder.answer("PR_correction", name)
    (folder.scores / "PR_correction" / blocked / "x").mkdir(parents=True)

    result = folder.judge([folder.subject(n, "pr") for n in ("1", "2")])

    assert [record.outcome for record in result.records] == ["failed", "scored"]
    assert blocked in result.artifact_errors[0]
    assert not list(folder.scores.rglob("*.part"))


LATE = [{"sentence": "And a dog.", "start": 12.4, "end": 13.0}]


def test_late_sentences_are_not_scored_but_told_with_and_without(folder: Folder) -> None:
    folder.answer("RTD_Omni", "1", late=LATE)
    good = [folder.bench.completion(GRADES["is_relevant"]), folder.bench.completion(GRADES["content_score"])]
    better = [
        folder.bench.completion('{"temporal_score": 3, "is_relevant": 1}'),
        folder.bench.completion('{"content_score": 3}'),
    ]

    accuracy = folder.judge([folder.subject("1")], *good, *better).accuracy()

    assert (accuracy["rtd"]["mean_content_score"], accuracy["rtd"]["mean_avg_temporal_score"]) == (2.25, 2.0)
    assert accuracy["late_sentences"] == {
        "samples": 1,
        "sentences": 1,
        "rtd_with_late": {"mean_content_score": 3.0, "mean_avg_temporal_score": 2.5},
    }
    assert "And a dog." not in json.dumps(folder.peer.requests[:2])
    assert "It passes. And a dog." in json.dumps(folder.peer.requests[3])
    assert [line.get("late", False) for line in folder.trace("1")] == [False, False, True, True]


def test_a_failure_with_late_sentences_costs_nothing_else(folder: Folder) -> None:
    folder.answer("PR_correction", "1", late=LATE)
    good = folder.bench.completion(GRADES["success_score"])

    result = folder.judge([folder.subject("1", "pr")], good, folder.bench.completion("hm"))
    assert result.count("scored") == 1
    assert (
        folder.score("1", "PR_correction")["with_late_sentences"]["error"]
        == "Missing judge field: success_score"
    )
    assert result.accuracy()["late_sentences"]["pr_with_late"] == {"mean_all_success": 1.0}


def test_late_sentences_need_not_be_judged(folder: Folder) -> None:
    folder.answer("PR_correction", "1", late=LATE)

    folder.judge([folder.subject("1", "pr")], count_late=False)
    assert len(folder.peer.requests) == 1


def test_samples_are_judged_side_by_side_when_asked(folder: Folder) -> None:
    for name in ("1", "2", "3", "4"):
        folder.answer("PR_correction", name)
    reply = json.loads(json.dumps(folder.bench.completion(GRADES["success_score"]).body))

    result = folder.judge(
        [folder.subject(n, "pr") for n in ("1", "2", "3", "4")],
        folder.bench.Exchange(reply, wait_s=10.0),
        workers=2,
    )
    assert result.count("scored") == 4
    assert [round(t - folder.peer.times[0]) for t in folder.peer.times] == [0, 0, 10, 10]


@pytest.mark.parametrize(
    ("changes", "told"),
    [({"workers": 0}, "eval workers: found 0"), ({"judge": {"base_url": "x"}}, "judge base URL")],
)
def test_settings_out_of_range_are_refused_before_anything_is_asked(
    bench: Any, tmp_path: Path, changes: dict[str, Any], told: str
) -> None:
    judge = replace(bench.settings, **changes.pop("judge", {}))

    with pytest.raises(EvaluationError, match=told):
        Evaluation([], EvaluationSettings(judge, tmp_path, tmp_path / "s", **changes))
