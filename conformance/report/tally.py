"""How outcomes are counted: the one rule behind every report's totals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from conformance.outcome import Outcome, ScenarioResult

Kind = Literal["passed", "failed", "skipped"]

KINDS: dict[Outcome, Kind] = {
    Outcome.PASS: "passed",
    Outcome.FAIL: "failed",
    Outcome.INERT: "failed",
    Outcome.INDETERMINATE: "failed",
    Outcome.HARNESS_ERROR: "failed",
    Outcome.NOT_OBSERVABLE: "skipped",
    Outcome.SKIPPED: "skipped",
}
"""What should have told something and did not counts as failed; what never could is skipped."""


@dataclass(frozen=True)
class Tally:
    """Counts of a run's scenarios; the three add up to all of them."""

    passed: int
    failed: int
    skipped: int
    by_outcome: dict[str, int]
    """Every outcome by its own name, zeros included, in the order of `Outcome`."""

    def closing_line(self) -> str:
        """The last line of a plain report: `N passed, N failed`, and `, N skipped` when there are any."""
        tail = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.passed} passed, {self.failed} failed{tail}"


def tally(results: Iterable[ScenarioResult]) -> Tally:
    """Count results by kind and by outcome."""
    outcomes = Counter(result.outcome for result in results)
    kinds: Counter[str] = Counter()
    for outcome, count in outcomes.items():
        kinds[KINDS[outcome]] += count
    return Tally(
        passed=kinds["passed"],
        failed=kinds["failed"],
        skipped=kinds["skipped"],
        by_outcome={outcome.value: outcomes[outcome] for outcome in Outcome},
    )
