"""Plays a scenario on a stand-in behind the live target's proxy."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from conformance import runner
from conformance.live.measured import Measured
from conformance.live.server import LiveServer
from conformance.options import RunOptions
from conformance.outcome import ScenarioResult
from conformance.targets import live
from conformance.targets.live import LiveTarget, abilities
from mockserver.app import MockServer
from mockserver.proxy import ProxyServer
from mockserver.upstream import Behind
from scenarios import load_catalogue
from scenarios.faults import FaultBase
from scenarios.model import Reply, Scenario

SERVER = LiveServer("ws://127.0.0.1:9/v1/realtime", "m")
MEASURED = Measured(
    dialect="J",
    dialect_sure=True,
    chunk_period_ms=1000,
    declared_period=True,
    session_created_s=0.0,
    first_audio_s=None,
    pace=None,
    decision_s=None,
    continues_without_input=True,
    listens_in_padding=0,
    padded_units=0,
    replies=0,
    replies_done=0,
    closed_after_s=0.0,
    close="",
    supports_barge_in=None,
)
CATALOGUE = {s.id: s for s in load_catalogue()}


def interrupt_at_the_first_append(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C, as the first unit of a clip has been read."""
    tell = runner.Wiring.on_journal

    def on_journal(self: Any, entry: Any) -> None:
        tell(self, entry)
        if entry.kind == "received" and entry.name == "input_audio_buffer.append":
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(runner.Wiring, "on_journal", on_journal)


def played(
    monkeypatch: pytest.MonkeyPatch,
    scenario: Scenario | str,
    *,
    replies: list[Reply] | None = None,
    own_faults: tuple[FaultBase, ...] = (),
    away: bool = False,
    sessions: int = 8,
    slots: int | None = None,
) -> ScenarioResult:
    """One scenario on a stand-in behind the live target's proxy, all in one loop and in virtual time.

    Args:
        replies: of the stand-in; None: as the scenario scripts.
        own_faults: what is wrong with the stand-in itself.
        slots: sessions that it takes at a time; None: as its profile says.
    """
    scenario = CATALOGUE[scenario] if isinstance(scenario, str) else scenario
    script = scenario.server.reply if replies is None else replies
    server = MockServer(
        profile=scenario.server.profile, replies=script, faults=own_faults, seed=1, max_sessions=slots
    )

    class StandIn(ProxyServer):
        async def start(self) -> None:
            if not away:
                await server.start()
                self.behind = Behind(server.url)
            await super().start()

        async def stop(self) -> None:
            await super().stop()
            await server.stop()

    monkeypatch.setattr(live, "ProxyServer", StandIn)
    target = LiveTarget(SERVER, inject=True, sessions=sessions)
    return runner.run_scenario(scenario, RunOptions(live=target, abilities=abilities(target)))
