"""The mock server of this project, in this process, on a loopback port of its own for each scenario."""

from __future__ import annotations

import socket
from collections.abc import Callable

from mockserver.app import MockServer
from mockserver.journal import Journal
from mockserver.profiles import scripted
from scenarios.faults import FaultBase, Layer
from scenarios.model import Scenario


def server_faults(scenario: Scenario) -> list[FaultBase]:
    """The faults that the server plays; seams act on the client, and the judge plays its own."""
    return [fault for fault in scenario.faults if fault.layer not in (Layer.SEAM, Layer.JUDGE)]


def make_server(
    scenario: Scenario,
    seed: int,
    journal: Journal,
    identify: Callable[[tuple[str, int]], tuple[str, str, int] | None] | None,
    listener: socket.socket | None = None,
) -> MockServer:
    """A server scripted as the scenario says, not yet started.

    Args:
        scenario: its `server` and `faults` are played.
        seed: of ids and jitter.
        journal: where the server writes what it saw and did.
        identify: names (split, id, attempt) of a connection by its peer address.
        listener: a bound socket to listen on; None: one of its own.
    """
    return MockServer(
        profile=scripted(scenario.server),
        replies=scenario.server.reply,
        faults=server_faults(scenario),
        seed=seed,
        decision_ms=scenario.server.decision_ms,
        identify=identify,
        journal=journal,
        listener=listener,
    )
