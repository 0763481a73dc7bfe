"""Matchers and exit codes say what docs/writing-scenarios.md says."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.checks import matches, requirements_of
from conformance.exits import Exit, exit_of
from conformance.outcome import Outcome, ScenarioResult


@pytest.mark.parametrize(
    ("matcher", "actual", "met"),
    [
        ("set", "text", True),
        ("set", "", False),
        ("set", None, False),
        (None, None, True),
        (None, "", False),
        ("", "", True),
        (1, 1, True),
        (1, True, False),
        (True, 1, False),
        (True, True, True),
        ({"contains": "b"}, "abc", True),
        ({"contains": "x"}, "abc", False),
        ({"contains": "x"}, None, False),
        ({"not_contains": "x"}, "abc", True),
        ({"not_contains": "b"}, "abc", False),
        ({"at_least": 2, "at_most": 3}, 2.5, True),
        ({"at_least": 2, "at_most": 3}, 3.5, False),
        ({"at_least": 2}, None, False),
        ({"one_of": [1, 2]}, 2, True),
        ({"one_of": [1, 2]}, 3, False),
    ],
)
def test_a_matcher_is_met_exactly_when_its_words_say_so(matcher: Any, actual: Any, met: bool) -> None:
    assert matches(matcher, actual) is met


def test_an_unknown_matcher_is_an_error_not_a_pass() -> None:
    with pytest.raises(ValueError, match="'at_lest' is not known"):
        matches({"at_lest": 2}, 3)


def test_a_finding_names_the_requirements_that_check_and_scenario_share() -> None:
    assert requirements_of("metadata.ack_timeout", ["R2", "R11", "R13"]) == ("R2",)


def test_a_check_that_speaks_for_none_of_them_names_none() -> None:
    assert requirements_of("metadata.ack_timeout", ["R50"]) == ()


def _result(outcome: Outcome) -> ScenarioResult:
    return ScenarioResult(id="a/b", title="t", requires=(), outcome=outcome)


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        ([], Exit.PASSED),
        ([Outcome.PASS, Outcome.SKIPPED, Outcome.NOT_OBSERVABLE], Exit.PASSED),
        ([Outcome.PASS, Outcome.FAIL], Exit.FAILED),
        ([Outcome.INERT], Exit.FAILED),
        ([Outcome.INDETERMINATE], Exit.FAILED),
        ([Outcome.FAIL, Outcome.HARNESS_ERROR], Exit.HARNESS),
    ],
)
def test_the_worst_outcome_decides_the_exit_code(outcomes: list[Outcome], code: Exit) -> None:
    assert exit_of([_result(o) for o in outcomes]) is code
