"""Runs one scenario: server, client, seams and witnesses in one process and one loop; then judges what was observed."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import inspect
import logging
import shutil
import tempfile
import time
import traceback
from collections.abc import Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp

import conformance
import mockserver
from client.media import Prepared, ReferenceVoice
from conformance.clients import builtin
from conformance.clients.judging import subjects_of
from conformance.clock import SIDE, RealLoop, VirtualLoop, close_loop, make_loop, side_of, tasks_of
from conformance.judgement import judge
from conformance.judging import JudgeStage
from conformance.observation import Observation, PendingTask, sample_facts, stack_of
from conformance.options import ConfigurationError, RunOptions
from conformance.outcome import FaultReport, Outcome, ScenarioResult
from conformance.pool import freeze_once
from conformance.seams import Seam, SeamContext, build_seams
from conformance.targets import mock
from conformance.trace import Recorder, write_ndjson
from conformance.wiring import Wiring
from mockserver.journal import Journal
from scenarios.faults_transport import Buffered
from scenarios.model import Scenario

RELEASE_S = 5.0
"""Loop time the client's tasks get to end after it returned and all seams were released."""
WATCHDOG_EXTRA_S = 60.0
"""Loop time beyond the client's own worst case until the watchdog fires."""
STOP_S = 10.0
_NOT_THE_CLIENTS = [
    Path(inspect.getfile(module)).parent for module in (mockserver, conformance, aiohttp, asyncio)
]


def run_scenario(scenario: Scenario, options: RunOptions) -> ScenarioResult:
    """Run one scenario and judge it.

    Returns: the result; an error of the harness itself is an outcome, never an exception.
    Raises ConfigurationError: the scenario needs something that was not given (a dataset folder).
    """
    started = time.perf_counter()
    if scenario.probe is not None:
        from conformance.probing.ask import run_probe

        return replace(run_probe(scenario, options), real_s=time.perf_counter() - started)
    with _workplace(scenario, options) as folder:
        try:
            observation = perform(scenario, options, folder, builtin.prepare(scenario, options))
            result = judge(observation, options, real_s=time.perf_counter() - started)
        except ConfigurationError:
            raise
        except Exception:  # noqa: BLE001 - a bug of ours is told as ours and never blamed on the client
            return ScenarioResult(
                id=scenario.id,
                title=scenario.title,
                requires=tuple(scenario.requires),
                outcome=Outcome.HARNESS_ERROR,
                reason=traceback.format_exc(),
                real_s=time.perf_counter() - started,
            )
        if options.out is not None and (options.keep_trace or result.outcome is not Outcome.PASS):
            assert observation.recorder is not None
            write_ndjson(folder / "trace.ndjson", observation.recorder.ordered())
        return result


OURS = ("answers", "media", "trace.ndjson")
"""What a scenario leaves in its folder under `--out`; nothing else there is ever touched."""


@contextlib.contextmanager
def _workplace(scenario: Scenario, options: RunOptions) -> Iterator[Path]:
    """The folder of a scenario; under `--out` it stays, and only what an earlier run of ours left is removed."""
    if options.out is None:
        with tempfile.TemporaryDirectory(prefix="conformance-") as name:
            yield Path(name)
        return
    folder = options.out / scenario.id
    folder.mkdir(parents=True, exist_ok=True)
    for name in OURS:
        left = folder / name
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)
        else:
            left.unlink(missing_ok=True)
    yield folder


def perform(scenario: Scenario, options: RunOptions, folder: Path, prepared: list[Prepared]) -> Observation:
    """Play a scenario once and gather what it left behind; nothing is judged yet.

    Args:
        scenario: what is scripted.
        options: clock, seed, overrides.
        folder: the client writes below `folder/answers`.
        prepared: input of the samples, in the order of the scenario (clients.builtin.prepare).
    """
    deadlines = builtin.deadlines_of(scenario, options)
    voice = builtin.reference_voice(options)
    observation = Observation(
        scenario=scenario,
        deadlines=deadlines,
        prepared=prepared,
        out=folder / "answers",
        watchdog_s=builtin.worst_case_s(scenario, deadlines, prepared) + WATCHDOG_EXTRA_S,
        abilities=options.abilities,
    )
    loop = make_loop(options.clock, tie_seed=options.tie_seed)
    stage = _Stage(observation, options, voice, loop)
    if stage.judge is not None:
        observation.watchdog_s += stage.judge.worst_case_s
    freeze_once()
    try:
        stage.play()
    finally:
        if isinstance(loop, VirtualLoop):
            # Bytes that the network never delivered make every later moment doubtful.
            observation.harness_errors += [
                f"the network did not come to rest: {told}" for told in loop.unrested
            ]
        stuck = close_loop(loop)
        observation.harness_errors += [f"task would not end with the loop: {name}" for name in stuck]
    observation.samples = sample_facts(observation)
    return observation


class _Stage:
    """One performance of a scenario on one loop."""

    def __init__(
        self,
        observation: Observation,
        options: RunOptions,
        voice: ReferenceVoice,
        loop: VirtualLoop | RealLoop,
    ) -> None:
        self.observation = observation
        self.voice = voice
        self.loop = loop
        self.recorder = Recorder(loop.time, loop.time())
        observation.recorder = self.recorder
        self.journal = Journal()
        self.wiring = Wiring(loop, self.recorder, builtin.current_attempt)
        self.journal.sink = self.wiring.on_journal
        scenario = observation.scenario
        self.server = mock.make_server(scenario, options.seed, self.journal, self.wiring.identify)
        self.wiring.server = self.server
        self.judge: JudgeStage | None = None
        if scenario.judge is not None:
            subjects = subjects_of(scenario, observation.prepared, options, observation.out)
            self.judge = JudgeStage(scenario, scenario.judge, subjects, observation.out, self.recorder)
        self.seams: list[Seam] = build_seams(
            scenario.faults,
            SeamContext(builtin.current_attempt, self.wiring.on_seam, observation.out, loop.spend),
        )

    def play(self) -> None:
        """Run server and client to their end; whatever happens, seams and hooks are gone afterwards."""
        loop = self.loop
        loop.set_exception_handler(self._on_loop_error)
        loop.on_connect = self.wiring.on_connect
        buffered = [f for f in self.observation.scenario.faults if isinstance(f, Buffered)]
        if sizes := [fault.buffer_bytes for fault in buffered if fault.buffer_bytes]:
            loop.client_sndbuf_bytes = min(sizes)
        if isinstance(loop, VirtualLoop):
            loop.on_livelock = self._on_livelock
            loop.on_near_miss = self.observation.near_miss
        with _captured_logs(self.observation, self.recorder):
            for seam in self.seams:
                seam.install()
            try:
                loop.run_until_complete(self._main())
            except RuntimeError as error:
                if not self.observation.livelock or "stopped before" not in str(error):
                    raise
                self._stop_after_livelock()
            finally:
                for seam in reversed(self.seams):  # each restores what it found
                    seam.release()
                    seam.remove()
        self.observation.entries = self.journal.entries
        self.observation.connections = list(self.server.connections)
        self.observation.judged = self.judge.facts() if self.judge is not None else None
        # By position in the scenario, then by connection: the order is the same in every run.
        self.observation.faults = sorted(
            [
                *self.wiring.fault_reports(self.observation.scenario),
                *self._seam_reports(),
                *(self.judge.fault_reports() if self.judge is not None else ()),
            ],
            key=lambda report: (report.index, report.connection or 0),
        )

    def _seam_reports(self) -> list[FaultReport]:
        reports = [seam.report() for seam in self.seams]
        return [replace(report, evidence=self.recorder.relative(report.evidence)) for report in reports]

    def _stop_after_livelock(self) -> None:
        """The listener must not outlive the scenario; a client that spins on in spite of all is given up."""
        for task in tasks_of(self.loop):
            task.cancel()
        for stopping in (self.server.stop(), self.judge.server.stop() if self.judge is not None else None):
            if stopping is None:
                continue
            try:
                self.loop.run_until_complete(stopping)
            except RuntimeError:
                stopping.close()

    async def _main(self) -> None:
        await self._on_the_server("server-start", self.server.start())
        if self.judge is not None:
            await self._on_the_server("judge-start", self.judge.server.start())
        try:
            await self._perform()
        finally:
            await self._stop_server()
        gc.collect()  # so that what was never retrieved is told now and to this scenario

    async def _on_the_server(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        await self.loop.create_task(work, name=name, context=_context("server"))

    async def _perform(self) -> None:
        client = self._start_client()
        scenario = self.observation.scenario
        if scenario.client.cancel_at_s is not None:
            self.loop.call_later(scenario.client.cancel_at_s, client.cancel)
        started_s = self.loop.time()
        done, _ = await asyncio.wait({client}, timeout=self.observation.watchdog_s)
        self.observation.client_s = self.loop.time() - started_s
        if done:
            self._take_result(client)
        else:
            self.observation.watchdog_fired = True
            self.observation.pending = self._client_tasks()
            self.observation.phase = self._phase()
            self.recorder.add(
                "", "harness", "watchdog", {"pending": [t.name for t in self.observation.pending]}
            )
            client.cancel()
        await self._release_and_look(client)

    async def _stop_server(self) -> None:
        ends = [("mock server", self.server.stop())]
        if self.judge is not None:
            ends.append(("judge", self.judge.server.stop()))
        for name, end in ends:
            stopping = self.loop.create_task(end, name=f"{name} stop", context=_context("server"))
            if not (await asyncio.wait({stopping}, timeout=STOP_S))[0]:
                self.observation.harness_errors.append(f"the {name} did not stop within {STOP_S:g} s")

    def _start_client(self) -> asyncio.Task[Any]:
        self.run = builtin.make_run(
            self.server.url,
            self.observation.scenario,
            self.observation.prepared,
            self.observation.deadlines,
            self.voice,
            self.observation.out,
            self.wiring.on_client_step,
        )
        return self.loop.create_task(self._client(), name="client", context=_context("client"))

    async def _client(self) -> None:
        """The client's job: answers, then their evaluation where the scenario has a judge."""
        await self.run.run()
        if self.judge is not None:
            self.loop.client_sndbuf_bytes = None  # small buffers are for sessions, never for the judge
            await self.judge.evaluate()

    def _take_result(self, client: asyncio.Task[Any]) -> None:
        self.observation.result = self.run.result
        if client.cancelled():
            if self.observation.scenario.client.cancel_at_s is None:
                self.observation.client_error = asyncio.CancelledError(
                    "the client ended cancelled and nobody cancelled it"
                )
            return
        self.observation.client_error = client.exception()

    async def _release_and_look(self, client: asyncio.Task[Any]) -> None:
        """Release seams and faults, allow the client's tasks their time, then name what is left."""
        for seam in self.seams:
            seam.release()
        self.wiring.stop_witnesses()
        self.server.release_faults()
        if self.judge is not None:
            self.judge.server.release_faults()
        left = tasks_of(self.loop, "client")
        if left:
            await asyncio.wait(left, timeout=RELEASE_S)
        if not self.observation.watchdog_fired:
            self.observation.leaked = self._client_tasks()
        if client.done() and not client.cancelled():
            client.exception()

    def _phase(self) -> str:
        """The phase of a session that the client spoke of last."""
        phases = (r.data.get("name") for r in reversed(self.recorder.records) if r.what == "phase")
        return str(next(phases, ""))

    def _client_tasks(self) -> list[PendingTask]:
        return [PendingTask(task.get_name(), stack_of(task)) for task in tasks_of(self.loop, "client")]

    def _on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        told = f"{context.get('message', '')}: {error!r}" if error else str(context.get("message", ""))
        task = context.get("task") or context.get("future")
        if (_side_of_finished(task) if isinstance(task, asyncio.Task) else SIDE.get()) == "client":
            self.observation.loop_errors.append(told)
        else:
            self.observation.harness_errors.append(told)

    def _on_livelock(self, livelock: Any) -> None:
        self.observation.livelock = str(livelock)
        self.observation.pending = self._client_tasks()
        self.loop.stop()


def _side_of_finished(task: asyncio.Task[Any]) -> str:
    """Whose task it was; one that the collector has found is in no registry any more, but its coroutine says."""
    side = side_of(task)
    code = getattr(task.get_coro(), "cr_code", None)
    if side == "harness" and code is not None:
        file = Path(code.co_filename)
        if not any(file.is_relative_to(folder) for folder in _NOT_THE_CLIENTS):
            return "client"
    return side


def _context(side: str) -> contextvars.Context:
    context = contextvars.copy_context()
    context.run(SIDE.set, side)  # type: ignore[arg-type]
    return context


class _LogCapture(logging.Handler):
    """Keeps what the client logs, and takes server errors for errors of the harness."""

    def __init__(self, observation: Observation, recorder: Recorder) -> None:
        super().__init__(logging.INFO)
        self.observation = observation
        self.recorder = recorder

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.split(".")[0] in ("mockserver", "aiohttp"):
            if record.levelno >= logging.ERROR:
                told = record.getMessage()
                if record.exc_info and record.exc_info[1] is not None:
                    told += "".join(traceback.format_exception(record.exc_info[1]))
                self.observation.harness_errors.append(f"{record.name}: {told}")
            return
        self.observation.logs.append(record)
        self.recorder.add(
            "", "client", "log", {"level": record.levelname, "message": record.getMessage()[:500]}
        )


@contextlib.contextmanager
def _captured_logs(observation: Observation, recorder: Recorder) -> Iterator[None]:
    capture = _LogCapture(observation, recorder)
    loggers = [logging.getLogger(name) for name in ("client", "websockets", "aiohttp", "mockserver")]
    before = [(logger.level, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.addHandler(capture)
        logger.setLevel(logging.INFO)
        logger.propagate = False
    try:
        yield
    finally:
        for logger, (level, propagate) in zip(loggers, before, strict=True):
            logger.removeHandler(capture)
            logger.setLevel(level)
            logger.propagate = propagate
