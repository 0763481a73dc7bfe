"""What cannot be seen of a client is told as unobserved: never passed, never failed, never inert."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from conformance.abilities import ALL, Abilities, Need, fault_needs
from conformance.checks import NEEDS, unobserved
from conformance.clients import builtin
from conformance.invariants import INVARIANTS
from conformance.judgement import judge
from conformance.observation import Observation
from conformance.options import RunOptions
from conformance.outcome import FaultReport, Finding, Outcome, RunReport, ScenarioResult
from conformance.report.console import ConsoleReport, remarks
from conformance.report.json_report import document
from conformance.report.junit import render
from conformance.runner import perform
from scenarios import load_catalogue
from scenarios.faults import FaultBase, NeverDone, NoTransport, On, ResetPeer, StopReading
from scenarios.model import Expect, Scenario

CLEAN = next(s for s in load_catalogue() if s.id == "stream/clean-residual[july]")
STALL = StopReading(on=On(received="input_audio_buffer.commit"))


def _without(*needs: Need) -> Abilities:
    return ALL.without({need: f"no {need} here" for need in needs})


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Observation:
    """One clean performance; the tests judge it under other scenarios and with less ability."""
    options = RunOptions()
    folder = tmp_path_factory.mktemp("played")
    return perform(CLEAN, options, folder, builtin.prepare(CLEAN, options))


def _judged(
    played: Observation,
    expect: Mapping[str, Any],
    abilities: Abilities,
    *,
    faults: list[FaultBase] | None = None,
    reports: list[FaultReport] | None = None,
) -> ScenarioResult:
    scenario: Scenario = CLEAN.model_copy(
        update={"expect": Expect.model_validate(expect), "faults": faults or []}
    )
    observation = replace(played, scenario=scenario, abilities=abilities, faults=reports or [])
    return judge(observation, RunOptions(abilities=abilities), real_s=0.0)


def test_nothing_is_unobserved_where_everything_can_be_seen(played: Observation) -> None:
    result = _judged(played, {"sample": {"outcome": "published"}, "warnings": 0, "deadlines": []}, ALL)

    assert result.outcome is Outcome.PASS
    assert result.unobserved == ()


STATEMENTS: list[tuple[Need, dict[str, Any], str]] = [
    (Need.FILES, {"sample": {"outcome": "published"}}, "sample.outcome"),
    (Need.FILES, {"metadata": {"close_timeout": None}}, "metadata.close_timeout"),
    (Need.FILES, {"run": {"published": 1}}, "run.published"),
    (Need.METADATA, {"sample": {"retry_count": 0}}, "sample.retry_count"),
    (Need.METADATA, {"metadata": {"close_timeout": None}}, "metadata.close_timeout"),
    (Need.WIRE, {"sample": {"attempts": 1}}, "sample.attempts"),
    (Need.WIRE, {"wire": {"commits": 1}}, "wire.commits"),
    (Need.LOG, {"warnings": 0}, "warnings"),
    (Need.OBSERVER, {"finishes_within_s": 86_400, "deadlines": []}, "deadlines"),
]


@pytest.mark.parametrize(("need", "expect", "check"), STATEMENTS, ids=[check for _, _, check in STATEMENTS])
def test_a_statement_whose_need_is_missing_makes_the_scenario_not_observable(
    played: Observation, need: Need, expect: dict[str, Any], check: str
) -> None:
    result = _judged(played, expect, _without(need))

    assert result.outcome is Outcome.NOT_OBSERVABLE
    assert result.reason == f"statement {check} needs {need}: no {need} here"
    assert result.findings == ()


def test_a_statement_that_would_fail_is_not_failed_where_it_cannot_be_seen(played: Observation) -> None:
    wrong = {"sample": {"outcome": "failed"}}

    assert _judged(played, wrong, ALL).outcome is Outcome.FAIL
    assert _judged(played, wrong, _without(Need.FILES)).outcome is Outcome.NOT_OBSERVABLE


def test_a_failure_that_was_seen_counts_whatever_else_was_not(played: Observation) -> None:
    result = _judged(played, {"warnings": 0, "sample": {"attempts": 2}}, _without(Need.LOG))

    assert result.outcome is Outcome.FAIL
    assert [finding.id for finding in result.findings] == ["sample.attempts"]
    assert "warnings" in [told.id for told in result.unobserved]


def test_an_invariant_that_cannot_be_seen_is_told_and_does_not_hide_the_rest(played: Observation) -> None:
    result = _judged(played, {"sample": {"attempts": 1}}, _without(Need.LOOP, Need.LOG))

    assert result.outcome is Outcome.PASS
    told = {one.id: one.reason for one in result.unobserved}
    assert told["task-leak"] == "no loop here"
    assert told["log-error"] == "no log here"
    assert {one.what for one in result.unobserved} == {"invariant"}


NEEDY: list[tuple[FaultBase, Need]] = [
    (NoTransport(), Need.SEAM),
    (STALL, Need.TRANSPORT),
    (ResetPeer(), Need.SERVER_CONTROL),
    (NeverDone(), Need.SERVER_CONTROL),
]


@pytest.mark.parametrize(("fault", "need"), NEEDY, ids=[fault.name for fault, _ in NEEDY])
def test_a_fault_that_cannot_act_or_be_seen_is_not_observable_and_never_inert(
    played: Observation, fault: FaultBase, need: Need
) -> None:
    reports = [FaultReport(fault.name, 0, 1, "triggered", {})]

    here = _judged(played, {"finishes_within_s": 86_400}, ALL, faults=[fault], reports=reports)
    away = _judged(played, {"finishes_within_s": 86_400}, _without(need), faults=[fault], reports=reports)

    assert here.outcome is Outcome.INERT
    assert away.outcome is Outcome.NOT_OBSERVABLE
    assert away.reason == f"fault {fault.name} needs {need}: no {need} here"


def test_a_fault_that_was_seen_to_bite_all_the_same_is_a_fault(played: Observation) -> None:
    reports = [FaultReport("stop_reading", 0, 1, "observed", {})]

    result = _judged(
        played, {"finishes_within_s": 86_400}, _without(Need.TRANSPORT), faults=[STALL], reports=reports
    )

    assert result.outcome is Outcome.PASS


def test_a_statement_about_a_fault_that_never_was_blames_no_client(played: Observation) -> None:
    expect = {"metadata": {"close_timeout": "set"}}

    result = _judged(played, expect, _without(Need.SEAM), faults=[NoTransport()])

    assert result.outcome is Outcome.NOT_OBSERVABLE


def test_one_fault_out_of_sight_does_not_excuse_another_that_did_not_bite(played: Observation) -> None:
    faults: list[FaultBase] = [NoTransport(), NeverDone()]

    result = _judged(
        played,
        {"finishes_within_s": 86_400},
        _without(Need.SEAM),
        faults=faults,
        reports=[FaultReport("never_done", 1, 1, "armed", {})],
    )

    assert result.outcome is Outcome.INERT
    assert "no_transport" not in result.reason


def test_an_ability_that_is_missing_needs_a_reason() -> None:
    with pytest.raises(ValueError, match="no reason says why these are missing: seam"):
        Abilities(frozenset(Need) - {Need.SEAM}, {})


def test_every_check_says_what_it_needs(played: Observation) -> None:
    with pytest.raises(KeyError):
        unobserved(played, "unheard_of", None)
    fields = set(Expect.model_fields) - {"samples", "close"}
    assert fields <= set(NEEDS)


def test_every_invariant_but_the_hang_needs_something() -> None:
    assert [one.id for one in INVARIANTS if not one.needs] == ["unbounded-await"]
    assert fault_needs(StopReading(proof="unread")) == {Need.SERVER_CONTROL}


def test_the_reports_tell_what_was_not_observed_and_why(played: Observation) -> None:
    blind = _judged(played, {"warnings": 0}, _without(Need.LOG, Need.LOOP))
    report = RunReport((blind, replace(blind, id="a/b")), 1, "mock", "virtual", "builtin", 0.1)
    out = io.StringIO()
    ConsoleReport(out, terminal=False).run_finished(report)
    lines = out.getvalue().splitlines()

    assert lines[-1] == "0 passed, 0 failed, 2 skipped"
    assert "not-observable a/b: statement warnings needs log: no log here" in lines
    once = [line for line in lines if "task-leak" in line]
    names = "task-leak, exception-never-retrieved, socket-leak"
    assert once == [f"not observed, needs loop (no loop here): {names}"]
    assert document(report)["results"][0]["unobserved"][0] == {
        "id": "warnings",
        "what": "statement",
        "need": "log",
        "reason": "no log here",
        "sample": None,
    }
    assert b'message="statement warnings needs log: no log here"' in render(report)


def test_how_many_unobservable_scenarios_were_played_with_nothing_wrong_is_told(played: Observation) -> None:
    blind = _judged(played, {"warnings": 0}, _without(Need.LOG))
    at_once = replace(blind, virtual_s=0.0)
    unplayed, wrong = replace(blind, last_events=()), replace(blind, findings=(Finding("x", (), "a", "b"),))
    report = RunReport((blind, at_once, unplayed, wrong), 1, "mock", "virtual", "builtin", 0.0)
    assert next(remarks(report)) == "2 of 4 not-observable were played, and nothing that shows was wrong"
    assert "not-observable were" not in " ".join(remarks(replace(report, results=(unplayed,))))
