"""`conformance proxy`: the proxy alone, in the path of any client, with the faults of a scenario."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.exits import Exit
from conformance.live.server import LiveServer
from conformance.options import ConfigurationError
from conformance.serve_journal import ServeJournal, journal_to
from conformance.serve_options import one_scenario
from conformance.targets.judge import make_judge
from conformance.targets.live import endings
from conformance.targets.mock import server_faults
from mockserver.arming import provable
from mockserver.faults import FaultReport
from mockserver.journal import Journal
from mockserver.judge import JudgedSample, JudgeServer
from mockserver.proxy import ProxyServer
from scenarios.faults import FaultBase
from scenarios.model import Scenario

if TYPE_CHECKING:
    from client.judge.settings import JudgeSettings


@dataclass(frozen=True)
class ProxyOptions:
    """As on the command line."""

    server: LiveServer
    scenario: str | None = None
    """Its faults are played; None: frames go through untouched."""
    judge: JudgeSettings | None = None
    port: int = 0
    judge_port: int = 0
    max_sessions: int | None = None
    journal: Path | None = None
    seed: int = 1


def proxy_until_stopped(options: ProxyOptions) -> Exit:
    """Relay until SIGINT or SIGTERM; lines on standard output tell the URL for sessions, then that of the judge.

    Raises ConfigurationError, ScenarioError: no such scenario, one that a proxy cannot play, a journal that cannot be
        written.
    """
    scenario = one_scenario(options.scenario) if options.scenario is not None else None
    faults: list[FaultBase] = (
        [] if scenario is None else [*map(provable, server_faults(scenario)), *endings(scenario)]
    )
    with journal_to(options.journal) as journal:
        try:
            proxy = ProxyServer(
                options.server.behind(),
                faults=faults,
                seed=options.seed,
                port=options.port,
                max_sessions=options.max_sessions,
                journal=Journal(journal.entry, keep=False),
            )
        except ValueError as error:
            raise ConfigurationError(f"--scenario {options.scenario}: {error}") from None
        return asyncio.run(_relay(options, proxy, _judge(options, scenario, journal), journal))


def _judge(options: ProxyOptions, scenario: Scenario | None, journal: ServeJournal) -> JudgeServer | None:
    """The judge that was named, with the scenario's faults in its way; or its script, in its place. None: neither."""
    scripted = scenario is not None and scenario.judge is not None and scenario.judge.is_scripted
    if options.judge is None and not scripted:
        return None
    specs = scenario.specs if scenario is not None else []
    known = [JudgedSample(s.split, s.id, s.question) for s in specs if s.clip.dataset is None]
    return make_judge(
        scenario,
        known,
        journal.judge,
        port=options.judge_port,
        behind=None if scripted else options.judge,
        stretched=scripted,
    )


async def _relay(
    options: ProxyOptions, proxy: ProxyServer, judge: JudgeServer | None, journal: ServeJournal
) -> Exit:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        for part, port in ((proxy, options.port), (judge, options.judge_port)):
            try:
                if part is not None:
                    await part.start()
            except OSError as error:
                reason = error.strerror or error
                print(f"conformance: cannot listen on port {port}: {reason}", file=sys.stderr)
                return Exit.UNAVAILABLE
        played = f", playing {options.scenario}" if options.scenario is not None else ""
        print(f"relaying at {proxy.url} (server {options.server.told()['url']}{played})", flush=True)
        if judge is not None:
            print(f"judging at {judge.url} (model {judge.model})", flush=True)
        await stop.wait()
    finally:
        await proxy.stop()
        if judge is not None:
            await judge.stop()
        journal.flush()
    reports = [*proxy.fault_reports(), *(judge.fault_reports() if judge is not None else ())]
    print("\n".join([*_told(reports), *_ended(proxy)]), flush=True)
    return Exit.FAILED if proxy.unconfirmed else Exit.PASSED


def _told(reports: Sequence[FaultReport]) -> list[str]:
    """How far each fault got, on how many connections."""
    states: dict[tuple[int, str], Counter[str]] = {}
    for report in reports:
        states.setdefault((report.index, report.name), Counter())[report.state] += 1
    return [
        f"fault {name}: " + ", ".join(f"{count} {state}" for state, count in sorted(found.items()))
        for (_, name), found in states.items()
    ]


def _ended(proxy: ProxyServer) -> list[str]:
    told = [f"stopped after {len(proxy.connections)} session(s)"]
    told += [f"the server could not be reached: {reason}" for reason in dict.fromkeys(proxy.unreachable)]
    told += [f"never confirmed closed: session {session or '(no id)'}" for session in proxy.unconfirmed]
    return told
