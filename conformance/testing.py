"""The testbed in other people's test suites.

    from conformance.testing import run_scenario, scenarios

    @given(scenarios(seams=False, judge=False, settings=False))
    def test_my_client_survives_anything(scenario):
        assert not run_scenario(scenario, client="python:my_client:run").findings

`scenarios` draws whole scenarios, which Hypothesis shrinks when one fails; without seams and settings they hold nothing
that only the client of this project can play. `run_scenario` plays one in virtual time and judges it. `DuplexServer` is
the fake server alone, on the real clock in a thread of its own, for a test that drives a client by itself; the pytest
fixture `duplex_server` starts it (conformance.pytest_plugin).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import currently_in_test_context, reject

from conformance.clients.choice import clock_of, parse_client
from conformance.clients.making import unplayable
from conformance.fuzz.case import DOUBTS
from conformance.fuzz.play import play
from conformance.fuzz.strategies import build, scenario_data, scenarios
from conformance.options import ConfigurationError, RunOptions
from conformance.outcome import Finding, Outcome, ScenarioResult
from conformance.scratch import scratch_folder
from conformance.session import check_clock, ready_client
from conformance.targets.judge import make_judge
from conformance.targets.mock import server_faults
from mockserver.app import ConnectionInfo, MockServer
from mockserver.arming import provable
from mockserver.faults import FaultReport
from mockserver.journal import Entry, Journal
from mockserver.judge import JudgedSample, JudgeServer
from scenarios import load_catalogue, load_scenarios, select
from scenarios.faults import Layer
from scenarios.model import Scenario

__all__ = ["DuplexServer", "NotObservableError", "run_scenario", "scenario_data", "scenario_of", "scenarios"]

READY_S = 10.0
"""Real seconds that starting and stopping the server may take."""


class NotObservableError(Exception):
    """A scenario shows nothing of this client: a fault in it cannot act, or a setting cannot be told."""


def run_scenario(scenario: Scenario, *, client: str = "builtin", seed: int = 1) -> ScenarioResult:
    """Play a scenario in virtual time; judge it by its expectations, the invariants and the model of a right client.

    A finding that hangs on an event within a millisecond of a deadline must show in other orders of that instant as
    well; else the outcome is `indeterminate` and there is none. A fault that did not bite is no finding (`inert`), an
    error of the harness is one.

    Args:
        client: `builtin`, or `python:MOD:FUNC` as for `conformance run --client`.
        seed: of media, ids and jitter.
    Returns: the result; `findings` is empty when nothing is wrong.
    Raises:
        ConfigurationError: the client cannot be loaded, or is a program, which keeps its own time.
        NotObservableError: nothing was found, and the scenario shows nothing of this client, or not all that it is
            about; the message says why. In a test of Hypothesis the example is rejected instead, so that it counts
            for none.
    """
    options = _options(client, seed)
    result = unplayable(scenario, options) or _played(scenario, options)
    if result.outcome is Outcome.NOT_OBSERVABLE and not result.findings:
        if currently_in_test_context():
            reject()
        raise NotObservableError(f"{scenario.id}: {result.reason}")
    return result


def _options(client: str, seed: int) -> RunOptions:
    choice = parse_client(client)
    clock_of(choice, "virtual")
    options = ready_client(RunOptions(seed=seed, client=choice))
    check_clock(options)
    return options


def _played(scenario: Scenario, options: RunOptions) -> ScenarioResult:
    if scenario.probe is not None:
        from conformance.runner import run_scenario as run

        return run(scenario, options)
    with scratch_folder() as scratch:
        played = play(scenario, options, scratch)
        result = replace(played.result, findings=played.findings)
        if not result.findings or not played.in_doubt:
            return result
        kept = list(result.findings)
        for ties in DOUBTS:
            again = play(scenario, replace(options, tie_seed=ties), scratch)
            there = {_essence(finding) for finding in again.findings}
            kept = [finding for finding in kept if _essence(finding) in there]
    if kept:
        return replace(result, findings=tuple(kept))
    told = "a finding hangs on an event within 1 ms of a deadline: " + result.findings[0].id
    return replace(result, outcome=Outcome.INDETERMINATE, findings=(), reason=told)


def _essence(finding: Finding) -> tuple[str, str | None]:
    return finding.id, finding.sample


def scenario_of(given: Scenario | Mapping[str, Any] | str | Path) -> Scenario:
    """A scenario from its id in the catalogue, a file, or the data of one.

    Raises ConfigurationError: an id that selects none or several, or none of these. ScenarioError: a file or data that
    does not load.
    """
    if isinstance(given, Scenario):
        return given
    if not isinstance(given, Mapping | str | Path):
        raise ConfigurationError(
            f"a scenario is an id of the catalogue, a path, a mapping or a Scenario; "
            f"found {type(given).__name__} {given!r}"
        )
    if isinstance(given, Mapping):
        told = {"title": "A scenario of a test", "about": "Given by a test.", "requires": []}
        return build({**told, "expect": {"finishes_within_s": 3600.0}, **given}, "test")
    if isinstance(given, Path) or given.endswith((".yaml", ".yml")):
        chosen = load_scenarios(given)
    else:
        chosen = select(load_catalogue(), [given], [])
    if len(chosen) != 1:
        raise ConfigurationError(f"{given}: {len(chosen)} scenarios, one is wanted here")
    return chosen[0]


class DuplexServer:
    """The fake server with one scenario, in a thread of its own, on the real clock, on loopback.

    Every connection plays the scenario from its beginning.
    """

    def __init__(self, scenario: Scenario, *, seed: int = 1) -> None:
        """Args: scenario: without faults that act on a client in the same process (ConfigurationError)."""
        seams = [fault.name for fault in scenario.faults if fault.layer is Layer.SEAM]
        if seams:
            raise ConfigurationError(
                f"{scenario.id}: {', '.join(seams)} act on a client in the same process; a server cannot play them"
            )
        self.scenario = scenario
        self._journal = Journal()
        self._server = MockServer(
            profile=scenario.server.profile,
            replies=scenario.server.reply,
            faults=[provable(fault) for fault in server_faults(scenario)],
            seed=seed,
            decision_ms=scenario.server.decision_ms,
            journal=self._journal,
        )
        self._judge: JudgeServer | None = None
        if scenario.judge is not None:
            known = [
                JudgedSample(s.split, s.id, s.question) for s in scenario.specs if s.clip.dataset is None
            ]
            self._judge = make_judge(scenario, known, _unheard)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="duplex-server", daemon=True)
        self._stopped = False

    def start(self) -> DuplexServer:
        """Listen. Raises OSError: no port can be had."""
        self._thread.start()
        self._call(self._start())
        return self

    @property
    def url(self) -> str:
        """Of the realtime endpoint, without a query."""
        return self._server.url

    @property
    def judge_url(self) -> str | None:
        """Of the judge; None: the scenario has none."""
        return None if self._judge is None else self._judge.url

    @property
    def journal(self) -> list[Entry]:
        """What the server saw, did and injected so far."""
        return list(self._journal.entries)

    @property
    def connections(self) -> list[ConnectionInfo]:
        """Every connection so far."""
        return list(self._server.connections)

    def received(self, name: str) -> list[Entry]:
        """Client events of this type so far."""
        return [entry for entry in self.journal if entry.kind == "received" and entry.name == name]

    @property
    def violations(self) -> list[Entry]:
        """What the client did that docs/protocol.md forbids."""
        return [entry for entry in self.journal if entry.kind == "violation"]

    def unfinished(self) -> list[str]:
        """What of the scenario did not happen, in words: faults that did not bite, replies that nobody asked for.

        A test in which this is not empty did not test what its scenario says.
        """
        told = [
            f"fault {report.name} is inert: {report.state}, never observed" + _on(report) + _reason(report)
            for report in self._server.fault_reports()
            if report.state != "observed"
        ]
        scripted = len(self.scenario.server.reply)
        begun = max((info.sent["response.created"] for info in self.connections), default=0)
        if begun < scripted:
            told.append(
                f"the script is not used up: {begun} of {scripted} replies were begun on any connection"
            )
        if self._judge is not None and self._judge.script.left:
            told.append(f"the judge's script is not used up: {self._judge.script.left} replies left")
        if self._judge is not None:
            told += [
                f"fault {report.name} of the judge is inert: {report.state}"
                for report in self._judge.fault_reports()
                if report.state != "observed"
            ]
        return told

    def stop(self) -> None:
        """Release all faults, end all connections, stop listening; a second call does nothing."""
        if self._stopped:
            return
        self._stopped = True
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(READY_S)
        self._loop.close()

    def _call(self, work: Any) -> None:
        future: Future[None] = asyncio.run_coroutine_threadsafe(work, self._loop)
        future.result(READY_S)

    async def _start(self) -> None:
        await self._server.start()
        if self._judge is not None:
            await self._judge.start()

    async def _stop(self) -> None:
        self._server.release_faults()
        await self._server.stop()
        if self._judge is not None:
            self._judge.release_faults()
            await self._judge.stop()


def _on(report: FaultReport) -> str:
    return f" (connection {report.connection})" if report.connection else " (no connection came in its scope)"


def _reason(report: FaultReport) -> str:
    return f": {report.evidence['reason']}" if report.connection and "reason" in report.evidence else ""


def _unheard(event: str, data: Mapping[str, Any]) -> None:
    """The judge's ledger is read at the end."""
