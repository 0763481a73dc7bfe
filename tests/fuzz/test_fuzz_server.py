"""Hostile clients drawn against the mock server, and proof that what it does wrong is seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conformance.fuzz.case import Found
from conformance.fuzz.drawing import Kinds, draw
from conformance.fuzz.files import read, write
from conformance.fuzz.hostile_form import STEPS, broken_in
from conformance.fuzz.server_case import ServerCasePlayer
from conformance.outcome import Finding, Outcome
from mockserver.app import MockServer
from mockserver.connection import Connection
from mockserver.journal import Journal

GREETING: dict[str, Any] = {
    "profile": "july",
    "query": "duplex=1&model=m&minicpmo45_native_duplex=1&autostart=0",
    "reads": True,
    "steps": [{"text": "{"}, {"append_ms": 1000}, {"event": {"type": "session.close"}, "times": 20}],
    "end": "wait",
}


def findings(data: dict[str, Any]) -> set[str]:
    return {found.finding.id for found in ServerCasePlayer(1).case(0, data).found}


def test_drawn_hostile_clients_do_no_harm_and_play_the_same_again() -> None:
    hostile, player = Kinds(server=True), ServerCasePlayer(2)

    results = [player.case(number, draw(hostile, 2, number)) for number in range(40)]

    assert [r.found for r in results if r.outcome is not Outcome.PASS] == []
    assert [player.case(number, draw(hostile, 2, number)) for number in range(5)] == results[:5]


def test_what_is_drawn_is_what_a_file_may_hold_and_is_read_back_as_it_was(tmp_path: Path) -> None:
    seen: dict[str, int] = {}
    for number in range(150):
        data = draw(Kinds(server=True), 3, number)
        assert list(broken_in(data)) == []
        found = Found(Finding("server-mute", (), "it answers", str(number)), 3, number, data)
        assert read(write(found, tmp_path, Kinds(server=True))).data == data
        seen.update({kind: 1 for step in data["steps"] for kind in step})
    assert set(seen) == {*STEPS, "times"}


@pytest.mark.parametrize("end", ["abort", "fin", "close", "wait"])
def test_a_client_that_leaves_in_its_upgrade_is_no_error_of_the_server(end: str) -> None:
    assert findings({**GREETING, "steps": [], "end": end}) == set()


def test_a_mute_server_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def says_nothing(self: Connection) -> None:
        import asyncio

        await asyncio.sleep(2000)

    monkeypatch.setattr(Connection, "run", says_nothing)

    assert findings(GREETING) >= {"server-mute", "neighbour-lost"}


def test_an_exception_in_the_server_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(self: MockServer, *given: Any) -> Any:
        raise RuntimeError("scripted")

    monkeypatch.setattr(MockServer, "_accepted", breaks)

    assert "server-error" in findings(GREETING)


def test_a_journal_out_of_order_or_out_of_bounds_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Journal.add

    def doubles(self: Journal, *given: Any) -> None:
        right(self, *given)
        self.entries.append(self.entries[-1])

    monkeypatch.setattr(Journal, "add", doubles)
    assert findings(GREETING) == {"journal-invalid"}

    def swells(self: Journal, *given: Any) -> None:
        right(self, *(dict(g) | {"all_of_it": "x" * 50_000} if isinstance(g, dict) else g for g in given))

    monkeypatch.setattr(Journal, "add", swells)
    assert "server-memory" in findings(GREETING)
