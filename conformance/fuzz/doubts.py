"""Coincidences that no timer shows: the client waits for the nearer of two moments, and only that one is set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from conformance.doubts import NEAR_S
from conformance.fuzz.attempts import Attempt
from conformance.observation import Observation

UNIT_S = 1.0


def quiet_beside_window(observation: Observation, of_samples: Iterable[list[Attempt]]) -> Iterator[str]:
    """Attempts whose quiet (evaluation.md 7) would have lasted long enough within a millisecond of the window's end.

    Or after it, had the padding gone on for one more unit: a beat fell on the moment at which a reply was done, for the
    client or, where the way to it is slow, for the server.
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
            one_more_s = UNIT_S + observation.scenario.server.decision_ms / 1000 + deadlines.settle_s
            beats = [t_s for t_s, name in attempt.sent if name == "input_audio_buffer.append"]
            by_server = _appends_beside_a_done(attempt)
            for done_s in [t_s for t_s, name in attempt.received if name == "response.done"]:
                beside = by_server or any(abs(beat_s - done_s) < NEAR_S for beat_s in beats)
                if beside and until_s - one_more_s < done_s < until_s - deadlines.settle_s:
                    yield f"{attempt.name}: one padded unit more, beside {done_s:.3f} s, outlasts the drain window"


def _appends_beside_a_done(attempt: Attempt) -> bool:
    """Whether the server read a unit in the moment in which it ended a reply: which is first, the order decides."""
    read_s = [e.t_s for e in attempt.entries if (e.kind, e.name) == ("received", "input_audio_buffer.append")]
    done_s = [e.t_s for e in attempt.entries if (e.kind, e.name) == ("sent", "response.done")]
    return any(abs(one - other) < NEAR_S for one in read_s for other in done_s)
