"""Expected failures excuse one finding and hide no other; stale ones fail; a flake has a budget and a day."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from conformance.again import Plan, run_with
from conformance.commands import app
from conformance.exits import Exit, exit_of
from conformance.expected import Entry, Excuses, Flake, complaints, excused, finding_ids, load_excuses
from conformance.options import RunOptions
from conformance.outcome import Finding, Outcome, ScenarioResult, kind_of
from scenarios import ScenarioError, load_catalogue

TODAY = datetime.date(2026, 6, 1)
EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "examples" / "close-never-answered.yaml"
SCENARIO = next(s for s in load_catalogue() if s.id == "stream/clean-residual[july]")
REAL = RunOptions(clock="real")


def _result(outcome: Outcome = Outcome.FAIL, *ids: str, scenario: str = "a/b") -> ScenarioResult:
    findings = tuple(Finding(one, (), "x", "y") for one in ids)
    return ScenarioResult(id=scenario, title="t", requires=(), outcome=outcome, findings=findings)


def _entry(scenario: str, finding: str) -> Entry:
    return Entry(scenario=scenario, finding=finding, reason="not there yet")


def _flake(at_most: int = 2, of: int = 10, expires: datetime.date = TODAY) -> Flake:
    return Flake(
        scenario="a/*", finding="sample.error", reason="radio", at_most=at_most, of=of, expires=expires
    )


def test_a_failure_whose_every_finding_is_expected_is_no_failure() -> None:
    excuses = Excuses(expected=[_entry("a/*", "sample.error"), _entry("a/b", "task-leak")])

    both = excused(_result(Outcome.FAIL, "sample.error", "task-leak"), excuses)

    assert kind_of(both) == "expected"
    assert both.expected == ("a/*: sample.error (not there yet)", "a/b: task-leak (not there yet)")
    assert exit_of([both]) is Exit.PASSED


@pytest.mark.parametrize(
    ("entry", "result"),
    [
        (_entry("a/b", "sample.error"), _result(Outcome.FAIL, "sample.error", "task-leak")),
        (_entry("a/c", "sample.error"), _result(Outcome.FAIL, "sample.error")),
        (_entry("a/b", "sample.error"), _result(Outcome.INERT, "sample.error")),
        (_entry("a/b", "sample.error"), _result(Outcome.HARNESS_ERROR, "sample.error")),
        (_entry("a/b", "sample.error"), _result(Outcome.INDETERMINATE, "sample.error")),
    ],
    ids=["another finding", "another scenario", "inert", "an error of ours", "indeterminate"],
)
def test_an_entry_excuses_nothing_else(entry: Entry, result: ScenarioResult) -> None:
    seen = excused(result, Excuses(expected=[entry]))

    assert kind_of(seen) == "failed"
    assert exit_of([seen]) is not Exit.PASSED


def test_a_fault_that_a_client_never_gets_to_can_be_expected_as_inert() -> None:
    excuses = Excuses(expected=[_entry("a/b", "inert")])

    assert kind_of(excused(_result(Outcome.INERT), excuses)) == "expected"
    assert complaints(excuses, [_result(Outcome.INERT)], TODAY, "f") == ()


def test_a_stale_entry_fails_the_run_and_says_which() -> None:
    excuses = Excuses(expected=[_entry("a/*", "sample.error")])

    told = complaints(excuses, [_result(Outcome.PASS), _result(Outcome.FAIL, "task-leak")], TODAY, "f.yaml")

    assert told == (
        "f.yaml: stale: a/*: sample.error (not there yet): not seen in 2 scenario(s); take the entry out",
    )
    assert exit_of([_result(Outcome.PASS)], told) is Exit.FAILED
    assert exit_of([_result(Outcome.HARNESS_ERROR)], told) is Exit.HARNESS


@pytest.mark.parametrize(
    "results",
    [
        [],
        [_result(Outcome.PASS, scenario="c/d")],
        [_result(Outcome.SKIPPED), _result(Outcome.NOT_OBSERVABLE), _result(Outcome.HARNESS_ERROR)],
        [_result(Outcome.PASS), _result(Outcome.FAIL, "sample.error", scenario="a/c")],
    ],
    ids=["nothing ran", "others ran", "nothing to be seen", "one of the glob's failed"],
)
def test_an_entry_that_could_not_be_seen_or_was_needed_is_not_stale(results: list[ScenarioResult]) -> None:
    assert complaints(Excuses(expected=[_entry("a/*", "sample.error")]), results, TODAY, "f") == ()


def test_a_flake_past_its_day_fails_the_run() -> None:
    yesterday = TODAY - datetime.timedelta(days=1)

    assert complaints(Excuses(flakes=[_flake()]), [], TODAY, "f") == ()
    (told,) = complaints(Excuses(flakes=[_flake(expires=yesterday)]), [], TODAY, "f")
    assert told.startswith("f: expired on 2026-05-31: a/*: sample.error (radio)")


class _Runs:
    """Results in the order of the runs; one more than there are is an error."""

    def __init__(self, results: Sequence[ScenarioResult]) -> None:
        self.left: Iterator[ScenarioResult] = iter(results)
        self.count = 0

    def __call__(self, *_: object) -> ScenarioResult:
        self.count += 1
        return next(self.left)


BAD = _result(Outcome.FAIL, "sample.error")
GOOD = _result(Outcome.PASS)


def test_a_known_flake_within_its_budget_is_excused_after_all_its_runs() -> None:
    runs = _Runs([BAD, GOOD, BAD, *[GOOD] * 7])

    result = run_with(SCENARIO, REAL, Plan(Excuses(flakes=[_flake(2, 10)]), today=TODAY), runs)

    assert kind_of(result) == "expected"
    assert result.expected[0].startswith("known flake, 2 of 10 runs failed, 2 of 10 allowed: a/*")
    assert runs.count == 10


def test_a_flake_over_its_budget_fails_at_once() -> None:
    runs = _Runs([BAD, GOOD, BAD, BAD])

    result = run_with(SCENARIO, REAL, Plan(Excuses(flakes=[_flake(2, 10)]), today=TODAY), runs)

    assert kind_of(result) == "failed"
    assert "3 of 4 runs failed, 2 of 10 allowed: over its budget" in result.reason


def test_another_failure_among_the_runs_of_a_flake_is_a_failure() -> None:
    other = _result(Outcome.FAIL, "task-leak")

    result = run_with(
        SCENARIO, REAL, Plan(Excuses(flakes=[_flake()]), today=TODAY), _Runs([BAD, GOOD, other])
    )

    assert kind_of(result) == "failed"
    assert result.findings == other.findings


def test_an_expired_flake_excuses_nothing() -> None:
    late = TODAY + datetime.timedelta(days=1)

    result = run_with(SCENARIO, REAL, Plan(Excuses(flakes=[_flake()]), today=late), _Runs([BAD]))

    assert kind_of(result) == "failed"


@pytest.mark.parametrize("clock", ["virtual", "real"])
def test_a_failure_that_does_not_come_back_is_indeterminate_and_never_green(clock: str) -> None:
    runs = _Runs([BAD, BAD, GOOD])

    result = run_with(SCENARIO, RunOptions(clock=clock), Plan(max_retries=5), runs)  # type: ignore[arg-type]

    assert result.outcome is Outcome.INDETERMINATE
    assert result.reason.endswith(": fail, fail, pass")
    assert ("virtual clock" in result.reason) is (clock == "virtual")
    assert exit_of([result]) is Exit.FAILED


def test_a_failure_that_stays_is_one_and_says_how_often_it_was_seen() -> None:
    result = run_with(SCENARIO, REAL, Plan(max_retries=2), _Runs([BAD, BAD, BAD]))

    assert result.outcome is Outcome.FAIL
    assert result.reason == "3 runs: fail, fail, fail"


def test_what_passes_or_is_expected_or_is_ours_is_run_once() -> None:
    plan = Plan(Excuses(expected=[_entry("a/b", "sample.error")]), max_retries=3)
    for once in (GOOD, BAD, _result(Outcome.HARNESS_ERROR), _result(Outcome.NOT_OBSERVABLE)):
        runs = _Runs([once])
        run_with(SCENARIO, REAL, plan, runs)
        assert runs.count == 1


BROKEN: list[tuple[str, str]] = [
    ("expected:\n  - {scenario: no/such, finding: task-leak, reason: r}", "2: expected[0].scenario"),
    ("expected:\n  - {scenario: a/b, finding: tusk-leak, reason: r}", "did you mean"),
    ("expected:\n  - {scenario: a/b, finding: task-leak}", "reason"),
    ("expected:\n  - {scenario: a/b, finding: task-leak, reason: ''}", "reason"),
    ("expect: []", "expect"),
    ("flakes:\n  - {scenario: a/b, finding: task-leak, reason: r, at_most: 2, of: 10}", "expires"),
    (
        "flakes:\n  - {scenario: a/b, finding: task-leak, reason: r, at_most: 2, of: 10, expires: soon}",
        "expires",
    ),
    ("[", "2"),
]


@pytest.mark.parametrize(("text", "told"), BROKEN, ids=[told for _, told in BROKEN])
def test_a_broken_file_is_told_by_file_line_and_key(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "expected.yaml"
    file.write_text(text)

    with pytest.raises(ScenarioError) as caught:
        load_excuses(file, ["a/b"])

    assert str(file) in str(caught.value)
    assert told in str(caught.value)


def test_a_whole_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "expected.yaml"
    file.write_text(
        "expected:\n  - {scenario: 'a/*', finding: metadata.close_timeout, reason: r, issue: 'https://x.example/1'}\n"
        "flakes:\n  - {scenario: a, finding: inert, reason: r, at_most: 1, of: 5, expires: 2030-01-31}\n"
    )

    excuses = load_excuses(file, ["a/b", "a[case]"])

    assert excuses.expected[0].issue == "https://x.example/1"
    assert excuses.flakes[0].expires == datetime.date(2030, 1, 31)


def test_every_id_that_a_finding_can_have_is_known() -> None:
    names = finding_ids()

    assert {"unbounded-await", "client-crashed", "inert", "finishes_within_s", "metadata.*"} <= set(names)


@pytest.fixture(scope="module")
def cli() -> CliRunner:
    return CliRunner()


def _run(cli: CliRunner, tmp_path: Path, text: str, *more: str) -> tuple[int, str, dict[str, object]]:
    file = tmp_path / "expected.yaml"
    file.write_text(text)
    report, junit = tmp_path / "run.json", tmp_path / "junit.xml"
    asked = ["run", str(EXAMPLE), "--jobs", "1", "--expected-failures", str(file)]
    result = cli.invoke(app, [*asked, "--json", str(report), "--junit", str(junit), *more])
    return result.exit_code, result.output, json.loads(report.read_text()) if report.exists() else {}


EXPECTED = (
    "expected:\n  - {scenario: close-never-answered, finding: metadata.close_timeout, reason: on purpose}\n"
)


def test_a_run_with_an_expected_failure_is_green_and_says_so(cli: CliRunner, tmp_path: Path) -> None:
    code, output, report = _run(cli, tmp_path, EXPECTED)

    assert code == 0
    assert output.splitlines()[-1] == "0 passed, 0 failed, 1 expected failure"
    assert "expected close-never-answered: close-never-answered: metadata.close_timeout" in output
    assert report["counts"]["expected"] == 1  # type: ignore[index]
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot()[0]
    assert (suite.get("failures"), suite.get("skipped")) == ("0", "1")


def test_a_run_with_a_stale_entry_is_red_and_says_which(cli: CliRunner, tmp_path: Path) -> None:
    stale = EXPECTED + "  - {scenario: close-never-answered, finding: task-leak, reason: long ago}\n"

    code, output, report = _run(cli, tmp_path, stale)

    assert code == 1
    assert "stale: close-never-answered: task-leak (long ago)" in output
    assert len(report["complaints"]) == 1  # type: ignore[arg-type]
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")


def test_a_flake_is_refused_on_the_virtual_clock(cli: CliRunner, tmp_path: Path) -> None:
    flake = (
        "flakes:\n  - {scenario: ack/*, finding: log, reason: r, at_most: 1, of: 5, expires: 2999-01-01}\n"
    )

    code, output, _ = _run(cli, tmp_path, flake)

    assert code == 2
    assert "allowed on the real clock only" in output


def test_a_run_in_which_nothing_can_run_is_a_usage_error(cli: CliRunner) -> None:
    result = cli.invoke(app, ["run", "*/dataset-sample"])

    assert result.exit_code == 2
    assert "nothing selected that can run here" in result.output


def test_fail_fast_says_how_far_the_run_came(cli: CliRunner) -> None:
    result = cli.invoke(
        app, ["run", str(EXAMPLE), "stream/clean-residual[july]", "--jobs", "1", "--fail-fast"]
    )

    assert result.exit_code == 1
    lines = result.output.splitlines()
    assert lines[-1] in ("0 passed, 1 failed", "1 passed, 1 failed")
    ran = "stopped at the first failure (--fail-fast): 1 of 2 ran"
    assert (ran in lines) is (lines[-1] == "0 passed, 1 failed")
