"""What holds in every scenario without being named (design.md section 8). Each invariant is a plain function."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from conformance.abilities import Need
from conformance.checks import Told, matches
from conformance.checks_judge import judge_ledger
from conformance.checks_reask import judge_reask_reason
from conformance.invariants_attempts import ATTEMPT_INVARIANTS
from conformance.invariants_base import Invariant, invariant
from conformance.invariants_left import LEFT_INVARIANTS, WARNINGS, sessions_without_end
from conformance.invariants_resume import RESUME_INVARIANTS
from conformance.invariants_stream import PCM_BYTES_PER_MS, STREAM_INVARIANTS, UNREAD
from conformance.observation import Observation, PendingTask
from conformance.outcome import Finding, Unobserved
from conformance.overdue import longest_wait


def unbounded_await(observation: Observation) -> Iterator[Finding]:
    """Every await of the client ends: nothing of it is pending when the watchdog fires or the timers run out."""
    if not observation.watchdog_fired and not observation.livelock:
        return
    longest = longest_wait(observation)
    if observation.livelock:
        yield Finding(
            "unbounded-await",
            ("R1",),
            "the clock goes on",
            f"livelock: {observation.livelock}",
            deadline=longest,
            details=_stacks(observation.pending),
        )
        return
    yield Finding(
        "unbounded-await",
        _hang_requirements(observation),
        f"the client returns within its own worst case and 60 s ({observation.watchdog_s:g} s)"
        if not observation.outside
        else f"the client returns before the harness gives up on it ({observation.watchdog_s:g} s)",
        f"{len(observation.pending)} task(s) of the client pending: "
        + ", ".join(t.name for t in observation.pending)
        + (f"; {last_word(observation)}" if observation.outside else ""),
        deadline=None if observation.outside else longest,
        details=tuple(line for task in observation.pending for line in (f"task {task.name}", *task.stack)),
    )


def last_word(observation: Observation) -> str:
    """What the server last heard of a client that hangs, for one that does not say itself where it is."""
    assert observation.recorder is not None
    begun_s = observation.recorder.start_s
    heard = [
        entry
        for entry in observation.entries_in_time
        # Before it was given up: what comes then is the end that was made of it.
        if entry.kind in ("open", "received", "end") and entry.t_s - begun_s < observation.client_s
    ]
    if not heard:
        return "it never connected"
    last, connection = heard[-1], heard[-1].connection
    since_s = observation.client_s - (last.t_s - begun_s)
    told = {"open": "it opened", "end": "its end was seen on"}.get(last.kind, f"it sent {last.name} on")
    return f"last on the wire: {told} connection {connection}, {since_s:.1f} s before"


def _hang_requirements(observation: Observation) -> tuple[str, ...]:
    spoken = ("R1", "R5", "R6", "R11", "R13", "R14")
    named = tuple(r for r in observation.scenario.requires if r in spoken)
    return named or ("R1",)


def sample_conservation(observation: Observation) -> Iterator[Finding]:
    """requested = published + failed (with a reason) + cancelled; attempts add up; files and summary agree."""
    counted = not observation.outside or observation.all_known
    for facts in observation.samples:
        if facts.outcome not in ("published", "failed", "cancelled", "skipped_finished"):
            yield Finding(
                "sample-conservation",
                ("R30", "R31"),
                "published, failed, cancelled, or finished before",
                f"{facts.outcome}: no file and no record says what became of it",
                facts.name,
            )
        elif (facts.outcome in ("published", "skipped_finished")) != (facts.sentences is not None):
            there = "is there" if facts.sentences is not None else "is not there"
            yield Finding(
                "sample-conservation",
                ("R20",),
                "the answer file is there exactly when the sample is published",
                f"{facts.outcome}, and {facts.id}.json {there}",
                facts.name,
            )
        if facts.outcome == "failed" and not facts.error and not observation.outside:
            yield Finding(
                "sample-conservation",
                ("R30", "R31"),
                "a failed sample has a reason",
                "empty error",
                facts.name,
            )
        retried = facts.attempts - 1 if facts.attempts else 0
        counts_here = facts.retry_count is not None and facts.outcome not in ("cancelled", "skipped_finished")
        if counted and counts_here and facts.retry_count != retried:
            yield Finding(
                "sample-conservation",
                ("R28",),
                f"retry_count {retried}, as the server saw {facts.attempts} connection(s)",
                f"retry_count {facts.retry_count}",
                facts.name,
            )
    yield from _tallies(observation)


def _tallies(observation: Observation) -> Iterator[Finding]:
    result = observation.result
    if result is None:
        return
    samples = observation.samples
    counted = {
        "requested": len(samples),
        "published": sum(f.outcome in ("published", "skipped_finished") for f in samples),
        "published_now": sum(f.outcome == "published" for f in samples),
        "skipped_finished": sum(f.outcome == "skipped_finished" for f in samples),
        "failed": sum(f.outcome == "failed" for f in samples),
        "cancelled": sum(f.outcome == "cancelled" for f in samples),
        "duplex_retried_samples": sum((f.retry_count or 0) > 0 for f in samples),
        "duplex_retry_count": sum(f.retry_count or 0 for f in samples),
    }
    for name, count in counted.items():
        said = getattr(result, name)
        if said != count:
            yield Finding(
                "sample-conservation",
                ("R29", "R31"),
                f"{name} {count}, as samples and files say",
                f"the run says {said}",
            )


def task_leak(observation: Observation) -> Iterator[Finding]:
    """No task of the client is left 5 s after it returned and every seam was released.

    The library's own one is, with the socket that nobody could close (`sessions_without_end`).
    """
    if observation.watchdog_fired:
        return  # the hang is told by unbounded-await; what it left is no second finding
    unending = sessions_without_end(observation)
    leaked = [task for task in observation.leaked if task.keeps_alive not in unending]
    if leaked:
        yield Finding(
            "task-leak",
            ("R9", "R14"),
            "no task of the client is left 5 s after it returned",
            ", ".join(task.name for task in leaked),
            details=_stacks(leaked),
        )


def _stacks(tasks: list[PendingTask]) -> tuple[str, ...]:
    return tuple(line for task in tasks for line in (f"task {task.name}", *task.stack))


def exception_never_retrieved(observation: Observation) -> Iterator[Finding]:
    """Nobody's exception is left to the garbage collector."""
    for told in observation.loop_errors:
        yield Finding("exception-never-retrieved", ("R9",), "every task's exception is consumed", told)


def log_error(observation: Observation) -> Iterator[Finding]:
    """The client logs no error of its own making: a failed sample is told as a warning, an error means a bug.

    What the scenario expects of the log (a full disk, say) is none.
    """
    expected = observation.scenario.expect.log
    for record in observation.logs:
        if record.levelno >= logging.ERROR and record.name.split(".")[0] == "client":
            if any(matches(matcher, record.getMessage()) for matcher in expected):
                continue
            yield Finding("log-error", ("R41",), "no error in the client's log", record.getMessage()[:300])


ABOUT_PADDING = frozenset({"speech-after-commit", "audio-end-not-rising"})
"""Rules of the server's reader that R39 speaks of; the others have a section of protocol.md and no number."""


def wire_violation(observation: Observation) -> Iterator[Finding]:
    """The client sends nothing that docs/protocol.md forbids."""
    seen: set[tuple[str, str]] = set()
    for entry in observation.entries:
        if entry.kind != "violation":
            continue
        section = str(entry.data.get("section", ""))
        if (entry.name, section) in seen:
            continue
        seen.add((entry.name, section))
        yield Finding(
            "wire-violation",
            ("R39",) if entry.name in ABOUT_PADDING else (),
            f"protocol.md {section}",
            f"{entry.name}: {entry.data.get('detail', '')} (connection {entry.connection}, t {entry.t_s:.3f})",
        )


def append_before_commit(observation: Observation) -> Iterator[Finding]:
    """Nothing is appended between the last unit of the clip and the commit: the server gets the shaped clip."""
    lengths = {(p.split, p.id): len(p.pcm) for p in observation.prepared}
    received: dict[int, int] = {}
    committed: set[int] = set()
    names = {c.number: c.sample for c in observation.connections}
    for entry in observation.entries_in_time:
        if entry.kind != "received" or entry.connection in committed:
            continue
        if entry.data.keys() & UNREAD:
            committed.add(entry.connection)  # its session was over: nobody counted what came then
        elif entry.name == "input_audio_buffer.append":
            received[entry.connection] = received.get(entry.connection, 0) + int(
                entry.data.get("audio_bytes", 0)
            )
        elif entry.name == "input_audio_buffer.commit":
            committed.add(entry.connection)
            sample = names.get(entry.connection)
            if sample is None or sample not in lengths:
                continue
            clip_bytes = lengths[sample]
            period_bytes = observation.period_ms(entry.connection) * PCM_BYTES_PER_MS
            wanted = clip_bytes - 2 if clip_bytes % period_bytes == 0 else clip_bytes
            got = received.get(entry.connection, 0)
            if got != wanted:
                yield Finding(
                    "append-before-commit",
                    ("R37", "R38"),
                    f"{wanted} bytes before the commit ({clip_bytes} of the clip, tail shaped)",
                    f"{got} bytes",
                    "/".join(sample),
                )


INVARIANTS: tuple[Invariant, ...] = (
    invariant(unbounded_await),
    invariant(sample_conservation, Need.FILES, Need.WIRE),
    *ATTEMPT_INVARIANTS,
    invariant(task_leak, Need.LOOP),
    invariant(exception_never_retrieved, Need.LOOP),
    invariant(log_error, Need.LOG),
    invariant(wire_violation, Need.WIRE),
    invariant(append_before_commit, Need.WIRE),
    *STREAM_INVARIANTS,
    *LEFT_INVARIANTS,
    invariant(
        judge_ledger,
        Need.JUDGE,
        Need.FILES,
        findings=(
            "judge-ledger",
            "judge-violation",
            "judge-request-text",
            "judge-conservation",
            "torn-artifact",
        ),
    ),
    invariant(judge_reask_reason, Need.JUDGE, Need.FILES),
    *RESUME_INVARIANTS,
)
"""All invariants, in the order their findings are told."""


def check_invariants(observation: Observation) -> Iterator[Told]:
    """Findings of every invariant; what cannot be seen here is told as unobserved."""
    yield from _all(INVARIANTS, observation)


def check_warnings(observation: Observation) -> Iterator[Told]:
    """What a reader should know and what fails nothing."""
    yield from _all(WARNINGS, observation)


def _all(invariants: Iterable[Invariant], observation: Observation) -> Iterator[Told]:
    for one in invariants:
        need = observation.abilities.missing(one.needs)
        if need is None:
            yield from one.check(observation)
        else:
            yield Unobserved(one.id, "invariant", need, observation.abilities.why_not[need])
