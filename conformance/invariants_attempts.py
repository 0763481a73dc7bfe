"""Invariants of the attempts a sample was given (evaluation.md 14)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from conformance.abilities import Need
from conformance.invariants_base import invariant
from conformance.observation import Observation, SampleFacts
from conformance.outcome import Finding
from conformance.trace import Record
from conformance.wiring import session_name

if TYPE_CHECKING:
    from mockserver.app import ConnectionInfo
    from mockserver.journal import Entry

HARMLESS = frozenset({"playback_ack_too_late"})
"""Errors of the server that fail no sample (protocol.md 8.3, R35)."""
HELD_BACK = frozenset({"latency", "bandwidth", "slicer", "limit_data"})
"""Faults that keep from the client, for a while or for good, what the server's journal holds as sent."""
LEFT_UNSEEN = frozenset({"slow_reading"})
"""Faults through which the server sees a client leave long after it has left: it still sends then."""
MOMENT_S = 0.05
"""What the server sent so shortly before the end of a connection, the client may never have read."""
ROUNDED_S = 0.002
"""Latencies are told in milliseconds."""
REAL_S = 0.25
"""On a wall clock a connection is accepted, and an attempt told of, some moments after it began and ended."""


def error_code(entry: Entry) -> object:
    """The code of an error that the server sent, nested or flat."""
    error = entry.data.get("error")
    return error.get("code") if isinstance(error, dict) else entry.data.get("code")


def more_than_two_attempts(observation: Observation) -> Iterator[Finding]:
    """A sample costs at most two sessions."""
    for facts in observation.samples:
        if facts.attempts > 2:
            told = f"{facts.attempts} connections"
            yield Finding("more-than-two-attempts", ("R26",), "at most two attempts", told, facts.name)


def deterministic_failure_retried(observation: Observation) -> Iterator[Finding]:
    """What would fail again is not tried again: an error of the server, a failed reply, a lost or refused connection.

    An attempt that the per-request timeout ended is tried again whatever was seen before (row 12).
    """
    for facts in observation.samples:
        mine = [c for c in observation.connections if c.sample == (facts.split, facts.id)]
        if len(mine) < 2:
            continue
        first = mine[0]
        lasted_s = (first.ended_s or first.opened_s) - first.opened_s
        if lasted_s >= observation.deadlines.request_s:
            continue
        why = _deterministic(observation, first, _heard(observation, facts))
        if why:
            yield Finding(
                "deterministic-failure-retried",
                ("R21", "R22", "R25"),
                "no second attempt after a failure that is no stall",
                f"attempt 1: {why}; and a second connection was made",
                facts.name,
            )


def _heard(observation: Observation, facts: SampleFacts) -> Counter[str] | None:
    """Events by type that the client took in its first attempt; None: it does not tell."""
    records = observation.recorder.records if observation.recorder is not None else ()
    session = session_name((facts.split, facts.id, 1))
    mine = [r for r in records if r.side == "client" and r.session == session]
    if not mine:
        return None
    return Counter(str(r.data.get("type")) for r in mine if r.what == "received")


def _deterministic(observation: Observation, connection: ConnectionInfo, heard: Counter[str] | None) -> str:
    """What the client was told on this connection that no retry mends, in words; empty: nothing.

    Args:
        heard: events by type that the client took; one that was sent and not taken, behind a client that has left,
            tells it nothing.
    """
    if connection.how == "refused":
        return "the upgrade was refused"
    faults = {r.name for r in observation.faults if r.connection == connection.number}
    if faults & HELD_BACK or (heard is None and faults & LEFT_UNSEEN):
        return ""  # sent is not received
    gave_up_s = connection.opened_s + observation.deadlines.created_s
    if connection.sent.get("session.created"):
        gave_up_s = float("inf")
    ended_s = float("inf") if connection.ended_s is None else connection.ended_s
    created: set[object] = set()
    sent: Counter[str] = Counter()
    for entry in observation.entries_in_time:
        if entry.connection != connection.number or entry.t_s > min(ended_s - MOMENT_S, gave_up_s):
            continue
        if entry.kind == "received" and entry.name == "session.close":
            break  # what comes now is about the end, not about the attempt
        if entry.kind == "sent" and entry.name == "(raw)":
            break  # behind bytes that are no frame a client hears nothing more
        if entry.kind != "sent":
            continue
        sent[entry.name] += 1
        if heard is not None and sent[entry.name] > heard[entry.name]:
            continue
        if entry.name == "error":
            code = error_code(entry)
            if code not in HARMLESS:
                return f"the server sent error {code} at {entry.t_s:.3f} s"
        elif entry.name == "response.created":
            created.add(entry.data.get("response_id"))
        elif (
            entry.name == "response.done"
            and entry.data.get("status") == "failed"
            and entry.data.get("response_id") in created  # of another id it is nobody's end
        ):
            return f"a response ended as failed at {entry.t_s:.3f} s"
    return ""


def latency_not_of_reported_attempt(observation: Observation) -> Iterator[Finding]:
    """The latency of a sample is that of the attempt whose outcome is reported, and of no earlier one (R27)."""
    assert observation.recorder is not None
    told = [r for r in observation.recorder.records if r.what in ("attempt_started", "attempt_ended")]
    for facts in observation.samples:
        if facts.latency_s is None or facts.outcome == "skipped_finished":
            continue
        longest_s, whose = _longest_latency(observation, facts, told)
        allowed_s = REAL_S if observation.wall_clock else ROUNDED_S
        if longest_s is not None and facts.latency_s > longest_s + allowed_s:
            yield Finding(
                "latency-not-of-reported-attempt",
                ("R27",),
                f"at most {longest_s:.3f} s, {whose}",
                f"{facts.latency_s:.3f} s",
                facts.name,
            )


def _longest_latency(
    observation: Observation, facts: SampleFacts, told: Sequence[Record]
) -> tuple[float | None, str]:
    """How long the last attempt can have taken: as the client tells, else as the server saw its connection."""
    assert observation.recorder is not None
    mine = [c for c in observation.connections if c.sample == (facts.split, facts.id)]
    steps = {
        record.session: record.t_s
        for record in told
        if record.side == "client" and record.what == "attempt_started"
    }
    started = [t for number in (1, 2) if (t := steps.get(session_name((facts.split, facts.id, number))))]
    ended = [
        record.t_s
        for record in told
        if record.what == "attempt_ended" and record.session.startswith(f"{facts.name}#")
    ]
    if started and ended:
        return max(ended) - max(started), "from the start to the end of the last attempt"
    if len(mine) > 1 and mine[0].ended_s is not None:
        first_s = mine[-1].opened_s - observation.deadlines.connect_s
        since_s = max(first_s, mine[-2].opened_s)
        until_s = observation.recorder.start_s + observation.client_s
        return until_s - since_s, "from the connecting of the last attempt to the end of the run"
    return None, ""


ATTEMPT_INVARIANTS = (
    invariant(more_than_two_attempts, Need.WIRE),
    invariant(deterministic_failure_retried, Need.WIRE),
    invariant(latency_not_of_reported_attempt, Need.FILES, Need.WIRE),
)
"""In the order their findings are told."""
