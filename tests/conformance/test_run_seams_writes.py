"""The seams in one write, and the one that hides the socket: they bite once, in scope, and leave nothing behind."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection

from client.connection import Connection
from client.deadlines import Deadlines
from conformance.clock import run_virtual
from conformance.options import RunOptions
from conformance.outcome import Outcome
from conformance.runner import run_scenario
from conformance.seams import SeamContext, build_seams
from scenarios import load_catalogue
from scenarios.errors import ScenarioError
from scenarios.faults import FAULTS, FaultBase

SCENARIOS = {s.id: s for s in load_catalogue()}
ACK = json.dumps({"type": "playback.ack"})
COMMIT = json.dumps({"type": "input_audio_buffer.commit"})


def _fault(name: str, **values: Any) -> FaultBase:
    return FAULTS[name].model_validate(values)


def _context() -> SeamContext:
    return SeamContext(attempt=lambda: None, note=lambda name, state, evidence: None)


class _Library:
    """Stands for the library's write: what is written, and when."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.written: list[tuple[float, str]] = []

        async def send(connection: ClientConnection, message: str) -> None:
            self.written.append((asyncio.get_running_loop().time(), message))

        monkeypatch.setattr(ClientConnection, "send", send)
        self.connection = ClientConnection.__new__(ClientConnection)


def test_one_write_fails_and_those_around_it_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    library = _Library(monkeypatch)
    (seam,) = build_seams([_fault("failing_write", nth=2, raises="OSError", message="gone")], _context())

    async def main() -> None:
        await library.connection.send(ACK)
        with pytest.raises(OSError, match="gone"):
            await library.connection.send(ACK)
        await library.connection.send(ACK)
        await library.connection.send(COMMIT)

    seam.install()
    run_virtual(main)
    seam.remove()

    assert [text for _, text in library.written] == [ACK, ACK, COMMIT]
    assert seam.report().state == "observed"


def test_a_slow_write_is_passed_by_what_is_written_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    library = _Library(monkeypatch)
    (seam,) = build_seams([_fault("slow_write", delay_s=2)], _context())

    async def main() -> None:
        slow = asyncio.ensure_future(library.connection.send(COMMIT))
        await asyncio.sleep(1)
        await library.connection.send(ACK)
        await slow

    seam.install()
    run_virtual(main)
    seam.remove()

    assert library.written == [(1001.0, ACK), (1002.0, COMMIT)]
    assert seam.report().evidence["waited_s"] == 2.0


def test_a_released_slow_write_waits_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    library = _Library(monkeypatch)
    (seam,) = build_seams([_fault("slow_write", delay_s=500)], _context())

    async def main() -> None:
        asyncio.get_running_loop().call_later(1, seam.release)
        await library.connection.send(COMMIT)

    seam.install()
    run_virtual(main)
    seam.remove()

    assert library.written == [(1001.0, COMMIT)]


def test_a_write_that_never_comes_leaves_the_seam_armed(monkeypatch: pytest.MonkeyPatch) -> None:
    library = _Library(monkeypatch)
    (seam,) = build_seams([_fault("failing_write", nth=3)], _context())
    seam.install()
    run_virtual(lambda: library.connection.send(ACK))
    seam.remove()

    assert seam.report().state == "armed"


def test_the_socket_is_hidden_from_the_abort_alone(caplog: pytest.LogCaptureFixture) -> None:
    (seam,) = build_seams([_fault("no_socket")], _context())
    connection = Connection("RTD_Omni/1", Deadlines())
    connection._socket = socket = ClientConnection.__new__(ClientConnection)

    seam.install()
    connection.abort()
    seen = connection._socket
    seam.remove()

    assert seen is socket
    assert connection._socket is socket
    assert "_socket" not in vars(Connection)
    assert "no socket to abort" in caplog.text
    assert seam.report().state == "observed"


def test_stacked_seams_leave_the_library_as_it_was() -> None:
    before = ClientConnection.send
    stacked = SCENARIOS["ack/failing-final"].model_copy(
        update={
            "faults": [
                _fault("failing_write", message="scripted: the ack could not be built"),
                _fault("slow_write", delay_s=0.5),
            ]
        }
    )

    result = run_scenario(stacked, RunOptions())

    assert result.outcome is Outcome.PASS, result.findings
    assert ClientConnection.send is before


@pytest.mark.parametrize("name", ["failing_write", "slow_write"])
def test_a_write_that_no_client_makes_is_refused(name: str) -> None:
    with pytest.raises((ValueError, ScenarioError), match="goes the other way"):
        _fault(name, write="session.created", **({"delay_s": 1} if name == "slow_write" else {}))
