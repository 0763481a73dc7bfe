"""Runs one scenario: server, client, seams and witnesses in one process and one loop; then judges what was observed."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import shutil
import time
import traceback
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from client.media import Prepared, ReferenceVoice
from conformance.capture import captured_logs, client_tasks, context_of, guarded, side_of_finished
from conformance.clients import builtin
from conformance.clients.judging import subjects_of
from conformance.clients.making import as_played, gives_up_after_s, make_client, unplayable
from conformance.clients.scene import ClientRun, Scene
from conformance.clock import SIDE, RealLoop, VirtualLoop, close_loop, make_loop, stuck_of_ours, tasks_of
from conformance.datasets import DATASET, write_dataset
from conformance.earlier import Kill, runs_before
from conformance.judgement import judge, reproduce
from conformance.judging import JudgeStage
from conformance.killing import KilledRun, LastWords, merged
from conformance.observation import Observation
from conformance.options import ConfigurationError, RunOptions
from conformance.outcome import FaultReport, Outcome, ScenarioResult
from conformance.pool import freeze_once
from conformance.scratch import scratch_folder
from conformance.seams import Seam, SeamContext, build_seams
from conformance.targets import live
from conformance.trace import Recorder, write_ndjson
from conformance.watch import Watch
from conformance.wiring import Wiring
from mockserver.journal import Journal
from scenarios.faults_transport import Buffered
from scenarios.model import Scenario

RELEASE_S = 5.0
"""Loop time the client's tasks get to end after it returned and all seams were released."""
STOP_S = 10.0


def run_scenario(scenario: Scenario, options: RunOptions) -> ScenarioResult:
    """Run one scenario and judge it.

    Returns: the result; an error of the harness itself is an outcome, never an exception.
    Raises ConfigurationError: the scenario needs something that was not given (a dataset folder), or its trace cannot
        be written.
    """
    started = time.perf_counter()
    if scenario.probe is not None:
        from conformance.probing.ask import run_probe

        return replace(run_probe(scenario, options), real_s=time.perf_counter() - started)
    cannot = unplayable(scenario, options)
    if cannot is not None:
        return cannot
    scenario = as_played(scenario, options)
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
                reproduce=reproduce(scenario.id, options),
            )
        if observation.conversation is not None:
            result = live.told(result, observation)
        if options.out is not None and (options.keep_trace or result.outcome is not Outcome.PASS):
            assert observation.recorder is not None
            write_ndjson(folder / "trace.ndjson", observation.recorder.ordered())
            result = replace(result, trace_path=str(folder / "trace.ndjson"))
            for number, run in enumerate(observation.killed, start=1):
                write_ndjson(folder / f"trace-killed-{number}.ndjson", run.words.records)
        return result


OURS = ("answers", "dataset", "media", "trace.ndjson", "client.stdout", "client.stderr")
"""What a scenario leaves in its folder under `--out`; nothing else there is ever touched."""
TRACES_OF_KILLED = "trace-killed-[0-9]*.ndjson"
"""And these, where runs were killed."""


@contextlib.contextmanager
def _workplace(scenario: Scenario, options: RunOptions) -> Iterator[Path]:
    """The folder of a scenario; under `--out` it stays, and only what an earlier run of ours left is removed."""
    if options.out is None:
        with scratch_folder("conformance-") as folder:
            yield folder
        return
    folder = options.out / scenario.id
    folder.mkdir(parents=True, exist_ok=True)
    for left in [*(folder / name for name in OURS), *folder.glob(TRACES_OF_KILLED)]:
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)
        else:
            left.unlink(missing_ok=True)
    yield folder


def perform(scenario: Scenario, options: RunOptions, folder: Path, prepared: list[Prepared]) -> Observation:
    """Play a scenario and gather what it left behind; nothing is judged yet.

    Earlier runs come first, those that are to be killed each in a process of its own; the run after them is observed.

    Args:
        scenario: what is scripted.
        options: clock, seed, overrides.
        folder: the client writes below `folder/answers`.
        prepared: input of the samples, in the order of the scenario (clients.builtin.prepare).
    """
    if scenario.dataset is not None:
        write_dataset(scenario, prepared, folder / DATASET)

    def play(then: Scenario, before: Sequence[KilledRun], kill: Kill | None) -> Observation:
        return _performed(then, options, folder, prepared, before, kill)

    return play(scenario, runs_before(scenario, play, folder / "answers", prepared), None)


def _performed(
    scenario: Scenario,
    options: RunOptions,
    folder: Path,
    prepared: list[Prepared],
    killed: Sequence[KilledRun],
    kill: Kill | None,
) -> Observation:
    deadlines = builtin.deadlines_of(scenario, options)
    voice = builtin.reference_voice(options)
    observation = Observation(
        scenario=scenario,
        wall_clock=options.clock == "real",
        deadlines=deadlines,
        prepared=prepared,
        out=folder / "answers",
        watchdog_s=gives_up_after_s(
            scenario,
            options,
            samples=len(prepared),
            clips_s=sum(p.video_duration_s for p in prepared),
            deadlines=deadlines,
        ),
        abilities=options.abilities,
        killed=list(killed),
    )
    loop = make_loop(options.clock, tie_seed=options.tie_seed)
    stage = _Stage(observation, options, voice, loop, folder, kill)
    freeze_once()
    try:
        stage.play()
    finally:
        if isinstance(loop, VirtualLoop):
            # Bytes that the network never delivered make every later moment doubtful.
            observation.doubts += [f"the network did not come to rest: {told}" for told in loop.unrested]
        observation.harness_errors += stuck_of_ours(close_loop(loop))
    stage.client.account()
    live.account(observation, stage.server, options)
    return observation


class _Stage:
    """One performance of a scenario on one loop."""

    def __init__(
        self,
        observation: Observation,
        options: RunOptions,
        voice: ReferenceVoice,
        loop: VirtualLoop | RealLoop,
        folder: Path,
        kill: Kill | None,
    ) -> None:
        self.observation = observation
        self.kill = kill
        self.loop = loop
        self.recorder = Recorder(loop.time, loop.time())
        observation.recorder = self.recorder
        self.watch = Watch(observation.out)
        self.journal = Journal()
        scenario = observation.scenario
        self.judge: JudgeStage | None = None
        if scenario.judge is not None:
            subjects = subjects_of(scenario, observation.prepared, options, observation.out)
            who = live.judge_of(scenario, options)
            self.judge = JudgeStage(scenario, scenario.judge, subjects, observation.out, self.recorder, **who)
        sizes = [f.buffer_bytes for f in scenario.faults if isinstance(f, Buffered) and f.buffer_bytes]
        self.small_bytes = min(sizes, default=None)
        self.wiring = Wiring(loop, self.recorder)
        self.journal.sink = guarded(observation, self.wiring.on_journal)
        self.client: ClientRun = make_client(
            Scene(
                observation,
                options,
                folder,
                voice,
                loop,
                self.recorder,
                self.judge,
                guarded(observation, self.wiring.on_client_step),
                self.small_bytes,
                lambda: len(self.server.connections),
            )
        )
        self.wiring.client = self.client
        listener = self.client.listener(self.small_bytes)
        self.server = live.server_for(scenario, options, self.journal, self.wiring.identify, listener)
        self.wiring.server = self.server
        if self.judge is not None:
            self.judge.server.listener = self.client.listener(None)
        self.seams: list[Seam] = build_seams(
            scenario.faults,
            SeamContext(
                self.client.current_attempt,
                guarded(observation, self.wiring.on_seam),
                observation.out,
                loop.spend,
                kill[0] if kill is not None else None,
                self._die,
            ),
        )

    def play(self) -> None:
        """Run server and client to their end; whatever happens, seams and hooks are gone afterwards."""
        loop = self.loop
        loop.set_exception_handler(self._on_loop_error)
        loop.on_connect = guarded(self.observation, self.wiring.on_connect)
        loop.client_sndbuf_bytes = self.small_bytes
        if isinstance(loop, VirtualLoop):
            loop.on_livelock = self._on_livelock
            loop.on_near_miss = self.observation.near_miss
        with captured_logs(self.observation, self.recorder), self.watch.watching():
            for seam in self.seams:
                seam.install()
            try:
                loop.run_until_complete(self._main())
            except RuntimeError as error:
                if not self.observation.livelock or "stopped before" not in str(error):
                    raise
                self._abandon_sessions()
            except KeyboardInterrupt:  # no session is left open on a server, and no second one delays that
                loop.run_until_complete(self.server.stop())
                raise live.interrupted(self.observation, self.server) from None
            except SystemExit as error:  # of a task of the client's: it must not end us, least of all with 0
                self.observation.client_error = error
                self._abandon_sessions()
            finally:
                for seam in reversed(self.seams):  # each restores what it found
                    seam.release()
                    seam.remove()
        self.observation.escaped = list(self.watch.escaped)
        self.observation.clock_reads = dict(self.watch.clock_reads)
        self.observation.entries = self.journal.entries
        self.observation.connections = list(self.server.connections)
        if self.judge is not None:
            before = [entry for run in self.observation.killed for entry in run.words.ledger]
            self.observation.judged = self.judge.facts(self.observation.out, before)
        self.observation.faults = merged(self._reports(), self.observation.killed)

    def _reports(self) -> list[FaultReport]:
        return [
            *self.wiring.fault_reports(self.observation.scenario),
            *self._seam_reports(),
            *(self.judge.fault_reports() if self.judge is not None else ()),
        ]

    def _die(self, evidence: dict[str, Any]) -> None:
        """The process ends here and now; what it knows goes ahead."""
        assert self.kill is not None, "only a run that is to be killed has the seam"
        ledger = list(self.judge.server.ledger.entries) if self.judge is not None else []
        self.kill[1](LastWords(evidence, self._reports(), ledger, list(self.recorder.records)))

    def _seam_reports(self) -> list[FaultReport]:
        reports = [seam.report() for seam in self.seams]
        return [replace(report, evidence=self.recorder.relative(report.evidence)) for report in reports]

    def _abandon_sessions(self) -> None:
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
        await self.loop.create_task(work, name=name, context=context_of("server"))

    async def _perform(self) -> None:
        self.watch.begin()
        if self.observation.wall_clock:
            self.observation.lateness.begin(self.loop)
        client = self.loop.create_task(
            self.client.run(self.server.url), name="client", context=context_of("client")
        )
        scenario = self.observation.scenario
        if scenario.client.cancel_at_s is not None:
            self.loop.call_later(scenario.client.cancel_at_s, client.cancel)
        started_s = self.loop.time()
        done, _ = await asyncio.wait({client}, timeout=self.observation.watchdog_s)
        self.observation.lateness.stop()
        self.observation.client_s = self.loop.time() - started_s
        if done:
            self._take_result(client)
        else:
            self.observation.watchdog_fired = True
            self.observation.pending = self.client.pending()
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
            stopping = self.loop.create_task(end, name=f"{name} stop", context=context_of("server"))
            if not (await asyncio.wait({stopping}, timeout=STOP_S))[0]:
                self.observation.harness_errors.append(f"the {name} did not stop within {STOP_S:g} s")

    def _take_result(self, client: asyncio.Task[Any]) -> None:
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
        self.left = tasks_of(self.loop, "client")  # kept, or the collector takes one nobody else knows
        if self.left:
            await asyncio.wait(self.left, timeout=RELEASE_S)
        if self.wiring.open_sockets():
            await asyncio.sleep(RELEASE_S)
        if not self.observation.watchdog_fired:
            self.observation.leaked = client_tasks(self.loop, self.wiring.session_of)
            self.observation.open_sockets = self.wiring.open_sockets()
        for transport in self.loop.open_transports("client"):
            transport.abort()  # type: ignore[attr-defined]  # told above; it must not outlive the scenario
        if client.done() and not client.cancelled():
            client.exception()

    def _phase(self) -> str:
        """The phase of a session that the client spoke of last."""
        phases = (r.data.get("name") for r in reversed(self.recorder.records) if r.what == "phase")
        return str(next(phases, ""))

    def _on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        told = f"{context.get('message', '')}: {error!r}" if error else str(context.get("message", ""))
        task = context.get("task") or context.get("future")
        if (side_of_finished(task) if isinstance(task, asyncio.Task) else SIDE.get()) == "client":
            self.observation.loop_errors.append(told)
        else:
            self.observation.harness_errors.append(told)

    def _on_livelock(self, livelock: Any) -> None:
        self.observation.livelock = str(livelock)
        self.observation.pending = self.client.pending()
        self.loop.stop()
