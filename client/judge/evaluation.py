"""Judging a folder of answers: sample by sample, resumable, one failure costing one sample (evaluation.md 19)."""

from __future__ import annotations

import asyncio
import logging
import random
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from client import artifacts
from client.input_errors import MediaError
from client.judge.errors import JudgeAwayError, JudgeError
from client.judge.http import JudgeHttp, is_unusable
from client.judge.judge import Judge
from client.judge.score_files import (
    NoScoreError,
    Score,
    differing,
    read_score,
    score_path,
    scored,
    trace_path,
)
from client.judge.settings import JudgeSettings
from client.judge.subject import Answer, AnswerError, Subject, read_answer
from client.judge.trace import Trace
from client.response_root import locked
from client.summary import summary_of

log = logging.getLogger(__name__)

SUMMARY = "evaluation_summary.json"

JudgedOutcome = Literal["scored", "judged_before", "failed", "skipped"]


class EvaluationError(ValueError):
    """An evaluation cannot start. Nothing has been asked of the judge."""


class Progress(Protocol):
    """Told as samples start and end."""

    def started(self, index: int, split: str, sample_id: str) -> None: ...
    def ended(self, index: int, record: JudgedRecord) -> None: ...


@dataclass(frozen=True)
class EvaluationSettings:
    """How a folder of answers is judged."""

    judge: JudgeSettings
    response_root: Path
    score_root: Path
    workers: int = 1
    """Samples at a time; within a sample requests go one after another."""
    overwrite: bool = False
    """Judge judged samples again."""
    allow_invalid_clock: bool = False
    """Judge answers that were not paced, whose times mean nothing."""
    count_late: bool = True
    """Judge samples with late sentences once more, with these counted in."""
    seed: int = 0
    """Of the jitter between tries."""


@dataclass(frozen=True)
class JudgedRecord:
    """What became of one sample."""

    split: str
    id: str
    outcome: JudgedOutcome
    error: str = ""
    """Never empty for a failed sample; for a skipped one, that it has no answer."""
    score: Score | None = None
    requests: int = 0
    """Sent to the judge for it in this evaluation."""
    latency_s: float | None = None
    retry_count: int = 0
    """Re-asks."""
    told_at_once: bool = True
    """Its reason is its own; that of a judge that never worked is told once, at the end."""

    def to_json(self) -> dict[str, Any]:
        """All but the score, which is the sample's own file."""
        return {name: value for name, value in vars(self).items() if name not in ("score", "told_at_once")}


@dataclass
class EvaluationResult:
    """All records, in the order in which the samples were asked for."""

    settings: EvaluationSettings
    records: list[JudgedRecord] = field(default_factory=list)
    stopped: str = ""
    """Why the evaluation ended before its last sample; empty: it did not."""
    away: bool = False
    """It stopped since nobody answers at the judge's address."""
    artifact_errors: list[str] = field(default_factory=list)

    def count(self, *outcomes: JudgedOutcome) -> int:
        """Samples with one of these outcomes."""
        return sum(record.outcome in outcomes for record in self.records)

    def accuracy(self) -> dict[str, Any]:
        """The object `accuracy` of the run result: means, and what became of the samples."""
        scores = [record.score for record in self.records if record.score is not None]
        total, evaluated = len(self.records), len(scores)
        return {
            **summary_of(scores),
            "status": "completed" if evaluated == total else "partial" if evaluated else "failed",
            "total": total,
            "evaluated": evaluated,
            "skipped": self.count("skipped"),
            "failed": self.count("failed"),
            "errors": [f"{r.split}/{r.id}.json: {r.error}" for r in self.records if r.outcome == "failed"],
            "judge_model": self.settings.judge.model,
            "score_root": str(self.settings.score_root),
        }


class Evaluation:
    """One evaluation. `result` is whole after `run()` ended in any way, cancellation included."""

    def __init__(
        self, subjects: Sequence[Subject], settings: EvaluationSettings, *, progress: Progress | None = None
    ) -> None:
        """Raises EvaluationError: settings out of range."""
        try:
            settings.judge.check()
        except ValueError as error:
            raise EvaluationError(str(error)) from error
        if settings.workers < 1:
            raise EvaluationError(f"eval workers: found {settings.workers}; allowed: 1 or more")
        self.subjects, self.settings, self.progress = list(subjects), settings, progress
        self.result = EvaluationResult(settings)
        self._records: list[JudgedRecord | None] = [None] * len(subjects)
        self._answers: dict[int, Answer] = {}
        self._stale: list[Subject] = []
        """Samples whose score, should there be one, is of no answer."""

    async def run(self) -> EvaluationResult:
        """Judge every sample that has an answer and no score yet.

        Raises:
            EvaluationError, RunError: answers that cannot be judged, a score root in use or made with another judge.
            CancelledError: outer cancellation; `result` and the summary account for every sample.
        """
        with locked(self.settings.score_root):
            self.take_stock()
            self._drop_stale()
            try:
                async with JudgeHttp(self.settings.judge, random.Random(self.settings.seed)) as http:
                    await self._work(http)
            finally:
                self._finish()
        return self.result

    def take_stock(self) -> None:
        """Read answers and earlier scores; nothing is asked. Raises EvaluationError: they cannot stand beside ours."""
        for index, subject in enumerate(self.subjects):
            try:
                answer = read_answer(self.settings.response_root, subject.split, subject.id)
                score = read_score(score_path(self.settings.score_root, subject.split, subject.id))
            except NoScoreError as error:
                raise EvaluationError(str(error)) from error
            except AnswerError as error:
                self._stale.append(subject)
                self._end(index, JudgedRecord(subject.split, subject.id, "failed", str(error)))
                continue
            except OSError as error:
                self.result.artifact_errors.append(f"{subject.name}: {error}")
                self._end(index, JudgedRecord(subject.split, subject.id, "failed", str(error)))
                continue
            if answer is None:
                # Metadata alone is what a failed new run leaves; without it this may be the wrong response root.
                if artifacts.metadata_path(self.settings.response_root, subject.split, subject.id).is_file():
                    self._stale.append(subject)
                self._end(index, JudgedRecord(subject.split, subject.id, "skipped", "no answer"))
                continue
            self._check_clock(subject, answer)
            if score is not None and self._still_holds(subject, answer, score):
                self._end(index, JudgedRecord(subject.split, subject.id, "judged_before", score=score))
            else:
                self._answers[index] = answer

    def _drop_stale(self) -> None:
        """Take scores away whose answer is gone: they would stand in the means of `summarize`."""
        for subject in self._stale:
            path = score_path(self.settings.score_root, subject.split, subject.id)
            try:
                if path.exists():
                    log.warning("%s: its score is of an answer that is gone, and is taken away", subject.name)
                    path.unlink()
            except OSError as error:
                self.result.artifact_errors.append(f"{subject.name}: {error}")

    def _check_clock(self, subject: Subject, answer: Answer) -> None:
        if answer.clock != "media" and not self.settings.allow_invalid_clock:
            raise EvaluationError(
                f"{subject.name}: clock {answer.clock!r}; allowed: media (answers sent as fast as possible have no "
                "usable times), or allowing an invalid clock"
            )

    def _still_holds(self, subject: Subject, answer: Answer, score: Score) -> bool:
        """Whether an earlier score is of this very answer. Raises EvaluationError: made by another judge."""
        if self.settings.overwrite or score.get("answer_sha256") != answer.sha256:
            return False
        other = differing(score, self.settings.judge)
        if other:
            raise EvaluationError(
                f"{self.settings.score_root}: {subject.name} was judged with another {', '.join(other)}; "
                "allowed: the same judge, another score root, or overwriting"
            )
        return True

    async def _work(self, http: JudgeHttp) -> None:
        waiting = iter(sorted(self._answers))
        count = min(self.settings.workers, len(self._answers))
        workers = [
            asyncio.create_task(self._worker(http, waiting), name=f"judge worker {n + 1}")
            for n in range(count)
        ]
        try:
            for worker in workers:
                await worker
        finally:
            for worker in workers:
                worker.cancel()
            if workers:
                await asyncio.wait(workers, timeout=self.settings.judge.timeout_s)

    async def _worker(self, http: JudgeHttp, waiting: Iterator[int]) -> None:
        for index in waiting:
            if self.result.stopped:
                return
            subject = self.subjects[index]
            if self.progress is not None:
                self.progress.started(index, subject.split, subject.id)
            self._end(index, await self._sample(http, subject, self._answers[index]))

    async def _sample(self, http: JudgeHttp, subject: Subject, answer: Answer) -> JudgedRecord:
        """Judge one sample and write its score. A failure, whatever it is of, costs this sample alone."""
        loop = asyncio.get_running_loop()
        begin_s = loop.time()
        root = self.settings.score_root
        judge = Judge(subject.name, http, Trace(trace_path(root, subject.split, subject.id)))
        score: Score | None = None
        error = ""
        try:
            # A score that is judged again must not outlive a failure.
            score_path(root, subject.split, subject.id).unlink(missing_ok=True)
            if self.settings.overwrite:
                judge.trace.path.unlink(missing_ok=True)
            score = await scored(judge, subject, answer, count_late=self.settings.count_late)
            artifacts.write_whole(score_path(root, subject.split, subject.id), score)
        except JudgeError as raised:
            error = http.masked(str(raised))
            self._stop_if_unusable(http, raised)
        except (MediaError, OSError) as raised:
            score, error = None, str(raised)
            if isinstance(raised, OSError):
                self.result.artifact_errors.append(f"{subject.name}: {error}")
        except Exception:  # noqa: BLE001 - what a decoder raises costs this sample alone, told with its traceback
            score, error = None, http.masked(traceback.format_exc())
        if error:
            log.warning("%s: not scored: %s", subject.name, error, extra={"in_result": True})
        return JudgedRecord(
            subject.split,
            subject.id,
            "failed" if error else "scored",
            error,
            score,
            requests=judge.counts.requests,
            latency_s=loop.time() - begin_s,
            retry_count=judge.counts.reasks,
            told_at_once=not self.result.stopped,
        )

    def _stop_if_unusable(self, http: JudgeHttp, error: JudgeError) -> None:
        """End an evaluation whose judge never worked: the same failure once a sample would tell nothing more."""
        if is_unusable(error) and not http.answered and not self.result.stopped:
            self.result.away = isinstance(error, JudgeAwayError)
            told = http.masked(str(error))
            self.result.stopped = told if self.result.away else f"{http.shown} is no judge we can use: {told}"

    def _end(self, index: int, record: JudgedRecord) -> None:
        self._records[index] = record
        if self.progress is not None:
            self.progress.ended(index, record)

    def _finish(self) -> None:
        """Account for samples that were not reached, and write the summary."""
        reason = f"not judged: {self.result.stopped or 'the evaluation was cancelled'}"
        for index, subject in enumerate(self.subjects):
            if self._records[index] is None:
                self._records[index] = JudgedRecord(subject.split, subject.id, "failed", reason)
        self.result.records = [record for record in self._records if record is not None]
        path = self.settings.score_root / SUMMARY
        try:
            artifacts.write_whole(path, self.result.accuracy())
        except OSError as error:
            self.result.artifact_errors.append(f"{path}: {error}")
            log.error("summary not written: %s", error)
