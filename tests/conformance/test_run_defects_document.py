"""docs/defects-caught.md tells what a run of the matrix tells, for the scenarios most likely to catch each defect."""

from __future__ import annotations

import re

import pytest
import yaml

from conformance.defects.all import ALL_DEFECTS, OWN_NAMES
from conformance.defects.document import DOCUMENT, caught_through, render, row
from conformance.defects.model import Catch, Defect, DefectResult
from conformance.defects.rewrite import applied
from conformance.defects.runner import catch_of
from conformance.options import RunOptions
from conformance.runner import run_scenario
from scenarios import load_catalogue

TEXT = DOCUMENT.read_text("utf-8")
ROWS = {match[1]: match[0] for match in re.finditer(r"^\| `([a-z-]+)`.*$", TEXT, flags=re.M)}
SCENARIOS = {scenario.id: scenario for scenario in load_catalogue()}


def test_every_defect_has_its_row_in_order() -> None:
    assert list(ROWS) == [defect.name for defect in ALL_DEFECTS]
    for defect in ALL_DEFECTS:
        assert f"| {defect.about} | {', '.join(defect.breaks)} |" in ROWS[defect.name]
        assert ("(own)" in ROWS[defect.name]) is (defect.name in OWN_NAMES)
        assert "not caught" not in ROWS[defect.name]


def test_every_scenario_that_is_named_exists() -> None:
    files = {scenario_id.split("[")[0] for scenario_id in SCENARIOS}

    assert set(re.findall(r"`([a-z]+/[a-z0-9-]+)(?:\[[^]`]*\])?`", TEXT)) <= files
    assert set(re.findall(r"`([a-z]+/[^`]*\])`", TEXT)) <= set(SCENARIOS)


@pytest.mark.parametrize("defect", ALL_DEFECTS, ids=lambda d: d.name)
def test_the_first_catch_is_the_one_a_run_finds(defect: Defect) -> None:
    first = sorted(defect.first)
    with applied(defect.rewrites):
        catches = [catch_of(defect, run_scenario(SCENARIOS[name], RunOptions())) for name in first]
    catch = next(catch for catch in catches if catch is not None)

    assert f"| `{catch.scenario}` | {caught_through(catch)} |" in ROWS[defect.name]


def test_every_must_of_a_session_was_seen_to_fail() -> None:
    requirements = yaml.safe_load((DOCUMENT.parent / "requirements.yaml").read_text("utf-8"))["requirements"]
    musts = {r["id"] for r in requirements if r["status"] in ("must", "decided") and int(r["id"][1:]) <= 51}
    shown = set(re.findall(r"^\| (R\d+) \| `", TEXT, flags=re.M))

    assert musts - shown == set()


def test_a_defect_that_nothing_catches_is_told_as_such() -> None:
    defect = ALL_DEFECTS[0]
    missed = DefectResult(defect.name, defect.breaks, (), "every scenario passed")
    caught = [
        DefectResult(d.name, d.breaks, (Catch("a/b", "log", d.breaks, d.breaks),)) for d in ALL_DEFECTS[1:]
    ]

    assert "**not caught**" in row(defect, missed)
    assert f"{len(caught)} of {len(ALL_DEFECTS)} defects are caught" in render([missed, *caught])
