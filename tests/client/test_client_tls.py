"""`duplex-eval` against a server behind TLS whose certificate the system does not know."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import typer
from websockets.asyncio.server import ServerConnection, serve

from client.cli_options import Pace, session_settings
from client.connection import Connection
from client.deadlines import Deadlines
from client.settings import SessionSettings
from conformance.clock import run_virtual
from tests.conformance.live_standins import Authority, voice


def settings(folder: Path, url: str, ca_file: Path | None) -> SessionSettings:
    return session_settings(
        url=url,
        model="m",
        ref_audio=voice(folder / "voice.wav"),
        request_timeout_s=60.0,
        pace=Pace.REALTIME,
        fps=1.0,
        api_key_env=None,
        ca_file=ca_file,
    )


@asynccontextmanager
async def secure(context: ssl.SSLContext) -> AsyncIterator[str]:
    async def hold(socket: ServerConnection) -> None:
        await socket.wait_closed()

    async with serve(hold, "127.0.0.1", 0, ssl=context, compression=None) as server:
        yield f"wss://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/realtime"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def test_a_certificate_of_the_ca_file_is_trusted_and_of_no_other(authority: Authority) -> None:
    context = authority.context("IP:127.0.0.1")

    async def dial(ca_file: Path | None) -> str:
        async with secure(context) as url:
            made = settings(authority.folder, url, ca_file)
            try:
                connection = await Connection.open(made.url, deadlines=Deadlines(), tls=made.tls)
            except ssl.SSLCertVerificationError as refused:
                return refused.verify_message
            connection.abort()
            return "trusted"

    assert run_virtual(lambda: dial(authority.ca)) == "trusted"
    assert "unable to get local issuer certificate" in run_virtual(lambda: dial(None))


@pytest.mark.parametrize(
    ("url", "content", "told"),
    [
        (
            "wss://127.0.0.1:9/v1/realtime",
            None,
            "ca.pem: No such file or directory; allowed: certificates in",
        ),
        ("wss://127.0.0.1:9/v1/realtime", "no pem", "ca.pem: NO_CERTIFICATE_OR_CRL_FOUND; allowed"),
        (
            "ws://127.0.0.1:9/v1/realtime",
            None,
            "--ca-file: ws://127.0.0.1:9/v1/realtime has no TLS; allowed: with",
        ),
    ],
)
def test_a_ca_file_that_cannot_be_used_is_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], url: str, content: str | None, told: str
) -> None:
    if content is not None:
        (tmp_path / "ca.pem").write_text(content)

    with pytest.raises(typer.Exit) as ended:
        settings(tmp_path, url, tmp_path / "ca.pem")

    assert ended.value.exit_code == 2
    assert told in capsys.readouterr().err
