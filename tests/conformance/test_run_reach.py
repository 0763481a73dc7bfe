"""A defect is run only where it can make a difference, and that is sound: elsewhere the client does the very same."""

from __future__ import annotations

from pathlib import Path

import pytest

from client import acks, retry
from conformance.clients import builtin
from conformance.defects.all import ALL_DEFECTS
from conformance.defects.changes import Reference, run_watched
from conformance.defects.model import Defect
from conformance.defects.reach import fits, watched
from conformance.defects.rewrite import Rewrite, applied
from conformance.defects.runner import run_defects, run_reference, subjects_of
from conformance.options import RunOptions
from conformance.runner import perform
from conformance.trace import comparable
from scenarios import load_catalogue

SCENARIOS = {s.id: s for s in load_catalogue()}
DEFECTS = {d.name: d for d in ALL_DEFECTS}
WATCHED = (
    "stream/clean-residual[july]",
    "close/no-transport",
    "judge/prose-once[temporal]",
    "retry/row-12[once]",
)


@pytest.fixture(scope="module")
def reference() -> Reference:
    return run_reference([SCENARIOS[name] for name in WATCHED], RunOptions(), 1, ALL_DEFECTS)


@pytest.mark.parametrize(
    ("defect", "reached"),
    [
        ("pad-as-speech", {"stream/clean-residual[july]", "close/no-transport", "retry/row-12[once]"}),
        ("transport-missing-silent", {"close/no-transport"}),
        ("judge-reask-forgets", {"judge/prose-once[temporal]"}),
        ("request-timeout-not-retried", {"retry/row-12[once]"}),
    ],
)
def test_a_scenario_concerns_the_defects_whose_place_it_comes_to(
    reference: Reference, defect: str, reached: set[str]
) -> None:
    concerned = {s.id for s in reference.concerned(defect, [SCENARIOS[name] for name in WATCHED])}

    assert reached <= concerned
    assert concerned - reached <= {"judge/prose-once[temporal]"}  # a session precedes a judgement


def _trace(scenario_id: str, folder: Path) -> list[str]:
    scenario = SCENARIOS[scenario_id]
    observation = perform(scenario, RunOptions(), folder, builtin.prepare(scenario, RunOptions()))
    assert observation.recorder is not None
    return comparable(observation.recorder.ordered())


def test_where_a_defect_is_not_reached_the_client_does_the_very_same(
    reference: Reference, tmp_path: Path
) -> None:
    scenario_id = "stream/clean-residual[july]"
    missed = [d for d in ALL_DEFECTS if d.name not in reference.reached[scenario_id]]
    plain = _trace(scenario_id, tmp_path / "plain")

    assert len(missed) > 15
    for defect in missed:
        with applied(defect.rewrites):
            assert _trace(scenario_id, tmp_path / defect.name) == plain, defect.name


def test_watching_leaves_the_client_as_it_was() -> None:
    codes = (retry.decide_error.__code__, acks.ack_timeout_text.__code__)
    with watched({d.name: d.rewrites for d in ALL_DEFECTS}) as reached:
        assert retry.decide_error.__code__ is not codes[0]
        acks.ack_timeout_text(TimeoutError())
        retry.decide_error(TimeoutError(), elapsed_s=1.0, request_s=2.0)

    assert "ack-timeout-blank" in reached
    assert "inner-timeout-mislabelled" in reached
    assert (retry.decide_error.__code__, acks.ack_timeout_text.__code__) == codes


def test_a_change_that_fits_nowhere_concerns_every_scenario() -> None:
    gone = Rewrite("client.acks:no_such_function", "pass", "pass")
    scenario = SCENARIOS[WATCHED[0]]
    reference = run_watched([scenario], RunOptions(), 1, {"gone": (gone,)})
    defect = Defect("gone", "", (gone,), breaks=("R1",), findings=("log",))
    (result,) = run_defects([defect], [scenario], reference, RunOptions(), processes=1)

    assert not fits([gone])
    assert result.missed_reason == "client.acks:no_such_function: no function of that name"


def test_a_probe_catches_no_defect() -> None:
    probe = SCENARIOS["probes/handshake"]
    reference = run_reference([probe], RunOptions(), 1)

    assert reference.results[probe.id].outcome == "pass"
    assert reference.concerned("anything", [probe]) == []


def test_a_whole_run_is_played_for_the_defects_that_name_it_alone() -> None:
    large, small = SCENARIOS["run/sixty-six"], SCENARIOS["drain/frozen-once"]

    assert subjects_of(DEFECTS["nothing-retried"], [large, small]) == [large, small]
    assert subjects_of(DEFECTS["pad-as-speech"], [large, small]) == [small]
    assert subjects_of(DEFECTS["pad-as-speech"], [large]) == [large]
