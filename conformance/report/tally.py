"""How outcomes are counted: the one rule behind every report's totals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from conformance.outcome import Outcome, ScenarioResult, kind_of


@dataclass(frozen=True)
class Tally:
    """Counts of a run's scenarios; the four add up to all of them."""

    passed: int
    failed: int
    skipped: int
    by_outcome: dict[str, int]
    """Every outcome by its own name, zeros included, in the order of `Outcome`."""
    expected: int = 0
    """Failures that a file of expected failures, or a known flake's budget, excuses."""

    def closing_line(self) -> str:
        """The last line of a plain report: `N passed, N failed`, `, N expected failures` and `, N skipped` if any."""
        expected = f", {self.expected} expected failure{'s' * (self.expected > 1)}" if self.expected else ""
        tail = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.passed} passed, {self.failed} failed{expected}{tail}"


def tally(results: Iterable[ScenarioResult]) -> Tally:
    """Count results by kind and by outcome."""
    listed = list(results)
    outcomes = Counter(result.outcome for result in listed)
    kinds = Counter(kind_of(result) for result in listed)
    return Tally(
        passed=kinds["passed"],
        failed=kinds["failed"],
        skipped=kinds["skipped"],
        by_outcome={outcome.value: outcomes[outcome] for outcome in Outcome},
        expected=kinds["expected"],
    )
