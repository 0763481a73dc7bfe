"""Rules of the model that look at what was streamed: padding, drain, text."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from conformance.fuzz.attempts import QUIET, TEARDOWN, Attempt, finding, start_s_of
from conformance.observation import Observation
from conformance.outcome import Finding

QUIET_ENDS = (
    "late_session_closed",
    "no_session_closed",
    "ignore_close",
    "no_close_reply",
    "slow_close",
    "split_text",
)
"""Faults that do not touch what comes before the teardown."""
FROZEN = ("never_done", "freeze_tail", "extra_reply_in_padding", "listen_per_padded_unit")
SAMPLES_A_S = 16_000
SLOW_DECISION_MS = 500
QUIET_TOLERANCE_S = 1.2
"""A drain may end so much later than its quiet has lasted."""
"""A model slower than this decides units when the next are there already: the residual is not told apart from them."""


def clip_s(observation: Observation, attempt: Attempt) -> float:
    """Seconds of the attempt's clip."""
    return next(
        p.video_duration_s
        for p in observation.prepared
        if (p.split, p.id) == (attempt.facts.split, attempt.facts.id)
    )


def padding_keeps_replies_going(observation: Observation, attempts: list[Attempt]) -> Iterator[Finding]:
    """While a reply is open after the commit, silence is appended (R36, R40)."""
    start_s = start_s_of(observation)
    for attempt in attempts:
        if not attempt.only(*QUIET_ENDS, *FROZEN):
            continue
        commits = attempt.times("received", "input_audio_buffer.commit", start_s)
        if not commits:
            continue
        commit_s = commits[0]
        left_s = min(
            [attempt.ended_s or math.inf, *(at_s for at_s, name in attempt.phases if name in TEARDOWN)]
        )
        opened_s: float | None = None
        for entry in attempt.entries:
            if (entry.kind, entry.name) == ("received", "session.close"):
                break  # which ends what was never pulled out
            at_s = entry.t_s - start_s
            if entry.kind == "sent" and entry.name == "response.created" and opened_s is None:
                opened_s = at_s
            elif entry.kind == "sent" and entry.name == "response.done":
                opened_s = None
        if opened_s is None:
            continue
        since_s = max(opened_s, commit_s)
        appended = [
            at for at in attempt.times("received", "input_audio_buffer.append", start_s) if at > commit_s
        ]
        if left_s - since_s > 3.0 and not [at for at in appended if at > since_s]:
            told = f"a reply stayed open {left_s - since_s:.1f} s after the commit, and nothing was appended"
            yield finding(
                attempt, "wire.padded_appends", ("R36", "R40", "R49"), "silence, a unit a period", told
            )


def quiet_since(observation: Observation, attempt: Attempt, *allowed: str) -> float | None:
    """When the last thing happened that a drain waits for: everything done, the residual decided; None: not so.

    Args: allowed: faults beside those of the end that leave it beyond doubt, for who asks.
    """
    start_s = start_s_of(observation)
    if not attempt.only(*QUIET_ENDS, "listen_per_padded_unit", "extra_reply_in_padding", *allowed):
        return None
    if observation.scenario.server.decision_ms > SLOW_DECISION_MS:
        return None
    commits = attempt.times("received", "input_audio_buffer.commit", start_s)
    committed = attempt.times("sent", "input_audio_buffer.committed", start_s)
    if not commits or not committed:
        return None
    open_now: set[Any] = set()
    last_s = committed[0]
    decided = False
    heard_s, behind = 0.0, True
    for entry in attempt.entries:
        at_s = entry.t_s - start_s
        if entry.kind == "unit":  # what was sent faster than it is decided on keeps the server saying so
            behind = heard_s < clip_s(observation, attempt) - 1 / SAMPLES_A_S
            heard_s += entry.data.get("samples", 0) / SAMPLES_A_S
        if entry.kind != "sent" or entry.name == "error":
            if entry.name == "error":
                return None
            continue
        if entry.name == "response.created":
            open_now.add(entry.data.get("response_id"))
        elif entry.name == "response.done":
            open_now.discard(entry.data.get("response_id"))
        decides = entry.name == "response.listen" or (
            entry.name == "response.done" and entry.data.get("status") != "cancelled"
        )
        if at_s >= committed[0] and decides:
            if not decided or behind or entry.name != "response.listen":
                last_s = at_s
            decided = True
        elif entry.name not in QUIET and not entry.name.startswith("session."):
            last_s = max(last_s, at_s)
    return last_s if decided and not open_now else None


def padding_ends(observation: Observation, attempts: list[Attempt]) -> Iterator[Finding]:
    """Nothing is appended once everything is done and decided (R43, R44, R46)."""
    start_s = start_s_of(observation)
    for attempt in attempts:
        quiet_s = quiet_since(observation, attempt)
        if quiet_s is None:
            continue
        late = [
            at for at in attempt.times("received", "input_audio_buffer.append", start_s) if at > quiet_s + 0.6
        ]
        if late:
            told = f"{len(late)} append(s), the first {late[0] - quiet_s:.2f} s after the last reply was done"
            yield finding(
                attempt, "wire.padded_appends", ("R43", "R44", "R46"), "none once all is done", told
            )


def drains_end_in_time(observation: Observation, attempts: list[Attempt]) -> Iterator[Finding]:
    """A drain ends after its quiet, not at its window (R43, R46), and a window is not cut short (R50)."""
    deadlines = observation.deadlines
    for attempt in attempts:
        drained = [at_s for at_s, what, _ in attempt.missed if what == "drain"]
        sent = [at_s for at_s, name in attempt.sent if name == "input_audio_buffer.commit"]
        window_s = clip_s(observation, attempt) + deadlines.drain_slack_s
        if drained and sent and drained[0] < sent[0] + window_s - 0.1:
            told = f"given up {drained[0] - sent[0]:.1f} s after the commit"
            yield finding(attempt, "metadata.drain_timeout", ("R50",), f"a window of {window_s:.1f} s", told)
        over_s = drain_over_s(observation, attempt)
        if over_s > 0:
            told = (
                f"left {deadlines.settle_s + QUIET_TOLERANCE_S + over_s:.1f} s after the last reply was done"
            )
            check = "metadata.drain_timeout" if drained else "finishes_within_s"
            expected = f"left after {deadlines.settle_s:g} s of quiet"
            yield finding(attempt, check, ("R43", "R46"), expected, told)


def drain_over_s(observation: Observation, attempt: Attempt) -> float:
    """How much longer than its quiet a drain took once all was done and decided."""
    left_s, quiet_s = attempt.phase_s(*TEARDOWN), quiet_since(observation, attempt)
    if left_s is None or quiet_s is None:
        return 0.0
    return max(0.0, left_s - quiet_s - observation.deadlines.settle_s - QUIET_TOLERANCE_S)


def nobody_is_left_speaking(observation: Observation, attempts: list[Attempt]) -> Iterator[Finding]:
    """A drain that says it has settled leaves no reply open and no residual undecided (R36, R49)."""
    start_s = start_s_of(observation)
    # Listens carry no number: only the quiet tells the residual's from an earlier unit's (evaluation.md 7).
    covered = observation.scenario.server.decision_ms / 1000 < observation.deadlines.settle_s - 0.05
    for attempt in attempts:
        settled_s = attempt.phase_s("settled")
        if settled_s is None or not attempt.only(*QUIET_ENDS, "freeze_tail", "listen_per_padded_unit"):
            continue
        open_now: dict[Any, float] = {}
        decided = committed = heard = False
        for entry in attempt.entries:
            at_s = entry.t_s - start_s
            if at_s > settled_s - 0.1:
                break
            if entry.kind == "sent" and entry.name == "response.created":
                open_now[entry.data.get("response_id")] = at_s
            elif entry.kind == "sent" and entry.name == "response.done":
                open_now.pop(entry.data.get("response_id"), None)
            committed |= entry.kind == "sent" and entry.name == "input_audio_buffer.committed"
            heard |= committed and entry.kind == "sent" and entry.name in ("response.listen", "response.done")
            decided |= entry.kind == "unit" and entry.data.get("cause") == "commit"
            decided |= (
                entry.data.get("reason") == "silence_or_noise"
            )  # a commit of silence is decided at once
        told = ""
        if open_now:
            told = (
                f"settled at {settled_s:.2f} s, while a reply was open since {min(open_now.values()):.2f} s"
            )
        elif committed and not decided and (covered or not heard):
            told = f"settled at {settled_s:.2f} s, before the residual unit was decided"
        if told:
            yield finding(attempt, "sample.text", ("R36", "R49"), "every reply of the input awaited", told)


def padding_stops_when_told(observation: Observation, attempts: list[Attempt]) -> Iterator[Finding]:
    """Once the teardown has begun no further unit is begun (R44)."""
    for attempt in attempts:
        if attempt.units_after:
            told = f"{attempt.units_after} after the teardown had begun"
            yield finding(attempt, "wire.padded_appends", ("R43", "R44"), "no append in the teardown", told)


def text_is_the_inputs(observation: Observation, attempts: list[Attempt]) -> Iterator[Finding]:
    """Every reply of the input stands in the answer (R36, R49, R51); one that the clip did not cause does not (R48)."""
    attempt = attempts[-1]
    if attempt.action != "publish" or attempt.facts.sentences is None:
        return
    if not attempt.only(*QUIET_ENDS, *FROZEN, "stop_reading", "no_transport", "no_socket"):
        return
    commits = attempt.times("received", "input_audio_buffer.commit", start_s_of(observation))
    if (
        not commits or "split_text" in attempt.faults
    ):  # the journal tells the halves of a character in escapes
        return
    said = _bare(attempt.facts.text)
    if "extra_reply_in_padding" in attempt.faults:
        yield from _unasked(observation, attempt, said)
        return
    texts, early, late = _replies(attempt, commits[0] + start_s_of(observation))
    wanted = "".join(_bare(texts[key]) for key in texts if key in early)
    whole = "".join(_bare(text) for key, text in texts.items() if key not in late)
    if not said.startswith(wanted) or not whole.startswith(said):
        requirements = ("R36", "R48", "R49", "R51")
        yield finding(
            attempt, "sample.text", requirements, f"{wanted[:120]!r} and what followed", repr(said[:120])
        )


def _replies(attempt: Attempt, commit_s: float) -> tuple[dict[Any, str], set[Any], set[Any]]:
    """Text of each reply by its id; those begun before the commit; those that are late beyond doubt (design.md 7)."""
    texts: dict[Any, str] = {}
    early: set[Any] = set()
    late: set[Any] = set()
    open_now: set[Any] = set()
    residual = False
    after_residual = False
    for entry in attempt.entries:
        if entry.kind == "unit":
            after_residual = residual
            residual |= entry.data.get("cause") == "commit"
        if entry.kind != "sent":
            continue
        key = entry.data.get("response_id")
        if entry.name == "response.created":
            texts[key] = ""
            if entry.t_s < commit_s:
                early.add(key)
            elif after_residual and not open_now and len(texts) > 1:
                late.add(key)
            open_now.add(key)
        elif entry.name.endswith("transcript.delta") and key in texts:
            texts[key] += str(entry.data.get("delta", ""))
        elif entry.name == "response.done":
            open_now.discard(key)
    return texts, early, late


def _unasked(observation: Observation, attempt: Attempt, said: str) -> Iterator[Finding]:
    for fault in observation.scenario.faults:
        text = getattr(fault, "text", None)
        if fault.name == "extra_reply_in_padding" and text and _bare(text) in said:
            others = "".join(_bare(reply.text) for reply in observation.scenario.server.reply)
            if _bare(text) not in others and _answered_before(attempt):
                yield finding(
                    attempt,
                    "sample.text",
                    ("R48",),
                    "without the reply that the clip did not cause",
                    repr(said[-120:]),
                )


def _answered_before(attempt: Attempt) -> bool:
    """Whether a reply was done before the one that the clip did not cause began: the first of all is not late."""
    done = False
    for entry in attempt.entries:
        if entry.kind == "sent" and entry.name == "response.done":
            done = True
        elif entry.kind == "fault" and "began" in entry.data:
            return done
    return False


def _bare(text: str) -> str:
    return "".join(text.split())


STREAM_RULES = (
    padding_keeps_replies_going,
    padding_ends,
    padding_stops_when_told,
    drains_end_in_time,
    nobody_is_left_speaking,
    text_is_the_inputs,
)
"""In the order their findings are told."""
