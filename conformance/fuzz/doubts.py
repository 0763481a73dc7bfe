"""Coincidences that no timer shows: the client waits for the nearer of two moments, and only that one is set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from conformance.doubts import NEAR_S
from conformance.fuzz.attempts import Attempt
from conformance.observation import Observation

_MAY_END_PADDING = ("response.done", "response.listen")


def drain_coincidences(observation: Observation, of_samples: Iterable[list[Attempt]]) -> Iterator[str]:
    """Attempts whose quiet (evaluation.md 7) would have lasted long enough within a millisecond of the window's end.

    Or whose padding has a beat in the moment at which a reply was done or a unit was decided: whether one more goes
    out, and so what it brings and whether that outlasts the window, the order decides.
    """
    lengths_s = {f"{p.split}/{p.id}": p.video_duration_s for p in observation.prepared}
    deadlines = observation.deadlines
    for attempts in of_samples:
        for attempt in attempts:
            drains_s = attempt.phase_s("draining")
            if drains_s is None:
                continue
            until_s = drains_s + lengths_s[attempt.facts.name] + deadlines.drain_slack_s
            if any(abs(t_s + deadlines.settle_s - until_s) < NEAR_S for t_s, _ in attempt.received):
                yield f"{attempt.name}: the quiet and the drain window end together at {until_s:.3f} s"
            beats = [
                t_s for t_s, name in attempt.sent if name == "input_audio_buffer.append" and t_s >= drains_s
            ]
            for at_s in [
                t_s for t_s, name in attempt.received if name in ("response.done", "response.listen")
            ]:
                if any(abs(beat_s - at_s) < NEAR_S for beat_s in beats):
                    yield f"{attempt.name}: a beat of padding beside what may end it at {at_s:.3f} s"
