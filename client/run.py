"""A run over samples: order, concurrency, resuming, publishing, tallies (evaluation.md 12, 14, 19, 21).

One run at a time works in a response root. Whatever ends it, every sample is accounted for and
`run_result.json` tells.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from client import artifacts
from client.input_errors import MediaError
from client.media import Prepared
from client.metrics import SampleMetrics, sample_metrics
from client.metrics_file import METRICS, keep_metrics, kept_metrics, write_metrics
from client.progress import reason as in_one_line
from client.record import Observer
from client.response_root import RunError, check_same_settings, finished_metadata, locked, refuse_score
from client.retry import RequestOutput, request_sample
from client.run_result import RunResult, SampleRecord
from client.run_settings import Planned, Progress, RunSettings, told
from client.warm_up import warm_up
from client.wire import realtime_url

__all__ = [
    "Planned",
    "Progress",
    "Run",
    "RunError",
    "RunResult",
    "RunSettings",
    "SampleRecord",
    "run_samples",
]

log = logging.getLogger(__name__)


async def run_samples(
    samples: Sequence[Prepared | Planned],
    settings: RunSettings,
    *,
    observer: Observer | None = None,
    progress: Progress | None = None,
) -> RunResult:
    """Run samples and return what became of them; see `Run`, which keeps the result when this is
    cancelled.
    """
    return await Run(samples, settings, observer=observer, progress=progress).run()


class Run:
    """One run. `result` is whole after `run()` ended in any way, cancellation included."""

    def __init__(
        self,
        samples: Sequence[Prepared | Planned],
        settings: RunSettings,
        *,
        observer: Observer | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Raises RunError: concurrency below 1, other settings out of range, a sample without split and
        id.
        """
        try:
            settings.session.check()
            realtime_url(settings.session.url, settings.session.model)
        except ValueError as error:
            raise RunError(str(error)) from error
        if settings.concurrency < 1:
            raise RunError(f"concurrency: found {settings.concurrency}; allowed: 1 or more")
        if settings.warmups < 0:
            raise RunError(f"warm-ups: found {settings.warmups}; allowed: 0 or more")
        for sample in samples:
            if not all(isinstance(getattr(sample, name, None), str) for name in ("split", "id")):
                raise RunError(
                    f"samples: found {sample!r}; allowed: Prepared, or a callable with split and id"
                )
        self._samples = list(samples)
        self._settings = settings
        self._observer, self._progress = observer, progress
        self._records: list[SampleRecord | None] = [None] * len(samples)
        self._outputs: dict[int, RequestOutput] = {}
        self._attempts: dict[tuple[str, str], int] = {}
        """Sessions begun a sample; a cancelled one has them too."""
        self._begin_s = 0.0
        self._begun = self._tried = False
        """A worker has taken a sample; a session of one was begun."""
        self._reached = asyncio.Event()
        """A session got as far as its first event."""
        self._away = asyncio.Event()
        self.result = RunResult(str(settings.response_root), told(settings))

    async def run(self) -> RunResult:
        """Run every sample.

        Raises:
            RunError: names that collide, a response root that is in use, cannot be written, or holds answers
                of other
                settings. Nothing has been spent.
            CancelledError: outer cancellation; `result` and `run_result.json` account for every sample.
        """
        root = self._settings.response_root
        try:
            artifacts.check_paths(root, [(sample.split, sample.id) for sample in self._samples])
        except ValueError as error:
            raise RunError(str(error)) from error
        with locked(root):
            self._skip_finished()
            self._begin_s = asyncio.get_running_loop().time()
            try:
                await self._warm_up()
                self._begin_s = asyncio.get_running_loop().time()
                await self._work()
            finally:
                self.result.duration_s = asyncio.get_running_loop().time() - self._begin_s
                self._finalise()
        return self.result

    # -- before

    def _skip_finished(self) -> None:
        """Record samples that an earlier run has finished. Raises RunError: made with other settings."""
        if self._settings.overwrite:
            return
        measured = kept_metrics(self._settings.response_root)
        for index, sample in enumerate(self._samples):
            metadata = finished_metadata(self._settings.response_root, sample.split, sample.id)
            if metadata is None:
                continue
            check_same_settings(self._settings.response_root, sample, metadata, self._settings.session)
            retry_count = metadata.get("retry_count")
            metrics = measured.get((sample.split, sample.id))
            self._end(
                index,
                SampleRecord(
                    sample.split,
                    sample.id,
                    "skipped_finished",
                    retry_count=retry_count if isinstance(retry_count, int) else 0,
                    request_succeeded=True,
                    latency_s=metrics.request.get("e2el_s") if metrics is not None else None,
                    metadata=metadata,
                    metrics=metrics,
                ),
            )

    async def _warm_up(self) -> None:
        """Sessions before the timed window, on the first sample that is to be run."""
        settings = self._settings
        first = next((i for i, record in enumerate(self._records) if record is None), None)
        if first is None or not (settings.readiness or settings.warmups):
            return
        prepared = await self._prepared(first, self._samples[first])
        if prepared is not None:
            self.result.stopped = await warm_up(prepared, settings)

    # -- during

    async def _work(self) -> None:
        """Workers take the samples in order. Ends when all have ended, one broke, or the server is away."""
        if self.result.stopped:
            return
        waiting = iter([i for i, record in enumerate(self._records) if record is None])
        count = min(self._settings.concurrency, len(self._samples))
        workers = [
            asyncio.create_task(self._worker(waiting), name=f"run worker {n + 1}") for n in range(count)
        ]
        away = asyncio.create_task(self._away.wait(), name="run: server away")
        pending = list(workers)
        try:
            while pending and not away.done():
                await asyncio.wait((*pending, away), return_when=asyncio.FIRST_COMPLETED)
                for worker in [w for w in pending if w.done()]:
                    pending.remove(worker)
                    worker.result()
        except Exception as error:
            self.result.stopped = f"broken by {type(error).__name__}: {error}"
            raise
        finally:
            await self._end_workers([*pending, away])

    async def _end_workers(self, tasks: list[asyncio.Task[Any]]) -> None:
        """Cancel and join; each session's own teardown is bounded, so this is too."""
        for task in tasks:
            task.cancel()
        deadlines = self._settings.session.deadlines
        # One more cancellation from outside may come while we wait: it ends the wait, the accounting goes on.
        await asyncio.wait(tasks, timeout=deadlines.worst_teardown_s + deadlines.grace_s)
        for task in tasks:
            if not task.done():
                log.warning("%s: would not end within its teardown", task.get_name())
            elif not task.cancelled() and task.exception() is not None:
                log.error("%s: %s", task.get_name(), task.exception())

    async def _worker(self, waiting: Iterator[int]) -> None:
        for index in waiting:
            await self._sample(index)

    async def _sample(self, index: int) -> None:
        sample = self._samples[index]
        waits = self._settings.stop_when_away and self._begun
        self._begun = True
        if not waits:
            self._tell_start(index, sample)
        prepared = await self._prepared(index, sample)
        if prepared is None:
            return
        if not self._cleared(index, sample):
            return
        if self._settings.stop_when_away and self._tried:
            # The first session shows whether the server is there, before any other sample is spent on it.
            await self._reached.wait()
        if waits:
            self._tell_start(index, sample)
        self._tried = True
        output = await request_sample(
            prepared, self._settings.session, observer=self._observe, on_failed_attempt=self._keep_attempt
        )
        self._end(index, await self._kept(index, self._record_of(index, output), output))
        if self._settings.stop_when_away and not self._reached.is_set():
            self.result.stopped = (
                f"the server at {self.result.settings['url']} is away: {in_one_line(output.error)}"
            )
            self._away.set()
            await asyncio.Event().wait()  # the next sample is not begun; the run ends this task

    def _tell_start(self, index: int, sample: Prepared | Planned) -> None:
        if self._progress is not None:
            self._progress.started(index, sample.split, sample.id)

    def _cleared(self, index: int, sample: Prepared | Planned) -> bool:
        """Take an older answer away: it must not outlive a failure of the sample's new run."""
        path = artifacts.answer_path(self._settings.response_root, sample.split, sample.id)
        try:
            refuse_score(path)
            path.unlink(missing_ok=True)
        except OSError as error:
            reason = f"old answer not removed: {error}"
            self._end(index, SampleRecord(sample.split, sample.id, "failed", error=reason))
            return False
        return True

    async def _prepared(self, index: int, sample: Prepared | Planned) -> Prepared | None:
        """The sample's input; None: it could not be prepared, and the sample has failed with the reason."""
        bad_media = False
        try:
            prepared = sample if isinstance(sample, Prepared) else await asyncio.to_thread(sample)
            if not prepared.pcm:
                raise MediaError("no audio to send; allowed: at least one sample of PCM16")
            return prepared
        except MediaError as error:
            bad_media, reason = True, str(error)
        except Exception:  # noqa: BLE001 - whatever decoders raise costs this sample alone, told in full
            reason = traceback.format_exc()
        log.warning(
            "%s/%s: preparation failed: %s", sample.split, sample.id, reason, extra={"in_result": True}
        )
        told = f"preparation: {reason}"
        self._end(index, SampleRecord(sample.split, sample.id, "failed", error=told, bad_media=bad_media))
        return None

    def _record_of(self, index: int, output: RequestOutput) -> SampleRecord:
        result = output.result
        return SampleRecord(
            output.split,
            output.id,
            "failed",
            attempts=output.attempts,
            retry_count=output.retry_count,
            error=output.error,
            request_succeeded=output.success,
            latency_s=output.latency_s,
            started_s=output.started_s - self._begin_s,
            metadata=None if result is None else result.metadata,
            timed_sentences=None if result is None else result.timed_sentences,
            close=None if result is None else result.close,
            metrics=sample_metrics(result, request_index=index, latency_s=output.latency_s)
            if output.success and result is not None
            else None,
        )

    async def _kept(self, index: int, record: SampleRecord, output: RequestOutput) -> SampleRecord:
        """The record after writing the sample's files, or after putting them off.

        Written in a thread: a slow disk must not keep other sessions from acking. Once begun it is waited for, also
        by a run that is being cancelled: what was written is counted.
        """
        if self._settings.defer_artifacts:
            self._outputs[index] = output
            return replace(record, outcome="published" if output.success else "failed")
        writing = asyncio.ensure_future(asyncio.to_thread(self._written, record, output))
        try:
            return await asyncio.shield(writing)
        except asyncio.CancelledError:
            await asyncio.wait([writing], timeout=self._settings.session.deadlines.grace_s)
            if writing.done():
                self._end(index, writing.result())
            raise

    def _written(self, record: SampleRecord, output: RequestOutput) -> SampleRecord:
        """The record after writing the sample's files: its answer, or the metadata alone where it has none.

        A disk that refuses costs the answer, not the run.
        """
        root, split, sample_id = self._settings.response_root, output.split, output.id
        try:
            if may_publish(output):
                assert output.result is not None, "a success has its result"
                self._keep_metrics(record)
                artifacts.publish(output.result, root, split, sample_id)
                return replace(record, outcome="published")
            artifacts.write_metadata(root, split, sample_id, output.metadata)
        except OSError as error:
            self._note_artifact_error(f"{split}/{sample_id}: {error}")
            if output.success:
                return replace(record, outcome="failed", error=f"artifact: {error}")
        return replace(record, outcome="failed")

    def _keep_metrics(self, record: SampleRecord) -> None:
        """Figures that cannot be written cost nothing but themselves."""
        if record.metrics is None:
            return
        try:
            keep_metrics(self._settings.response_root, record.split, record.id, record.metrics)
        except OSError as error:
            self._note_artifact_error(f"{record.split}/{record.id}: figures not written: {error}")

    def _note_artifact_error(self, told: str) -> None:
        log.error("%s", told)
        self.result.artifact_errors.append(told)

    def _observe(self, step: str, fields: Mapping[str, Any]) -> None:
        if step == "attempt_started":
            self._attempts[fields["split"], fields["id"]] = fields["attempt"]
        elif step == "sent":
            self._reached.set()
        if self._observer is not None:
            self._observer(step, fields)

    def _keep_attempt(self, **facts: Any) -> None:
        artifacts.write_attempt(self._settings.response_root, **facts)

    def _end(self, index: int, record: SampleRecord) -> None:
        self._records[index] = record
        if self._progress is not None:
            self._progress.ended(index, record)

    # -- after

    def _finalise(self) -> None:
        """Write deferred answers, account for samples that never ended, and write `run_result.json`."""
        for index, output in sorted(self._outputs.items()):
            record = self._records[index]
            assert record is not None, "an output has its record"
            self._records[index] = self._written(record, output)
        for index, record in enumerate(self._records):
            if record is None:
                sample = self._samples[index]
                reason = self.result.stopped or "the run was cancelled"
                attempts = self._attempts.get((sample.split, sample.id), 0)
                self._end(
                    index,
                    SampleRecord(
                        sample.split,
                        sample.id,
                        "cancelled",
                        attempts=attempts,
                        retry_count=max(0, attempts - 1),
                        error=reason,
                    ),
                )
        self.result.samples = [record for record in self._records if record is not None]
        root = self._settings.response_root
        figures: dict[tuple[str, str], SampleMetrics] = {}
        for record in self.result.samples:
            if record.metrics is not None and record.outcome in ("published", "skipped_finished"):
                figures[record.split, record.id] = record.metrics
        ours = {(record.split, record.id) for record in self.result.samples}
        for name, write in (
            (METRICS, lambda: write_metrics(root, figures, ours)),
            ("run_result.json", lambda: self.result.write(root)),
        ):
            try:
                write()
            except OSError as error:
                self._note_artifact_error(f"{root / name}: {error}")


def may_publish(output: RequestOutput) -> bool:
    """Whether a sample's answer is written: its reply is complete, however the teardown went (R2, R19)."""
    return output.success
