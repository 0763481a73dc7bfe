"""`conformance proxy`: what it plays, what it tells, what it refuses."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from typer.testing import CliRunner

from conformance.commands import app
from conformance.exits import Exit
from conformance.live import proxying
from conformance.live.proxying import ProxyOptions, proxy_until_stopped
from conformance.live.server import LiveServer
from mockserver.app import MockServer

UNUSED = "ws://127.0.0.1:9/v1/realtime"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--url", UNUSED, "--scenario", "drain/frozen-once"], "a proxy cannot play freeze_tail"),
        (["--url", UNUSED, "--scenario", "close/*"], "expected one"),
        (["--url", UNUSED, "--scenario", "disk/full*"], "--scenario"),
        (["--url", UNUSED, "--journal", "."], "--journal .: cannot be written"),
        (["--scenario", "close/never-closed"], "--url is missing"),
    ],
)
def test_what_it_cannot_do_is_told_with_the_option(arguments: list[str], told: str) -> None:
    result = CliRunner().invoke(app, ["proxy", *arguments])

    assert result.exit_code == 2
    assert told in result.output


def test_a_client_meets_the_faults_and_the_journal_holds_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The whole command in this process, on its loop, with a server there as well."""
    relay = proxying._relay
    journal = tmp_path / "journal.ndjson"
    heard: list[dict[str, Any]] = []

    async def visited(options: ProxyOptions, proxy, judge, lines):  # type: ignore[no-untyped-def]
        server = MockServer(profile="july", replies=[], seed=1)
        await server.start()
        proxy.behind = LiveServer(server.url, "m").behind()
        started, start = asyncio.Event(), proxy.start

        async def begin() -> None:
            await start()
            started.set()

        proxy.start = begin
        relaying = asyncio.create_task(relay(options, proxy, judge, lines))
        await started.wait()
        async with aiohttp.ClientSession() as http, http.ws_connect(f"{proxy.url}?model=m") as ws:
            await ws.send_json({"type": "session.update", "session": {"model": "m"}})
            heard.append(await ws.receive_json(timeout=5))
        os.kill(os.getpid(), signal.SIGINT)
        code = await relaying
        await server.stop()
        return code

    monkeypatch.setattr(proxying, "_relay", visited)
    options = ProxyOptions(
        LiveServer(UNUSED, "m"), scenario="handshake/refused[nested]", journal=journal, max_sessions=1
    )

    assert proxy_until_stopped(options) is Exit.PASSED

    assert [event["type"] for event in heard] == ["error"]
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("relaying at ws://127.0.0.1:")
    assert out[1] == "fault error_event: 1 observed"
    assert out[2].startswith("fault no_session_created: 1 ")
    assert out[3:] == ["stopped after 1 session(s)"]
    assert {"fault", "received", "sent"} <= {
        json.loads(line)["kind"] for line in journal.read_text().splitlines()
    }


@pytest.mark.parametrize(
    "option", ["--judge-ca-file", "--ca-file", "--api-key-env", "--budget-minutes", "--record"]
)
def test_what_only_a_live_run_takes_is_refused_elsewhere(option: str) -> None:
    result = CliRunner().invoke(app, ["run", "close/never-closed", option, "1"])

    assert result.exit_code == 2
    assert f"{option} needs --target live" in result.output
