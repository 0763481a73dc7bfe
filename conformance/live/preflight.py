"""Everything that can be known before device time is spent, from the command line up to one short turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from client.input_errors import DatasetError, MediaError
from client.judge.settings import JudgeSettings
from client.media import load_reference_voice
from conformance.live.judge_check import check_judge
from conformance.live.layers import connect, healthy, resolve, serves_model, shake_hands
from conformance.live.measured import SLOW, Measured
from conformance.live.problem import Problem, Step
from conformance.live.server import LiveServer
from conformance.live.turn import take_turn

LIMIT_S = 60.0
CLOCK_JUMP_S = 1.0
IN_SESSION = ("session", "turn", "ack", "close")
"""Layers that fail only once a session was asked for."""


@dataclass
class Preflight:
    """What was looked at, in order."""

    server: dict[str, object]
    """The effective configuration, masked."""
    steps: list[Step] = field(default_factory=list)
    measured: Measured | None = None
    problem: Problem | None = None
    seconds: float = 0.0

    @property
    def green(self) -> bool:
        """Nothing failed."""
        return self.problem is None

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        problem = self.problem
        return {
            "format": "duplex-conformance/preflight",
            "version": 1,
            "server": self.server,
            "green": self.green,
            "steps": [
                {
                    "layer": s.layer,
                    "found": s.found,
                    "seconds": round(s.seconds, 3),
                    "warns": s.warns,
                }
                for s in self.steps
            ],
            "measured": self.measured.to_json() if self.measured is not None else None,
            "problem": None
            if problem is None
            else {"layer": problem.layer, "found": problem.found, "try": problem.hint},
            "seconds": round(self.seconds, 3),
        }

    def lines(self) -> list[str]:
        """For a reader: a line a step, then what was measured, or what failed and what to try."""
        lines = [f"{'look' if s.warns else 'ok':<5} {s.layer:<16} {s.found}" for s in self.steps]
        if self.measured is not None:
            lines += ["", *self.measured.lines(), ""]
        if self.problem is not None:
            lines += [
                f"fail  {self.problem.layer:<16} {self.problem.found}",
                f"      try: {self.problem.hint}",
            ]
        problem = self.problem
        spent = self.measured is not None or (problem is not None and problem.layer in IN_SESSION)
        told = "one short session was spent" if spent else "nothing was spent"
        if problem is not None and problem.refused:
            told = "a session was asked for and refused, none was spent"
        lines.append(f"preflight {'green' if self.green else 'red'} after {self.seconds:.1f} s; {told}")
        return lines


@dataclass(frozen=True)
class Inputs:
    """What a run will use beside the server."""

    ref_audio: Path | None
    datasets: tuple[Path, ...] = ()
    judge: JudgeSettings | None = None


async def fly(server: LiveServer, inputs: Inputs, *, wall: Callable[[], float] = time.time) -> Preflight:
    """Look at everything, from what costs nothing up; the first failure ends it.

    Args:
        wall: this machine's clock, in seconds.
    Returns: the report, at the latest after `LIMIT_S`.
    """
    report = Preflight(server.told())
    loop = asyncio.get_running_loop()
    since_s, wall_s = loop.time(), wall()
    try:
        async with asyncio.timeout(LIMIT_S):
            await _look(server, inputs, report)
        _check_clock(loop.time() - since_s, wall() - wall_s)
    except Problem as problem:
        report.problem = problem
    except TimeoutError:
        last = report.steps[-1].layer if report.steps else "the first step"
        report.problem = Problem(
            "time",
            f"not done after {LIMIT_S:g} s; {last} was the last to work",
            "the server is too slow to test",
        )
    report.seconds = loop.time() - since_s
    return report


async def _look(server: LiveServer, inputs: Inputs, report: Preflight) -> None:
    report.steps += _files(inputs)
    assert inputs.ref_audio is not None
    checks: list[Callable[[LiveServer], Awaitable[Step | None]]] = [
        resolve,
        connect,
        shake_hands,
        healthy,
        serves_model,
    ]
    for check in checks:
        step = await check(server)
        if step is not None:
            report.steps.append(step)
    if inputs.judge is not None:
        report.steps += await check_judge(inputs.judge, None)
    turn = await take_turn(server, inputs.ref_audio)
    report.steps += turn.steps
    report.measured = turn.measured
    pace = turn.measured.pace
    if pace is not None and pace < SLOW:
        report.steps.append(
            Step(
                "pace",
                f"replies come at {pace:.2f} of real time: samples will outlast their clips",
                warns=True,
            )
        )


def _files(inputs: Inputs) -> list[Step]:
    """Reference voice and datasets, opened."""
    if inputs.ref_audio is None:
        raise Problem(
            "reference voice",
            "--ref-audio is missing; a native duplex session cannot open without one",
            "give a WAV file with a voice",
            usage=True,
        )
    try:
        voice = load_reference_voice(inputs.ref_audio)
    except MediaError as error:
        raise Problem(
            "reference voice", str(error), "give a WAV file with a voice by --ref-audio", usage=True
        ) from error
    steps = [Step("reference voice", f"{inputs.ref_audio.name}, sha256 {voice.sha256[:16]}")]
    for folder in inputs.datasets:
        steps.append(_dataset(folder))
    return steps


def _dataset(folder: Path) -> Step:
    from client.dataset import load_dataset

    try:
        loaded = load_dataset(folder)
        if loaded.samples:
            loaded.samples[0].prepare()
    except (DatasetError, MediaError) as error:
        raise Problem(
            "dataset", str(error), "give a folder as in docs/evaluation.md 1.5", usage=True
        ) from error
    if not loaded.samples:
        raise Problem("dataset", f"{folder} holds no sample", "see docs/evaluation.md 1.5", usage=True)
    return Step("dataset", f"{folder.name}: {len(loaded.samples)} samples, the first one decodes")


def _check_clock(loop_s: float, wall_s: float) -> None:
    if abs(wall_s - loop_s) > CLOCK_JUMP_S:
        raise Problem(
            "clock",
            f"this machine's clock jumped by {wall_s - loop_s:+.1f} s meanwhile",
            "wait until it is synchronised: time stamps of the run would not agree",
        )
