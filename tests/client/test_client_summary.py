"""Means over score files, floors and guards (evaluation.md 19)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from client.summary import (
    REFERENCE_FLOORS,
    ScoreError,
    floor_verdicts,
    guard_verdict,
    mean,
    read_floors,
    retries_verdict,
    strict_verdicts,
    summarize_scores,
    summary_of,
)


def rtd(content: float, temporal: float, split: str = "RTD_OCR", **more: Any) -> dict[str, Any]:
    return {
        "id": "1",
        "split": split,
        "family": "rtd",
        "task_type": None,
        "protocol_pin": "p",
        "judge_model": "j",
        "content": {"content_score": content},
        "temporal": {"summary": {"avg_temporal_score": temporal}},
        **more,
    }


def pr(success: bool, task: str = "correction") -> dict[str, Any]:
    return {
        "id": "1",
        "split": "PR_x",
        "family": "pr",
        "task_type": task,
        "protocol_pin": "p",
        "judge_model": "j",
        "pr": {"all_success": success, "events": [], "total_score": int(success)},
    }


def test_means_are_plain_and_told_by_split_and_by_task() -> None:
    summary = summary_of(
        [rtd(3, 2), rtd(1, 1), rtd(2, 3, "RTD_Omni"), pr(True), pr(False), pr(False, "proactive_reminder")]
    )

    assert summary == {
        "protocol_pin": "p",
        "judge_model": "j",
        "samples": 6,
        "rtd": {
            "samples": 3,
            "mean_content_score": 2.0,
            "mean_avg_temporal_score": 2.0,
            "by_task": {
                "RTD_OCR": {"mean_content_score": 2.0, "mean_avg_temporal_score": 1.5},
                "RTD_Omni": {"mean_content_score": 2.0, "mean_avg_temporal_score": 3.0},
            },
        },
        "pr": {
            "samples": 3,
            "mean_all_success": pytest.approx(1 / 3),
            "by_task": {"correction": 0.5, "proactive_reminder": 0.0},
        },
    }


def test_a_family_without_a_sample_is_absent() -> None:
    assert set(summary_of([pr(True)])) == {"protocol_pin", "judge_model", "samples", "pr"}
    assert summary_of([])["samples"] == 0


@pytest.mark.parametrize("name", ["protocol_pin", "judge_model"])
def test_scores_of_different_judges_give_no_mean(name: str) -> None:
    with pytest.raises(ScoreError, match=name):
        summary_of([rtd(3, 2), rtd(3, 2, **{name: "other"})])


def write(root: Path, name: str, content: Any) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def test_every_score_below_the_root_counts_and_no_summary_or_trace(tmp_path: Path) -> None:
    write(tmp_path, "RTD_OCR/1.json", rtd(3, 2))
    write(tmp_path, "RTD_OCR/2_summary.json", rtd(1, 2, id="2_summary"))
    write(tmp_path, "RTD_OCR/1.judge.jsonl", "{}\n")
    write(tmp_path, "evaluation_summary.json", {"samples": 9})

    assert summarize_scores(tmp_path)["rtd"]["mean_content_score"] == 2.0


def test_torn_files_are_all_named_at_once(tmp_path: Path) -> None:
    write(tmp_path, "RTD_OCR/1.json", rtd(3, 2))
    write(tmp_path, "RTD_OCR/2.json", '{"family": "rtd", "con')
    write(tmp_path, "RTD_OCR/3.json", [{"sentence": "an answer", "start": 1}])
    write(tmp_path, "RTD_OCR/4.json", {"family": "rtd", "id": "4"})

    with pytest.raises(ScoreError) as raised:
        summarize_scores(tmp_path)
    assert all(f"{n}.json" in str(raised.value) for n in (2, 3, 4))
    assert "RTD_OCR/1.json" not in str(raised.value)


def test_a_root_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ScoreError, match="no such folder"):
        summarize_scores(tmp_path / "gone")


def test_a_root_without_a_score_is_no_summary_of_none(tmp_path: Path) -> None:
    write(tmp_path, "evaluation_summary.json", {"samples": 3})
    with pytest.raises(ScoreError, match="no score file in it; allowed: a score root"):
        summarize_scores(tmp_path)


@pytest.mark.parametrize(
    ("texts", "floors"),
    [
        ([], {}),
        (["none"], {}),
        (["reference"], dict(REFERENCE_FLOORS)),
        (
            ["rtd.mean_content_score=1.2, pr.mean_all_success=0"],
            {"rtd.mean_content_score": 1.2, "pr.mean_all_success": 0.0},
        ),
        (["reference", "pr.mean_all_success=.5"], {**REFERENCE_FLOORS, "pr.mean_all_success": 0.5}),
    ],
)
def test_floors_are_read(texts: list[str], floors: dict[str, float]) -> None:
    assert read_floors(texts) == floors


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("rtd.mean_content_score=high", "floor rtd.mean_content_score: found 'high'; allowed: a number"),
        ("rtd.mean_content_score=nan", "found 'nan'"),
        ("rtd.mean_content_score=inf", "found 'inf'"),
        ("rtd.mean_content_score=", "found ''"),
        ("rtd.mean_content_score", "floor: found 'rtd.mean_content_score'"),
        ("content=1", "allowed: reference, none, or rtd.mean_content_score=NUMBER"),
    ],
)
def test_floors_that_are_none_are_refused(text: str, told: str) -> None:
    with pytest.raises(ScoreError) as raised:
        read_floors([text])
    assert told in str(raised.value)


@pytest.mark.parametrize(("value", "passed"), [(1.8, True), (1.7999, False), (3.0, True)])
def test_a_floor_holds_from_its_own_value_on(value: float, passed: bool) -> None:
    (verdict,) = floor_verdicts({"rtd": {"mean_content_score": value}}, {"rtd.mean_content_score": 1.8})

    assert verdict.passed is passed


def test_decimal_scores_that_meet_a_floor_exactly_pass_it() -> None:
    (verdict,) = floor_verdicts(
        {"rtd": {"mean_content_score": mean([1.7, 1.9])}}, {"rtd.mean_content_score": 1.8}
    )

    assert (verdict.passed, verdict.actual) == (True, "1.8000")


def test_a_floor_without_a_mean_has_failed() -> None:
    (verdict,) = floor_verdicts({}, {"pr.mean_all_success": 0.0})

    assert (verdict.passed, verdict.actual) == (False, "no sample was scored")


def test_the_guard_wants_every_request_successful() -> None:
    assert [guard_verdict(66, 66).passed, guard_verdict(65, 66).passed] == [True, False]
    assert [retries_verdict(2, 2).passed, retries_verdict(3, 2).passed] == [True, False]


STRICT: dict[str, Any] = {
    "selected": ["a/1", "a/2"],
    "excluded": ["3", "b/1"],
    "finished": 2,
    "artifact_errors": 0,
    "clocks": ["media", "media"],
    "accuracy": {"evaluated": 2, "samples": 2},
}


@pytest.mark.parametrize(
    ("change", "failed"),
    [
        ({}, []),
        ({"finished": 1}, ["strict: generated"]),
        ({"artifact_errors": 1}, ["strict: artifact errors"]),
        ({"clocks": ["media", "invalid"]}, ["strict: clock"]),
        ({"excluded": ["2"]}, ["strict: excluded ids"]),
        ({"excluded": ["a/1"]}, ["strict: excluded ids"]),
        ({"accuracy": {"evaluated": 1, "samples": 2}}, ["strict: scored"]),
        ({"accuracy": {"evaluated": 1, "samples": 1}}, ["strict: scored"]),
        ({"accuracy": None}, []),
    ],
)
def test_the_stricter_guard_names_what_it_misses(change: dict[str, Any], failed: list[str]) -> None:
    verdicts = strict_verdicts(**{**STRICT, **change})

    assert [verdict.name for verdict in verdicts if not verdict.passed] == failed
