"""The states that a campaign should reach, and which of them one performance did reach (`sometimes` assertions).

A campaign that never meets a stuck teardown proves nothing of one, so what was never reached is printed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from conformance.fuzz.drawing import Kinds
from conformance.fuzz.faults import FORMS
from conformance.fuzz.judging import NAMES as JUDGE_FAULTS
from conformance.observation import Observation
from scenarios.model import Scenario

ROWS: Mapping[int, str] = {
    1: "clean",
    2: "published, close timed out",
    3: "published, ack timed out",
    4: "done, server error",
    5: "done, a response not completed",
    6: "drain timeout alone",
    7: "close timeout",
    8: "stall and ack timeout",
    9: "stall and server error",
    10: "stall and another error",
    11: "nothing at all",
    12: "request timeout",
    13: "inner timeout",
    14: "any other exception",
    15: "cancelled from outside",
    16: "the second attempt fails",
}
"""Rows of the retry gate (evaluation.md 14)."""
STEPS = ("pad_join", "ack_join", "final_ack", "closing", "forcing", "reader")
"""Steps of the teardown that have a bound (evaluation.md 10)."""
OUTCOMES = ("published", "failed", "cancelled")
CLOSES = ("clean", "by_peer", "forced", "lost", "none")
SESSION = (
    "late reply kept apart",
    "reply open at the commit",
    "two replies after one another",
    "no reply",
    "retry succeeds",
    "write stalled while streaming",
    "oddity counted",
    "waited until the last millisecond",
)
CLIPS = ("residual", "exact", "shorter than a unit", "silent")
JUDGED = (
    "scored at once",
    "scored after a re-ask",
    "re-asked in vain",
    "request sent again",
    "frames instead of a video",
    "no answer to judge",
)

ALL_STATES: tuple[str, ...] = (
    *(f"fault {name}" for name in (*FORMS, *JUDGE_FAULTS)),
    *(f"row {row}" for row in ROWS),
    *(f"teardown cut short: {step}" for step in STEPS),
    *(f"outcome {outcome}" for outcome in OUTCOMES),
    *(f"close {close}" for close in CLOSES),
    *(f"session: {what}" for what in SESSION),
    *(f"clip: {what}" for what in CLIPS),
    *(f"judge: {what}" for what in JUDGED),
)
"""Every state of the table, in its order."""
_OF_JUDGE = frozenset((*(f"fault {name}" for name in JUDGE_FAULTS), *(f"judge: {what}" for what in JUDGED)))
"""Those that need a scenario with a judge."""


UNREACHABLE: Mapping[str, str] = {
    "fault ignore_cancel": "the client under test cancels no reply, so there is no `response.cancel` to ignore",
}
"""States of the table that no case can reach, and why; the fault is drawn all the same, for clients that do cancel."""

SERVER_STATES: tuple[str, ...] = (
    *(f"hostile: {what}" for what in ("event", "append_ms", "raw", "text", "wait_s", "binary_bytes")),
    *(f"hostile: ends by {how}" for how in ("wait", "close", "abort", "fin")),
    *(f"server: {what}" for what in ("answered", "closed it", "refused the upgrade", "noted a violation")),
)
"""The same of a campaign against the server."""


def wanted(kinds: Kinds) -> tuple[str, ...]:
    """The states of the table that a campaign of these kinds is about."""
    if kinds.server:
        return SERVER_STATES
    return tuple(state for state in ALL_STATES if kinds.judge or state not in _OF_JUDGE)


def missing(reached: Mapping[str, int], kinds: Kinds) -> list[str]:
    """States of the table that were not reached though a case can."""
    return [state for state in wanted(kinds) if not reached.get(state) and state not in UNREACHABLE]


def unreachable(reached: Mapping[str, int], kinds: Kinds) -> list[str]:
    """States of the table that no case can reach, with the reason."""
    return [
        f"{state}: {UNREACHABLE[state]}"
        for state in wanted(kinds)
        if not reached.get(state) and state in UNREACHABLE
    ]


def told(state: str) -> str:
    """A state in words."""
    if state.startswith("row "):
        return f"{state} ({ROWS[int(state.removeprefix('row '))]})"
    return state


def states_of(observation: Observation) -> frozenset[str]:
    """What one performance reached."""
    return frozenset(
        [
            *(f"fault {report.name}" for report in observation.faults if report.state == "observed"),
            *_steps(observation),
            *_samples(observation),
            *(f"clip: {what}" for what in _clips(observation.scenario)),
            *(f"judge: {what}" for what in _judged(observation)),
        ]
    )


def _steps(observation: Observation) -> Iterator[str]:
    """From what the client said of its phases, deadlines and rows, and from its log."""
    assert observation.recorder is not None
    phases: dict[str, str] = {}
    forced_s: dict[str, float] = {}
    for record in observation.recorder.records:
        if record.side != "client":
            continue
        if record.what == "phase":
            phases[record.session] = str(record.data.get("name"))
            forced_s.pop(record.session, None)
        elif record.what == "deadline":
            phase = phases.get(record.session, "")
            if phase in STEPS:
                yield f"teardown cut short: {phase}"
            elif phase in ("streaming", "committing"):
                yield "session: write stalled while streaming"
            if phase == "forcing":
                forced_s[record.session] = record.t_s
        elif record.what == "attempt_ended":
            row = record.data.get("row")
            yield "row 15" if row is None else f"row {row}"
            # The last wait has no phase: the reader's, once the forced socket has not closed in its time.
            waited_s = record.t_s - forced_s.get(record.session, record.t_s)
            if waited_s >= observation.deadlines.grace_s - 0.01:
                yield "teardown cut short: reader"
    messages = [entry.getMessage() for entry in observation.logs]
    if any("padding did not end within its grace" in message for message in messages):
        yield "teardown cut short: pad_join"
    if observation.near_misses:
        yield "session: waited until the last millisecond"


def _samples(observation: Observation) -> Iterator[str]:
    for facts in observation.samples:
        yield f"outcome {facts.outcome}"
        yield f"close {facts.close or 'none'}"
        metadata: Mapping[str, Any] = facts.metadata or {}
        if metadata.get("late_sentences"):
            yield "session: late reply kept apart"
        if metadata.get("anomalies"):
            yield "session: oddity counted"
        if facts.outcome == "published" and facts.retry_count:
            yield "session: retry succeeds"
    yield from _replies(observation)


def _replies(observation: Observation) -> Iterator[str]:
    open_now: set[int] = set()
    begun: dict[int, int] = {}
    for entry in observation.entries:
        number = entry.connection
        if entry.kind == "open":
            begun.setdefault(number, 0)
        elif entry.kind == "sent" and entry.name == "response.created":
            open_now.add(number)
            begun[number] = begun.get(number, 0) + 1
        elif entry.kind == "sent" and entry.name == "response.done":
            open_now.discard(number)
        elif entry.kind == "received" and entry.name == "input_audio_buffer.commit" and number in open_now:
            yield "session: reply open at the commit"
    if any(count >= 2 for count in begun.values()):
        yield "session: two replies after one another"
    if any(count == 0 for count in begun.values()):
        yield "session: no reply"


def _clips(scenario: Scenario) -> Iterator[str]:
    for spec in scenario.specs:
        seconds = spec.clip.seconds or 0.0
        if seconds < 1:
            yield "shorter than a unit"
        yield "exact" if seconds == math.floor(seconds) else "residual"
        if spec.clip.speech == []:
            yield "silent"


def _judged(observation: Observation) -> Iterator[str]:
    if observation.judged is None:
        return
    for facts in observation.judged.samples:
        if not facts.requests:
            yield "no answer to judge"
        reasked = {(r.kind, r.judgement): r.judged for r in facts.requests if r.reask}
        for scored in reasked.values():
            yield "scored after a re-ask" if scored else "re-asked in vain"
        if facts.requests and not reasked and facts.score is not None:
            yield "scored at once"
        if any(r.repeats for r in facts.requests):
            yield "request sent again"
        if any(r.mode == "frames" for r in facts.requests):
            yield "frames instead of a video"
