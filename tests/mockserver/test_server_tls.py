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
