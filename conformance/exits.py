"""Exit codes of `conformance` and the errors that lead to them (design.md section 9)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum

from conformance.outcome import Outcome, ScenarioResult, kind_of


class Exit(IntEnum):
    """Where two apply, the larger."""

    PASSED = 0
    FAILED = 1
    """A failure, an inert scenario or a stale expected failure."""
    USAGE = 2
    """Usage, scenario, configuration, or nothing selected."""
    HARNESS = 3
    UNAVAILABLE = 4
    INTERRUPTED = 130


def exit_of(results: Iterable[ScenarioResult], complaints: Sequence[str] = ()) -> Exit:
    """The exit code of a run that went to its end.

    Args:
        complaints: what fails the run beside its results.
    """
    worst = Exit.FAILED if complaints else Exit.PASSED
    for result in results:
        if result.outcome is Outcome.HARNESS_ERROR:
            worst = max(worst, Exit.HARNESS)
        elif kind_of(result) == "failed":
            worst = max(worst, Exit.FAILED)
    return worst
