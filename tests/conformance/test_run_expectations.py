"""Every key that a scenario may expect is read by a check, and each of them can fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conformance.checks import check_expectations
from conformance.clients import builtin
from conformance.observation import Observation
from conformance.options import RunOptions
from conformance.outcome import Finding
from conformance.runner import perform
from scenarios import load_catalogue
from scenarios.model import Expect, SampleExpect, WireExpect

SCENARIOS = {scenario.id: scenario for scenario in load_catalogue()}
NEVER = {"one_of": ["no such value"]}
"""A matcher that no text meets."""
TOO_MANY = {"at_least": 1_000_000_000}
"""A matcher that no number meets."""
COUNTED = {
    "attempts",
    "retry_count",
    "sentences",
    "first_start_s",
    "last_end_s",
    "attempt_files",
    "latency_s",
    "warnings",
}

SAMPLE_FORMS: dict[str, Any] = {
    "outcome": "cancelled",
    "metadata": {"close": NEVER},
    "anomalies": {"damaged_base64": 1},
    "response_done": False,
    "first_attempt": {"row": NEVER},
    "last_attempt": {"row": NEVER},
    "close": "none",
}
EXPECT_FORMS: dict[str, Any] = {
    "sample": {"outcome": "cancelled"},
    "samples": {"1": {"outcome": "cancelled"}},
    "metadata": {"close": NEVER},
    "close": "none",
    "finishes_within_s": 0.001,
    "run": {"published": NEVER},
    "verdicts": {"guard": "passed"},
    "wire": {"commits": TOO_MANY},
    "log": [{"contains": "no such message"}],
    "deadlines": ["no such deadline"],
    "socket_evidence": "unread",
}
"""Expectations that are wrong for the sample; the keys that are not here take any matcher."""
JUDGED_ELSEWHERE = {"judge", "accuracy", "dataset"}
"""Keys read by conformance/checks_judge.py and checks_dataset.py, which have their own tests."""


@pytest.fixture(scope="module")
def observation(tmp_path_factory: pytest.TempPathFactory) -> Observation:
    """A stalled attempt and a good one: every kind of fact is there."""
    scenario = SCENARIOS["retry/stall-then-success"]
    folder: Path = tmp_path_factory.mktemp("observation")
    return perform(scenario, RunOptions(), folder, builtin.prepare(scenario, RunOptions()))


def _never(key: str) -> dict[str, Any]:
    return TOO_MANY if key in COUNTED else NEVER


def _findings(observation: Observation, expect: dict[str, Any]) -> list[str]:
    before = observation.scenario
    observation.scenario = before.model_copy(update={"expect": Expect.model_validate(expect)})
    try:
        return [finding.id for finding in check_expectations(observation)]
    finally:
        observation.scenario = before


@pytest.mark.parametrize("key", sorted(set(Expect.model_fields) - JUDGED_ELSEWHERE))
def test_a_wrong_expectation_is_found(observation: Observation, key: str) -> None:
    assert _findings(observation, {key: EXPECT_FORMS.get(key, _never(key))})


@pytest.mark.parametrize("key", sorted(SampleExpect.model_fields))
def test_a_wrong_expectation_about_a_sample_is_found(observation: Observation, key: str) -> None:
    assert _findings(observation, {"sample": {key: SAMPLE_FORMS.get(key, _never(key))}})


@pytest.mark.parametrize("key", sorted(WireExpect.model_fields))
def test_a_wrong_expectation_about_the_wire_is_found(observation: Observation, key: str) -> None:
    assert _findings(observation, {"wire": {key: TOO_MANY}}) == [f"wire.{key}"]


def test_what_was_seen_is_met(observation: Observation) -> None:
    expect = {
        "sample": {
            "first_start_s": 2,
            "last_end_s": {"at_least": 3.4},
            "late_text": "",
            "anomalies": {"damaged_base64": 0},
            "attempt_files": 1,
            "first_attempt": {"row": 8, "action": "retry"},
        },
        "deadlines": ["drain", "playback.ack", "session close"],
        "socket_evidence": "write_blocked",
        "wire": {"aborts": 1, "client_close_code": 1000, "acks_before_commit": {"at_least": 1}},
    }

    assert _findings(observation, expect) == []


def test_a_wrong_count_of_an_anomaly_tells_all_that_were_counted(observation: Observation) -> None:
    (facts,) = observation.samples
    assert facts.metadata is not None
    before, facts.metadata["anomalies"] = facts.metadata["anomalies"], {"delta_after_done": 2}
    expect = Expect.model_validate({"sample": {"anomalies": {"duplicate_event": 1}}})
    scenario = observation.scenario
    observation.scenario = scenario.model_copy(update={"expect": expect})
    try:
        (finding,) = check_expectations(observation)
    finally:
        facts.metadata["anomalies"], observation.scenario = before, scenario

    assert isinstance(finding, Finding)
    assert finding.actual == "0; counted: delta_after_done 2"


@pytest.mark.parametrize(
    ("deadlines", "named"),
    [
        (["drain", "playback.ack"], ("R11", "R13")),
        (["drain", "session close"], ("R1",)),
        (["playback.ack", "session close"], ("R1", "R6", "R11", "R13")),
        (["playback.ack", "drain", "session close"], ("R1", "R6", "R11", "R13")),
    ],
    ids=["close", "ack", "one that nothing is known of", "another order"],
)
def test_a_finding_about_deadlines_names_what_those_that_differ_speak_for(
    observation: Observation, deadlines: list[str], named: tuple[str, ...]
) -> None:
    scenario = observation.scenario
    expect = Expect.model_validate({"deadlines": deadlines})
    changes = {"expect": expect, "requires": ["R1", "R6", "R11", "R13", "R46"]}
    observation.scenario = scenario.model_copy(update=changes)
    try:
        (finding,) = check_expectations(observation)
    finally:
        observation.scenario = scenario

    assert isinstance(finding, Finding)
    assert finding.requirements == named
