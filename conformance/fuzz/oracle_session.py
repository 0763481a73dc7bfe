"""Rules of the model that look at attempts: what is published, what is tried again, how a session ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conformance.doubts import NEAR_S
from conformance.fuzz.attempts import (
    TEARDOWN,
    Attempt,
    finding,
    start_s_of,
    timed_out,
    timeout_in_doubt,
)
from conformance.invariants_attempts import HARMLESS, error_code
from conformance.observation import Observation
from conformance.outcome import Finding

DEAF = frozenset(
    {"stop_reading", "resume_reading", "slow_reading", "swallow_cancellation", "no_transport", "no_socket"}
)
"""Faults that keep the client from being heard; what it is told comes all the same."""
MUTE_END = frozenset(
    {
        "late_session_closed",
        "no_session_closed",
        "ignore_close",
        "no_close_reply",
        "slow_close",
        "ignore_cancel",
    }
)
"""Faults of the end of a session."""
FROZEN = frozenset({"never_done", "freeze_tail", "split_text"})
"""Faults of a reply that leave every event in order."""
ENDS = frozenset({"reset_peer", "close_code", "bad_frame", "oversize_frame", "invalid_utf8"})
"""Faults that end the connection."""
LOST = ("reset_peer", "half_close", "close_code", "limit_data")
"""Faults that end the connection and spoil nothing that came before."""
TOLERANCE_S = 1.0

OF_STEP = {
    "pad_join": ("R1", "R6", "R14"),
    "ack_join": ("R6", "R14"),
    "final_ack": ("R1", "R2", "R5"),
    "closing": ("R11", "R13", "R14", "R18", "R19"),
    "forcing": ("R13", "R14"),
}
"""What a step of the teardown is held to."""


def _codes(attempt: Attempt) -> list[object]:
    """Codes of the errors that the server sent."""
    return [error_code(e) for e in attempt.entries if e.kind == "sent" and e.name == "error"]


def _harmful(attempt: Attempt) -> bool:
    """Whether the client was told of an error that fails a sample."""
    return any(name == "error" for _, name in attempt.received) and set(_codes(attempt)) != HARMLESS


def _all_done(observation: Observation, attempt: Attempt) -> float | None:
    """When the last reply of the server was done, all of them completed; None: not all, or none at all."""
    open_now: set[Any] = set()
    last = None
    for entry in attempt.entries:
        if entry.kind != "sent":
            continue
        if entry.name == "response.created":
            open_now.add(entry.data.get("response_id"))
        elif entry.name == "response.done":
            if entry.data.get("status") != "completed":
                return None
            open_now.discard(entry.data.get("response_id"))
            last = entry.t_s - start_s_of(observation)
    return None if open_now else last


def teardown_is_advisory(observation: Observation, attempts: list[Attempt]) -> Iterator[Finding]:
    """Once every reply is complete and the drain has settled, nothing that follows costs the sample (R2, R18, R19)."""
    for attempt in attempts:
        settled_s = attempt.phase_s("settled")
        if (
            settled_s is None
            or attempt.action == ""
            or not attempt.only(*DEAF, *MUTE_END, *LOST, "split_text", "error_event")
        ):
            continue
        done_s = _all_done(observation, attempt)
        if done_s is None or done_s > settled_s or _harmful(attempt):
            continue
        room_s = observation.deadlines.request_s - (settled_s - attempt.started_s)
        if room_s < observation.deadlines.worst_teardown_s + TOLERANCE_S or attempt.action == "publish":
            continue
        spoken: tuple[str, ...] = OF_STEP.get(attempt.stuck_in, ()) if timed_out(observation, attempt) else ()
        if not spoken and attempt.faults & set(LOST):
            spoken = ("R19", "R45")
        if not spoken and any(name == "error" for _, name in attempt.received):
            spoken = ("R35",)
        metadata = attempt.facts.metadata or {}
        if not spoken:
            spoken = ("R2", "R4") if metadata.get("ack_timeout") else ("R18", "R19", "R20")
        yield finding(
            attempt,
            "sample.outcome",
            spoken,
            "published: every reply was complete before the teardown began",
            f"{attempt.action}, row {attempt.row}, longest in {attempt.stuck_in}: {attempt.reason}",
        )


def published_is_written(observation: Observation, attempts: list[Attempt]) -> Iterator[Finding]:
    """What is published stands on the disk, whatever became of the teardown (R19, R20)."""
    attempt = attempts[-1]
    if (
        attempt.action == "publish"
        and attempt.facts.sentences is None
        and not observation.scenario.client.cancel_at_s
    ):
        told = f"no {attempt.facts.id}.json"
        yield finding(attempt, "sample.outcome", ("R19", "R20"), "published: its answer is written", told)


def teardown_is_bounded(observation: Observation, attempts: list[Attempt]) -> Iterator[Finding]:
    """The teardown takes no longer than its deadlines together (R1, R5, R6, R11, R13, R14)."""
    bound_s = observation.deadlines.worst_teardown_s + TOLERANCE_S
    for attempt in attempts:
        over_s = teardown_over_s(observation, attempt)
        if over_s > 0:
            yield finding(
                attempt,
                "finishes_within_s",
                OF_STEP.get(attempt.stuck_in, ("R1",)),
                f"a teardown of at most {bound_s:g} s",
                f"{bound_s + over_s:.1f} s, longest in {attempt.stuck_in}",
            )


def teardown_over_s(observation: Observation, attempt: Attempt) -> float:
    """How much longer than its deadlines together the teardown of an attempt took."""
    begun_s = attempt.phase_s(*TEARDOWN)
    if begun_s is None or attempt.ended_s is None or "slow_disk" in attempt.faults:
        return 0.0
    return max(0.0, attempt.ended_s - begun_s - observation.deadlines.worst_teardown_s - TOLERANCE_S)


def errors_are_final(observation: Observation, attempts: list[Attempt]) -> Iterator[Finding]:
    """What the session reported is never retried into a pass (R21 to R25)."""
    for attempt in attempts:
        if timed_out(observation, attempt) or attempt.action == "":
            continue
        closing_s = attempt.phase_s("closing") or attempt.ended_s or 0.0
        told = [at_s for at_s, name in attempt.received if name == "error" and at_s < closing_s]
        why = ""
        requirements: tuple[str, ...] = ("R21", "R22", "R24", "R25")
        if (
            told
            and _harmful(attempt)
            and "error_event" in attempt.faults
            and "garbage_event" not in attempt.faults
        ):
            why = f"the server reported an error at {told[0]:.1f} s"
        ends = [e for e in attempt.entries if e.kind == "sent" and e.name == "response.done"]
        heard = sum(
            name == "response.done" for _, name in attempt.received
        )  # the others came behind a client
        failed = [
            entry.data.get("status")
            for entry in ends[:heard]  # that had left: a slow reader sees that late
            if entry.data.get("status") in ("failed", "incomplete", "cancelled")
            and entry.t_s - start_s_of(observation) < closing_s - 0.01
        ]
        if not why and failed and attempt.only(*DEAF, *MUTE_END, "status"):
            why, requirements = f"a response ended {failed[0]}", ("R21", "R23")
        lost = sorted(
            r.name
            for r in observation.faults
            if r.name in ENDS and r.state == "observed" and r.connection == attempt.connection
        )
        if (
            not why
            and lost
            and attempt.phase_s("settled", *TEARDOWN[:1]) is None
            and attempt.row not in (12, 13)
            and "slow_write"
            not in attempt.faults  # a write that is held up hides the loss until its own deadline
            and not attempt.times("received", "session.close", 0.0)  # then it was lost in its own close
        ):
            ended = next((c for c in observation.connections if c.number == attempt.connection), None)
            if (
                ended is not None
                and ended.ended_by == "server"
                and attempt.phase_s("streaming") is not None
                and not _leaving_already(observation, attempt, ended.ended_s)
            ):
                why, requirements = f"the connection was lost ({lost[0]})", ("R21",)
        if why and attempt.action != "fail":
            check = "sample.attempts" if attempt.action == "retry" else "sample.outcome"
            yield finding(attempt, check, requirements, f"failed, and not tried again: {why}", attempt.action)


def _leaving_already(observation: Observation, attempt: Attempt, lost_s: float | None) -> bool:
    """Whether a wait had run out and the teardown begun when the connection was lost: that ended the attempt."""
    leaves_s = attempt.phase_s(*TEARDOWN)
    if leaves_s is None or lost_s is None:
        return False
    return leaves_s < lost_s - start_s_of(observation) - NEAR_S


def stalls_are_retried(observation: Observation, attempts: list[Attempt]) -> Iterator[Finding]:
    """A first attempt that only stalled is tried once more (R4, R24, R28, R32)."""
    attempt = attempts[0]
    if len(attempts) > 1 or attempt.facts.outcome == "cancelled" or observation.scenario.client.cancel_at_s:
        return
    requirements: tuple[str, ...] = ()
    if timed_out(observation, attempt) and attempt.action != "publish":
        requirements = () if timeout_in_doubt(observation, attempt) else ("R32",)
    elif (
        any(what == "drain" for _, what, _ in attempt.missed)
        and attempt.only(*DEAF, *MUTE_END, *FROZEN)
        and not any(name == "error" for _, name in attempt.received)
        and not _ended_otherwise(attempt)
        and attempt.facts.close != "lost"
    ):
        requirements = ("R4", "R24", "R28")
    if requirements and attempt.row != 1:
        actual = f"{attempt.action or 'cancelled'}, row {attempt.row}: {attempt.reason}"
        yield finding(attempt, "sample.attempts", requirements, "a lone stall is tried once more", actual)


def _ended_otherwise(attempt: Attempt) -> bool:
    """Whether a reply ended other than completed before the goodbye came to the server, or failed by itself after that.

    By the server's order, for both may come in one instant: a stall that ends lets the client leave.
    """
    goodbye = False
    for entry in attempt.entries:
        goodbye |= entry.kind == "received" and entry.name == "session.close"
        if entry.kind == "sent" and entry.name == "response.done":
            status = entry.data.get("status")
            if status in ("failed", "incomplete") or (status != "completed" and not goodbye):
                return True
    return False


def _begun_too_late(observation: Observation, attempt: Attempt) -> bool:
    """Whether a reply began when the drain had settled, and had not completed when the connection ended.

    Nobody waits for it any more: whatever keeps the close open (an unread goodbye, an unsent or late answer, a stuck
    step before it), such a reply may be cut off, cancelled by the goodbye, or fail, and is told (evaluation.md 13, rows
    5 and 10). One that was open before that is `nobody_is_left_speaking`'s.
    """
    settled_s = attempt.phase_s("settled")
    if settled_s is None:
        return False  # a drain that ran out names what is open in its own text, and reports nothing
    begun: set[Any] = set()
    for entry in attempt.entries:
        key = entry.data.get("response_id")
        if entry.kind != "sent":
            continue
        if entry.name == "response.created" and entry.t_s - start_s_of(observation) > settled_s - NEAR_S:
            begun.add(key)
        elif entry.name == "response.listen" or entry.data.get("status") == "completed":
            begun.discard(key)
    return bool(begun)


def nothing_fails_by_itself(observation: Observation, attempts: list[Attempt]) -> Iterator[Finding]:
    """A session in which nothing was reported and nothing lost does not fail like one (R36, R40, R41)."""
    for attempt in attempts:
        if attempt.row not in (10, 14) or timed_out(observation, attempt):
            continue
        if not attempt.only(*MUTE_END, *FROZEN) or any(name == "error" for _, name in attempt.received):
            continue
        streamed = attempt.phase_s("streaming") is not None and attempt.times("sent", "session.created", 0.0)
        if streamed and not _ended_otherwise(attempt) and not _begun_too_late(observation, attempt):
            told = f"row {attempt.row}: {attempt.reason}"
            expected = "no failure of the client's own making"
            yield finding(attempt, "sample.outcome", ("R36", "R40", "R41"), expected, told)


def deadlines_are_recorded(observation: Observation, attempts: list[Attempt]) -> Iterator[Finding]:
    """A teardown step that was cut short stands in the metadata of what was published (R3, R5, R18)."""
    attempt = attempts[-1]
    metadata = attempt.facts.metadata
    if attempt.action != "publish" or metadata is None:
        return
    for key, steps, requirements in (
        ("ack_timeout", ("ack_join", "final_ack"), ("R2", "R3", "R5", "R6")),
        ("close_timeout", ("closing",), ("R18",)),
    ):
        whats = [
            what
            for _, what, phase in attempt.missed
            if phase in steps and (key == "ack_timeout" or what in ("session close", "session.closed"))
        ]
        if whats and not metadata.get(key):
            yield finding(
                attempt,
                f"metadata.{key}",
                requirements,
                f"the text of what ran out: {whats[0]}",
                repr(metadata.get(key)),
            )


def latency_is_the_attempts(observation: Observation, attempts: list[Attempt]) -> Iterator[Finding]:
    """The reported latency is that of the reported attempt (R27)."""
    attempt = attempts[-1]
    if attempt.facts.latency_s is None or attempt.ended_s is None or attempt.action == "":
        return
    took_s = attempt.ended_s - attempt.started_s
    if abs(took_s - attempt.facts.latency_s) > 0.1 and "slow_disk" not in attempt.faults:
        yield finding(
            attempt, "sample.latency_s", ("R27",), f"{took_s:.3f} s", f"{attempt.facts.latency_s:.3f} s"
        )


def inner_timeouts_keep_their_name(observation: Observation, attempts: list[Attempt]) -> Iterator[Finding]:
    """A wait that ran out inside is not called the per-request timeout (R33)."""
    for attempt in attempts:
        if "per-request" in attempt.reason and not timed_out(observation, attempt):
            yield finding(attempt, "sample.error", ("R33",), "the wait that ran out", attempt.reason)


def failures_surface(observation: Observation, attempts: list[Attempt]) -> Iterator[Finding]:
    """An ordinary error in an ack or in the padding is not swallowed (R8, R41)."""
    for attempt in attempts:
        if attempt.action != "publish":
            continue
        for report in observation.faults:
            if report.name != "failing_write" or report.state != "observed":
                continue
            fault: Any = observation.scenario.faults[report.index]
            alone = fault.attempt in (None, attempt.number) and fault.sample in (None, attempt.facts.id)
            if (
                not alone
                or fault.connection is not None
                or fault.raises == "OSError"
                or len(observation.samples) > 1
            ):
                continue
            requirement = {"playback.ack": "R8", "input_audio_buffer.append": "R41"}.get(fault.write)
            if _held_until_given_up(observation, report.index):
                continue
            if requirement is not None and attempt.number == len(attempts) and len(attempts) == 1:
                told = f"published, though a write of {fault.write} raised {fault.raises}"
                yield finding(attempt, "sample.outcome", (requirement,), "failed with the error", told)


def _held_until_given_up(observation: Observation, index: int) -> bool:
    """Whether the write that fails was held by one that swallows its cancellation, and cancelled there.

    Whoever cancels it waits a bounded time, and then for it no more: its failure comes to nobody (R6, R9).
    """
    failing: Any = observation.scenario.faults[index]
    for report in observation.faults:
        if report.name == "swallow_cancellation" and report.state == "observed" and report.index > index:
            holding: Any = observation.scenario.faults[report.index]  # the later one stands in front
            if holding.write == failing.write and holding.nth <= failing.nth:
                return True
    return False


SESSION_RULES = (
    teardown_is_advisory,
    published_is_written,
    teardown_is_bounded,
    errors_are_final,
    stalls_are_retried,
    nothing_fails_by_itself,
    deadlines_are_recorded,
    latency_is_the_attempts,
    inner_timeouts_keep_their_name,
    failures_surface,
)
"""In the order their findings are told."""
