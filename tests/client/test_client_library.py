"""The surface of websockets that the client needs is checked at start, in one line (design.md 4, `fake-drift`)."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from client.library import CONNECT_OPTIONS, METHODS, UnsupportedLibrary, check, missing


def doctored(**changes: Any) -> type:
    """The library's class with other members; None takes a member away."""
    return type("ClientConnection", (ClientConnection,), changes)


class Moved:
    """Its transport is called something else."""

    state = 1

    def connection_made(self, transport: Any) -> None:
        self.carrier = transport
        self.recv_messages: list[Any] = []

    def pause_writing(self) -> None:
        self.paused = True

    def connection_lost(self, error: Any) -> None: ...
    def send_context(self) -> None: ...
    def send_data(self) -> None: ...
    def process_event(self, event: Any) -> None: ...
    async def send(self, message: Any, text: bool | None = None) -> None: ...
    async def recv(self) -> None: ...
    async def close(self) -> None: ...


def narrower(**options: Any) -> Any:
    """A `connect` that has lost the options named here."""

    def made(uri: str) -> None: ...

    kept = [name for name in CONNECT_OPTIONS if name not in options]
    made.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in kept]
    )
    made.process_redirect = connect.process_redirect  # type: ignore[attr-defined]
    return made


def test_installed_library_has_all_of_it() -> None:
    assert missing(ClientConnection, connect, ConnectionClosed) == []


@pytest.mark.parametrize("name", METHODS)
def test_method_that_is_gone_is_named(name: str) -> None:
    assert missing(doctored(**{name: None}), connect, ConnectionClosed) == [f"ClientConnection.{name}()"]


def test_send_that_takes_no_text_is_named() -> None:
    async def send(self: Any, message: Any) -> None: ...

    assert missing(doctored(send=send), connect, ConnectionClosed) == ["ClientConnection.send(text=)"]


def test_transport_that_moved_is_named() -> None:
    assert missing(Moved, connect, ConnectionClosed) == ["Moved.transport"]


@pytest.mark.parametrize("name", CONNECT_OPTIONS)
def test_option_of_connect_that_is_gone_is_named(name: str) -> None:
    assert missing(ClientConnection, narrower(**{name: 1}), ConnectionClosed) == [f"connect({name}=)"]


def test_a_connect_that_asks_nobody_about_redirects_is_named() -> None:
    moved = narrower()
    del moved.process_redirect

    assert missing(ClientConnection, moved, ConnectionClosed) == ["connect.process_redirect()"]


def test_close_frames_that_are_gone_are_named() -> None:
    class ConnectionGone(Exception):
        def __init__(self, code: int) -> None: ...

    assert missing(ClientConnection, connect, ConnectionGone) == [
        "ConnectionGone.rcvd",
        "ConnectionGone.sent",
    ]


def test_message_is_one_line_with_versions_and_an_import_error() -> None:
    with pytest.raises(ImportError) as caught:
        check("18.0", Moved, narrower(proxy=1), ConnectionClosed)

    assert isinstance(caught.value, UnsupportedLibrary)
    assert str(caught.value) == (
        "websockets 18.0 cannot be used: it has no Moved.transport, no connect(proxy=); "
        "supported: websockets 16.x and 17.x"
    )


DAMAGE = {
    "a method is gone": "import websockets.asyncio.client as c; c.ClientConnection.recv = None",
    "the module is gone": "sys.modules['websockets.asyncio.client'] = None",
    "the package is gone": "sys.modules['websockets'] = None",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_command_ends_with_2_and_one_line(damage: str, tmp_path: Any) -> None:
    command = ["generate", "--dataset", "x.jsonl", "--url", "ws://127.0.0.1:1", "--model", "m"]
    code = f"import sys\n{damage}\nimport client.cli\nsys.argv = ['duplex-eval', *{command!r}]\n"
    arguments = ["--ref-audio", str(tmp_path / "v.wav"), "--response-root", str(tmp_path / "out")]

    done = subprocess.run(
        [sys.executable, "-c", code + f"sys.argv += {arguments!r}\nclient.cli.main()"],
        capture_output=True,
        text=True,
    )

    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: websockets ")
    assert line.endswith("supported: websockets 16.x and 17.x")
