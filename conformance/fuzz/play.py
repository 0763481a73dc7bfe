"""One scenario played once on a fresh virtual loop, judged, and told in few words."""

from __future__ import annotations

import hashlib
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from conformance.clients.builtin import prepare
from conformance.fuzz.attempts import Attempt, attempts_of
from conformance.fuzz.attempts_outside import outside_attempts
from conformance.fuzz.doubts import more_coincidences, open_orders
from conformance.fuzz.oracle import check_model
from conformance.fuzz.oracle_outside import check_outside
from conformance.fuzz.states import states_of
from conformance.judgement import judge
from conformance.observation import Observation
from conformance.options import RunOptions
from conformance.outcome import Finding, Outcome, ScenarioResult
from conformance.runner import perform
from conformance.trace import Record, comparable
from scenarios.model import Scenario
from scenarios.names import REQUIREMENTS

EVERY_REQUIREMENT = sorted(REQUIREMENTS, key=lambda name: int(name[1:]))


@dataclass(frozen=True)
class Summary:
    """What must not depend on the order of simultaneous events, nor on how the network cuts the frames."""

    samples: tuple[tuple[str, str], ...]
    """Name of the sample and what became of it, in words."""

    def difference(self, other: Summary) -> tuple[str, str, str] | None:
        """The first sample that ended differently, and both ends; None: all are alike."""
        for (name, mine), (_, others) in zip(self.samples, other.samples, strict=True):
            if mine != others:
                return name, mine, others
        return None


@dataclass(frozen=True)
class Played:
    """One performance."""

    result: ScenarioResult
    summary: Summary
    states: frozenset[str]
    near_misses: int
    """Events beside a deadline, and ends in one instant: how it ends may hang on their order."""
    cut_sleeps: int = 0
    """Beats of the client that were cut off in their own instant: how it ends hangs on none of them."""
    open_orders: int = 0
    """Inputs in the instant of a timer of the server's: how it ends may be otherwise, and is as right."""
    records: tuple[Record, ...] = ()
    """The trace in order; only when asked for."""

    @property
    def in_doubt(self) -> bool:
        """Whether a finding must show in other orders of the same instants, too."""
        return self.near_misses > 0 or self.cut_sleeps > 0

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong; an error of ours is one finding of its own."""
        if self.result.outcome is Outcome.HARNESS_ERROR:
            return (harness_finding(self.result.reason),)
        return self.result.findings

    @property
    def digest(self) -> str:
        """Of the trace, as far as the same seed must give the same one."""
        return hashlib.sha256("\n".join(comparable(self.records)).encode()).hexdigest()


def play(scenario: Scenario, options: RunOptions, scratch: Path, *, trace: bool = False) -> Played:
    """Play and judge; what happens to the harness is a finding, never an exception.

    Args:
        scenario: any scenario without a dataset; its `requires` are left aside, a finding may name any requirement.
        options: seed, order of ties, and the client.
        scratch: an empty folder; it is left empty.
        trace: keep the records.
    """
    started = time.perf_counter()
    asked = scenario.model_copy(update={"requires": EVERY_REQUIREMENT})
    folder = scratch / "case"
    folder.mkdir()
    try:
        observation = perform(asked, options, folder, prepare(asked, options))
        result = judge(observation, options, real_s=time.perf_counter() - started)
        of_samples = outside_attempts(observation) if observation.outside else list(attempts_of(observation))
        doubtful = observation.outside and result.outcome is Outcome.INDETERMINATE
        result = _with_model(observation, of_samples, result)
    except Exception as error:  # noqa: BLE001 - a bug of ours is told as ours and never blamed on the client
        return _broken(scenario, error, time.perf_counter() - started)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    assert observation.recorder is not None
    return Played(
        result,
        Summary(tuple(_ends(observation))),
        states_of(observation),
        observation.near_misses + doubtful + sum(1 for _ in more_coincidences(observation, of_samples)),
        observation.cut_sleeps,
        sum(1 for _ in open_orders(observation, of_samples)),
        tuple(observation.recorder.ordered()) if trace else (),
    )


def _with_model(
    observation: Observation, of_samples: list[list[Attempt]], result: ScenarioResult
) -> ScenarioResult:
    """The verdict with what the model of a right client says; an inert fault is no finding here."""
    if result.outcome is Outcome.HARNESS_ERROR:
        return result
    model = check_outside if observation.outside else check_model
    findings = (*result.findings, *model(observation, of_samples))
    if findings:
        return replace(result, outcome=Outcome.FAIL, findings=findings)
    return result


def _broken(scenario: Scenario, error: Exception, real_s: float) -> Played:
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    where = " < ".join(f"{Path(f.filename).name}:{f.name}" for f in reversed(frames[-6:]))
    result = ScenarioResult(
        id=scenario.id,
        title=scenario.title,
        requires=tuple(scenario.requires),
        outcome=Outcome.HARNESS_ERROR,
        reason=f"{type(error).__name__}: {error} ({where})",
        real_s=real_s,
    )
    return Played(result, Summary(()), frozenset(), 0)


def harness_finding(reason: str) -> Finding:
    """An error of the harness as something to be found, shrunk and kept like any other."""
    return Finding("harness-error", (), "the harness plays every scenario", reason)


_STAMPS = re.compile(r"\bresp-[0-9A-Za-z-]+|\d+(\.\d+)?")


def plain(text: str) -> str:
    """Words without figures and without names of replies, which another order of things changes."""
    return _STAMPS.sub("N", text)


def _ends(observation: Observation) -> Iterator[tuple[str, str]]:
    for facts in observation.samples:
        # After `session.closed` the end is clean however it comes (evaluation.md 10): two ends may cross.
        close = "clean" if facts.close == "by_peer" else facts.close
        metadata: dict[str, Any] = dict(facts.metadata or {})
        set_timeouts = [k for k in ("ack_timeout", "close_timeout", "drain_timeout") if metadata.get(k)]
        told = (
            f"{facts.outcome} after {facts.attempts} attempt(s), close {close}, "
            f"timeouts {set_timeouts}, error {plain(facts.error)!r}, text {facts.text!r}"
        )
        yield facts.name, told
