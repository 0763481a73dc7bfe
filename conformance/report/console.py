"""The run on the console: colour and a live line on a terminal, plain lines everywhere else.

Both forms show the same: a line of progress a scenario, every failure told in full, a table of all scenarios,
what kinds of outcome there were, and the counts on a line of their own at the very end.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, TextIO

from conformance.outcome import Outcome, RunReport, ScenarioResult, kind_of
from conformance.report.escape import one_line
from conformance.report.explain import explain, heading, needs_explaining
from conformance.report.tally import Tally, tally

if TYPE_CHECKING:
    from rich.console import Console

ID_LIMIT = 80
"""Characters of a scenario id in the table (count)."""
WARNINGS_LIMIT = 10
"""Different warnings that are printed (count); the JSON report has all."""
_STYLES = {"passed": "green", "failed": "bold red", "skipped": "yellow", "expected": "yellow"}


def is_terminal(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Whether colour and a live line make sense: a terminal that is not dumb, and no CI system."""
    return stream.isatty() and environment.get("TERM", "") != "dumb" and not environment.get("CI")


class ConsoleReport:
    """Prints a run as it goes.

    Call `scenario_started` and `scenario_finished` for each scenario, then `run_finished` once.
    `run_finished` alone is enough to show a report that was made before.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        requirements: Mapping[str, str] | None = None,
        terminal: bool | None = None,
        width: int | None = None,
    ) -> None:
        """Make a report that writes to a stream.

        Args:
            stream: where to print; None: standard output.
            requirements: text of each requirement by its id, for the failures; None: ids alone.
            terminal: True or False forces a form; None: decided by `is_terminal`.
            width: columns of the terminal form (count); None: asked of the terminal.
        """
        self._stream = sys.stdout if stream is None else stream
        self._requirements: Mapping[str, str] = requirements or {}
        self._live = is_terminal(self._stream, os.environ) if terminal is None else terminal
        self._width = width
        self._console: Console | None = None

    def note(self, text: str) -> None:
        """Say something that is no result."""
        self._plain(one_line(text, 300))

    def scenario_started(self, scenario_id: str, *, number: int, total: int) -> None:
        """Name the scenario that runs now; on a terminal the line is overwritten by what follows."""
        if self._live:
            self._overwrite(f"[{number}/{total}] {one_line(scenario_id, ID_LIMIT)}")

    def scenario_finished(self, result: ScenarioResult, *, number: int, total: int) -> None:
        """Tell the outcome of one scenario; `number` counts from 1 in the order of finishing."""
        count = f"[{number:>{len(str(total))}}/{total}]"
        text = f"{count} {result.outcome.value:<14} {one_line(result.id, ID_LIMIT)}"
        if not self._live:
            self._plain(text)
        elif kind_of(result) == "passed":
            self._overwrite(text)  # the table shows it again; a screen of green lines hides the red one
        else:
            self._clear()
            self._styled(text, _STYLES[kind_of(result)])

    def run_finished(self, report: RunReport) -> None:
        """Print failures, the table and the counts; the counts are the last line."""
        counts = tally(report.results)
        self._clear()
        for result in report.results:
            if needs_explaining(result):
                self._failure(result)
        self._table(report)
        self._totals(report, counts)

    def _failure(self, result: ScenarioResult) -> None:
        self._plain("")
        self._styled(heading(result), _STYLES["failed"])
        for line in explain(result, self._requirements):
            self._plain(line)

    def _table(self, report: RunReport) -> None:
        if not report.results:
            return
        self._plain("")
        if self._live:
            self._rich_table(report)
            return
        for line in table_lines(report):
            self._plain(line)

    def _rich_table(self, report: RunReport) -> None:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("scenario", overflow="fold")
        table.add_column("outcome")
        table.add_column("virtual" if report.clock == "virtual" else "clock", justify="right", no_wrap=True)
        table.add_column("real", justify="right", no_wrap=True)
        for result in report.results:
            style = _STYLES[kind_of(result)]
            table.add_row(
                Text(one_line(result.id, ID_LIMIT)),
                Text(result.outcome.value, style=style),
                Text(_loop_time(result)),
                Text(_real_time(result)),
            )
        self._rich().print(table)

    def _totals(self, report: RunReport, counts: Tally) -> None:
        kinds = ", ".join(f"{count} {name}" for name, count in counts.by_outcome.items() if count)
        unseen = [result for result in report.results if kind_of(result) == "skipped"]
        self._plain("")
        self._plain(
            f"target {one_line(report.target, 200)}, client {one_line(report.client, 200)}, "
            f"{report.clock} clock, seed {report.seed}, {report.real_s:.2f} s: {kinds or 'nothing ran'}"
        )
        for result in unseen:
            what = f"{result.outcome.value} {one_line(result.id, ID_LIMIT)}"
            self._plain(f"{what}: {one_line(result.reason, 300) or 'no reason given'}")
        for line in remarks(report):
            self._plain(line)
        for complaint in report.complaints:
            self._styled(one_line(complaint, 400), _STYLES["failed"])
        if report.stopped_early:
            self._styled(one_line(report.stopped_early, 200), _STYLES["skipped"])
        if report.interrupted:
            self._styled("interrupted: only what is listed above ran", _STYLES["skipped"])
        kind = "failed" if counts.failed or report.complaints else "passed" if counts.passed else "skipped"
        self._styled(counts.closing_line(), _STYLES[kind])

    def _plain(self, text: str) -> None:
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        # A C locale must not turn a report into an encoding error: what it cannot show is escaped.
        self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        self._stream.flush()

    def _styled(self, text: str, style: str) -> None:
        if not self._live:
            self._plain(text)
            return
        from rich.text import Text

        self._rich().print(Text(text, style=style), soft_wrap=True)

    def _rich(self) -> Console:
        if self._console is None:
            from rich.console import Console  # late: a tenth of a second that plain output never needs

            self._console = Console(
                file=self._stream, force_terminal=True, highlight=False, markup=False, width=self._width
            )
        return self._console

    def _overwrite(self, text: str) -> None:
        columns = self._width or self._rich().width
        self._stream.write(f"\r\x1b[2K{text[: columns - 1]}")
        self._stream.flush()

    def _clear(self) -> None:
        if self._live:
            self._stream.write("\r\x1b[2K")


def remarks(report: RunReport) -> Iterator[str]:
    """What a reader should know of a run beside its outcomes: expected failures, warnings, what could not be seen."""
    for result in report.results:
        for told in result.expected if kind_of(result) == "expected" else ():
            yield f"expected {one_line(result.id, ID_LIMIT)}: {one_line(told, 300)}"
    warned: dict[tuple[str, str, str], list[str]] = {}
    for result in report.results:
        for warning in result.warnings:
            warned.setdefault((warning.id, warning.expected, warning.actual), []).append(result.id)
    for (name, expected, actual), ids in list(warned.items())[:WARNINGS_LIMIT]:
        where = f"{one_line(ids[0], ID_LIMIT)}{f' and {len(ids) - 1} more' if len(ids) > 1 else ''}"
        yield f"warning {name}: {one_line(expected, 200)}; seen: {one_line(actual, 200)} (in {where})"
    if len(warned) > WARNINGS_LIMIT:
        yield f"and {len(warned) - WARNINGS_LIMIT} more warnings, in the JSON report"
    blind = [result for result in report.results if result.outcome is Outcome.NOT_OBSERVABLE]
    right = sum(bool(result.last_events) and not result.findings for result in blind)
    if right:
        yield f"{right} of {len(blind)} not-observable were played, and nothing that shows was wrong"
    yield from unobserved_invariants(report)


def unobserved_invariants(report: RunReport) -> Iterator[str]:
    """Invariants that could not be observed, once a run and not once a scenario: a line a need and reason."""
    groups: dict[tuple[str, str], dict[str, None]] = {}
    for told in (told for result in report.results for told in result.unobserved):
        if told.what == "invariant":
            groups.setdefault((told.need.value, told.reason), {})[told.id] = None
    for (need, reason), names in groups.items():
        yield f"not observed, needs {need} ({one_line(reason, 200)}): {', '.join(names)}"


def table_lines(report: RunReport) -> Iterator[str]:
    """The table in plain text: a heading and a line a scenario, columns two spaces apart."""
    clock = "virtual" if report.clock == "virtual" else "clock"
    rows = [("scenario", "outcome", clock, "real")]
    for result in report.results:
        rows.append(
            (one_line(result.id, ID_LIMIT), result.outcome.value, _loop_time(result), _real_time(result))
        )
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for name, outcome, loop_time, real_time in rows:
        left = f"{name:<{widths[0]}}  {outcome:<{widths[1]}}"
        yield f"{left}  {loop_time:>{widths[2]}}  {real_time:>{widths[3]}}"


def _loop_time(result: ScenarioResult) -> str:
    return f"{result.virtual_s:.1f} s"


def _real_time(result: ScenarioResult) -> str:
    return f"{result.real_s * 1000:.0f} ms"
