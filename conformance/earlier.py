"""What was run in the same folder before the run that is observed: runs that were killed, and one that ended well."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance.killing import KilledRun, LastWords, finished_in, killed_run, scored_in
from conformance.outcome import FaultReport, Finding
from scenarios.faults_seam import KillClient
from scenarios.model import Expect, Scenario

if TYPE_CHECKING:
    from client.media import Prepared
    from conformance.observation import Observation

Kill = tuple[int, Callable[[LastWords], None]]
Play = Callable[[Scenario, Sequence[KilledRun], Kill | None], "Observation"]
"""Plays a scenario after other runs; with what ends the process, where it is to be killed."""


def runs_before(scenario: Scenario, play: Play, out: Path, prepared: Sequence[Prepared]) -> list[KilledRun]:
    """Play what comes before, in its order: each in the folder that the one before has left.

    Args:
        out: the response root.
        prepared: input of the samples.
    Raises KillingError: the process of a run that was to be killed broke.
    """
    names = [(sample.split, sample.id) for sample in prepared]
    if scenario.earlier is not None:
        return [_ended_well(scenario, play(earlier_scenario(scenario), [], None), out, names)]
    killed: list[KilledRun] = []
    for index, fault in enumerate(scenario.faults):
        if isinstance(fault, KillClient):

            def begin(die: Callable[[LastWords], None], index: int = index) -> None:
                play(scenario, killed, (index, die))

            killed.append(killed_run(index, fault, begin, out, names))
    return killed


def earlier_scenario(scenario: Scenario) -> Scenario:
    """The run before: the same, with what `earlier` says in its place, and nothing goes wrong."""
    spec = scenario.earlier
    assert spec is not None, "there is a run before"
    client = {key: value for key in ("model", "pace") if (value := getattr(spec, key)) is not None}
    changed: dict[str, Any] = {"client": scenario.client.model_copy(update=client)}
    if spec.reply is not None:
        changed["server"] = scenario.server.model_copy(update={"reply": spec.reply})
    if spec.judge_model is not None and scenario.judge is not None:
        changed["judge"] = scenario.judge.model_copy(update={"model": spec.judge_model})
    plain: dict[str, Any] = {"faults": [], "earlier": None, "expect": Expect.model_construct()}
    return scenario.model_copy(update={**plain, **changed})


def _ended_well(
    scenario: Scenario, observed: Observation, out: Path, names: Sequence[tuple[str, str]]
) -> KilledRun:
    """What the run before left, without the answers that are taken away after it."""
    spec = scenario.earlier
    assert spec is not None, "there is a run before"
    assert observed.recorder is not None, "it was performed"
    again = [(split, name) for split, name in names if name in spec.again]
    for split, name in again:
        (out / split / f"{name}.json").unlink(
            missing_ok=True
        )  # its metadata stay: they alone finish no sample
    ledger = list(observed.judged.ledger) if observed.judged is not None else []
    scored = {key: score for key, score in scored_in(out, names).items() if key not in again}
    return KilledRun(
        report=FaultReport("earlier", -1, None, "observed", {}),
        words=LastWords({}, (), ledger, list(observed.recorder.records)),
        finished=finished_in(out, names),
        scored=scored,
        torn=(),
        again=frozenset(again),
        broken=tuple(_broken(observed)),
    )


def _broken(observed: Observation) -> list[Finding]:
    """Whatever keeps the run before from being one that ended well."""
    told = [f"{facts.name}: {facts.outcome} {facts.error}" for facts in observed.samples]
    wrong = [line for line, facts in zip(told, observed.samples, strict=True) if facts.outcome != "published"]
    if observed.client_error is not None:
        wrong.append(f"{type(observed.client_error).__name__}: {observed.client_error}")
    if observed.refused:
        wrong.append(observed.refused)
    expected = "the run before, in which nothing goes wrong, publishes every sample"
    return [Finding("earlier-run", ("R31",), expected, line.strip()) for line in wrong]
