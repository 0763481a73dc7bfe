"""A run over samples: order, concurrency, resuming, publishing, tallies (evaluation.md 12, 14, 19, 21).

One run at a time works in a response root. Whatever ends it, every sample is accounted for and
`run_result.json` tells.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit

from client import artifacts
from client.input_errors import MediaError
from client.media import Prepared
from client.record import Observer
from client.response_root import RunError, check_same_settings, comparable, finished_metadata, locked
from client.retry import RequestOutput, request_sample
from client.run_result import RunResult, SampleRecord
from client.settings import SessionSettings
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


class Planned(Protocol):
    """A sample whose media is prepared when its turn comes, in a worker thread."""

    @property
    def split(self) -> str: ...
    @property
    def id(self) -> str: ...
    def __call__(self) -> Prepared:
        """Raises MediaError: the sample fails with that reason and no session is opened."""


class Progress(Protocol):
    """Told as samples start and end. `index` counts from 0 in the order asked for."""

    def started(self, index: int, split: str, sample_id: str) -> None: ...
    def ended(self, index: int, record: SampleRecord) -> None: ...


@dataclass(frozen=True)
class RunSettings:
    """How samples are run.

    Source: evaluation.md 12.3, 21.
    """

    session: SessionSettings
    response_root: Path
    concurrency: int = 1
    """Sessions at a time."""
    defer_artifacts: bool = False
    """Write answers after the last sample, outside the timed window."""
    overwrite: bool = False
    """Run finished samples again."""
    stop_when_away: bool = False
    """End the run when its first samples do not even reach the server."""


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
        self._tried = False
        self._reached = asyncio.Event()
        """A session got as far as its first event."""
        self._away = asyncio.Event()
        self.result = RunResult(str(settings.response_root), _told(settings))

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
                await self._work()
            finally:
                self.result.duration_s = asyncio.get_running_loop().time() - self._begin_s
                self._finalise()
        return self.result

    # -- before
    # ---------------------------------------------------------------------------------------------------

    def _skip_finished(self) -> None:
        """Record samples that an earlier run has finished. Raises RunError: made with other settings."""
        if self._settings.overwrite:
            return
        for index, sample in enumerate(self._samples):
            metadata = finished_metadata(self._settings.response_root, sample.split, sample.id)
            if metadata is None:
                continue
            check_same_settings(self._settings.response_root, sample, metadata, self._settings.session)
            retry_count = metadata.get("retry_count")
            self._end(
                index,
                SampleRecord(
                    sample.split,
                    sample.id,
                    "skipped_finished",
                    retry_count=retry_count if isinstance(retry_count, int) else 0,
                    metadata=metadata,
                ),
            )

    # -- during
    # ---------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        """Workers take the samples in order. Ends when all have ended, one broke, or the server is away."""
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
        if self._progress is not None:
            self._progress.started(index, sample.split, sample.id)
        prepared = await self._prepared(index, sample)
        if prepared is None:
            return
        if not self._cleared(index, sample):
            return
        if self._settings.stop_when_away and self._tried:
            # The first session shows whether the server is there, before any other sample is spent on it.
            await self._reached.wait()
        self._tried = True
        output = await request_sample(
            prepared, self._settings.session, observer=self._observe, on_failed_attempt=self._keep_attempt
        )
        self._end(index, self._record_of(index, output))
        if self._settings.stop_when_away and not self._reached.is_set():
            self.result.stopped = f"the server is away: {output.error.strip().splitlines()[-1]}"
            self._away.set()
            await asyncio.Event().wait()  # the next sample is not begun; the run ends this task

    def _cleared(self, index: int, sample: Prepared | Planned) -> bool:
        """Take an older answer away: it must not outlive a failure of the sample's new run."""
        path = artifacts.answer_path(self._settings.response_root, sample.split, sample.id)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            reason = f"old answer not removed: {error}"
            self._end(index, SampleRecord(sample.split, sample.id, "failed", error=reason))
            return False
        return True

    async def _prepared(self, index: int, sample: Prepared | Planned) -> Prepared | None:
        """The sample's input; None: it could not be prepared, and the sample has failed with the reason."""
        try:
            prepared = sample if isinstance(sample, Prepared) else await asyncio.to_thread(sample)
            if not prepared.pcm:
                raise MediaError("no audio to send; allowed: at least one sample of PCM16")
            return prepared
        except MediaError as error:
            reason = str(error)
        except (OSError, ValueError, RuntimeError, MemoryError):  # what decoders raise; told in full
            reason = traceback.format_exc()
        log.warning("%s/%s: preparation failed: %s", sample.split, sample.id, reason)
        self._end(index, SampleRecord(sample.split, sample.id, "failed", error=f"preparation: {reason}"))
        return None

    def _record_of(self, index: int, output: RequestOutput) -> SampleRecord:
        result = output.result
        record = SampleRecord(
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
        )
        if self._settings.defer_artifacts:
            self._outputs[index] = output
            return replace(record, outcome="published" if output.success else "failed")
        return self._written(record, output)

    def _written(self, record: SampleRecord, output: RequestOutput) -> SampleRecord:
        """The record after writing the sample's files: its answer, or the metadata alone where it has none.

        A disk that refuses costs the answer, not the run.
        """
        root, split, sample_id = self._settings.response_root, output.split, output.id
        try:
            if output.result is not None and output.success:
                artifacts.publish(output.result, root, split, sample_id)
                return replace(record, outcome="published")
            artifacts.write_metadata(root, split, sample_id, output.metadata)
        except OSError as error:
            log.error("%s/%s: files not written: %s", split, sample_id, error)
            self.result.artifact_errors.append(f"{split}/{sample_id}: {error}")
            if output.success:
                return replace(record, outcome="failed", error=f"artifact: {error}")
        return replace(record, outcome="failed")

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
    # ----------------------------------------------------------------------------------------------------

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
        try:
            self.result.write(self._settings.response_root)
        except OSError as error:
            self.result.artifact_errors.append(f"run_result.json: {error}")
            log.error("run result not written: %s", error)


def _told(settings: RunSettings) -> dict[str, Any]:
    """Settings for the run result: no headers, no credentials of the URL.

    Padding after the final commit changes the evaluation protocol, so it is said that it was on (R63).
    """
    session = settings.session
    parts = urlsplit(session.url)
    bare = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    return {
        "url": bare,
        **comparable(session),
        "clock": session.clock,
        "request_timeout_s": session.deadlines.request_s,
        "concurrency": settings.concurrency,
        "defer_artifacts": settings.defer_artifacts,
        "overwrite": settings.overwrite,
        "drain_padding": True,
    }
