"""`conformance serve`: the mock server and the judge alone, on the real clock."""

from __future__ import annotations

import asyncio
import contextlib
import io
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from conformance.exits import Exit
from conformance.options import ConfigurationError
from conformance.targets.judge import make_judge
from conformance.targets.mock import server_faults
from mockserver.app import MockServer
from mockserver.journal import Entry, Journal
from mockserver.judge import JudgedSample, JudgeServer
from mockserver.profiles import PROFILES
from scenarios import load_catalogue, select
from scenarios.faults import FaultBase, Layer
from scenarios.model import Reply, Scenario

DEFAULT_REPLIES = (
    Reply(
        starts_at_unit=1,
        units=3,
        text="I can see the scene. Something is moving in it. Now it is quiet again.",
    ),
)
"""What the model says when no scenario is given."""


@dataclass(frozen=True)
class Served:
    """What is served, and where."""

    host: str
    port: int
    judge_port: int
    profile: str
    replies: Sequence[Reply]
    faults: Sequence[FaultBase]
    decision_ms: int
    scenario: Scenario | None
    """Scripts the judge; None: its verdicts are plausible."""
    journal: Path | None
    seed: int


def serve_until_stopped(
    scenario: str | None,
    *,
    profile: str,
    host: str,
    port: int,
    journal: Path | None,
    seed: int,
    judge_port: int = 0,
) -> Exit:
    """Serve until SIGINT or SIGTERM; the first line on standard output tells the sessions' URL, the second the judge's.

    Raises ConfigurationError: an unknown profile, or an address that is not loopback.
    Raises ScenarioError: the scenario does not load.
    """
    if host not in ("127.0.0.1", "::1", "localhost"):
        raise ConfigurationError(
            f"--host {host!r}: only loopback addresses are served: 127.0.0.1, ::1, localhost"
        )
    script = None if scenario is None else _the_one(scenario)
    profile = profile if script is None else script.server.profile
    if profile not in PROFILES:
        raise ConfigurationError(f"--profile {profile!r}: unknown; known: {', '.join(sorted(PROFILES))}")
    served = Served(
        host=host,
        port=port,
        judge_port=judge_port,
        profile=profile,
        replies=DEFAULT_REPLIES if script is None else script.server.reply,
        faults=() if script is None else server_faults(script),
        decision_ms=50 if script is None else script.server.decision_ms,
        scenario=script,
        journal=journal,
        seed=seed,
    )
    return asyncio.run(_serve(served))


def _the_one(pattern: str) -> Scenario:
    chosen = select(load_catalogue(), [pattern], [])
    if len(chosen) != 1:
        raise ConfigurationError(f"--scenario {pattern!r}: selects {len(chosen)} scenarios, expected one")
    seams = [fault.name for fault in chosen[0].faults if fault.layer is Layer.SEAM]
    if seams:
        raise ConfigurationError(
            f"--scenario {pattern!r}: {', '.join(seams)} act on a client in the same process; a server cannot play "
            "them; `conformance run` can"
        )
    return chosen[0]


def _judge(served: Served, sink: Callable[[str, Mapping[str, Any]], None]) -> JudgeServer:
    """Samples of a dataset are known by what requests say of themselves, made ones by their instruction too."""
    specs = served.scenario.specs if served.scenario is not None else []
    known = [JudgedSample(s.split, s.id, s.question) for s in specs if s.clip.dataset is None]
    return make_judge(served.scenario, known, sink, host=served.host, port=served.judge_port)


def _write_line(file: io.FileIO, entry: Entry) -> None:
    _write(
        file,
        {
            "t_s": entry.t_s,
            "connection": entry.connection,
            "seq": entry.seq,
            "kind": entry.kind,
            "name": entry.name,
        },
        entry.data,
    )


def _write_judge_line(file: io.FileIO, event: str, data: Mapping[str, Any]) -> None:
    _write(file, {"t_s": asyncio.get_running_loop().time(), "kind": "judge", "name": event}, data)


def _write(file: io.FileIO, line: dict[str, Any], data: Mapping[str, Any]) -> None:
    """One line, whatever a client sent: what JSON cannot hold, such as bottomless nesting, is named instead."""
    try:
        written = orjson.dumps({**line, "data": dict(data)}, default=str)
    except TypeError as error:
        written = orjson.dumps({**line, "data": {"unwritable": str(error)}})
    file.write(written + b"\n")


async def _serve(served: Served) -> Exit:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    with contextlib.ExitStack() as files:
        journal = Journal(keep=False)
        judge_sink: Callable[[str, Mapping[str, Any]], None] = _unheard
        if served.journal is not None:
            file = files.enter_context(served.journal.open("ab", buffering=0))
            journal.sink = partial(_write_line, file)
            judge_sink = partial(_write_judge_line, file)
        server = MockServer(
            profile=served.profile,
            replies=served.replies,
            faults=served.faults,
            seed=served.seed,
            decision_ms=served.decision_ms,
            host=served.host,
            port=served.port,
            journal=journal,
        )
        judge = _judge(served, judge_sink)
        try:
            for part, port in ((server, served.port), (judge, served.judge_port)):
                try:
                    await part.start()
                except OSError as error:
                    reason = error.strerror or error
                    print(f"conformance: cannot listen on {served.host}:{port}: {reason}", file=sys.stderr)
                    return Exit.UNAVAILABLE
            print(f"listening on {server.url} (profile {served.profile})", flush=True)
            print(f"judging at {judge.url} (model {judge.model})", flush=True)
            await stop.wait()
        finally:
            server.release_faults()
            await server.stop()
            await judge.stop()
    told = (
        f"stopped after {len(server.connections)} connection(s), {len(judge.ledger.entries)} judge request(s)"
    )
    print(told, flush=True)
    return Exit.PASSED


def _unheard(event: str, data: Mapping[str, Any]) -> None:
    """Without a journal nobody hears of it."""
