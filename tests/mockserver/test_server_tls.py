"""Sessions by wss, and with a key."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from conformance.clock import run_virtual
from conformance.options import ConfigurationError
from conformance.serve_options import ServeOptions, served
from mockserver.app import MockServer
from scenarios.faults import StopReading
from scenarios.faults_transport import HalfClose, SlowReading
from tests.conformance.live_standins import Authority

KEY = "sk-of-the-stand-in"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


def test_a_session_goes_by_wss_with_the_key_and_large_messages_come_whole(authority: Authority) -> None:
    trusted = ssl.create_default_context(cafile=str(authority.ca))
    update = {"type": "session.update", "session": {"ref_audio": "A" * 200_000}}

    async def main() -> list[Any]:
        server = MockServer(
            profile="engine", replies=[], tls=authority.context("IP:127.0.0.1"), api_key=KEY, seed=1
        )
        await server.start()
        assert server.url.startswith("wss://127.0.0.1:")
        heard: list[Any] = []
        async with aiohttp.ClientSession() as http:
            for key in ("", "Bearer sk-of-another"):
                try:
                    await http.ws_connect(server.url, ssl=trusted, headers={"Authorization": key})
                except aiohttp.WSServerHandshakeError as error:
                    heard.append(error.status)
            async with http.get(f"{server.http_url}/health", ssl=trusted) as answer:
                heard.append(answer.status)
            async with http.ws_connect(
                server.url + "?duplex=true", ssl=trusted, headers={"Authorization": f"Bearer {KEY}"}
            ) as ws:
                for event in (update, {"type": "session.close"}):
                    await ws.send_json(event)
                    heard.append((await ws.receive_json(timeout=5))["type"])
                heard.append((await ws.receive_json(timeout=5))["type"])
        await server.stop()
        await asyncio.sleep(0.1)
        return heard

    assert run_virtual(main) == [401, 401, 200, "session.created", "session.updated", "session.closed"]


def refused(**given: Any) -> str:
    with pytest.raises(ConfigurationError) as found:
        served(ServeOptions(**given), {"EMPTY": ""})
    return str(found.value)


def test_half_of_a_certificate_and_a_key_that_is_not_there_are_told(
    authority: Authority, tmp_path: Path
) -> None:
    authority.context("IP:127.0.0.1")
    cert, key = authority.folder / "server.pem", authority.folder / "server.key"
    (tmp_path / "no.pem").write_text("no certificate")

    assert "--tls-cert needs --tls-key" in refused(tls_cert=cert)
    assert "--tls-key needs --tls-cert" in refused(tls_key=key)
    assert "no.pem" in refused(tls_cert=tmp_path / "no.pem", tls_key=key)
    assert "No such file" in refused(tls_cert=tmp_path / "absent.pem", tls_key=key)
    assert "--api-key-env EMPTY: not set" in refused(api_key_env="EMPTY")
    chosen = served(ServeOptions(tls_cert=cert, tls_key=key, api_key_env="K"), {"K": KEY})
    assert chosen.tls is not None
    assert KEY not in repr(chosen)


def test_a_stall_bites_through_tls_and_what_tls_cannot_do_is_refused(authority: Authority) -> None:
    trusted = ssl.create_default_context(cafile=str(authority.ca))
    stop = StopReading(at_s=0.5, buffer_bytes=None, proof="unread")
    opening = {
        "type": "session.update",
        "session": {"ref_audio": "A" * 200, "extra_body": {"auto_response": True}},
    }

    async def main() -> Any:
        server = MockServer(
            profile="engine", replies=[], faults=[stop], tls=authority.context("IP:127.0.0.1")
        )
        await server.start()
        with pytest.raises(ValueError, match="half_close cannot be played over TLS"):
            server.arm(HalfClose())
        async with (
            aiohttp.ClientSession() as http,
            http.ws_connect(server.url + "?duplex=true", ssl=trusted) as ws,
        ):
            await ws.send_json(opening)
            await asyncio.sleep(1)
            await ws.send_json({"type": "session.heartbeat"})
            await asyncio.sleep(3)
            (report,) = server.fault_reports()
            received = dict(server.connections[0].received)
            server.release_faults()
            await asyncio.sleep(0.1)
            later = dict(server.connections[0].received)
        await server.stop()
        await asyncio.sleep(0.1)
        return report, received, later

    report, received, later = run_virtual(main)
    assert report.state == "observed"
    assert "session.heartbeat" not in received
    assert later["session.heartbeat"] == 1
    with pytest.raises(ValueError, match="slow_reading cannot be played over TLS"):
        MockServer(profile="july", replies=[], faults=[SlowReading(bytes_per_s=1000)], tls=trusted)


def test_a_scenario_that_tls_cannot_play_is_refused_at_the_start(authority: Authority) -> None:
    authority.context("IP:127.0.0.1")
    told = refused(
        scenario="transport/slow-network[slow-reading]",
        tls_cert=authority.folder / "server.pem",
        tls_key=authority.folder / "server.key",
    )
    assert "slow_reading cannot be played over TLS" in told
