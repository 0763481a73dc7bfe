"""One attempt of a sample as both ends saw it, for the model that says what must have become of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from conformance.doubts import NEAR_S
from conformance.observation import Observation, SampleFacts
from conformance.outcome import Finding
from conformance.wiring import session_name
from mockserver.journal import Entry
from scenarios.faults import FAULTS, Layer

TEARDOWN = ("pad_join", "ack_join", "final_ack", "closing", "forcing")
"""Phases of the client from the end of its drain on."""
QUIET = frozenset({"playback.acknowledged", "response.listen"})
"""What a server goes on saying while nothing happens."""
LAST_EVENTS = frozenset({"error", "session.closed", "session.expired"})
"""Events of a server that end a session, or may."""
SAME_S = 1e-6
"""Moments nearer to each other than this are one: what is left is how floats add up."""


@dataclass
class Attempt:
    """What the client told of an attempt, and what the server journalled of its connection; times from the start."""

    name: str
    number: int
    facts: SampleFacts
    connection: int | None
    started_s: float
    ended_s: float | None = None
    row: int | None = None
    action: str = ""
    reason: str = ""
    phases: list[tuple[float, str]] = field(default_factory=list)
    sent: list[tuple[float, str]] = field(default_factory=list)
    received: list[tuple[float, str]] = field(default_factory=list)
    missed: list[tuple[float, str, str]] = field(default_factory=list)
    """Deadlines that passed: when, what, in which phase."""
    units_after: int = 0
    """Appends that were begun after the teardown had."""
    entries: list[Entry] = field(default_factory=list)
    """The server's journal of its connection, in time."""
    faults: frozenset[str] = frozenset()
    """Faults that were more than armed on its connection, or act on the client."""

    def phase_s(self, *names: str) -> float | None:
        """When the first of these phases began."""
        return next((at_s for at_s, name in self.phases if name in names), None)

    @property
    def last_phase(self) -> str:
        """The phase in which it ended."""
        return self.phases[-1][1] if self.phases else ""

    @property
    def stuck_in(self) -> str:
        """The step of the teardown that took longest."""
        ends = [at_s for at_s, _ in self.phases[1:]] + [self.ended_s or 0.0]
        spent = [
            (end - at_s, name)
            for (at_s, name), end in zip(self.phases, ends, strict=True)
            if name in TEARDOWN
        ]
        return max(spent, default=(0.0, ""))[1]

    def only(self, *allowed: str) -> bool:
        """Whether nothing else went wrong on purpose."""
        return self.faults <= set(allowed)

    def times(self, kind: str, name: str, start_s: float) -> list[float]:
        """When the server noted this."""
        return [entry.t_s - start_s for entry in self.entries if entry.kind == kind and entry.name == name]


def finding(
    attempt: Attempt, check: str, requirements: tuple[str, ...], expected: str, actual: str
) -> Finding:
    """What is wrong with an attempt."""
    return Finding(check, requirements, expected, f"{actual} (attempt {attempt.number})", attempt.facts.name)


def start_s_of(observation: Observation) -> float:
    """Loop time at which the performance began; the times of an attempt count from it."""
    assert observation.recorder is not None
    return observation.recorder.start_s


def timed_out(observation: Observation, attempt: Attempt) -> bool:
    """Whether the per-request timeout may have ended it: it did not end a millisecond or more before that."""
    assert attempt.ended_s is not None
    return attempt.ended_s - attempt.started_s > observation.deadlines.request_s - NEAR_S


def timeout_in_doubt(observation: Observation, attempt: Attempt) -> bool:
    """Whether it may as well have ended by itself in the instant of its per-request timeout."""
    return may_end_by_itself(observation, attempt, attempt.started_s + observation.deadlines.request_s)


def may_end_by_itself(observation: Observation, attempt: Attempt, moment_s: float) -> bool:
    """Whether an attempt that is ended from outside at a moment may as well have ended by itself in that instant.

    An answer that is ready at a deadline's own instant wins (design.md 7). So it may where it was over less than a
    millisecond before, where a step of the teardown began or another wait ran out in that instant, and where the server
    did then what ends a session: its last events, the end of the connection, a fault that begins or ends.
    """
    assert attempt.ended_s is not None
    if attempt.ended_s < moment_s - SAME_S:
        return attempt.ended_s > moment_s - NEAR_S - SAME_S  # no less than what `timed_out` takes for it
    steps_s = [at_s for at_s, name in attempt.phases if name in ("settled", *TEARDOWN[:-1])]
    waits_s = [at_s for at_s, _, _ in attempt.missed]
    moments_s = (*steps_s, *waits_s, *endings_s(observation, attempt))
    return any(abs(at_s - moment_s) < NEAR_S for at_s in moments_s)


def endings_s(observation: Observation, attempt: Attempt) -> Iterator[float]:
    """When the server did what can end a session, or a fault of its connection began or was to end."""
    begun_s = start_s_of(observation)
    for entry in attempt.entries:
        at_s = entry.t_s - begun_s
        if (entry.kind == "sent" and entry.name in LAST_EVENTS) or (
            entry.kind == "end" and entry.data.get("by") == "server"
        ):
            yield at_s
    for began_s, until_s, _ in fault_times(observation, attempt):
        yield began_s
        yield until_s


def fault_times(observation: Observation, attempt: Attempt) -> Iterator[tuple[float, float, bool]]:
    """When faults of its connection began and were to end, and whether the clock began them."""
    for entry in attempt.entries:
        if entry.kind == "fault" and entry.data.get("state") == "triggered":
            fault = observation.scenario.faults[entry.data["index"]]
            began_s = entry.t_s - start_s_of(observation)
            lasts_s = getattr(fault, "for_s", None) or getattr(fault, "delay_s", None) or 0.0
            yield began_s, began_s + lasts_s, getattr(fault, "at_s", None) is not None


def attempts_of(observation: Observation) -> Iterator[list[Attempt]]:
    """The attempts of each sample, in their order."""
    recorder = observation.recorder
    assert recorder is not None
    facts = {(f.split, f.id): f for f in observation.samples}
    named: dict[str, Attempt] = {}
    of_sample: dict[tuple[str, str], list[Attempt]] = {}
    for (split, sample_id), one in facts.items():
        of_sample[split, sample_id] = [
            Attempt(session_name((split, sample_id, number)), number, one, None, -1.0) for number in (1, 2, 3)
        ]
        named.update({attempt.name: attempt for attempt in of_sample[split, sample_id]})
    for record in recorder.records:
        attempt = named.get(record.session)
        if attempt is not None and record.side == "client":
            _take_step(attempt, record.what, record.t_s, record.data)
    _take_connections(observation, named)
    for attempts in of_sample.values():
        yield [attempt for attempt in attempts if attempt.started_s >= 0]


def _take_step(attempt: Attempt, what: str, t_s: float, data: object) -> None:
    assert isinstance(data, dict)
    if what == "attempt_started":
        attempt.started_s = t_s
    elif what == "attempt_ended":
        attempt.ended_s, attempt.row = t_s, data.get("row")
        attempt.action, attempt.reason = str(data.get("action", "")), str(data.get("reason", ""))
    elif what == "phase":
        attempt.phases.append((t_s, str(data["name"])))
    elif what == "sent":
        attempt.sent.append((t_s, str(data["type"])))
        attempt.units_after += data["type"] == "input_audio_buffer.append" and attempt.last_phase in TEARDOWN
    elif what == "received":
        attempt.received.append((t_s, str(data["type"])))
    elif what == "deadline":
        attempt.missed.append((t_s, str(data["what"]), attempt.last_phase))


def _take_connections(observation: Observation, named: dict[str, Attempt]) -> None:
    by_number: dict[int, Attempt] = {}
    for connection in observation.connections:
        if connection.sample is None:
            continue
        attempt = named.get(session_name((*connection.sample, connection.attempt)))
        if attempt is not None:
            attempt.connection = connection.number
            by_number[connection.number] = attempt
    for entry in observation.entries_in_time:
        attempt = by_number.get(entry.connection)
        if attempt is not None:
            attempt.entries.append(entry)
    for attempt in named.values():
        attempt.faults = frozenset(
            report.name
            for report in observation.faults
            if report.state != "armed"
            and (report.connection in (None, attempt.connection) or FAULTS[report.name].layer is Layer.SEAM)
        )
