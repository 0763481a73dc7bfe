"""Coverage is what was seen to fail: a claim without a caught defect is unproven, and neither is a hole."""

from __future__ import annotations

import pytest

from conformance.coverage import Covered, lines, measure
from conformance.defects.all import ALL_DEFECTS
from conformance.options import RunOptions
from scenarios import load_catalogue

SCENARIOS = {s.id: s for s in load_catalogue()}
BLANK = next(d for d in ALL_DEFECTS if d.name == "ack-timeout-blank")


@pytest.mark.parametrize(
    ("status", "claimed", "shown", "state"),
    [
        ("must", ["a/b"], ["d in a/b"], "covered"),
        ("decided", ["a/b"], ["d in a/b"], "covered"),
        ("must", ["a/b"], [], "unproven"),
        ("must", [], [], "hole"),
        ("process", [], [], "process"),
        ("open", ["a/b"], [], "open"),
    ],
)
def test_a_requirement_is_covered_only_when_it_was_seen_to_fail(
    status: str, claimed: list[str], shown: list[str], state: str
) -> None:
    assert Covered("R1", status, "text", claimed, shown).state == state


def test_a_caught_defect_covers_what_it_breaks_and_the_scenario_claims() -> None:
    scenario = SCENARIOS["commit/stall-at-commit"]
    told: list[str] = []
    rows = {row.id: row for row in measure([scenario], [BLANK], RunOptions(), 1, told.append)}

    assert told[0] == "playing 1 scenario(s) with the reference client, then with 1 defect(s)"
    assert told[1] == "[1/1] ack-timeout-blank: 1 catch(es)"
    assert rows["R3"].shown == ["ack-timeout-blank in commit/stall-at-commit"]
    assert rows["R13"].state == "unproven"
    assert rows["R52"].state == "hole"
    assert list(rows) == [f"R{number}" for number in range(1, 64)]


def test_a_defect_that_is_not_caught_covers_nothing() -> None:
    scenario = SCENARIOS["stream/clean-residual[july]"]
    claiming = scenario.model_copy(update={"requires": ["R3"]})
    rows = {row.id: row for row in measure([claiming], [BLANK], RunOptions(), 1)}

    assert rows["R3"].state == "unproven"
    assert any(line.startswith("R3   unproven") for line in lines(rows.values()))
