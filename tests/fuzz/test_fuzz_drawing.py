"""What is drawn: always valid, always the same for a seed and a number, and of every kind."""

from __future__ import annotations

import hashlib
import json
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings

from conformance.fuzz.dice import Dice
from conformance.fuzz.drawing import Kinds, draw
from conformance.fuzz.faults import FORMS
from conformance.fuzz.judging import NAMES
from conformance.fuzz.strategies import build, scenarios
from scenarios.faults import FAULTS
from scenarios.model import Scenario

APART = {"full_disk", "kill_client"}
"""A client on a full disk loses artifacts by right; the catalogue says which, a drawn scenario cannot. One that is
killed is a process of its own."""


def test_every_drawn_case_is_a_valid_scenario_and_the_same_again() -> None:
    drawn = [draw(Kinds(), 5, number) for number in range(300)]
    again = [draw(Kinds(), 5, number) for number in reversed(range(300))][::-1]

    assert [build(data, f"fuzz/{n}").id for n, data in enumerate(drawn)] == [f"fuzz/{n}" for n in range(300)]
    assert drawn == again
    assert draw(Kinds(), 6, 0) != drawn[0]


@pytest.mark.parametrize(
    ("kinds", "digest"),
    [
        (Kinds(), "e1a4082953b263cb"),
        (Kinds(media=False, judge=False, seams=False), "668e980845c9c557"),
        (Kinds(server=True), "06a6b6bb67362bf4"),
    ],
    ids=["clients", "any client", "server"],
)
def test_a_seed_draws_what_it_has_drawn_before(kinds: Kinds, digest: str) -> None:
    """A seed that somebody wrote down means the same cases; where it cannot, the changelog says so."""
    drawn = [draw(kinds, 1, number) for number in range(2000)]

    assert hashlib.sha256(json.dumps(drawn).encode()).hexdigest()[:16] == digest


def test_nothing_to_choose_from_is_told_and_not_rolled_for_ever() -> None:
    with pytest.raises(AssertionError, match="nothing to roll from 0 to -1"):
        Dice.seeded("x").pick([])


def test_every_fault_is_drawn_with_what_it_can_vary() -> None:
    assert {*FORMS, *NAMES} == set(FAULTS) - APART

    names: Counter[str] = Counter()
    shapes: Counter[str] = Counter()
    for number in range(1500):
        data = draw(Kinds(), 1, number)
        faults = data.get("faults", [])
        names.update(name for fault in faults for name in fault)
        shapes[f"{len(faults)} faults"] += 1
        shapes[f"{len(data['server']['reply'])} replies"] += 1
        shapes["several samples"] += len(data.get("samples", ())) > 1
        shapes["a judge"] += "judge" in data
    assert set(FORMS) | set(NAMES) == set(names)
    for shape in (
        "0 faults",
        "1 faults",
        "2 faults",
        "3 faults",
        "0 replies",
        "5 replies",
        "several samples",
        "a judge",
    ):
        assert shapes[shape] >= 20, shape


def test_a_campaign_without_seams_draws_only_what_any_client_can_meet() -> None:
    kinds = Kinds(seams=False, judge=False, media=False)

    for number in range(200):
        scenario = build(draw(kinds, 2, number), "drawn")
        assert not [fault for fault in scenario.faults if fault.layer in ("client seam", "judge")]
        assert scenario.judge is None
        assert not any(spec.clip.frames for spec in scenario.specs)


@settings(
    max_examples=30, database=None, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(scenarios())
def test_the_strategy_gives_scenarios(scenario: Scenario) -> None:
    assert scenario.id == "drawn"
    assert scenario.specs
