"""One `conformance run --target live`: preflight, order, play within the budget, close everything, tell."""

from __future__ import annotations

import asyncio
import datetime
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from conformance.exits import Exit, exit_of
from conformance.live import report as telling
from conformance.live.bill import DeviceUse, Purse, bill, estimate_s, ordered
from conformance.live.dispatch import dispatch
from conformance.live.layers import metrics
from conformance.live.preflight import Inputs, Preflight, fly
from conformance.live.slots import IN_A_ROW, SLOT_WAIT_S, Patience
from conformance.options import RunOptions
from conformance.outcome import Outcome, RunReport, ScenarioResult
from conformance.report import json_report, junit
from conformance.report.publish import deliver, publish
from conformance.requirements import requirement_texts
from conformance.session import alone_in, check_outputs, choose, environment
from conformance.targets.live import CutShort, LiveTarget, abilities, beyond_reach, fitted
from scenarios.model import Scenario


@dataclass(frozen=True)
class LivePlan:
    """What the command line asks for beside `RunOptions`."""

    target: LiveTarget
    max_sessions: int
    budget_minutes: float | None
    command: str
    """Masked."""
    datasets: tuple[Path, ...] = ()
    fail_fast: bool = False
    """Stop at the first scenario that does not pass."""
    slot_wait_s: float = SLOT_WAIT_S
    """How long a scenario waits for a free slot."""


@dataclass(frozen=True)
class Outputs:
    """Files that the run writes."""

    json: Path | None = None
    junit: Path | None = None
    table: Path | None = None
    """Markdown for a pull request."""

    @property
    def files(self) -> list[Path]:
        """Those that are files."""
        return [p for p in (self.json, self.junit, self.table) if p is not None and str(p) != "-"]


def execute_live(
    patterns: Sequence[str], tags: Sequence[str], options: RunOptions, plan: LivePlan, outputs: Outputs
) -> Exit:
    """The whole run.

    Raises ConfigurationError, ScenarioError: before anything is contacted.
    """
    sources: dict[str, Path] = {}
    scenarios, skipped = choose(patterns, tags, options, sources)
    check_outputs(options.out, outputs.files)
    if plan.target.record is not None:
        check_outputs(plan.target.record, [])
    options = replace(options, files=sources)
    with alone_in(options.out):
        return _execute(scenarios, skipped, options, plan, outputs)


def _execute(
    scenarios: list[Scenario],
    skipped: list[ScenarioResult],
    options: RunOptions,
    plan: LivePlan,
    outputs: Outputs,
) -> Exit:
    to_stdout = str(outputs.json) == "-"
    stream = sys.stderr if to_stdout else sys.stdout
    began = _now()
    judge = plan.target.judge
    flight = asyncio.run(fly(plan.target.server, Inputs(options.ref_audio, plan.datasets, judge)))
    _print(sys.stderr, flight.lines())
    if flight.problem is not None:
        _print(stream, [f"preflight failed: {flight.problem}"])
        return Exit.USAGE if flight.problem.usage else Exit.UNAVAILABLE
    target = replace(plan.target, measured=flight.measured)
    options = replace(
        options,
        clock="real",
        live=target,
        abilities=abilities(target),
        model=target.server.model,
        out=options.out.resolve() if options.out is not None else None,
    )
    before = asyncio.run(metrics(target.server))
    run = _Run(options, plan, target, scenarios)
    run.play()
    after = asyncio.run(metrics(target.server))
    report = run.report(skipped, flight, began, {"before": before, "after": after})
    undelivered = _write(report, outputs)
    _print(stream, telling.lines(report, requirement_texts()))
    if to_stdout:
        print(json_report.dumps(report))
    return max(undelivered, _exit(report))


def _exit(report: RunReport) -> Exit:
    code = exit_of(report.results)
    if code is Exit.PASSED and not telling.observable(report.results):
        code = Exit.USAGE  # nothing that was selected showed anything
    if any(result.away or result.no_slot for result in report.results):
        code = max(code, Exit.UNAVAILABLE)
    return max(code, Exit.INTERRUPTED) if report.interrupted else code


def _print(stream: TextIO, lines: Sequence[str]) -> None:
    for line in lines:
        print(line, file=stream, flush=True)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")


class _Run:
    """The scenarios of one run, played side by side."""

    def __init__(
        self, options: RunOptions, plan: LivePlan, target: LiveTarget, scenarios: Sequence[Scenario]
    ) -> None:
        self.options = options
        self.plan = plan
        self.target = target
        self.results: list[ScenarioResult] = []
        self.interrupted = False
        self.stopped_early = ""
        self._without_slot = 0
        self._started = time.perf_counter()
        budget = plan.budget_minutes
        self.purse = Purse(None if budget is None else budget * 60)
        playable: list[Scenario] = []
        for scenario in scenarios:
            unseen = unplayed(scenario, options, target)
            if unseen is None:
                playable.append(scenario)
            else:
                self.results.append(unseen)
        self._waiting = ordered(playable, target.sessions)
        self._total = len(playable)

    def play(self) -> None:
        """Until all are played, the budget is spent, the server is away, or Ctrl-C."""
        if self._waiting:
            print(self.estimate(), file=sys.stderr, flush=True)
        work = partial(
            _play,
            options=self.options,
            max_sessions=self.plan.max_sessions,
            slot_wait_s=self.plan.slot_wait_s,
        )
        at_once = self.plan.max_sessions
        before = signal.signal(signal.SIGTERM, _interrupt)
        stream = dispatch(self._next, work, _lost, at_once=at_once, late=self._take)
        try:
            for scenario, result in stream:
                self._take(scenario, result)
                done = self._total - len(self._waiting) - len(self.purse.promised)
                print(f"[{done}/{self._total}] done {result.id}", file=sys.stderr, flush=True)
                self._without_slot = self._without_slot + 1 if result.no_slot else 0
                if result.away:
                    self._give_up(f"the server went away: {result.away}")
                elif self._without_slot >= IN_A_ROW and self._waiting:
                    self.stopped_early = f"{IN_A_ROW} scenarios in a row found no free slot"
                    self._give_up(f"the server has no slot: {result.no_slot}")
                elif self.plan.fail_fast and exit_of([result]) is not Exit.PASSED:
                    self.stopped_early = f"--fail-fast after {result.id}"
                    self._waiting.clear()
                    break
        except KeyboardInterrupt:
            self.interrupted = True
            self._waiting.clear()
        finally:
            stream.close()  # tells whoever still runs to close its sessions
            signal.signal(signal.SIGTERM, before)
        self._tell_left_out()

    def estimate(self) -> str:
        """How long it will take, as far as that is known beforehand."""
        sessions = self.plan.max_sessions
        device_s = sum(estimate_s(scenario, sessions) for scenario in self._waiting)
        budget_s = self.purse.budget_s
        told = f"{self._total} scenario(s) to play, about {device_s / 60:.1f} device minutes"
        if budget_s is not None and device_s > budget_s:
            told += f", of which {budget_s / 60:g} may be spent: the dearest are left out"
            device_s = budget_s
        return f"{told}; about {device_s / sessions / 60:.1f} min with {sessions} session(s) at a time"

    def _take(self, scenario: Scenario, result: ScenarioResult) -> None:
        self.results.append(result)
        self.purse.paid(scenario.id, [DeviceUse(**use) for use in result.device])

    def _next(self, room: int) -> tuple[Scenario, int] | None:
        """The first scenario whose sessions fit into what is free."""
        for scenario in list(self._waiting):
            sessions = min(scenario.client.concurrency, self.plan.max_sessions)
            if sessions > room:
                continue
            self._waiting.remove(scenario)
            if self.purse.take(scenario, estimate_s(scenario, sessions)):
                return scenario, sessions
        return None

    def _give_up(self, why: str) -> None:
        for scenario in self._waiting:
            self.results.append(_unplayed(scenario, Outcome.SKIPPED, why))
        self._waiting.clear()

    def _tell_left_out(self) -> None:
        by_id = {s.id: s for s in choose([], [], self.options)[0]}
        for name in self.purse.left_out:
            if name in by_id:
                reason = f"left out by the budget of {self.plan.budget_minutes:g} device minutes"
                self.results.append(_unplayed(by_id[name], Outcome.SKIPPED, reason))

    def report(
        self, skipped: Sequence[ScenarioResult], flight: Preflight, began: str, counted: dict[str, Any]
    ) -> RunReport:
        """Everything that was seen."""
        results = tuple(sorted([*self.results, *skipped], key=lambda r: r.id))
        uses = [(r.id, DeviceUse(**use)) for r in results for use in r.device]
        measured = flight.measured
        return RunReport(
            results=results,
            seed=self.options.seed,
            target="live",
            clock="real",
            client=self.options.client.told,
            real_s=time.perf_counter() - self._started,
            interrupted=self.interrupted,
            stopped_early=self.stopped_early,
            environment=environment(),
            live={
                "server": self.target.server.told(),
                "inject": self.target.inject,
                "max_sessions": self.plan.max_sessions,
                "command": self.plan.command,
                "began": began,
                "ended": _now(),
                "measured": measured.to_json() if measured is not None else None,
                "preflight": flight.to_json(),
                "observable": telling.observable(results),
                "unconfirmed": sum(result.unconfirmed for result in results),
                "untold": sorted(self.purse.promised),
                "bill": bill(uses, self.purse),
                "metrics": counted if any(counted.values()) else None,
            },
        )


def unplayed(scenario: Scenario, options: RunOptions, target: LiveTarget) -> ScenarioResult | None:
    """The result of a scenario that a live server cannot show, without spending anything; None: it is played."""
    from conformance.abilities import Need
    from conformance.clients.making import unplayable
    from conformance.outcome import Unobserved

    if scenario.probe is not None:
        return _unplayed(
            scenario, Outcome.SKIPPED, "a probe asserts nothing: `conformance probe --url` asks it"
        )
    beyond = beyond_reach(scenario, target)
    if not beyond:
        return unplayable(scenario, options)
    blind = tuple(Unobserved(what, "fault", Need.SERVER_CONTROL, reason) for what, reason in beyond)
    result = _unplayed(scenario, Outcome.NOT_OBSERVABLE, "; ".join(f"{w}: {r}" for w, r in beyond))
    return replace(result, unobserved=blind)


def _unplayed(scenario: Scenario, outcome: Outcome, reason: str) -> ScenarioResult:
    return ScenarioResult(
        id=scenario.id,
        title=scenario.title,
        requires=tuple(scenario.requires),
        outcome=outcome,
        reason=reason,
    )


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt  # SIGTERM leaves no more behind than Ctrl-C does


def _play(scenario: Scenario, options: RunOptions, max_sessions: int, slot_wait_s: float) -> ScenarioResult:
    from conformance.runner import run_scenario

    assert options.live is not None
    scenario, target = fitted(scenario, options.live, max_sessions)
    patience = Patience(slot_wait_s, tell=lambda text: print(text, file=sys.stderr, flush=True))
    try:
        return patience.play(lambda: run_scenario(scenario, replace(options, live=target)))
    except CutShort as end:
        ends = telling.ends(end.unconfirmed)
        stopped = _unplayed(scenario, Outcome.SKIPPED, f"stopped before its end; {ends}")
        device = tuple(asdict(use) for use in end.uses)
        return patience.joined(
            replace(stopped, device=device, unconfirmed=end.unconfirmed, answers=tuple(end.answers))
        )
    except KeyboardInterrupt:
        return patience.joined(_unplayed(scenario, Outcome.SKIPPED, "stopped while it waited for a slot"))


def _lost(scenario: Scenario, reason: str) -> ScenarioResult:
    return _unplayed(scenario, Outcome.HARNESS_ERROR, reason)


def _write(report: RunReport, outputs: Outputs) -> Exit:
    def table(path: Path) -> None:
        publish(path, telling.pull_request_table(report).encode("utf-8"))

    reports: list[tuple[Path | None, Callable[[Path], None]]] = [
        (outputs.json if str(outputs.json) != "-" else None, partial(json_report.write, report)),
        (outputs.junit, partial(junit.write, report, requirements=requirement_texts())),
        (outputs.table, table),
    ]
    return deliver((path, write) for path, write in reports if path is not None)
