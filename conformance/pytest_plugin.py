"""The fixture `duplex_server` for pytest: the fake server with a scenario, and a test that must have played all of it.

    def test_a_close_that_is_never_answered_is_bounded(duplex_server):
        server = duplex_server("close/never-closed")
        my_client.run(server.url)
        assert not server.violations

Installed with the package (entry point `pytest11`). A test whose fault did not bite, or whose script was not used up,
fails though its own assertions hold: it did not test what it says. `duplex_server(..., may_be_unfinished=True)` allows
it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from conformance.testing import DuplexServer
    from scenarios.model import Scenario

_STARTED = pytest.StashKey[list[tuple[Any, bool]]]()


class StartServer(Protocol):
    """Starts a server; several in one test are several servers."""

    def __call__(
        self,
        scenario: Scenario | Mapping[str, Any] | str | Path,
        *,
        seed: int = 1,
        may_be_unfinished: bool = False,
    ) -> DuplexServer: ...


@pytest.fixture
def duplex_server(request: pytest.FixtureRequest) -> Iterator[StartServer]:
    """Start the fake server with a scenario: an id of the catalogue, a file, a mapping, or a Scenario."""
    from conformance.testing import DuplexServer, scenario_of

    started: list[tuple[DuplexServer, bool]] = []
    request.node.stash[_STARTED] = started

    def start(
        scenario: Scenario | Mapping[str, Any] | str | Path,
        *,
        seed: int = 1,
        may_be_unfinished: bool = False,
    ) -> DuplexServer:
        server = DuplexServer(scenario_of(scenario), seed=seed).start()
        started.append((server, may_be_unfinished))
        return server

    yield start
    for server, _ in started:
        server.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Once the test itself has passed: everything that its servers were scripted to do must have happened."""
    result = yield
    unfinished = [
        f"{server.scenario.id}: {told}"
        for server, allowed in item.stash.get(_STARTED, [])
        if not allowed
        for told in server.unfinished()
    ]
    if unfinished:
        pytest.fail("\n".join(unfinished), pytrace=False)
    return result
