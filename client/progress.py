"""Progress and the closing table of a run, for people (plain lines where there is no terminal)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from client.escaping import escaped
from client.metrics import nearest_rank
from client.run_result import RunResult

if TYPE_CHECKING:
    from rich.console import Console

_LONGEST_REASON = 160


SPENT_NOTHING = ("skipped_finished", "judged_before", "skipped")
"""Outcomes of samples that took no time and tell nothing about how long others will take."""


class Ended(Protocol):
    """What became of a sample, run or judged."""

    @property
    def split(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def outcome(self) -> str: ...
    @property
    def error(self) -> str: ...
    @property
    def latency_s(self) -> float | None: ...
    @property
    def retry_count(self) -> int: ...
    @property
    def told_at_once(self) -> bool:
        """Whether its reason is worth a line before the end; else it may be the same for every sample."""


def _loop_time_s() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class Estimate:
    """How long a run will still take, from the samples that have been run so far.

    Says nothing before the first one has ended: a number without a ground would be invented.
    """

    total: int
    now_s: Callable[[], float] = _loop_time_s
    _begin_s: float | None = field(default=None, init=False)
    _ran: int = field(default=0, init=False)
    _ended: int = field(default=0, init=False)

    def begin(self) -> None:
        """The first sample starts; later calls change nothing."""
        if self._begin_s is None:
            self._begin_s = self.now_s()

    def ended(self, record: Ended) -> None:
        """Count a sample; one that was finished before took no time and tells nothing."""
        self._ended += 1
        self._ran += record.outcome not in SPENT_NOTHING

    @property
    def done(self) -> int:
        return self._ended

    @property
    def elapsed_s(self) -> float:
        return 0.0 if self._begin_s is None else self.now_s() - self._begin_s

    @property
    def remaining_s(self) -> float | None:
        """Seconds, or None while nothing is known."""
        if not self._ran:
            return None
        return self.elapsed_s / self._ran * (self.total - self._ended)

    def told(self) -> str:
        """`, about 5:10 left`, or nothing."""
        left = self.remaining_s
        return "" if left is None else f", about {minutes(left)} left"


class PlainProgress:
    """One line a sample, for logs."""

    def __init__(self, total: int, write: Callable[[str], None]) -> None:
        self._estimate = Estimate(total)
        self._write = write

    def __enter__(self) -> PlainProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def started(self, index: int, split: str, sample_id: str) -> None:
        self._estimate.begin()
        self._write(f"[{index + 1}/{self._estimate.total}] {split}/{sample_id} started")

    def ended(self, index: int, record: Ended) -> None:
        self._estimate.ended(record)
        if record.outcome == "cancelled":
            return  # the closing table counts them
        self._write(
            f"[{index + 1}/{self._estimate.total}] {in_short(record)} "
            f"(elapsed {minutes(self._estimate.elapsed_s)}{self._estimate.told()})"
        )


class TerminalProgress:
    """A bar with the samples in work; failures and retries stay above it."""

    def __init__(self, total: int, console: Console, what: str = "sample") -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._estimate = Estimate(total)
        self._console = console
        self._working: dict[int, str] = {}
        self._bar = Progress(
            TextColumn(what),
            MofNCompleteColumn(),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            TextColumn("{task.fields[told]}", markup=False),
            TextColumn("{task.description}", markup=False),
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task("", total=total, told="")

    def __enter__(self) -> TerminalProgress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def started(self, index: int, split: str, sample_id: str) -> None:
        self._estimate.begin()
        self._working[index] = f"{split}/{sample_id}"
        self._show()

    def ended(self, index: int, record: Ended) -> None:
        self._working.pop(index, None)
        self._estimate.ended(record)
        if record.outcome == "failed" or record.retry_count:
            self._console.print(in_short(record), markup=False, highlight=False)
        self._show()

    def _show(self) -> None:
        working = ", ".join(self._working.values())
        self._bar.update(
            self._task, completed=self._estimate.done, description=working, told=self._estimate.told()
        )


def in_short(record: Ended) -> str:
    """A line on how a sample ended, for while others run; a reason is cut where it is very long."""
    line = _how(record)
    if not record.error or not record.told_at_once:
        return line
    told = escaped(reason(record.error))
    return f"{line}: {told if len(told) <= _LONGEST_REASON else told[: _LONGEST_REASON - 1] + '…'}"


def ending(record: Ended) -> str:
    """A line on how a sample ended, with its whole reason."""
    return escaped(_how(record) + (f": {reason(record.error)}" if record.error else ""))


def _how(record: Ended) -> str:
    line = f"{record.split}/{record.id} {record.outcome.replace('_', ' ')}"
    if record.latency_s is not None:
        line += f" in {record.latency_s:.1f} s"
    if record.retry_count:
        line += f", retried {record.retry_count} time{'s' * (record.retry_count > 1)}"
    return line


def reason(error: str) -> str:
    """An error in one line: the last line of a traceback, the words of anything else."""
    if "Traceback (most recent call last)" in error:
        return error.strip().splitlines()[-1]
    return " ".join(error.split())


def minutes(seconds: float) -> str:
    """`1:02:03` or `2:03`."""
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    head = f"{hours}:{rest // 60:02d}" if hours else f"{rest // 60}"
    return f"{head}:{rest % 60:02d}"


def summary_rows(result: RunResult, refused: int = 0) -> list[tuple[str, str]]:
    """The closing table: what was asked, what became of it, how long it took.

    Args:
        refused: rows of the dataset that could not be run at all.
    """
    latencies = sorted(r.latency_s for r in result.samples if r.request_succeeded and r.latency_s is not None)
    rows = [("samples", str(result.requested)), ("published", str(result.published))]
    if result.skipped_finished:
        rows.append(("finished before", f"{result.skipped_finished} of them"))
    rows += [("failed", str(result.failed)), ("cancelled", str(result.cancelled))]
    if refused:
        rows.append(("refused rows", str(refused)))
    rows.append(("retried samples", f"{result.duplex_retried_samples} ({result.duplex_retry_count} retries)"))
    if latencies:
        rows.append(("latency mean", f"{sum(latencies) / len(latencies):.1f} s"))
        rows.append(
            ("latency median, longest", f"{nearest_rank(latencies, 0.5):.1f} s, {latencies[-1]:.1f} s")
        )
    rows += [("duration", minutes(result.duration_s)), ("answers in", result.response_root)]
    return rows
