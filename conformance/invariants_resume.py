"""What holds of a run that was killed and begun again: nothing half-written, nothing finished lost or done twice."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.abilities import Need
from conformance.clients.judging import SCORE_FOLDER
from conformance.invariants_base import invariant
from conformance.outcome import Finding

METRICS = "duplex_metrics.json"

if TYPE_CHECKING:
    from conformance.killing import KilledRun
    from conformance.observation import Observation


def nothing_torn(observation: Observation) -> Iterator[Finding]:
    """A kill leaves no file with a final name that does not parse: readers may come before the next run does."""
    for number, run in enumerate(observation.killed, start=1):
        for torn in run.torn:
            name = torn.partition(": ")[0]
            yield Finding(
                "torn-artifact",
                ("R58",) if name.endswith(".jsonl") else ("R20",),
                "after a kill every file with a final name parses",
                f"{torn} (killed while {_write(run)}, run {number})",
            )


def ended_well(observation: Observation) -> Iterator[Finding]:
    """A run before, in which nothing was to go wrong, publishes every sample."""
    for run in observation.killed:
        yield from run.broken


def finished_once(observation: Observation) -> Iterator[Finding]:
    """A sample that was finished before a kill keeps its answer, and no session is spent on it again."""
    facts = {(f.split, f.id): f for f in observation.samples}
    if observation.refused is not None:
        return  # nothing was begun, and the answers are looked at as they are
    for run in observation.killed:
        for key, answer in run.finished.items():
            sample = facts[key]
            expected = f"finished before {_end_of(run)}, so it is not run again"
            if sample.outcome != "skipped_finished" or sample.attempts:
                actual = f"{sample.outcome}, {sample.attempts} session(s)"
                yield Finding("finished-run-again", ("R20",), expected, actual, sample.name)
            elif _content(observation.out / key[0] / f"{key[1]}.json") != answer:
                yield Finding("finished-run-again", ("R20",), expected, "another answer", sample.name)


def judged_once(observation: Observation) -> Iterator[Finding]:
    """A sample that was scored before a kill keeps its score, and the judge is not asked again."""
    judged = observation.judged
    if judged is None:
        return
    facts = {(f.split, f.id): f for f in judged.samples}
    for run in observation.killed:
        for key, score in run.scored.items():
            sample = facts[key]
            expected = f"scored before {_end_of(run)}, so it is not judged again"
            if sample.requests:
                actual = f"{len(sample.requests)} request(s)"
                yield Finding("judged-again", ("R61",), expected, actual, sample.name)
            elif _content(observation.out / SCORE_FOLDER / key[0] / f"{key[1]}.json") != score:
                yield Finding("judged-again", ("R61",), expected, "another score file", sample.name)


def figures_kept(observation: Observation) -> Iterator[Finding]:
    """The figures of a sample that was finished before a kill stand beside those of the samples run after it.

    Says nothing of a client that writes no `duplex_metrics.json`.
    """
    finished = dict.fromkeys(key for run in observation.killed for key in run.finished)
    content = _content(observation.out / METRICS)
    if content is None or not finished:
        return
    expected = "figures of a run, with duplex_session_metrics"
    try:
        told = Counter((r["split"], r["sample_id"]) for r in json.loads(content)["duplex_session_metrics"])
    except (ValueError, KeyError, TypeError) as error:
        yield Finding("figures-lost", (), expected, f"{METRICS}: {type(error).__name__}: {error}")
        return
    for key in finished:
        if told[key] != 1 and observation.refused is None:
            yield Finding(
                "figures-lost",
                (),
                f"one row of duplex_session_metrics in {METRICS} for a sample finished before the kill",
                f"{told[key]} row(s)",
                "/".join(key),
            )


RESUME_INVARIANTS = (
    invariant(ended_well, Need.FILES, findings=("earlier-run",)),
    invariant(nothing_torn, Need.FILES, findings=("torn-artifact",)),
    invariant(finished_once, Need.FILES, Need.WIRE, findings=("finished-run-again",)),
    invariant(judged_once, Need.FILES, Need.JUDGE, findings=("judged-again",)),
    invariant(figures_kept, Need.FILES, findings=("figures-lost",)),
)
"""In the order their findings are told."""


def _end_of(run: KilledRun) -> str:
    return f"the run was killed while {_write(run)}" if run.words.evidence else "this run began"


def _write(run: KilledRun) -> str:
    evidence = run.words.evidence
    return f"writing {evidence['file']} ({evidence['when']})" if evidence else "nothing was written"


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None
