"""The attempts of a client of others, which tells nothing of itself: what the server journalled of its connections.

Its phases are those that the wire shows: it streams once it has a session, drains from its commit on, and has left when
it says goodbye or ends the connection.
"""

from __future__ import annotations

from conformance.fuzz.attempts import LAST_EVENTS, SAME_S, Attempt, start_s_of
from conformance.fuzz.oracle_stream import clip_s
from conformance.invariants_attempts import HARMLESS, error_code
from conformance.observation import Observation, SampleFacts
from conformance.wiring import session_name
from mockserver.app import ConnectionInfo
from scenarios.faults import FAULTS, Layer

BAD_ENDS = frozenset({"failed", "incomplete", "cancelled"})
WINDOW_LEFT_S = 1.0
"""A client that leaves later than this before the end of its drain window may have waited for all of it."""


def outside_attempts(observation: Observation) -> list[list[Attempt]]:
    """The attempts of each sample, in their order; none of a sample of which no session is known to be."""
    found = []
    for facts in observation.samples:
        mine = [c for c in observation.connections if c.sample == (facts.split, facts.id)]
        attempts = [_attempt(observation, facts, one, n) for n, one in enumerate(mine, start=1)]
        for attempt in attempts:
            last = attempt is attempts[-1]
            attempt.action = ("publish" if facts.outcome == "published" else "fail") if last else "retry"
        found.append(attempts)
    return found


def _attempt(
    observation: Observation, facts: SampleFacts, connection: ConnectionInfo, number: int
) -> Attempt:
    start_s = start_s_of(observation)
    until_s = observation.client_s if connection.ended_s is None else connection.ended_s - start_s
    attempt = Attempt(
        session_name((facts.split, facts.id, number)),
        number,
        facts,
        connection.number,
        connection.opened_s - start_s,
        until_s,
    )
    attempt.entries = [e for e in observation.entries_in_time if e.connection == connection.number]
    # One end's receiving is the other's sending; what lies between is looked at by the faults that can be there.
    attempt.sent = [(e.t_s - start_s, e.name) for e in attempt.entries if e.kind == "received"]
    attempt.received = [(e.t_s - start_s, e.name) for e in attempt.entries if e.kind == "sent"]
    attempt.faults = frozenset(
        report.name
        for report in observation.faults
        if report.state != "armed"
        and report.connection in (None, connection.number)
        and FAULTS[report.name].layer is not Layer.JUDGE
    )
    attempt.phases = _phases(observation, attempt, connection)
    return attempt


def _phases(
    observation: Observation, attempt: Attempt, connection: ConnectionInfo
) -> list[tuple[float, str]]:
    start_s = start_s_of(observation)
    created = attempt.times("sent", "session.created", start_s)
    commits = attempt.times("received", "input_audio_buffer.commit", start_s)
    goodbyes = attempt.times("received", "session.close", start_s)
    phases = [(created[0], "streaming")] if created else []
    if commits:
        phases.append((commits[0], "draining"))
    left_s = goodbyes[0] if goodbyes else attempt.ended_s if connection.ended_by == "client" else None
    if left_s is None:
        return phases
    window_s = clip_s(observation, attempt) + observation.deadlines.drain_slack_s
    if (
        commits
        and left_s < commits[0] + window_s - WINDOW_LEFT_S
        and not spoiled(observation, attempt, left_s)
    ):
        phases.append((left_s, "settled"))  # nothing but a drain that it took for complete lets it leave
    return [*phases, (left_s, "closing")]


def spoiled(observation: Observation, attempt: Attempt, until_s: float = float("inf")) -> str:
    """What the server told that fails a session, before its goodbye and up to a moment, in words; empty: nothing.

    By the server's order, for a client may leave in the very instant in which it is told.
    """
    start_s = start_s_of(observation)
    for entry in attempt.entries:
        if entry.t_s - start_s > until_s + SAME_S or (entry.kind, entry.name) == (
            "received",
            "session.close",
        ):
            return ""
        if entry.kind != "sent":
            continue
        if entry.name == "error":
            code = error_code(entry)
            if code not in HARMLESS:
                return f"the server reported the error {code}"
        elif entry.name == "response.done" and entry.data.get("status") in BAD_ENDS:
            return f"a reply ended {entry.data['status']}"
        elif entry.name in LAST_EVENTS:
            return f"the server said {entry.name}"
    return ""


def left_s(attempt: Attempt) -> float:
    """When it said goodbye, or its connection ended without."""
    assert attempt.ended_s is not None
    at_s = attempt.phase_s("closing")
    return attempt.ended_s if at_s is None else at_s
