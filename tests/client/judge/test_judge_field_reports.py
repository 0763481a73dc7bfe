"""Judge replies of public bug reports, played against the shipped judge client (the handed folder `cases`).

Content is judged by the video first and by frames after a failure: that is how a truncated reply, which is not asked
again, comes to two requests.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from client.artifacts import append_line
from client.judge.errors import JudgeError
from client.judge.judge import Judge
from client.judge.pr import events
from client.judge.rtd import ContentAsker, joined, temporal_rows
from client.judge.trace import read_trace

CASES = Path(__file__).resolve().parents[4] / "shared" / "cases" / "field_reports.json"
REASONS = {
    "fr21-cut-inside-number": "truncated",
    "fr23-temporal-minus-one": "out of range",
    "fr24-refusal": "refusal",
    "fr25-http-500-always": "HTTP 500",
    "fr26-choices-empty": "no choices",
    "fr19-score-key-missing": "Missing judge field",
}


def load() -> list[Any]:
    """The cases as parameters; one that skips with the reason where the folder is absent."""
    if not CASES.is_file():
        reason = f"{CASES.parent} (handed data beside the project) is not here"
        return [pytest.param(None, id="absent", marks=pytest.mark.skip(reason=reason))]
    cases = json.loads(CASES.read_text("utf-8"))
    return [pytest.param(case, id=case["id"]) for case in cases if case["kind"] == "judge_reply"]


def judged(bench: Any, case: dict[str, Any]) -> tuple[Any, Any]:
    """(the fields of the score, or the error; the judge that was asked)."""
    script = [
        bench.Exchange(
            entry.get("body_text", entry.get("body")),
            entry["status"],
            {k: v for k, v in entry["headers"].items() if k != "Content-Type"},
        )
        for entry in case["input"]["exchanges"]
    ]
    peer = bench.ScriptedJudge(*script)
    sentences = bench.sentences((4.0, 5.0))

    async def job(judge: Judge) -> Any:
        try:
            match case["input"]["judgement"]:
                case "temporal":
                    return (await temporal_rows(judge, bench.subject(), sentences))[0]
                case "content":
                    return await ContentAsker(judge, bench.subject(), joined(sentences)).ask()
                case _:
                    return (await events(judge, bench.subject("pr", "correction"), sentences))[0]
        except JudgeError as error:
            return error

    return bench.run(peer, job), peer


@pytest.mark.shared_data
@pytest.mark.parametrize("case", load())
def test_a_judge_reply_of_a_field_report_gives_its_score_or_its_named_failure(
    bench: Any, case: dict[str, Any]
) -> None:
    got, peer = judged(bench, case)
    checks = case["checks"]

    assert checks["requests"]["min"] <= len(peer.requests) <= checks["requests"]["max"]
    assert len(bench.trace) == len(peer.requests)
    if checks["outcome"] == "unscored":
        assert isinstance(got, JudgeError)
        assert REASONS[case["id"]] in str(got)
        assert REASONS[case["id"]] in bench.trace[-1]["error"]
    else:
        assert {name: got[name] for name in checks["fields"]} == checks["fields"]
        assert bench.trace[-1]["error"] is None


@pytest.mark.shared_data
@pytest.mark.skipif(not CASES.is_file(), reason="the folder of handed data beside the project is not here")
def test_unicode_line_breaks_in_a_trace_end_no_record(tmp_path: Path) -> None:
    (case,) = (c for c in json.loads(CASES.read_text("utf-8")) if c["id"] == "fr27-unicode-line-breaks")
    ((name, content),) = case["input"]["existing_files"].items()
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.write_text(content, "utf-8")

    assert len(read_trace(path)) == case["checks"]["records"]
    append_line(path, b'{"sample_id": "512", "attempt": 3}')
    assert [line["attempt"] for line in read_trace(path)] == [0, 1, 2, 3]
