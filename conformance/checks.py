"""What a scenario expects, checked one statement at a time. Each check is a plain function from facts to findings."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from conformance.abilities import Need
from conformance.checks_wire import last_acks_ms, wire_counts
from conformance.observation import Observation, SampleFacts
from conformance.outcome import Finding, Unobserved
from scenarios.model import SampleExpect

UNCHECKED = "unchecked"

Told = Finding | Unobserved

NEEDS: Mapping[str, frozenset[Need]] = {
    "sample": frozenset({Need.FILES}),
    "sample.attempts": frozenset({Need.WIRE}),
    "sample.retry_count": frozenset({Need.FILES, Need.METADATA}),
    "sample.response_done": frozenset({Need.FILES, Need.METADATA}),
    "sample.late_text": frozenset({Need.FILES, Need.METADATA}),
    "sample.anomalies": frozenset({Need.FILES, Need.METADATA}),
    "metadata": frozenset({Need.FILES, Need.METADATA}),
    "finishes_within_s": frozenset(),
    "refused": frozenset({Need.SETTINGS}),
    "run": frozenset({Need.FILES}),
    "verdicts": frozenset({Need.FILES, Need.SETTINGS}),
    "dataset": frozenset({Need.SETTINGS}),
    "wire": frozenset({Need.WIRE}),
    "log": frozenset({Need.LOG}),
    "warnings": frozenset({Need.LOG}),
    "deadlines": frozenset({Need.OBSERVER}),
    "socket_evidence": frozenset({Need.TRANSPORT}),
    "judge": frozenset({Need.JUDGE, Need.FILES}),
    "accuracy": frozenset({Need.JUDGE, Need.FILES}),
}
"""What a check needs, by its id or by the first parts of it."""

REQUIREMENTS: Mapping[str, tuple[str, ...]] = {
    "sample.outcome": ("R2", "R19", "R20", "R30", "R31", "R36", "R45", "R50", "R51", "R32", "R35", "R49"),
    "sample.attempts": ("R21", "R22", "R23", "R24", "R25", "R26", "R4", "R19", "R32"),
    "sample.retry_count": ("R28", "R2", "R26"),
    "sample.response_done": ("R36", "R46", "R49", "R50"),
    "sample.error": ("R30", "R31", "R22", "R25", "R33", "R2", "R8", "R41", "R45", "R35", "R49"),
    "sample.text": ("R48", "R36", "R51", "R49"),
    "sample.sentences": ("R48", "R36"),
    "sample.first_start_s": ("R39", "R51"),
    "sample.last_end_s": ("R39",),
    "sample.late_text": ("R48",),
    "sample.latency_s": ("R27",),
    "metadata.ack_timeout": ("R2", "R3", "R4", "R5", "R6"),
    "metadata.close_timeout": ("R12", "R18", "R19"),
    "metadata.drain_timeout": ("R46", "R50"),
    "sample.close": ("R12", "R13", "R14", "R15", "R16", "R17"),
    "finishes_within_s": ("R1", "R5", "R6", "R11", "R13", "R14", "R32", "R46"),
    "run": ("R29", "R31"),
    "run.median_e2el_ms": ("R27",),
    "run.mean_e2el_ms": ("R27",),
    "run.p99_e2el_ms": ("R27",),
    "verdicts": ("R29", "R31", "R61"),
    "dataset": ("R30", "R31"),
    "wire.connections": ("R26", "R21"),
    "wire.appends": ("R37", "R38", "R43"),
    "wire.padded_appends": ("R36", "R40", "R43", "R44"),
    "wire.closes": ("R10",),
    "wire.acks_after_close": ("R10",),
    "wire.last_acks_ms": ("R1",),
    "wire.aborts": ("R13", "R15"),
    "wire.client_close_code": ("R15",),
    "wire.last_clip_append_bytes": ("R38",),
    "log": ("R16", "R17", "R31", "R33"),
    "warnings": ("R15",),
    "deadlines": ("R1", "R5", "R6", "R11", "R12", "R13", "R14", "R33"),
}
"""Requirements a check speaks for; the scenario's own `requires` picks among them."""

OF_DEADLINES: Mapping[str, tuple[str, ...]] = {
    "periodic playback ack": ("R6",),
    "playback.ack": ("R1", "R5", "R33"),
    "session close": ("R11", "R12", "R13", "R14"),
    "session.closed": ("R11", "R12"),
}
"""What a deadline that should have been told, or should not, speaks for."""


def requirements_of(check: str, requires: Iterable[str]) -> tuple[str, ...]:
    """The requirement ids a finding of this check names: what the scenario requires and the check speaks for.

    None where the two share none: naming everything the scenario requires would let any failure pass for any other.
    """
    spoken = REQUIREMENTS.get(check, REQUIREMENTS.get(check.split(".", 1)[0], ()))
    return tuple(r for r in requires if r in spoken)


def needs_of(check: str) -> frozenset[Need]:
    """What a check needs. Raises KeyError: it names none, an error of ours."""
    return next(NEEDS[name] for name in _names(check) if name in NEEDS or "." not in name)


def _names(check: str) -> Iterator[str]:
    """The id of a check, then its first parts, longest first."""
    parts = check.split(".")
    return (".".join(parts[:count]) for count in range(len(parts), 0, -1))


def unobserved(observation: Observation, check: str, sample: str | None) -> Unobserved | None:
    """What keeps a check from being made here; None: nothing does."""
    need = observation.abilities.missing(needs_of(check))
    if need is not None:
        return Unobserved(check, "statement", need, observation.abilities.why_not[need], sample)
    unsaid = _unsaid(observation, check, sample)
    return None if unsaid is None else Unobserved(check, "statement", Need.FILES, unsaid, sample)


def _unsaid(observation: Observation, check: str, sample: str | None) -> str | None:
    """Why the files of a client of others do not answer a check, told for it or for the first parts of its id."""
    return next((why for name in _names(check) if (why := observation.unsaid.get((name, sample)))), None)


def matches(expected: Any, actual: Any) -> bool:
    """Whether a value meets a matcher of a scenario (scenarios.model.Matcher)."""
    if isinstance(expected, dict) and len(expected) >= 1:
        return all(_matches_one(key, value, actual) for key, value in expected.items())
    if expected == "set":
        return bool(actual)
    if isinstance(expected, bool) or isinstance(actual, bool):
        return expected is actual
    return bool(expected == actual)


def _matches_one(key: str, value: Any, actual: Any) -> bool:
    if key == "contains":
        return value in actual if isinstance(actual, str | list) else False
    if key == "not_contains":
        return value not in actual if isinstance(actual, str | list) else True
    if key == "at_least":
        return isinstance(actual, int | float) and actual >= value
    if key == "at_most":
        return isinstance(actual, int | float) and actual <= value
    if key == "one_of":
        return actual in value
    raise ValueError(
        f"matcher {key!r} is not known; known: contains, not_contains, at_least, at_most, one_of"
    )


def told(matcher: Any) -> str:
    """A matcher in words."""
    if matcher == "set":
        return "set"
    if matcher is None:
        return "null"
    if isinstance(matcher, dict):
        return ", ".join(f"{key.replace('_', ' ')} {value!r}" for key, value in matcher.items())
    return repr(matcher)


def check_expectations(observation: Observation) -> Iterator[Told]:
    """Every statement under `expect`, in the order of the schema."""
    expect = observation.scenario.expect
    for facts in observation.samples:
        if expect.sample is not None and facts.id not in expect.samples:
            yield from _check_sample(observation, facts, expect.sample)
        if facts.id in expect.samples:
            yield from _check_sample(observation, facts, expect.samples[facts.id])
        yield from _check_metadata(observation, facts, expect.metadata)
        if expect.close is not None:
            yield from _check(observation, "sample.close", expect.close, facts.close, facts.name)
    if expect.finishes_within_s is not None:
        yield from _statement(
            observation,
            "finishes_within_s",
            observation.client_s <= expect.finishes_within_s,
            f"the client returns within {expect.finishes_within_s:g} s",
            f"{observation.client_s:.3f} s" + (" (watchdog)" if observation.watchdog_fired else ""),
            None,
        )
    if expect.refused != UNCHECKED:
        yield from _check(observation, "refused", expect.refused, observation.refused, None)
    yield from _check_run(observation)
    yield from _check_verdicts(observation)
    yield from _check_wire(observation)
    yield from _check_log(observation)
    if expect.deadlines is not None:
        yield from _check_deadlines(observation, expect.deadlines)
    if expect.socket_evidence is not None:
        yield from _check(
            observation, "socket_evidence", {"contains": expect.socket_evidence}, proofs(observation), None
        )


def _check_sample(observation: Observation, facts: SampleFacts, expect: SampleExpect) -> Iterator[Told]:
    metadata = facts.metadata or {}
    sentences = facts.sentences or []
    values: dict[str, tuple[Any, Any]] = {
        "sample.outcome": (UNCHECKED if expect.outcome is None else expect.outcome, facts.outcome),
        "sample.attempts": (expect.attempts, facts.attempts),
        "sample.retry_count": (expect.retry_count, facts.retry_count),
        "sample.response_done": (expect.response_done, metadata.get("response_done")),
        "sample.error": (expect.error, facts.error),
        "sample.text": (expect.text, facts.text),
        "sample.sentences": (expect.sentences, len(sentences)),
        "sample.first_start_s": (expect.first_start_s, sentences[0].get("start") if sentences else None),
        "sample.last_end_s": (expect.last_end_s, sentences[-1].get("end") if sentences else None),
        "sample.late_text": (expect.late_text, _joined(metadata.get("late_sentences"))),
        "sample.attempt_files": (expect.attempt_files, len(facts.diagnostics)),
        "sample.latency_s": (expect.latency_s, facts.latency_s),
        "sample.close": (UNCHECKED if expect.close is None else expect.close, facts.close),
    }
    for name, (wanted, actual) in values.items():
        if wanted != UNCHECKED:
            yield from _check(observation, name, wanted, actual, facts.name)
    for name, matcher in expect.anomalies.items():
        counted = metadata.get("anomalies") or {}
        met = matches(matcher, counted.get(name, 0))
        shown = f"{counted.get(name, 0)}; counted: {_counts(counted)}"
        yield from _statement(observation, f"sample.anomalies.{name}", met, told(matcher), shown, facts.name)
    yield from _check_metadata(observation, facts, expect.metadata)
    yield from _check_diagnostics(observation, facts, "first_attempt", expect.first_attempt)
    yield from _check_diagnostics(observation, facts, "last_attempt", expect.last_attempt)


def _counts(counted: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counted.items()) or "nothing"


def _joined(sentences: Any) -> str:
    return " ".join(str(item.get("sentence", "")) for item in sentences or [])


def _check_diagnostics(
    observation: Observation, facts: SampleFacts, which: str, expect: Mapping[str, Any]
) -> Iterator[Told]:
    """What an attempt left in `attempts/`: the first one, or the last one that the server saw."""
    number = 1 if which == "first_attempt" else facts.attempts
    found = next((d for d in facts.diagnostics if d.get("attempt") == number), None)
    absent = "the attempt left no diagnostics"
    for key, matcher in expect.items():
        yield from _check_key(observation, f"sample.{which}", key, matcher, found, absent, facts.name)


def _check_metadata(
    observation: Observation, facts: SampleFacts, expect: Mapping[str, Any]
) -> Iterator[Told]:
    absent = "no metadata was written"
    for key, matcher in expect.items():
        yield from _check_key(observation, "metadata", key, matcher, facts.metadata, absent, facts.name)


def _check_key(
    observation: Observation,
    prefix: str,
    key: str,
    matcher: Any,
    document: Mapping[str, Any] | None,
    absent: str,
    sample: str,
) -> Iterator[Told]:
    """One key of a document that may not be there."""
    name = f"{prefix}.{key}"
    if document is not None and key in document:
        yield from _check(observation, name, matcher, document[key], sample)
    else:
        actual = absent if document is None else "the key is absent"
        yield from _statement(observation, name, False, told(matcher), actual, sample)


def _check_log(observation: Observation) -> Iterator[Told]:
    expect = observation.scenario.expect
    messages = [record.getMessage() for record in observation.logs]
    for matcher in expect.log:
        met = any(matches(matcher, message) for message in messages)
        shown = " | ".join(messages[-5:]) or "no message"
        yield from _statement(observation, "log", met, f"a log message: {told(matcher)}", shown, None)
    if expect.warnings != UNCHECKED:
        grave = [
            record.getMessage()
            for record in observation.logs
            if record.levelno >= logging.WARNING and record.name.split(".")[0] == "client"
        ]
        met = matches(expect.warnings, len(grave))
        shown = " | ".join([str(len(grave)), *grave[:5]])
        yield from _statement(observation, "warnings", met, told(expect.warnings), shown, None)


def _check_deadlines(observation: Observation, wanted: Sequence[str]) -> Iterator[Told]:
    """Which ran over; a finding names what the ones that differ speak for, where the scenario requires any of it."""
    actual = missed_deadlines(observation)
    spoken_for = requirements_of("deadlines", observation.scenario.requires)
    differing = {r for name in set(wanted) ^ set(actual) for r in OF_DEADLINES.get(name, ())}
    narrowed = tuple(r for r in spoken_for if r in differing)
    yield from statement(
        observation,
        "deadlines",
        actual == wanted,
        told(wanted),
        repr(actual),
        None,
        narrowed or spoken_for,
    )


def missed_deadlines(observation: Observation) -> list[str]:
    """Names of the deadlines that passed, as the client told them, each once, in the order of the first time."""
    assert observation.recorder is not None
    told_by_client = [r for r in observation.recorder.records if (r.side, r.what) == ("client", "deadline")]
    return list(dict.fromkeys(str(record.data["what"]) for record in told_by_client))


def proofs(observation: Observation) -> list[str]:
    """How the faults of the scenario were proven from a socket, each way once."""
    seen = (report.evidence.get("proof") for report in observation.faults if report.state == "observed")
    return sorted({str(proof) for proof in seen if proof is not None})


def _check_run(observation: Observation) -> Iterator[Told]:
    expect = observation.scenario.expect.run
    if not expect:
        return
    document = observation.result.to_json() if observation.result else observation.document or {}
    for key, matcher in expect.items():
        actual = document.get(key, "absent")
        yield from _check(observation, f"run.{key}", matcher, actual, None)


def _check_verdicts(observation: Observation) -> Iterator[Told]:
    result = observation.result
    given = {verdict["name"]: verdict for verdict in result.verdicts} if result is not None else {}
    for name, wanted in observation.scenario.expect.verdicts.items():
        verdict = given.get(name, {"passed": None})
        actual = {True: "passed", False: "failed", None: "absent"}[verdict["passed"]]
        yield from _check(observation, f"verdicts.{name}", wanted, actual, None)


def _check_wire(observation: Observation) -> Iterator[Told]:
    expect = observation.scenario.expect.wire
    if expect is None:
        return
    counts = {**wire_counts(observation), "last_acks_ms": last_acks_ms(observation)}
    for key in type(expect).model_fields:
        matcher = getattr(expect, key)
        if matcher != UNCHECKED:
            yield from _check(observation, f"wire.{key}", matcher, counts[key], None)


def _check(
    observation: Observation, name: str, matcher: Any, actual: Any, sample: str | None
) -> Iterator[Told]:
    met = matches(matcher, actual)
    yield from _statement(observation, name, met, told(matcher), repr(actual), sample)


def _statement(
    observation: Observation, name: str, met: bool, expected: str, actual: str, sample: str | None
) -> Iterator[Told]:
    spoken_for = requirements_of(name, observation.scenario.requires)
    yield from statement(observation, name, met, expected, actual, sample, spoken_for)


def statement(
    observation: Observation,
    name: str,
    met: bool,
    expected: str,
    actual: str,
    sample: str | None,
    requirements: tuple[str, ...],
) -> Iterator[Told]:
    """Nothing for a statement that is met, and what is wrong with one that is not, where that can be seen at all."""
    unseen = unobserved(observation, name, sample)
    if unseen is not None:
        yield unseen
    elif not met:
        yield Finding(name, requirements, expected, actual, sample)
