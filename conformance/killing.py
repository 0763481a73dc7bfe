"""Runs that are killed: each plays in a process of its own, which sends itself SIGKILL at a write the scenario names.

The process is forked, so that what was prepared and a defect that was put in are there too. What it knew goes through
a pipe before it dies; that it was killed, and by which signal, the system says.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance.clients.judging import SCORE_FOLDER
from conformance.outcome import FaultReport, Finding
from scenarios.faults_seam import KillClient

if TYPE_CHECKING:
    from conformance.trace import Record
    from mockserver.judge_ledger import JudgeRequest

LONGEST_REAL_S = 120.0
"""Real seconds a killed run may take; on the virtual clock it takes milliseconds."""
Key = tuple[str, str]
"""(split, id)."""


class KillingError(RuntimeError):
    """The process of a run that was to be killed broke in another way; an error of the harness."""


@dataclass(frozen=True)
class LastWords:
    """What the process knew when it was killed."""

    evidence: Mapping[str, Any]
    reports: Sequence[FaultReport] = ()
    """What the other faults did in it."""
    ledger: Sequence[JudgeRequest] = ()
    """What the judge had read in it."""
    records: Sequence[Record] = ()


@dataclass(frozen=True)
class KilledRun:
    """A run that was killed, and what it left on the disk."""

    report: FaultReport
    words: LastWords
    finished: Mapping[Key, bytes]
    """Samples whose answer and metadata were there and whole, each with the bytes of its answer."""
    scored: Mapping[Key, bytes]
    """Samples whose score file was there and whole."""
    torn: tuple[str, ...]
    """Files with a final name that did not parse, and why."""
    again: frozenset[Key] = frozenset()
    """Samples whose answers were taken away after it, so that they are run again."""
    broken: tuple[Finding, ...] = ()
    """Of a run that nothing killed: what kept it from ending well."""


Play = Callable[[Callable[[LastWords], None]], None]
"""Plays a run; called with what ends the process."""


def killed_run(index: int, fault: KillClient, play: Play, out: Path, samples: Iterable[Key]) -> KilledRun:
    """Play a run in a child process that is killed.

    Args:
        index: position of the fault in the scenario.
        play: runs in the child; when it returns, nothing has killed the run.
        out: the response root.
        samples: (split, id) of all samples.
    Raises KillingError: the child broke, hung or ended in another way than by SIGKILL or by returning.
    """
    forking = multiprocessing.get_context("fork")
    receiving, sending = forking.Pipe(duplex=False)
    child = forking.Process(target=_child, args=(play, sending), name=f"killed run {index}")
    with warnings.catch_warnings():
        # From Python 3.12 on a fork beside threads warns. Ours idle: no loop runs here, and the child makes its own.
        warnings.simplefilter("ignore", DeprecationWarning)
        child.start()
    sending.close()
    try:
        told = receiving.recv() if receiving.poll(LONGEST_REAL_S) else "it did not end"
    except EOFError:
        told = "it ended without a word"
    finally:
        receiving.close()
        if child.is_alive() and child.exitcode is None:
            child.join(5.0)
        child.kill()
        child.join()
    return _read(index, fault, told, child.exitcode, out, samples)


def _read(
    index: int, fault: KillClient, told: Any, exitcode: int | None, out: Path, samples: Iterable[Key]
) -> KilledRun:
    if isinstance(told, str):
        raise KillingError(f"the run that {fault.name} {index} was to kill: {told}")
    assert isinstance(told, LastWords)
    by_signal = exitcode == -signal.SIGKILL
    if not by_signal and told.evidence:
        raise KillingError(f"the run that {fault.name} {index} killed ended with {exitcode}, not by SIGKILL")
    state = "observed" if told.evidence else "armed"
    evidence = {**told.evidence, "signal": "SIGKILL"} if told.evidence else {}
    names = list(samples)
    return KilledRun(
        report=FaultReport(fault.name, index, None, state, evidence),
        words=told,
        finished=finished_in(out, names),
        scored=scored_in(out, names),
        torn=tuple(torn_files(out)),
    )


def finished_in(out: Path, names: Iterable[Key]) -> dict[Key, bytes]:
    """Samples whose answer and metadata are there and whole, each with the bytes of its answer."""
    answers = {(split, name): out / split / f"{name}.json" for split, name in names}
    return {
        key: path.read_bytes()
        for key, path in answers.items()
        if _is_whole(path) and _is_whole(path.with_name(f"{key[1]}.meta.json"))
    }


def scored_in(out: Path, names: Iterable[Key]) -> dict[Key, bytes]:
    """Samples whose score file is there and whole, each with its bytes."""
    return {
        (split, name): path.read_bytes()
        for split, name in names
        if _is_whole(path := out / SCORE_FOLDER / split / f"{name}.json")
    }


def merged(reports: Sequence[FaultReport], killed: Sequence[KilledRun]) -> list[FaultReport]:
    """All reports of a scenario, by position in it and then by connection: the order is the same in every run.

    A fault that was seen to bite in a killed run need not bite again in the one after it.
    """
    earlier = [r for run in killed for r in run.words.reports if r.state == "observed"]
    seen = {report.index for report in earlier}
    now = [report for report in reports if report.state == "observed" or report.index not in seen]
    return sorted(
        [*now, *earlier, *(run.report for run in killed if run.report.index >= 0)],
        key=lambda report: (report.index, report.connection or 0),
    )


def _child(play: Play, pipe: Connection) -> None:
    """The life of the child: it plays, and if nothing kills it, says so."""

    def die(words: LastWords) -> None:
        pipe.send(words)
        os.kill(os.getpid(), signal.SIGKILL)

    try:
        play(die)
        pipe.send(LastWords({}))
    except BaseException as error:
        pipe.send(traceback.format_exc())  # to the parent, which makes it an error of the harness
        raise SystemExit(1) from error


def torn_files(root: Path) -> Iterable[str]:
    """Each JSON file below a folder that has its final name and does not parse; of a file of lines, whole ones."""
    for path in sorted([*root.rglob("*.json"), *root.rglob("*.jsonl")]):
        content = path.read_bytes()
        # The last line of a file of lines may be cut by a kill: it has no line feed, and readers pass it over.
        parts = content.split(b"\n")[:-1] if path.suffix == ".jsonl" else [content]
        for part in parts:
            try:
                json.loads(part)
            except ValueError as error:
                yield f"{path.relative_to(root)}: {error}"
                break


def _is_whole(path: Path) -> bool:
    try:
        json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return False
    return True
