"""What other people's suites use: a drawn scenario in a plain `@given` test, and the fixture `duplex_server`."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from conformance.options import ConfigurationError
from conformance.outcome import Outcome
from conformance.testing import DuplexServer, run_scenario, scenario_of, scenarios
from scenarios.model import Scenario

pytest_plugins = ["pytester"]

SUITE = '''
import asyncio
import base64
import json

import websockets

SCENARIO = {
    "clip": {"seconds": 1.4},
    "server": {"decision_ms": 0, "reply": [{"starts_at_unit": 0, "units": 1, "text": "Hello."}]},
    "faults": ["no_session_closed"],
}
SESSION = {
    "modalities": ["audio", "text"],
    "ref_audio": "data:audio/wav;base64,UklGRg==",
    "extra_body": {"auto_response": True, "minicpmo45_native_duplex": True},
}
QUERY = "?duplex=1&model=m&minicpmo45_native_duplex=1&autostart=0"


async def converse(url, *, speak, close):
    """A client that is all too small: it opens, sends a second of silence, and closes."""
    async with websockets.connect(url + QUERY, compression=None) as socket:
        await socket.send(json.dumps({"type": "session.update", "session": SESSION}))
        while json.loads(await socket.recv())["type"] != "session.created":
            pass
        if speak:
            audio = base64.b64encode(bytes(32000)).decode()  # a second of 16 kHz PCM16
            unit = {"type": "input_audio_buffer.append", "audio": audio, "duration_ms": 1000, "audio_end_ms": 1000}
            await socket.send(json.dumps(unit))
            while json.loads(await socket.recv())["type"] != "response.done":
                pass
        if close:
            await socket.send(json.dumps({"type": "session.close"}))


def run(server, *, speak=True, close=True):
    asyncio.run(asyncio.wait_for(converse(server.url, speak=speak, close=close), 10))


def test_all_of_it(duplex_server):
    server = duplex_server(SCENARIO)
    run(server)
    assert len(server.received("session.close")) == 1
    assert len(server.connections) == 1
    assert not server.violations


def test_the_fault_never_bites(duplex_server):
    run(duplex_server(SCENARIO), close=False)


def test_the_script_is_not_used_up(duplex_server):
    run(duplex_server(SCENARIO), speak=False)


def test_allowed(duplex_server):
    run(duplex_server(SCENARIO, may_be_unfinished=True), speak=False, close=False)


def test_fails_by_itself(duplex_server):
    duplex_server(SCENARIO)
    assert False, "its own assertion"
'''


def test_a_test_fails_when_its_scenario_was_not_played(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_theirs=SUITE)

    done = pytester.runpytest_inprocess(
        *("-q", "-rA", "-p", "conformance.pytest_plugin", "-p", "no:cacheprovider"),
        *("-o", "asyncio_default_fixture_loop_scope=function"),
    )

    out = done.stdout.str()
    assert "3 failed, 2 passed" in out, out
    assert "PASSED test_theirs.py::test_all_of_it" in out
    assert "PASSED test_theirs.py::test_allowed" in out
    assert "test: fault no_session_closed is inert: armed, never observed (connection 1)" in out
    assert "test: the script is not used up: 0 of 1 replies were begun on any connection" in out
    assert "its own assertion" in out


@settings(
    max_examples=5, database=None, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(scenarios(seams=False, judge=False, media=False))
def test_the_reference_client_survives_what_is_drawn(scenario: Scenario) -> None:
    result = run_scenario(scenario)

    assert result.outcome in (Outcome.PASS, Outcome.INERT), result.findings


def test_what_a_server_cannot_play_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no_transport"):
        DuplexServer(scenario_of({"clip": {"seconds": 1}, "faults": ["no_transport"]}))
    with pytest.raises(ConfigurationError, match="one is wanted"):
        scenario_of("close/*")
    with pytest.raises(ConfigurationError, match="a Scenario; found int 5"):
        scenario_of(5)  # type: ignore[arg-type]


def test_a_server_starts_and_stops_twice_over() -> None:
    server = DuplexServer(scenario_of("commit/stall-at-commit")).start()
    assert server.url.startswith("ws://127.0.0.1:")
    assert server.unfinished()[0].startswith("fault stop_reading is inert: armed")

    server.stop()
    server.stop()
