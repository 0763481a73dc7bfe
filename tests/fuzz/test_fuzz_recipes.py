"""Compositions drawn on purpose: each is valid, its faults bite, and it shows the defect it was made for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conformance.defects.all import ALL_DEFECTS
from conformance.defects.rewrite import applied
from conformance.defects.runner import catch_of
from conformance.fuzz import recipes
from conformance.fuzz.dice import Dice
from conformance.fuzz.drawing import Kinds, draw
from conformance.fuzz.play import play
from conformance.fuzz.recipes import Recipe
from conformance.fuzz.stage import begun, stage_of, suit, units_of
from conformance.fuzz.states import SERVER_STATES, UNREACHABLE
from conformance.fuzz.strategies import build
from conformance.fuzz.telling import state_lines
from conformance.options import RunOptions
from conformance.outcome import Outcome
from scenarios.model import Scenario

DEFECTS = {defect.name: defect for defect in ALL_DEFECTS}


def first() -> Dice:
    """Dice that always fall on their first side."""
    return Dice(lambda least, most: least)


def last() -> Dice:
    """Dice that always fall on their last side."""
    return Dice(lambda least, most: most)


def middle() -> Dice:
    """Dice that fall between: what has an even chance or less does not happen."""
    return Dice(lambda least, most: (least + most) // 2)


def plain() -> dict[str, Any]:
    return {
        "title": "t",
        "about": "a",
        "requires": [],
        "clip": {"seconds": 3.4},
        "server": {"profile": "july", "reply": []},
        "client": {"deadlines": {"request_s": 120.0}},
        "expect": {"finishes_within_s": 86400.0},
    }


def drawn(recipe: Recipe, dice: Dice) -> Scenario:
    data = plain()
    data["faults"] = recipe(dice, data)
    return build(data, "recipe")


@pytest.mark.parametrize(
    ("recipe", "dice", "defect"),
    [
        (recipes.all_of_the_close, first(), "close-deadline-equal"),
        (recipes.quoted_timeout, first(), "timeout-text-substring"),
        (recipes.quoted_timeout, last(), "timeout-text-substring"),
        (recipes.cancelled_in_a_join, last(), "outer-cancel-swallowed"),
        (recipes.cancelled_in_a_join, last(), "goodbye-after-cancel"),
        (recipes.reset_under_the_teardown, first(), "pad-dies-on-closed-socket"),
        (recipes.acks_stall, first(), "ack-timeout-fails-sample"),
        (recipes.acks_stall, last(), "ack-timeout-blocks-retry"),
    ],
)
def test_a_recipe_shows_the_defect_it_was_made_for(
    recipe: Recipe, dice: Dice, defect: str, tmp_path: Path
) -> None:
    scenario = drawn(recipe, dice)

    right = play(scenario, RunOptions(seed=1), tmp_path).result
    with applied(DEFECTS[defect].rewrites):
        wrong = play(scenario, RunOptions(seed=1), tmp_path).result

    assert right.findings == ()
    assert catch_of(DEFECTS[defect], wrong) is not None


@pytest.mark.parametrize("recipe", [recipe for _, recipe in (*recipes.WITH_SEAMS, *recipes.ON_THE_WIRE)])
@pytest.mark.parametrize("dice", [first(), last()], ids=["first", "last"])
def test_every_recipe_gives_a_valid_scenario(recipe: Recipe, dice: Dice) -> None:
    assert drawn(recipe, dice).faults


@pytest.mark.parametrize("recipe", [recipes.keep_alive, recipes.refused, recipes.silent_tail])
def test_what_seldom_bites_alone_bites_in_its_recipe(recipe: Recipe, tmp_path: Path) -> None:
    result = play(drawn(recipe, first()), RunOptions(seed=1), tmp_path).result

    assert result.outcome is Outcome.PASS
    assert {report.state for report in result.faults} == {"observed"}


def test_a_second_attempt_meets_its_own_fault(tmp_path: Path) -> None:
    scenario = drawn(recipes.second_attempt, middle())
    first, second = play(scenario, RunOptions(seed=1), tmp_path).result.faults

    assert [fault.attempt for fault in scenario.faults] == [1, 2]
    assert (first.state, second.state) == ("observed", "observed")
    assert (first.connection, second.connection) == (1, 2)


def test_a_reader_that_nothing_can_abort_takes_its_whole_grace(tmp_path: Path) -> None:
    played = play(drawn(recipes.lost_reader, first()), RunOptions(seed=1), tmp_path)

    assert "teardown cut short: reader" in played.states
    assert played.findings == ()


def test_triggers_name_events_that_come() -> None:
    data = plain()
    stage = stage_of(data)
    names = [stage.event(dice, ((1, "response.done"), (1, "session.created"))) for dice in (first(), last())]

    assert names == [("session.created", 1)] * 2
    assert not stage.has("response.created", "playback.ack")
    assert stage.counts["input_audio_buffer.append"] == 4


def test_the_script_is_made_to_hold_what_a_fault_acts_on() -> None:
    data = plain()
    suit(last(), data, ["freeze_tail"])
    (reply,) = begun(data["server"]["reply"], units_of(data))

    assert reply["starts_at_unit"] + reply["units"] > units_of(data)
    assert stage_of(data).has("response.done", "audio.delta", "transcript.delta")


def test_most_drawn_faults_find_their_events() -> None:
    """Of the cases of a seed: a trigger on an event of a reply that no script has is the exception."""
    triggers, astray = 0, 0
    for number in range(150):
        data = draw(Kinds(judge=False), 5, number)
        counts = stage_of(data).counts
        for fault in data.get("faults", ()):
            on = next(iter(fault.values())).get("on", {})
            name = on.get("received") or on.get("sent")
            if name is not None:
                triggers += 1
                astray += on.get("nth", 1) > counts.get(name, 0)

    assert triggers > 60
    assert 0 < astray < triggers / 8


def test_a_state_that_no_case_can_reach_is_told_with_its_reason() -> None:
    lines = state_lines({"fault stop_reading": 1}, Kinds(), every=False)
    never = next(line for line in lines if line.startswith("never reached: "))
    cannot = [line for line in lines if line.startswith("cannot be reached: ")]

    assert "fault reset_peer" in never
    assert not [state for state in UNREACHABLE if state in never]
    assert cannot == [f"cannot be reached: {state}: {why}" for state, why in UNREACHABLE.items()]
    assert state_lines(dict.fromkeys(SERVER_STATES, 1), Kinds(server=True), every=False) == [
        "never reached: nothing"
    ]


def test_a_campaign_is_not_told_of_states_that_its_kind_cannot_reach() -> None:
    (unjudged, _) = state_lines({}, Kinds(judge=False), every=False)
    (of_server,) = state_lines({}, Kinds(server=True), every=False)

    assert "row 1 (clean)" in unjudged
    assert "judge" not in unjudged
    assert "fault http_status" not in unjudged
    assert of_server == "never reached: " + "; ".join(SERVER_STATES)
