"""Outcomes are counted by one rule."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from conformance.outcome import KINDS, Outcome
from conformance.report.tally import tally


def test_every_outcome_is_counted_exactly_once(make: SimpleNamespace) -> None:
    counts = tally([make.result(outcome=outcome) for outcome in Outcome])

    assert counts.passed + counts.failed + counts.skipped == len(Outcome)
    assert counts.by_outcome == dict.fromkeys([outcome.value for outcome in Outcome], 1)


def test_only_pass_counts_as_passed() -> None:
    assert [outcome for outcome, kind in KINDS.items() if kind == "passed"] == [Outcome.PASS]


@pytest.mark.parametrize(
    ("outcomes", "line"),
    [
        ([], "0 passed, 0 failed"),
        ([Outcome.PASS, Outcome.PASS], "2 passed, 0 failed"),
        ([Outcome.PASS, Outcome.INERT, Outcome.FAIL], "1 passed, 2 failed"),
        ([Outcome.PASS, Outcome.NOT_OBSERVABLE], "1 passed, 0 failed, 1 skipped"),
    ],
)
def test_the_closing_line_names_skipped_only_when_there_are_any(
    make: SimpleNamespace, outcomes: list[Outcome], line: str
) -> None:
    counts = tally([make.result(outcome=outcome) for outcome in outcomes])

    assert counts.closing_line() == line
