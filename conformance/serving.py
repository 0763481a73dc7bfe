"""`conformance serve`: the mock server alone, on the real clock."""

from __future__ import annotations

import asyncio
import io
import signal
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path

import orjson

from conformance.exits import Exit
from conformance.options import ConfigurationError
from conformance.targets.mock import server_faults
from mockserver.app import MockServer
from mockserver.journal import Entry, Journal
from mockserver.profiles import PROFILES
from scenarios import load_catalogue, select
from scenarios.faults import FaultBase
from scenarios.model import Reply

DEFAULT_REPLIES = (
    Reply(
        starts_at_unit=1,
        units=3,
        text="I can see the scene. Something is moving in it. Now it is quiet again.",
    ),
)
"""What the model says when no scenario is given."""


def serve_until_stopped(
    scenario: str | None, *, profile: str, host: str, port: int, journal: Path | None, seed: int
) -> Exit:
    """Serve until SIGINT or SIGTERM; one line on standard output tells the URL.

    Raises ConfigurationError: an unknown profile, or an address that is not loopback.
    Raises ScenarioError: the scenario does not load.
    """
    replies: list[Reply] = list(DEFAULT_REPLIES)
    faults: list[FaultBase] = []
    decision_ms = 50
    if scenario is not None:
        chosen = select(load_catalogue(), [scenario], [])
        if len(chosen) != 1:
            raise ConfigurationError(
                f"--scenario {scenario!r}: selects {len(chosen)} scenarios, expected one"
            )
        profile = chosen[0].server.profile
        replies = list(chosen[0].server.reply)
        decision_ms = chosen[0].server.decision_ms
        faults = server_faults(chosen[0])
    if profile not in PROFILES:
        raise ConfigurationError(f"--profile {profile!r}: unknown; known: {', '.join(sorted(PROFILES))}")
    if host not in ("127.0.0.1", "::1", "localhost"):
        raise ConfigurationError(
            f"--host {host!r}: only loopback addresses are served: 127.0.0.1, ::1, localhost"
        )
    return asyncio.run(_serve(profile, replies, faults, decision_ms, host, port, journal, seed))


def _write_line(file: io.FileIO, entry: Entry) -> None:
    file.write(orjson.dumps(asdict(entry), default=str) + b"\n")


async def _serve(
    profile: str,
    replies: list[Reply],
    faults: list[FaultBase],
    decision_ms: int,
    host: str,
    port: int,
    journal_path: Path | None,
    seed: int,
) -> Exit:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    journal = Journal()
    file = journal_path.open("ab", buffering=0) if journal_path is not None else None
    if file is not None:
        journal.sink = partial(_write_line, file)
    server = MockServer(
        profile=profile,
        replies=replies,
        faults=faults,
        seed=seed,
        decision_ms=decision_ms,
        host=host,
        port=port,
        journal=journal,
    )
    try:
        await server.start()
    except OSError as error:
        print(f"conformance: cannot listen on {host}:{port}: {error.strerror or error}", file=sys.stderr)
        return Exit.UNAVAILABLE
    print(f"listening on {server.url} (profile {profile})", flush=True)
    try:
        await stop.wait()
    finally:
        server.release_faults()
        await server.stop()
        if file is not None:
            file.close()
    print(f"stopped after {len(server.connections)} connection(s)", flush=True)
    return Exit.PASSED
