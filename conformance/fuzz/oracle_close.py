"""Rules of the model that look at how a session is closed, given up or cancelled."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.fuzz.attempts import Attempt, finding, start_s_of, timed_out
from conformance.observation import Observation
from conformance.outcome import Finding
from scenarios.faults import LateSessionClosed


def good_close_wins(observation: Observation, attempts: list[Attempt]) -> Iterator[Finding]:
    """A close that is answered in time is neither timed out nor forced (R12, R15)."""
    start_s, close_s = start_s_of(observation), observation.deadlines.close_s
    outer_s = close_s + observation.deadlines.grace_s  # by evaluation.md 10, whatever the client makes of it
    for attempt in attempts:
        if (
            not attempt.only("late_session_closed", "split_text", "slow_disk", "slow_write")
            or attempt.action == ""
        ):
            continue
        asked = attempt.times("received", "session.close", start_s)
        delays_s = [f.delay_s for f in observation.scenario.faults if isinstance(f, LateSessionClosed)]
        closed = attempt.times("sent", "session.closed", start_s)
        if not closed and "late_session_closed" in attempt.faults:
            closed = [at_s + sum(delays_s) for at_s in asked]  # two of them may add up
        if not asked or not closed or closed[0] - asked[0] > close_s - 0.05 or attempt is not attempts[-1]:
            continue
        if timed_out(observation, attempt) or observation.scenario.client.cancel_at_s:
            continue
        goodbyes = [at_s for at_s, name in attempt.sent if name == "session.close"]
        if not goodbyes or closed[0] - goodbyes[0] > outer_s - 0.05:
            continue
        metadata = attempt.facts.metadata or {}
        if metadata.get("close_timeout"):
            told = str(metadata["close_timeout"])
            yield finding(
                attempt, "metadata.close_timeout", ("R12",), "null: the close was answered in time", told
            )
        elif attempt.facts.close == "forced":
            yield finding(attempt, "sample.close", ("R15",), "clean or by_peer", "forced")


def nothing_after_the_timeout(observation: Observation, attempts: list[Attempt]) -> Iterator[Finding]:
    """Once the request has timed out or was cancelled, nothing more is sent (R10)."""
    cancel_s = observation.scenario.client.cancel_at_s
    for attempt in attempts:
        over_s = attempt.started_s + observation.deadlines.request_s
        if cancel_s is not None:
            over_s = min(over_s, cancel_s)
        # At the very instant the order tells: whoever says goodbye there has come to its close before.
        unasked = attempt.phases and not attempt.action and attempt.phase_s("closing") is None
        late = [
            (at_s, name)
            for at_s, name in attempt.sent
            if at_s > over_s + 0.001 or (unasked and name == "session.close" and at_s >= over_s)
        ]
        if late and "slow_disk" not in attempt.faults:
            at_s, name = late[0]
            told = f"{name} at {at_s - over_s:.3f} s after it"
            yield finding(
                attempt, "wire.closes", ("R10",), "nothing is sent after the request timed out", told
            )


def missing_handles_are_logged(observation: Observation, attempts: list[Attempt]) -> Iterator[Finding]:
    """A transport that cannot be aborted is told in the log, never a silent no-op (R16, R17)."""
    messages = " | ".join(record.getMessage() for record in observation.logs)
    without = any(report.name == "no_socket" and report.state == "observed" for report in observation.faults)
    for report in observation.faults:
        words = {"no_transport": "no abortable handle", "no_socket": "no socket"}.get(report.name)
        if without and report.name == "no_transport":
            continue  # whoever finds no socket asks for no transport of it
        if (
            words
            and report.state == "observed"
            and words not in messages
            and attempts[0].facts is observation.samples[0]
        ):
            yield finding(
                attempts[0], "log", ("R16", "R17"), f"a line with {words!r}", messages[-200:] or "no line"
            )


CLOSE_RULES = (good_close_wins, nothing_after_the_timeout, missing_handles_are_logged)
"""In the order their findings are told."""
