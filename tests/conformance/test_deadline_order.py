"""Every inner deadline is below the one around it, by default and in the catalogue; one that is not is told."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from client.deadlines import Deadlines
from conformance import deadline_order
from conformance.commands import app
from conformance.deadline_order import misordered, of_scenario, worst_case
from scenarios import load_catalogue
from scenarios.judging import JudgeSpec
from scenarios.model import Scenario

CLEAN = next(s for s in load_catalogue() if s.id == "stream/clean-residual[july]")


def _with(**deadlines: float) -> Scenario:
    return CLEAN.model_copy(update={"client": CLEAN.client.model_copy(update={"deadlines": deadlines})})


def test_the_clients_own_deadlines_are_in_order() -> None:
    assert misordered("defaults", Deadlines()) == []


def test_every_scenarios_deadlines_are_in_order() -> None:
    assert [one.told() for s in load_catalogue() for one in of_scenario(s)[0]] == []


@pytest.mark.parametrize(
    ("wrong", "inner"),
    [
        ({"connect_s": 900.0}, "connect_s"),
        ({"created_s": 1000.0}, "created_s"),
        ({"write_s": 900.0}, "write_s"),
        ({"settle_s": 130.0}, "settle_s"),
    ],
)
def test_an_inner_deadline_that_is_not_below_its_outer_is_told(wrong: dict[str, float], inner: str) -> None:
    (one,) = misordered("defaults", Deadlines(**wrong))
    assert one.inner == inner
    assert f"{inner} ({one.inner_s:g} s) can never act: " in one.told()

    assert [found.inner for found in of_scenario(_with(**wrong))[0]] == [inner]


def test_a_close_whose_bounds_are_equal_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Deadlines, "close_outer_s", property(lambda self: self.close_s))
    monkeypatch.setattr(Deadlines, "library_close_s", property(lambda self: self.handshake_s))

    assert [one.inner for one in misordered("defaults", Deadlines())] == ["close_s", "library_close_s"]


def test_a_short_request_timeout_alone_is_on_purpose() -> None:
    broken, hidden = of_scenario(_with(request_s=8.0))

    assert broken == []
    assert {one.inner for one in hidden} == {
        "connect_s",
        "created_s",
        "write_s",
        "the end of the drain window",
    }


def test_the_worst_case_is_attempts_times_budget_and_rounds_of_samples() -> None:
    worst = worst_case(Deadlines(), samples=66, concurrency=8, judge=None)

    assert worst.attempt_s == 900 + 65
    assert worst.sample_s == 2 * worst.attempt_s
    assert worst.run_s == 9 * worst.sample_s
    assert worst.job_s == worst.run_s
    assert worst_case(Deadlines(), 66, 8, JudgeSpec()).job_s > worst.job_s


def test_the_command_tells_minutes_and_fails_on_a_misorder(monkeypatch: pytest.MonkeyPatch) -> None:
    cli = CliRunner()
    good = cli.invoke(app, ["deadlines", CLEAN.id])
    assert good.exit_code == 0
    assert good.output.splitlines()[-1] == "deadline-order: 0 misordered"
    assert "a sample at most      32.2 min (2 attempts)" in good.output
    assert (
        "(132 days: 66 samples x 48 requests x 4 tries x (600 s + 300 s between), 1 sample(s) at a time)"
        in good.output
    )
    assert "a sample's judging    2880.0 min at most" in good.output

    monkeypatch.setattr(deadline_order, "load_catalogue", lambda: [_with(write_s=900.0)])
    bad = cli.invoke(app, ["deadlines", "--json"])
    assert bad.exit_code == 1
    assert [one["inner"] for one in json.loads(bad.output)["misordered"]] == ["write_s"]


def test_an_unknown_scenario_is_a_usage_error() -> None:
    assert CliRunner().invoke(app, ["deadlines", "no/such"]).exit_code == 2
