"""Score files: what one judged sample leaves, written once after everything succeeded (evaluation.md 19)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from client.judge import pr, rtd
from client.judge.errors import JudgeError
from client.judge.judge import Judge
from client.judge.prompts import protocol_pin
from client.judge.settings import JudgeSettings
from client.judge.subject import Answer, Subject

log = logging.getLogger(__name__)

Score = dict[str, Any]


class NoScoreError(ValueError):
    """A whole file stands where a score belongs, and is none. It is not ours to replace; the message names it."""


def score_path(score_root: Path, split: str, sample_id: str) -> Path:
    """The score file of a sample."""
    return score_root / split / f"{sample_id}.json"


def trace_path(score_root: Path, split: str, sample_id: str) -> Path:
    """The trace of a sample's judge requests."""
    return score_root / split / f"{sample_id}.judge.jsonl"


def read_score(path: Path) -> Score | None:
    """A whole score file; None: there is none, or it is torn and the sample is to be judged again.

    Raises: NoScoreError: something else stands there, an answer for one. OSError.
    """
    try:
        score = orjson.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except orjson.JSONDecodeError as error:
        log.warning("%s: torn, so the sample is judged again (%s)", path, error)
        return None
    if isinstance(score, dict) and score.get("family") in ("rtd", "pr"):
        return score
    raise NoScoreError(
        f"{path}: found {'an answer' if isinstance(score, list) else 'something else'} where a score would be written; "
        "allowed: a score root of its own"
    )


def made_with(settings: JudgeSettings) -> dict[str, Any]:
    """What must agree for two scores to stand in one mean."""
    return {
        "protocol_pin": protocol_pin(),
        "judge_model": settings.model,
        "judge_video_mode": settings.video_mode,
        "judge_fps": settings.fps,
        "content_frame_limit": settings.content_frame_limit,
        "window_size": settings.window_size_s,
    }


def differing(score: Mapping[str, Any], settings: JudgeSettings) -> list[str]:
    """Names of settings a score was made with otherwise than now."""
    return [name for name, value in made_with(settings).items() if score.get(name, value) != value]


async def scored(judge: Judge, subject: Subject, answer: Answer, *, count_late: bool) -> Score:
    """Judge a sample.

    Args: count_late: judge once more with late sentences counted in, where there are some.
    Raises: JudgeError: no score. MediaError, OSError.
    """
    if not subject.instruction.strip():
        raise JudgeError("no question_text, so the judge would not know what was asked")
    verdicts = await (rtd_scores if subject.family == "rtd" else pr_scores)(judge, subject, answer)
    if count_late and answer.late:
        verdicts["with_late_sentences"] = await late_scores(judge, subject, answer, verdicts)
    return {
        "id": subject.id,
        "split": subject.split,
        "family": subject.family,
        "task_type": subject.task,
        **made_with(judge.settings),
        "response_meta": dict(answer.metadata),
        "answer_sha256": answer.sha256,
        "judge_requests": vars(judge.counts).copy(),
        **verdicts,
    }


async def rtd_scores(judge: Judge, subject: Subject, answer: Answer) -> Score:
    """The blocks `temporal` and `content`."""
    rows = await rtd.temporal_rows(judge, subject, answer.sentences)
    asker = rtd.ContentAsker(judge, subject, rtd.joined(answer.sentences))
    content = await asker.ask()
    return {
        "temporal": {"sentences": rows, "summary": rtd.temporal_summary(rows)},
        "content": {**content, **(asker.frames_note or {})},
    }


async def pr_scores(judge: Judge, subject: Subject, answer: Answer) -> Score:
    """The block `pr`."""
    rows = await pr.events(judge, subject, answer.sentences)
    success = pr.all_success(rows)
    return {"pr": {"events": rows, "all_success": success, "total_score": int(success)}}


async def late_scores(judge: Judge, subject: Subject, answer: Answer, without: Score) -> Score:
    """What the scores would be with late sentences in the answer (design.md 7). A failure costs this block alone."""
    told: Score = {"sentences": len(answer.late)}
    everything = [*answer.sentences, *answer.late]
    try:
        if subject.family == "pr":
            rows = await pr.events(judge, subject, everything, late=True)
            return {**told, "all_success": pr.all_success(rows)}
        rows = await rtd.temporal_rows(judge, subject, answer.late, first=len(answer.sentences), late=True)
        summary = rtd.temporal_summary([*without["temporal"]["sentences"], *rows])
        content = await rtd.ContentAsker(judge, subject, rtd.joined(everything), late=True).ask()
    except JudgeError as error:
        return {**told, "error": judge.http.masked(str(error))}
    return {
        **told,
        "avg_temporal_score": summary["avg_temporal_score"],
        "content_score": content["content_score"],
    }
