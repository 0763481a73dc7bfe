"""A session that its client cannot end: what is left of it is no leak, and anything else that is left is one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import client.teardown
from client.connection import Connection
from client.conversation import Conversation
from conformance.fuzz.play import Played, play
from conformance.fuzz.strategies import build
from conformance.options import RunOptions

CLIP = {"seconds": 1.0, "frames": False}
UNENDING: dict[str, Any] = {
    "title": "t",
    "about": "a",
    "requires": [],
    "samples": [{"id": one, "split": "RTD_Omni", "clip": CLIP} for one in "ab"],
    "server": {"reply": [{"starts_at_unit": 0, "units": 1, "text": "One."}]},
    "client": {"deadlines": {"request_s": 120.0, "close_s": 1.0, "grace_s": 0.5}, "concurrency": 2},
    "expect": {"finishes_within_s": 86400.0},
}
"""Over before the library's keep-alive would give the connection up by itself."""
UNANSWERED = {"no_close_reply": {"sample": "a"}}
KEEPS_THE_CLOSE_OPEN: list[dict[str, Any]] = [
    {"no_session_closed": {"sample": "a"}},
    {"ignore_close": {"sample": "a"}},
    {"late_session_closed": {"delay_s": 60.0, "sample": "a"}},
]
SEAMS: list[dict[str, Any]] = [{"no_transport": {"sample": "a"}}, {"no_socket": {"sample": "a"}}]


def played(faults: list[dict[str, Any]], scratch: Path, **more: Any) -> Played:
    seen = play(build({**UNENDING, "faults": faults, **more}, "unending"), RunOptions(seed=8001), scratch)
    bitten = {name for fault in faults for name in fault}
    assert {f"fault {name}" for name in bitten} <= seen.states
    return seen


def leaks(seen: Played) -> list[tuple[str, str]]:
    told = [(found.id, found.actual) for found in seen.findings if found.id.endswith("-leak")]
    return [(name, "" if name == "task-leak" else actual) for name, actual in told]


@pytest.mark.parametrize("seam", SEAMS, ids=lambda fault: next(iter(fault)))
@pytest.mark.parametrize("fault", KEEPS_THE_CLOSE_OPEN, ids=lambda fault: next(iter(fault)))
def test_a_socket_that_nobody_could_close_is_no_leak(
    tmp_path: Path, seam: dict[str, Any], fault: dict[str, Any]
) -> None:
    assert played([seam, fault, UNANSWERED], tmp_path).findings == ()


def test_one_that_was_not_tried_to_be_closed_is_a_leak(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def only_abort(conversation: Conversation) -> None:
        conversation.connection.abort()

    monkeypatch.setattr(client.teardown, "force", only_abort)
    seen = play(
        build({**UNENDING, "faults": [SEAMS[0], KEEPS_THE_CLOSE_OPEN[0], UNANSWERED]}, "unending"),
        RunOptions(seed=8001),
        tmp_path,
    )

    assert leaks(seen) == [("task-leak", ""), ("socket-leak", "open: RTD_Omni/a#1")]


@pytest.mark.parametrize("seam", [{"no_transport": {"sample": "b"}}, None], ids=["of another", "none"])
def test_a_socket_that_could_have_been_aborted_is_a_leak(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seam: dict[str, Any] | None
) -> None:
    right = Connection.abort

    def abort(connection: Connection) -> None:
        if not connection.name.endswith("/a"):
            right(connection)

    monkeypatch.setattr(Connection, "abort", abort)
    stuck: list[dict[str, Any]] = [{"no_session_closed": {}}, UNANSWERED]

    seen = played([seam, *stuck] if seam else stuck, tmp_path)

    assert leaks(seen) == [("task-leak", ""), ("socket-leak", "open: RTD_Omni/a#1")]


def test_a_task_of_the_clients_own_beside_it_is_a_leak(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = client.teardown.force
    kept: list[asyncio.Task[None]] = []

    async def waits_on(conversation: Conversation) -> None:
        await right(conversation)
        socket = conversation.connection._socket
        assert socket is not None
        if conversation.name.endswith("/a"):
            kept.append(asyncio.create_task(socket.wait_closed(), name="left behind"))

    monkeypatch.setattr(client.teardown, "force", waits_on)

    found = played([SEAMS[0], KEEPS_THE_CLOSE_OPEN[0], UNANSWERED], tmp_path).findings

    assert [(one.id, one.actual) for one in found] == [("task-leak", "left behind")]
