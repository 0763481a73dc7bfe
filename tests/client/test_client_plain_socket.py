"""What the client makes cheap of the library, and that all else is still the library's: order, halves, errors."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from client.connection import Connection, ConnectionLost
from client.deadlines import Deadlines
from conformance.clock import run_virtual


def frame(opcode: int, payload: bytes, *, fin: bool = True) -> bytes:
    return struct.pack("!BB", (0x80 if fin else 0) | opcode, len(payload)) + payload


TEXT, BINARY, MORE, CLOSE = 1, 2, 0, 8
PING = frame(9, b"p")


def test_a_redirect_is_a_refusal_and_nobody_else_hears_of_the_key() -> None:
    heard: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.close()

    async def main() -> None:
        elsewhere = await asyncio.start_server(listen, "127.0.0.1", 0)
        location = f"ws://127.0.0.1:{elsewhere.sockets[0].getsockname()[1]}/"

        async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(
                f"HTTP/1.1 307 Elsewhere\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()
            )
            writer.close()

        named = await asyncio.start_server(redirect, "127.0.0.1", 0)
        url = f"ws://127.0.0.1:{named.sockets[0].getsockname()[1]}/"
        try:
            with pytest.raises(InvalidStatus, match="HTTP 307"):
                await Connection.open(url, deadlines=Deadlines(), headers={"Authorization": "Bearer key1"})
        finally:
            for server in (named, elsewhere):
                server.close()
                await server.wait_closed()

    run_virtual(main)
    assert heard == []


async def serving(play: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> Any:
    """A server that upgrades anybody and then plays; (server, URL)."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        key = next(line for line in request.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key"))
        seed = key.split(b":")[1].strip() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(seed).digest())
        writer.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
        )
        try:
            await play(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    return server, f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def heard(*writes: bytes, take: Callable[[Any], None] | None = None) -> tuple[list[Any], Exception]:
    """What a listener is given of these writes, each read by itself, and what it ends with."""
    given: list[Any] = []

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for data in writes:
            writer.write(data)
            await asyncio.sleep(1)

    async def main() -> Exception:
        server, url = await serving(play)
        connection = await Connection.open(url, deadlines=Deadlines(), name="s/1")
        try:
            await connection.listen(take or given.append)
        except (ConnectionLost, KeyError) as error:
            return error
        finally:
            connection.abort()
            server.close()
            await asyncio.sleep(1)
        raise AssertionError("it ended without an error")

    return given, run_virtual(main)


class TestListening:
    def test_messages_come_in_order_whether_whole_or_in_parts_and_in_one_read_or_many(self) -> None:
        first = frame(TEXT, b"a") + frame(TEXT, b"b", fin=False)
        second = frame(MORE, b"c") + frame(TEXT, "dé".encode()) + PING + frame(BINARY, b"e")

        given, ended = heard(first + second, first, second)

        once = ["a", "bc", "dé", b"e"]
        assert given == once + once
        assert isinstance(ended, ConnectionLost)

    def test_text_that_is_not_utf8_ends_the_connection_as_the_library_does(self) -> None:
        given, ended = heard(frame(TEXT, b"a") + frame(TEXT, b"\xff") + frame(TEXT, b"b"))

        assert given == ["a"]
        assert "1007" in str(ended)

    def test_what_the_listener_raises_ends_it_alone(self) -> None:
        seen: list[Any] = []

        def broken(message: Any) -> None:
            seen.append(message)
            raise KeyError("a bug")

        _, ended = heard(frame(TEXT, b"a") + frame(TEXT, b"b"), take=broken)

        assert (seen, repr(ended)) == (["a"], "KeyError('a bug')")

    def test_a_close_frame_behind_messages_comes_after_them(self) -> None:
        given, ended = heard(frame(TEXT, b"a") + frame(CLOSE, struct.pack("!H", 1001)))

        assert given == ["a"]
        assert "closed by the peer with 1001" in str(ended)


class TestWriting:
    def test_a_write_to_a_peer_that_does_not_read_waits_and_ends_with_the_connection(self) -> None:
        async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            await asyncio.sleep(30)
            writer.transport.abort()

        async def main() -> Any:
            server, url = await serving(play)
            connection = await Connection.open(url, deadlines=Deadlines(), name="s/1")
            reading = asyncio.create_task(connection.listen(lambda _: None))
            loop = asyncio.get_running_loop()
            big = {"type": "x", "text": "y" * 16_000_000}
            since_s = loop.time()
            with pytest.raises(ConnectionLost):
                await connection.send(big, within_s=60.0)
            waited_s = loop.time() - since_s
            with pytest.raises(ConnectionLost):
                await reading
            server.close()
            return waited_s

        assert run_virtual(main) == pytest.approx(30.0, abs=1.0)

    def test_a_close_still_waits_for_its_answer(self) -> None:
        async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()

        async def main() -> float:
            server, url = await serving(play)
            connection = await Connection.open(url, deadlines=Deadlines(grace_s=5.0), name="s/1")
            loop = asyncio.get_running_loop()
            since_s = loop.time()
            await connection.close(60.0)
            server.close()
            await asyncio.sleep(1)
            return loop.time() - since_s - 1

        assert run_virtual(main) == pytest.approx(9.0, abs=0.1)

    def test_an_error_inside_the_librarys_context_is_handled_by_the_library(self) -> None:
        async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()

        async def main() -> Any:
            server, url = await serving(play)
            connection = await Connection.open(url, deadlines=Deadlines(), name="s/1")
            socket = connection._socket
            assert socket is not None
            with pytest.raises(TypeError):
                await socket.send(7)  # type: ignore[arg-type]
            socket.protocol.send_text = lambda data: 1 / 0  # type: ignore[method-assign,assignment,misc,return-value]
            with pytest.raises(ConnectionClosed):
                await socket.send("a")
            server.close()
            await asyncio.sleep(1)

        run_virtual(main)
