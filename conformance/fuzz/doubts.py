"""Coincidences that no timer shows: the client waits for the nearer of two moments, and only that one is set."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.doubts import NEAR_S
from conformance.fuzz.attempts import attempts_of
from conformance.observation import Observation


def quiet_beside_window(observation: Observation) -> Iterator[str]:
    """Attempts whose quiet (evaluation.md 7) would have lasted long enough within a millisecond of the window's end."""
    lengths_s = {f"{p.split}/{p.id}": p.video_duration_s for p in observation.prepared}
    deadlines = observation.deadlines
    for attempts in attempts_of(observation):
        for attempt in attempts:
            drains_s = attempt.phase_s("draining")
            if drains_s is None:
                continue
            until_s = drains_s + lengths_s[attempt.facts.name] + deadlines.drain_slack_s
            if any(abs(t_s + deadlines.settle_s - until_s) < NEAR_S for t_s, _ in attempt.received):
                yield f"{attempt.name}: the quiet and the drain window end together at {until_s:.3f} s"
