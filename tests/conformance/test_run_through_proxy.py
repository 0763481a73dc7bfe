"""One scenario for each fault that a proxy can play: through the proxy it ends as on the mock itself."""

from __future__ import annotations

from typing import Any

import pytest

from conformance import runner
from conformance.options import RunOptions
from conformance.outcome import Outcome
from conformance.targets import mock
from conformance.targets.mock import server_faults
from mockserver.app import MockServer
from mockserver.proxy import CANNOT_BE_PROXIED, ProxyServer
from mockserver.upstream import Behind
from scenarios import load_catalogue
from scenarios.faults import FAULTS, Layer
from scenarios.model import Scenario

PLAYED = sorted(
    name
    for name, fault in FAULTS.items()
    if fault.layer in (Layer.TRANSPORT, Layer.SESSION, Layer.RESPONSE) and name not in CANNOT_BE_PROXIED
)


class MockBehindProxy:
    """The scripted server without faults, and the faults in a proxy in front of it."""

    def __init__(self, scenario: Scenario, seed: int, journal: Any, identify: Any, listener: Any) -> None:
        self._mock = MockServer(
            profile=scenario.server.profile,
            replies=scenario.server.reply,
            seed=seed,
            decision_ms=scenario.server.decision_ms,
        )
        self._how = {"seed": seed, "journal": journal, "identify": identify}
        self._faults = server_faults(scenario)

    async def start(self) -> None:
        await self._mock.start()
        self.proxy = ProxyServer(Behind(self._mock.url), faults=self._faults, **self._how)
        await self.proxy.start()

    async def stop(self) -> None:
        await self.proxy.stop()
        await self._mock.stop()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.proxy, name)


def cheapest_with(name: str) -> Scenario | None:
    found = [
        (s.clip.seconds or 99, s.id, s)
        for s in load_catalogue()
        if [f.name for f in s.faults] == [name] and s.judge is None and s.clip is not None
    ]
    return min(found)[2] if found else None


@pytest.mark.parametrize("name", PLAYED)
def test_a_fault_in_the_proxy_bites_as_in_the_server(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = cheapest_with(name)
    if scenario is None:
        pytest.skip(f"no scenario of the catalogue has {name} and nothing else")
    monkeypatch.setattr(mock, "make_server", MockBehindProxy)

    result = runner.run_scenario(scenario, RunOptions())

    assert (result.outcome, result.reason, result.findings) == (Outcome.PASS, "", ())
    assert {f.state for f in result.faults} == {"observed"}
