"""The model of a right client, for a client of others: the rules that need only its wire and its answers.

Its steps and deadlines are not told, so they are taken to be those of evaluation.md, and each rule speaks only where a
client with these is wrong whatever it did inside. A client that does nothing breaks no rule of the wire: what it must
have done is told here as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conformance.fuzz.attempts import Attempt, finding, start_s_of
from conformance.fuzz.attempts_outside import left_s, spoiled
from conformance.fuzz.oracle_close import good_close_wins
from conformance.fuzz.oracle_session import FROZEN, MUTE_END, teardown_is_bounded
from conformance.fuzz.oracle_stream import (
    QUIET_ENDS,
    clip_s,
    drains_end_in_time,
    nobody_is_left_speaking,
    padding_ends,
    padding_keeps_replies_going,
    quiet_since,
    text_is_the_inputs,
)
from conformance.observation import Observation
from conformance.outcome import Finding

IN_ORDER = (*QUIET_ENDS, *MUTE_END, *FROZEN, "listen_per_padded_unit", "extra_reply_in_padding")
"""Faults beside which every event of the clip comes, in order and in time."""
HANDSHAKE = frozenset({"no_session_created", "never_upgrade"})
READ_S = 0.05
"""What the server sent so shortly before the client left, the client may not have read."""
WINDOW_S = 1.0


def check_outside(observation: Observation, of_samples: list[list[Attempt]]) -> Iterator[Finding]:
    """Findings of every rule over every sample; of a hang and of a crash nothing more is said."""
    if observation.watchdog_fired or observation.livelock or observation.client_error is not None:
        return
    yield from never_connected(observation)
    for attempts, facts in zip(of_samples, observation.samples, strict=True):
        if not attempts and facts.outcome == "published" and observation.all_known:
            wanted = "an answer comes of a session"
            yield Finding("sample.outcome", ("R30",), wanted, "an answer, and no session", facts.name)
        if attempts:
            for rule in OUTSIDE_RULES:
                yield from rule(observation, attempts)


def never_connected(observation: Observation) -> Iterator[Finding]:
    """Every sample is asked for in a session (evaluation.md 4.3), whatever becomes of the others (R31)."""
    wanted, made = len(observation.samples), len(observation.connections)
    if made < wanted:
        told = "it returned, and never connected" if not made else f"{made} connection(s) in all"
        yield Finding("never-connected", ("R31",), f"a session for each of {wanted} sample(s)", told)


def sessions_reach_their_commit(observation: Observation, attempts: list[Attempt]) -> Iterator[Finding]:
    """A client to which nothing bad was told streams the whole clip and commits it (evaluation.md 4.3, 6)."""
    for attempt in attempts:
        at_s = attempt.phase_s("closing")
        if at_s is None or not attempt.only(*IN_ORDER) or spoiled(observation, attempt, at_s):
            continue
        if not attempt.times("received", "input_audio_buffer.commit", 0.0):
            heard = len(attempt.times("received", "input_audio_buffer.append", 0.0))
            told = (
                f"it left {at_s - attempt.started_s:.1f} s after it had come: {heard} unit(s), and no commit"
            )
            wanted = "the clip is streamed and committed (evaluation.md 4.3)"
            yield finding(attempt, "session-abandoned", (), wanted, told)


def complete_replies_are_published(observation: Observation, attempts: list[Attempt]) -> Iterator[Finding]:
    """Where every reply was complete and the residual decided, an answer is left (R2, R18, R19, R20)."""
    attempt = attempts[-1]
    if attempt.facts.outcome == "published" or spoiled(observation, attempt, left_s(attempt)):
        return
    stalled = ("stop_reading",) if _stalled_behind_the_commit(attempt) else ()
    if quiet_since(observation, attempt, *MUTE_END, *stalled) is None:
        return
    if _open_since(observation, attempt, before_s=0.0) is not None:
        return  # it was left while it spoke, and has been cut off by that
    before_s = start_s_of(observation) + left_s(attempt) - READ_S
    ends = [
        e.data.get("status")
        for e in attempt.entries
        if e.kind == "sent" and e.name == "response.done" and e.t_s < before_s
    ]
    if ends and set(ends) == {"completed"}:
        told = f"no {attempt.facts.id}.json: {attempt.facts.error or 'and not said why'}"
        wanted = "published: every reply was complete and the residual decided"
        yield finding(attempt, "sample.outcome", ("R2", "R18", "R19", "R20"), wanted, told)


def _stalled_behind_the_commit(attempt: Attempt) -> bool:
    """Whether the server stopped reading when it had the commit: all that it says still comes."""
    for entry in attempt.entries:
        if (entry.kind, entry.name) == ("received", "input_audio_buffer.commit"):
            return True
        if (entry.kind, entry.name) == ("fault", "stop_reading") and entry.data.get("state") == "triggered":
            return False
    return False


def answers_come_of_replies(observation: Observation, attempts: list[Attempt]) -> Iterator[Finding]:
    """Nothing is published without an accepted commit and a reply that completed, nor beside one that did not (R30)."""
    attempt = attempts[-1]
    if attempt.facts.outcome != "published" or "garbage_event" in attempt.faults:
        return
    why = ""
    requirements: tuple[str, ...] = ("R30", "R49")
    sent = [e for e in attempt.entries if e.kind == "sent"]
    completed = [e for e in sent if e.name == "response.done" and e.data.get("status") == "completed"]
    if not any(e.name == "input_audio_buffer.committed" for e in sent):
        why = "the server accepted no commit"
    elif attempt.only(*IN_ORDER) and not completed:
        why = "no reply completed"
    elif attempt.only(*IN_ORDER) and (since_s := _open_since(observation, attempt)) is not None:
        why, requirements = f"a reply was open since {since_s:.1f} s when it left", ("R36", "R49")
    if why:
        told = f"{attempt.facts.id}.json is there: {attempt.facts.text[:80]!r}"
        yield finding(attempt, "sample.outcome", requirements, f"failed: {why}", told)


def reported_failures_are_final(observation: Observation, attempts: list[Attempt]) -> Iterator[Finding]:
    """What the session reported fails the sample: an error, a reply that did not complete (R21 to R25, R35)."""
    attempt = attempts[-1]
    if attempt.facts.outcome != "published" or not attempt.only(*MUTE_END, *FROZEN, "error_event", "status"):
        return
    why = spoiled(observation, attempt, left_s(attempt) - READ_S)
    if why:
        told = f"{attempt.facts.id}.json is there"
        yield finding(attempt, "sample.outcome", ("R21", "R23", "R35"), f"failed: {why}", told)


def lone_stalls_are_tried_again(observation: Observation, attempts: list[Attempt]) -> Iterator[Finding]:
    """A first attempt that only stalled, in its drain or before it had a session, is tried once more (R4, R24, R28)."""
    attempt = attempts[0]
    at_s = attempt.phase_s("closing")
    if len(attempts) > 1 or at_s is None or attempt.facts.outcome == "published" or not observation.all_known:
        return
    if spoiled(observation, attempt, at_s):
        return
    stalled = ""
    commits = attempt.times("received", "input_audio_buffer.commit", start_s_of(observation))
    window_s = observation.deadlines.drain_slack_s + clip_s(observation, attempt) - WINDOW_S
    if attempt.faults and attempt.faults <= HANDSHAKE and not commits:
        stalled = f"no session in {at_s - attempt.started_s:.1f} s" if at_s - attempt.started_s > 1.0 else ""
    elif commits and attempt.only(*MUTE_END, *FROZEN) and at_s > commits[0] + window_s:
        since_s = _open_since(observation, attempt)
        stalled = f"a reply that was open since {since_s:.1f} s was not done" if since_s is not None else ""
    if stalled:
        wanted = "a lone stall is tried once more"
        yield finding(attempt, "sample.attempts", ("R4", "R24", "R28"), wanted, f"one attempt: {stalled}")


def _open_since(observation: Observation, attempt: Attempt, before_s: float = 0.1) -> float | None:
    """Since when a reply has been open that still is so long before the client leaves; None: there is none."""
    start_s, until_s = start_s_of(observation), left_s(attempt) - before_s
    open_now: dict[Any, float] = {}
    for entry in attempt.entries:
        if entry.t_s - start_s > until_s or (entry.kind, entry.name) == ("received", "session.close"):
            break
        if entry.kind != "sent":
            continue
        if entry.name == "response.created":
            open_now[entry.data.get("response_id")] = entry.t_s - start_s
        elif entry.name == "response.done":
            open_now.pop(entry.data.get("response_id"), None)
    return min(open_now.values(), default=None)


OUTSIDE_RULES = (
    sessions_reach_their_commit,
    complete_replies_are_published,
    answers_come_of_replies,
    reported_failures_are_final,
    lone_stalls_are_tried_again,
    teardown_is_bounded,
    good_close_wins,
    padding_keeps_replies_going,
    padding_ends,
    drains_end_in_time,
    nobody_is_left_speaking,
    text_is_the_inputs,
)
"""In the order their findings are told."""
