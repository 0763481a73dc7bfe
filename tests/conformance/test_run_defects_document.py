"""docs/defects-caught.md tells what a run of the matrix tells, for the scenarios most likely to catch each defect."""

from __future__ import annotations

import re

import pytest
import yaml

from conformance.defects.all import ALL_DEFECTS, OWN_NAMES
from conformance.defects.changes import Reference
from conformance.defects.document import (
    DOCUMENT,
    LISTED,
    REMEDY,
    broken_by,
    caught_through,
    listed_with_column,
    main,
    red_of,
    render,
    requirements_of,
    row,
    rows_of,
)
from conformance.defects.model import Catch, Defect, DefectResult
from conformance.defects.red import INVARIANT_FINDINGS, best_catches, red_rows
from conformance.defects.rewrite import applied
from conformance.defects.runner import catch_of, run_defects, run_reference
from conformance.defects.unproven import NEVER_RED
from conformance.options import RunOptions
from conformance.runner import run_scenario
from conformance.session import choose
from scenarios import load_catalogue

TEXT = DOCUMENT.read_text("utf-8")
ROWS = rows_of(TEXT)
SCENARIOS = {scenario.id: scenario for scenario in load_catalogue()}


def test_every_defect_has_its_row_in_order() -> None:
    assert list(ROWS) == [defect.name for defect in ALL_DEFECTS], f"run: {REMEDY} NAME..."
    for defect in ALL_DEFECTS:
        assert f"| {defect.about} | {broken_by(defect)} |" in ROWS[defect.name], (
            f"run: {REMEDY} {defect.name}"
        )
        assert ("(own)" in ROWS[defect.name]) is (defect.name in OWN_NAMES)
        assert "not caught" not in ROWS[defect.name]


def test_every_scenario_that_is_named_exists() -> None:
    files = {scenario_id.split("[")[0] for scenario_id in SCENARIOS}

    assert set(re.findall(r"`([a-z]+/[a-z0-9-]+)(?:\[[^]`]*\])?`", TEXT)) <= files, f"run: {REMEDY}"
    assert set(re.findall(r"`([a-z]+/[^`]*\])`", TEXT)) <= set(SCENARIOS), f"run: {REMEDY}"


def test_the_listed_defects_carry_the_same_column() -> None:
    listed = LISTED.read_text("utf-8")

    assert listed == listed_with_column(listed, ROWS), f"run: {REMEDY} NAME..."
    assert "| caught by |" in listed


@pytest.mark.parametrize("defect", ALL_DEFECTS, ids=lambda d: d.name)
def test_the_first_catch_is_the_one_a_run_finds(defect: Defect) -> None:
    first = sorted(defect.first)
    with applied(defect.rewrites):
        catches = [catch_of(defect, run_scenario(SCENARIOS[name], RunOptions())) for name in first]
    catch = next(catch for catch in catches if catch is not None)

    expected = f"| `{catch.scenario}` | {caught_through(catch)} |"
    assert expected in ROWS[defect.name], f"run: {REMEDY} {defect.name}"


def test_every_must_of_a_session_was_seen_to_fail() -> None:
    requirements = yaml.safe_load((DOCUMENT.parent / "requirements.yaml").read_text("utf-8"))["requirements"]
    musts = {r["id"] for r in requirements if r["status"] in ("must", "decided") and int(r["id"][1:]) <= 51}

    assert musts - set(requirements_of(TEXT)) == set()


def test_a_defect_that_nothing_catches_is_told_as_such() -> None:
    defect = ALL_DEFECTS[0]
    missed = DefectResult(defect.name, defect.breaks, (), "every scenario passed")
    caught = [
        DefectResult(d.name, d.breaks, (Catch("a/b", "log", d.breaks, d.breaks),)) for d in ALL_DEFECTS[1:]
    ]

    assert "**not caught**" in row(defect, missed)
    assert f"{len(caught)} of {len(ALL_DEFECTS)} defects are caught" in render([missed, *caught], "")


def test_a_run_of_some_defects_leaves_the_rows_of_the_others() -> None:
    defect = ALL_DEFECTS[0]
    catch = Catch("a/b", "log", defect.breaks, defect.breaks)
    text = render([DefectResult(defect.name, defect.breaks, (catch,))], red_of(TEXT), TEXT)

    assert rows_of(text) == {
        **ROWS,
        defect.name: row(defect, DefectResult(defect.name, defect.breaks, (catch,))),
    }
    assert requirements_of(text)[defect.breaks[0]][defect.name] == "a/b"
    assert red_of(text) == red_of(TEXT)
    unchanged = requirements_of(TEXT)["R3"].items() - {defect.name: ""}.items()
    assert unchanged <= requirements_of(text)["R3"].items()


# What turns each scenario red -----------------------------------------------------------------------------


def _told_red() -> set[str]:
    return set(re.findall(r"^\| `([a-z]+/[a-z0-9-]+)` \| ", red_of(TEXT), flags=re.M))


def test_every_scenario_can_be_turned_red_or_has_a_reason() -> None:
    assert "**nothing**" not in red_of(TEXT)
    assert all(NEVER_RED.values())
    told = _told_red() | set(NEVER_RED)
    runnable, _ = choose([], [], RunOptions())
    fresh = [s for s in runnable if s.probe is None and s.id.split("[")[0] not in told]
    for scenario in fresh:  # newer than the document: tried here, until the matrix is run again
        assert _some_defect_turns_red(scenario.id), (
            f"no defect turns {scenario.id} red: add one to conformance/defects, sharpen its expectation, or give the "
            f"reason in conformance/defects/unproven.py; then run: {REMEDY}"
        )


def _some_defect_turns_red(scenario_id: str) -> bool:
    scenario = SCENARIOS[scenario_id]
    reference = run_reference([scenario], RunOptions(), 1, ALL_DEFECTS)
    assert isinstance(reference, Reference)
    likely = sorted(
        ALL_DEFECTS,
        key=lambda d: d.name not in ("pad-as-speech", "partial-run-completed", "scores-cut-to-whole"),
    )
    ran = run_defects(likely, [scenario], reference, RunOptions(), processes=1, stop_at_first=True)
    return any(result.caught for result in ran)


@pytest.mark.slow
def test_what_is_told_to_turn_a_scenario_red_does() -> None:
    """One case of every fourth file: the whole is what the matrix is run for."""
    by_name = {defect.name: defect for defect in ALL_DEFECTS}
    pattern = r"^\| `([a-z]+/[a-z0-9-]+)` \| `([a-z-]+)` by `([^`]+)`(?: \(invariant\))?(?: in ([^,;|]+))?"
    found = re.findall(pattern, red_of(TEXT), flags=re.M)[::4]

    assert len(found) > 20
    for file, name, finding, case in found:
        scenario_id = (
            f"{file}[{case.strip()}]" if case else next(i for i in SCENARIOS if i.split("[")[0] == file)
        )
        with applied(by_name[name].rewrites):
            result = run_scenario(SCENARIOS[scenario_id], RunOptions())
        assert catch_of(by_name[name], result) is not None, f"{scenario_id} with {name}; run: {REMEDY}"
        assert finding in {f.id for f in result.findings}


def _caught(name: str, *catches: Catch) -> DefectResult:
    return DefectResult(name, ("R1",), catches)


def test_an_own_expectation_goes_before_an_invariant_and_a_rare_defect_before_a_broad_one() -> None:
    invariant = sorted(INVARIANT_FINDINGS)[0]
    by_invariant = Catch("close/no-transport", invariant, ("R1",), all_findings=(invariant,))
    by_itself = Catch("close/no-transport", "log", ("R1",), all_findings=("log",))
    elsewhere = Catch("close/no-socket", "log", ("R1",), all_findings=("log",))
    rare = _caught("rare", by_itself)
    broad = _caught("broad", by_itself, elsewhere)

    assert best_catches([_caught("a", by_invariant), broad])["close/no-transport"][0] == "broad"
    assert best_catches([broad, rare])["close/no-transport"][0] == "rare"
    rows = dict(red_rows([SCENARIOS["close/no-transport"], SCENARIOS["close/no-socket"]], [broad]))
    assert rows["`close/no-socket`"] == "`broad` by `log`"
    nothing = dict(red_rows([SCENARIOS["close/no-transport"]], []))
    assert nothing["`close/no-transport`"] == "**nothing**"
    assert nothing["`stream/dataset-sample`"] == NEVER_RED["stream/dataset-sample"]


def test_a_name_that_no_defect_has_is_told_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    before = DOCUMENT.read_text("utf-8")

    assert main(["nope"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("conformance.defects.document: no defect 'nope'; known: ")
    assert told.count("\n") == 1
    assert DOCUMENT.read_text("utf-8") == before
