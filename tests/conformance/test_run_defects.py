"""Every historical defect that is put back is caught by name; what is not a catch is not counted as one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from conformance.defects.all import ALL_DEFECTS
from conformance.defects.matrix import chosen_defects
from conformance.defects.model import Defect
from conformance.defects.rewrite import Rewrite, applied
from conformance.defects.runner import catch_of, run_defects, run_reference
from conformance.options import ConfigurationError, RunOptions
from conformance.outcome import Finding, Outcome, ScenarioResult
from conformance.runner import run_scenario
from scenarios import load_catalogue

SCENARIOS = {s.id: s for s in load_catalogue()}


@pytest.mark.parametrize("defect", ALL_DEFECTS, ids=lambda d: d.name)
def test_a_defect_is_caught_by_name(defect: Defect) -> None:
    with applied(defect.rewrites):
        catches = [catch_of(defect, run_scenario(SCENARIOS[i], RunOptions())) for i in defect.first]

    assert any(catches)


def test_names_are_those_of_the_defects_document() -> None:
    names = [d.name for d in ALL_DEFECTS]

    assert len(set(names)) == len(names)
    for name in names:
        assert chosen_defects([name])[0].name == name


def test_an_unknown_defect_is_refused_with_the_known_names() -> None:
    with pytest.raises(ConfigurationError, match="no defect 'ack-bounded'; known: ack-"):
        chosen_defects(["ack-bounded"])


def test_a_defect_without_a_number_is_caught_by_its_finding_alone() -> None:
    defect = Defect("d", "", (), breaks=(), findings=("a",), rule="evaluation.md 17")

    assert catch_of(defect, _result(Outcome.FAIL, Finding("a", (), "", ""))) is not None
    assert catch_of(defect, _result(Outcome.FAIL, Finding("c", (), "", ""))) is None


DEFECT = Defect("d", "", (), breaks=("R5",), findings=("a", "b"))


def _result(outcome: Outcome, *findings: Finding) -> ScenarioResult:
    return ScenarioResult(id="x/y", title="t", requires=(), outcome=outcome, findings=findings)


@pytest.mark.parametrize(
    ("result", "caught"),
    [
        (_result(Outcome.FAIL, Finding("a", ("R5", "R6"), "", "")), True),
        (_result(Outcome.FAIL, Finding("c", ("R5",), "", ""), Finding("b", ("R5",), "", "")), True),
        (_result(Outcome.FAIL, Finding("c", ("R5",), "", "")), False),
        (_result(Outcome.FAIL, Finding("a", ("R6",), "", "")), False),
        (_result(Outcome.INERT, Finding("a", ("R5",), "", "")), False),
        (_result(Outcome.HARNESS_ERROR, Finding("a", ("R5",), "", "")), False),
        (_result(Outcome.PASS), False),
    ],
    ids=["named", "second finding", "other finding", "other requirement", "inert", "harness error", "pass"],
)
def test_only_a_failure_through_a_named_finding_and_requirement_is_a_catch(
    result: ScenarioResult, caught: bool
) -> None:
    assert (catch_of(DEFECT, result) is not None) is caught


def test_a_scenario_that_the_reference_client_fails_catches_nothing() -> None:
    scenario = SCENARIOS["stream/clean-residual[july]"]
    options = RunOptions()
    wrong = scenario.model_copy(update={"expect": scenario.expect.model_copy(update={"close": "forced"})})
    reference = run_reference([wrong], options, 1)
    defect = Defect("close", "", (), breaks=("R51",), findings=("sample.close",))

    (result,) = run_defects([defect], [wrong], reference, options, processes=1)

    assert not result.caught


@pytest.mark.parametrize(
    ("breaks", "findings", "lacks"),
    [
        (("R2",), ("metadata.ack_timeout",), "but names none of R2: list it under `requires`"),
        (("R3",), ("sample.close",), "but by none of the findings it is known by: sample.close"),
    ],
)
def test_a_failure_that_is_no_catch_says_what_it_lacks(
    breaks: tuple[str, ...], findings: tuple[str, ...], lacks: str
) -> None:
    scenario = SCENARIOS["commit/stall-at-commit"].model_copy(update={"requires": ["R3"]})
    blank = next(d for d in ALL_DEFECTS if d.name == "ack-timeout-blank")
    defect = replace(blank, breaks=breaks, findings=findings)
    reference = run_reference([scenario], RunOptions(), 1)

    (result,) = run_defects([defect], [scenario], reference, RunOptions(), processes=1)

    assert not result.caught
    assert result.missed_reason == f"commit/stall-at-commit: fail (metadata.ack_timeout), {lacks}"


def test_a_defect_that_no_longer_fits_is_told_and_is_not_caught() -> None:
    scenario = SCENARIOS["stream/clean-residual[july]"]
    options = RunOptions()
    reference = run_reference([scenario], options, 1)
    defect = Defect(
        "gone", "", (Rewrite("client.acks:keep_acking", "no_such_name", "1"),), ("R1",), ("sample.close",)
    )

    (result,) = run_defects([defect], [scenario], reference, options, processes=1)

    assert not result.caught
    assert "occurs 0 time(s), expected 1" in result.missed_reason
