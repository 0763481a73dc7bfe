"""Coincidences beside those of `conformance.doubts`: two causes that end a wait, or an attempt, in one instant."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.doubts import NEAR_S
from conformance.fuzz.attempts import Attempt, fault_times, may_end_by_itself, start_s_of, timeout_in_doubt
from conformance.observation import Observation
from mockserver.profiles import logical
from mockserver.steploop import PERIOD_S

_MAY_END_PADDING = ("response.done", "response.listen")
_INPUT = ("input_audio_buffer.append", "input_audio_buffer.commit")
"""What changes a server's next step; acks do not, and come too often to be looked at."""
_REPLY_GOES_ON = ("transcript.delta", "audio.delta")
_UNDER_WAY_S = 0.5e-3
"""What was sent this shortly before a reset may be lost with it; a scripted one leaves what it follows 1 ms."""


def more_coincidences(observation: Observation, of_samples: list[list[Attempt]]) -> Iterator[str]:
    """Those that `conformance.doubts` does not know, in words."""
    yield from drain_coincidences(observation, of_samples)
    for attempts in of_samples:
        for attempt in attempts:
            yield from _two_ends(observation, attempt)
            yield from _lost_under_way(observation, attempt)


def _two_ends(observation: Observation, attempt: Attempt) -> Iterator[str]:
    """An attempt that ends by itself, or a wait that is answered, in the instant in which it is cut short."""
    if attempt.ended_s is None:
        return
    if timeout_in_doubt(observation, attempt):
        yield f"{attempt.name}: it ends by itself in the instant of its per-request timeout"
    cancel_s = observation.scenario.client.cancel_at_s
    if cancel_s is not None and may_end_by_itself(observation, attempt, cancel_s):
        yield f"{attempt.name}: it ends by itself in the instant in which it is cancelled"
    for late_s, what, _ in attempt.missed:
        for began_s, until_s, by_clock in fault_times(observation, attempt):
            # What a client does when its wait has run out may begin a fault: that is no coincidence.
            if (
                by_clock and abs(began_s - late_s) < NEAR_S
            ) or began_s < late_s - NEAR_S < until_s < late_s + NEAR_S:
                yield f"{attempt.name}: {what} runs out beside a fault at {late_s:.3f} s"


def _lost_under_way(observation: Observation, attempt: Attempt) -> Iterator[str]:
    """A reset takes with it what the server has not written yet, or the client not read."""
    acts = [e for e in attempt.entries if e.kind == "fault" and e.data.get("state") == "observed"]
    # A connection that was closed first is told as closed: of a reset behind that the fault alone tells.
    ends = [e for e in attempt.entries if e.kind == "end" and e.data.get("how") == "reset"]
    resets_s = dict.fromkeys(e.t_s for e in (*ends, *acts) if e in ends or "reset" in e.data)
    others = [e for e in attempt.entries if e.kind == "sent"] + [e for e in acts if "reset" not in e.data]
    for at_s in resets_s:
        if any(0 <= at_s - e.t_s < _UNDER_WAY_S for e in others):
            since_s = at_s - start_s_of(observation)
            yield f"{attempt.name}: something is under way when the connection is reset at {since_s:.3f} s"


def drain_coincidences(observation: Observation, of_samples: list[list[Attempt]]) -> Iterator[str]:
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
            for at_s in [t_s for t_s, name in attempt.received if name in _MAY_END_PADDING]:
                if any(abs(beat_s - at_s) < NEAR_S for beat_s in beats):
                    yield f"{attempt.name}: a beat of padding beside what may end it at {at_s:.3f} s"


def open_orders(observation: Observation, of_samples: list[list[Attempt]]) -> Iterator[str]:
    """Input that reached the server less than a millisecond from a timer of its own, in words.

    Whether input waits when a unit is decided, or when a wait for silence ends, decides whether the server feeds an
    open reply (protocol.md 6.5): each is right, and the units of the two are others. No verdict on one performance
    hangs on it, for a client must be right in both; what two performances have in common does.
    """
    for attempts in of_samples:
        for attempt in attempts:
            timers_s = list(_server_timers(observation, attempt))
            for entry in attempt.entries:
                if entry.kind != "received" or entry.name not in _INPUT:
                    continue
                since_s = entry.t_s - start_s_of(observation)
                for at_s, what in timers_s:
                    if abs(at_s - entry.t_s) < NEAR_S:
                        yield f"{attempt.name}: {entry.name} comes as {what}, at {since_s:.3f} s"


def _server_timers(observation: Observation, attempt: Attempt) -> Iterator[tuple[float, str]]:
    """Loop times at which the server went on by itself, and what it did."""
    took_s = observation.scenario.server.decision_ms / 1000
    units = [entry for entry in attempt.entries if entry.kind == "unit"]
    if took_s >= NEAR_S:  # else a unit is decided in the instant of its own append
        for entry in units:
            yield entry.t_s, "a unit is decided"
    fed_s = [entry.t_s - took_s for entry in units if entry.data.get("cause") == "silence"]
    for at_s in fed_s:
        yield at_s, "the server feeds itself"
    # Behind units that wait, silence is decided later than it was fed: a period after what had gone out before.
    last_s = max(fed_s, default=0.0)
    for entry in attempt.entries:
        if entry.kind == "sent" and logical(entry.name) in _REPLY_GOES_ON and entry.t_s + PERIOD_S < last_s:
            yield entry.t_s + PERIOD_S, "the server feeds itself"
