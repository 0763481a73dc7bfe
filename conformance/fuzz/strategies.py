"""Whole scenarios as a Hypothesis strategy: what is drawn is an ordinary scenario, and it is always valid."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

from conformance.fuzz import faults, judging, recipes, scripts
from conformance.fuzz.dice import Dice
from scenarios.faults import FAULTS, Layer
from scenarios.loader import build_scenarios
from scenarios.model import Scenario
from scenarios.source import Source

Data = dict[str, Any]

TITLE = "A drawn scenario"
ABOUT = "Drawn by `conformance fuzz`: what must always hold must hold here."


@st.composite
def scenario_data(
    draw: Any, *, media: bool = True, judge: bool = True, seams: bool = True, settings: bool = True
) -> Data:
    """The data of a scenario file.

    Args:
        media: clips may carry pictures.
        judge: some scenarios have a judge, with faults of its own.
        seams: faults that act on a client in this process, possible only with such a client.
        settings: what only the client of this project can be told: its deadlines, its pace, when to stop; and faults
            for one of several samples, whose session nobody tells apart in time. False for a client of others.
    """
    return roll_scenario(Dice.drawn(draw), media=media, judge=judge, seams=seams, settings=settings)


def roll_scenario(
    dice: Dice, *, media: bool = True, judge: bool = True, seams: bool = True, settings: bool = True
) -> Data:
    """As `scenario_data`, from any dice."""
    judged = judge and dice.chance(18)
    count = dice.weighted(((82, 1), (12, 2), (6, 3)))
    ids = ("1",) if count == 1 and not judged else tuple("abc"[:count])
    data: Data = {"title": TITLE, "about": ABOUT, "requires": []}
    clips = [scripts.clip(dice, media=media) for _ in range(count)]
    if len(ids) == 1 and not judged:
        data["clip"] = clips[0]
    else:
        left = iter(clips)
        data["samples"] = scripts.samples(dice, count, lambda: next(left), judged=judged, media=media)
    units = [math.ceil(clip["seconds"]) for clip in clips]
    data["server"] = scripts.server(dice, min(units) if judged else max(units), judged=judged)
    of_session = dice.weighted(((14, 0), (46, 1), (26, 2), (14, 3)))
    if judged:
        # The judge is the subject then: a session that fails leaves nothing to judge.
        of_session = min(of_session, 1) if dice.chance(30) else 0
    data["client"] = scripts.client(dice, count, judged=judged) if settings else {"deadlines": {}}
    recipe = (
        None if judged or count > 1 or not dice.chance(recipes.PERCENT) else recipes.pick(dice, seams=seams)
    )
    if recipe is not None:
        drawn = recipe(dice, data)
    else:
        drawn = faults.session_faults(dice, ids, of_session, data, seams=seams)
    if judged:
        kinds = judging.kinds_of(data["samples"])
        data["judge"] = judging.judge(dice, kinds)
        drawn += judging.judge_faults(dice, dice.weighted(((4, 1), (3, 0), (2, 2))), kinds)
    if drawn:
        data["faults"] = drawn
    if recipe is None and any("swallow_cancellation" in fault for fault in drawn) and dice.chance(20):
        # Cancelled from outside while a write of its own will not end.
        data["client"]["cancel_at_s"] = dice.number(2, 40) / 2
    data["expect"] = {"finishes_within_s": scripts.EXPECTED_WITHIN_S}
    if not settings:
        _untold(data)
    return data


def _untold(data: Data) -> None:
    """Without what the job of a client of others has no word for; its deadlines are then those of evaluation.md."""
    from conformance.clients.outside import TOLD_JUDGE  # late: a campaign does without, and it leads far

    del data["client"]  # what a recipe has put there only saves time
    for name in TOLD_JUDGE:
        data.get("judge", {}).pop(name, None)
    if len(data.get("samples", ())) > 1:
        for fault in data.get("faults", ()):
            for name, given in fault.items():
                if FAULTS[name].layer is not Layer.JUDGE:
                    given.pop("sample", None)
                    given.pop("attempt", None)


def build(data: Data, scenario_id: str) -> Scenario:
    """The scenario of drawn or edited data.

    Raises ScenarioError: the data is no valid scenario; what the strategies draw always is.
    """
    (scenario,) = build_scenarios(Source(scenario_id, data), scenario_id)
    return scenario


def scenarios(
    *,
    media: bool = True,
    judge: bool = True,
    seams: bool = True,
    settings: bool = True,
    scenario_id: str = "drawn",
) -> st.SearchStrategy[Scenario]:
    """Scenarios for a plain `@given` test; Hypothesis shrinks what fails.

    Args: as for `scenario_data`; `scenario_id` names every scenario drawn.
    """
    drawn = scenario_data(media=media, judge=judge, seams=seams, settings=settings)
    return drawn.map(lambda data: build(data, scenario_id))
