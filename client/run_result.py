"""What became of a run: one record a sample, tallies, and the file that keeps them (evaluation.md 14, 19)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from client.artifacts import write_whole
from client.metrics import SampleMetrics, request_statistics, run_metrics

RUN_RESULT = "run_result.json"

SampleOutcome = Literal["published", "failed", "cancelled", "skipped_finished"]


@dataclass(frozen=True)
class SampleRecord:
    """What became of one sample."""

    split: str
    id: str
    outcome: SampleOutcome
    attempts: int = 0
    """Sessions spent on it in this run."""
    retry_count: int = 0
    """0 or 1; of a finished sample, what its metadata say."""
    error: str = ""
    """Never empty for a failed or cancelled sample."""
    request_succeeded: bool = False
    """The session did its work, whether or not its files could be written."""
    latency_s: float | None = None
    """Of the attempt whose outcome is reported, in seconds; None: no attempt."""
    started_s: float | None = None
    """Start of that attempt, in seconds after the start of the run."""
    metadata: Mapping[str, Any] | None = None
    """As in `<id>.meta.json`."""
    timed_sentences: Sequence[Mapping[str, Any]] | None = None
    metrics: SampleMetrics | None = None
    """Of a successful sample, in this run or an earlier one."""
    close: str | None = None
    """clean, by_peer, forced or lost; None: no session."""
    bad_media: bool = False
    """It failed before any session: its media cannot be used."""

    @property
    def told_at_once(self) -> bool:
        """What ended a session is its own; what kept one from beginning may be the same for every sample."""
        return self.close is not None

    def to_json(self) -> dict[str, Any]:
        """Facts for `run_result.json`: all but the sentences, which are the sample's own file."""
        return {
            "split": self.split,
            "id": self.id,
            "outcome": self.outcome,
            "attempts": self.attempts,
            "retry_count": self.retry_count,
            "error": self.error,
            "latency_s": _rounded(self.latency_s),
            "started_s": _rounded(self.started_s),
            "close": self.close,
            "metadata": None if self.metadata is None else dict(self.metadata),
            "metrics": None if self.metrics is None else self.metrics.request,
        }


@dataclass
class RunResult:
    """All records of a run, in the order in which the samples were asked for.

    requested = published + failed + cancelled and published = published_now + skipped_finished hold at any time
    after the run.
    """

    response_root: str
    settings: Mapping[str, Any]
    """What the run was made with; no credentials."""
    samples: list[SampleRecord] = field(default_factory=list)
    artifact_errors: list[str] = field(default_factory=list)
    """Each names the path that could not be written."""
    duration_s: float = 0.0
    """Seconds from the first sample's start to the last one's end; writing deferred artifacts is outside."""
    accuracy: Mapping[str, Any] | None = None
    """Of the judging, when it was asked for (evaluation.md 19)."""
    verdicts: Sequence[Mapping[str, Any]] = ()
    """Guard, floors and whatever else the run was gated on."""
    stopped: str = ""
    """Why the run ended before its last sample; empty: it did not."""

    def count(self, outcome: SampleOutcome) -> int:
        """Samples with this outcome."""
        return sum(record.outcome == outcome for record in self.samples)

    @property
    def requested(self) -> int:
        return len(self.samples)

    @property
    def published(self) -> int:
        """Samples of the selection whose answer is there, whichever run has written it (evaluation.md 19)."""
        return self.published_now + self.skipped_finished

    @property
    def published_now(self) -> int:
        """Samples whose answer this run has written."""
        return self.count("published")

    @property
    def failed(self) -> int:
        """Samples without an answer file, each with its reason."""
        return self.count("failed")

    @property
    def nothing_prepared(self) -> bool:
        """Every sample that was asked for failed before any session because of its media."""
        return bool(self.samples) and all(record.bad_media for record in self.samples)

    @property
    def cancelled(self) -> int:
        return self.count("cancelled")

    @property
    def skipped_finished(self) -> int:
        """Samples an earlier run had finished in the same folder."""
        return self.count("skipped_finished")

    @property
    def completed(self) -> int:
        """Requests that succeeded, whether or not their files could be written; those of finished samples too."""
        return sum(record.request_succeeded for record in self.samples)

    @property
    def duplex_retried_samples(self) -> int:
        """Samples with a retry, finished ones of earlier runs included (evaluation.md 14)."""
        return sum(record.retry_count > 0 for record in self.samples)

    @property
    def duplex_retry_count(self) -> int:
        return sum(record.retry_count for record in self.samples)

    def to_json(self) -> dict[str, Any]:
        """Top-level facts, and the block of evaluation.md 19 under `omni_duplex_eval`.

        `errors`, `start_times`, `e2els`, `ttfts` and `itls` have one entry a sample, in the order of `samples`:
        "" for no error, seconds (of `start_times` after the start of the run) or null.
        """
        shared = {
            "response_root": self.response_root,
            "published": self.published,
            "published_now": self.published_now,
            "skipped_finished": self.skipped_finished,
            "artifact_errors": list(self.artifact_errors),
            "duplex_retried_samples": self.duplex_retried_samples,
            "duplex_retry_count": self.duplex_retry_count,
        }
        block = shared if self.accuracy is None else {**shared, "accuracy": dict(self.accuracy)}
        measured = [record.metrics for record in self.samples if record.metrics is not None]
        requests = [record.metrics.request if record.metrics else {} for record in self.samples]
        return {
            "duration": _rounded(self.duration_s),
            "requested": self.requested,
            "completed": self.completed,
            "failed": self.failed,
            "cancelled": self.cancelled,
            "finished": self.published,
            "stopped": self.stopped,
            "errors": [record.error for record in self.samples],
            "start_times": [_rounded(record.started_s) for record in self.samples],
            "e2els": [request.get("e2el_s") for request in requests],
            "ttfts": [request.get("ttft_s") for request in requests],
            "itls": [request.get("itls_s") or [] for request in requests],
            **request_statistics([metrics.request for metrics in measured]),
            **run_metrics(measured),
            **shared,
            "omni_duplex_eval": block,
            "verdicts": [dict(verdict) for verdict in self.verdicts],
            "settings": dict(self.settings),
            "samples": [record.to_json() for record in self.samples],
        }

    def write(self, folder: Path) -> Path:
        """Write `run_result.json` through a temporary file and a rename: whole or not at all.

        Raises OSError: the folder cannot be written.
        """
        target = folder / RUN_RESULT
        write_whole(target, self.to_json())
        return target


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
