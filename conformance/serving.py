"""`conformance serve`: the mock server, the judge and the control API alone, on the real clock."""

from __future__ import annotations

import asyncio
import signal
import sys

from conformance.exits import Exit
from conformance.pool import freeze_once
from conformance.serve_journal import ServeJournal, journal_to
from conformance.serve_options import Served, ServeOptions, served
from conformance.targets.judge import make_judge
from mockserver.app import MockServer
from mockserver.control import ControlApi
from mockserver.control_guard import is_loopback
from mockserver.journal import Journal
from mockserver.judge import JudgedSample, JudgeServer

LEAVE_WITHIN_S = 2.0
"""After a signal clients have so long to answer the end of their sessions."""
REMEMBERED_CONNECTIONS = 1_000
REMEMBERED_JUDGE_REQUESTS = 500
"""A run of 66 samples is judged by some 400; each may keep its words, 130 kB at most."""


def serve_until_stopped(options: ServeOptions) -> Exit:
    """Serve until SIGINT or SIGTERM; a second one waits for nobody.

    Lines on standard output tell the URL of the sessions, of the judge and of the control API, in this order.

    Raises ConfigurationError, ScenarioError: as `served`; or the journal cannot be written.
    """
    chosen = served(options)
    with journal_to(options.journal) as journal:
        return asyncio.run(_serve(chosen, journal))


def _judge(chosen: Served, journal: ServeJournal) -> JudgeServer:
    """Samples of a dataset are known by what requests say of themselves, made ones by their instruction too."""
    specs = chosen.scenario.specs if chosen.scenario is not None else []
    known = [JudgedSample(s.split, s.id, s.question) for s in specs if s.clip.dataset is None]
    options = chosen.options
    return make_judge(
        chosen.scenario,
        known,
        journal.judge,
        host=options.host,
        port=options.judge_port,
        keep=REMEMBERED_JUDGE_REQUESTS,
    )


async def _serve(chosen: Served, journal: ServeJournal) -> Exit:
    options = chosen.options
    server = MockServer(
        profile=chosen.profile,
        replies=chosen.replies,
        faults=chosen.faults,
        seed=options.seed,
        decision_ms=chosen.decision_ms,
        host=options.host,
        port=options.port,
        journal=Journal(journal.entry, keep=False),
        keep_connections=REMEMBERED_CONNECTIONS,
        tls=chosen.tls,
        api_key=chosen.api_key,
    )
    judge = _judge(chosen, journal)
    ControlApi(server, journal.ring, chosen.guard, judge.reset)
    stop = asyncio.Event()
    _on_signals(stop, server)
    try:
        for part, port in ((server, options.port), (judge, options.judge_port)):
            try:
                await part.start()
            except OSError as error:
                reason = error.strerror or error
                print(f"conformance: cannot listen on {options.host}:{port}: {reason}", file=sys.stderr)
                return Exit.UNAVAILABLE
        freeze_once()  # or each whole collection walks over all that was imported, while every session waits
        _tell(chosen, server, judge)
        await stop.wait()
    finally:
        await server.shut_down(LEAVE_WITHIN_S)
        await judge.stop()
        journal.flush()
    told = f"stopped after {server.accepted} connection(s), {judge.ledger.asked} judge request(s)"
    print(told, flush=True)
    return Exit.PASSED


def _on_signals(stop: asyncio.Event, server: MockServer) -> None:
    """The first signal lets clients leave, the next ones do not."""

    def heard() -> None:
        if stop.is_set():
            server.abort()
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, heard)


def _tell(chosen: Served, server: MockServer, judge: JudgeServer) -> None:
    guard = chosen.guard
    who = "open to programs on this host" if guard.token is None else "with the token"
    print(f"listening on {server.url} (profile {chosen.profile.name})", flush=True)
    print(f"judging at {judge.url} (model {judge.model})", flush=True)
    print(f"control at {server.http_url}/control ({who})", flush=True)
    if chosen.token_told:
        print(f"control token, told only here: {guard.token}", flush=True)
    if not is_loopback(chosen.options.host):
        print(
            f"conformance: {chosen.options.host} can be reached from other hosts; sessions and judge take anybody",
            file=sys.stderr,
            flush=True,
        )
