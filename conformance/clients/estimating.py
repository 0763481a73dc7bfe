"""How long a run of a program takes, told before it begins: on the real clock that is minutes."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.clients.adapting import longer_by_s
from conformance.clients.making import gives_up_after_s, unplayable
from conformance.options import RunOptions
from scenarios.model import Scenario

START_S = 2.0
"""Of a program, its server and its end."""
SETTLE_S = 4.0
"""A drain's quiet, and the reply that goes on behind the clip."""


def right_client_s(scenario: Scenario) -> float:
    """Real seconds that a right client takes at most, where the scenario says so, else about so many."""
    bound_s = scenario.expect.finishes_within_s
    clips_s = sum((spec.clip.seconds or 30.0) + SETTLE_S for spec in scenario.specs)
    return START_S + (clips_s if bound_s is None else bound_s + longer_by_s(scenario))


def estimate(scenarios: Sequence[Scenario], options: RunOptions, jobs: int) -> str:
    """One line for people."""
    played = [scenario for scenario in scenarios if unplayable(scenario, options) is None]
    if not played:
        return "nothing is played: none of these scenarios can be shown by this client"
    each_s = [right_client_s(scenario) for scenario in played]
    whole_s = max(max(each_s), sum(each_s) / jobs)
    hang_s = max(gives_up_after_s(s, options, samples=len(s.specs), clips_s=_clips_s(s)) for s in played)
    return (
        f"{len(played)} scenario(s) on the real clock, {jobs} at a time: at most about {_time(whole_s)} for a right "
        f"client; one that hangs is given up after {_time(hang_s)} at most"
    )


def loose_bound(scenario: Scenario) -> str | None:
    """What is wrong with a bound that no client can break, for the harness gives up before; None: nothing."""
    bound_s = scenario.expect.finishes_within_s
    if bound_s is None:
        return None
    gives_up_s = gives_up_after_s(
        scenario, RunOptions(), samples=len(scenario.specs), clips_s=_clips_s(scenario)
    )
    if bound_s < gives_up_s:
        return None
    return (
        f"{scenario.id}: expect.finishes_within_s: {bound_s:g} can never fail; the harness gives up on a client after "
        f"{gives_up_s:g} s here (seconds are meant)"
    )


def _clips_s(scenario: Scenario) -> float:
    return sum(spec.clip.seconds or 30.0 for spec in scenario.specs)


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
