"""What aiohttp's reader makes of a client's bytes is handled at once; what ends it is told apart from our own bugs."""

from __future__ import annotations

import asyncio
import struct
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import WebSocketError, WSMsgType
from aiohttp._websocket.reader import WebSocketReader
from aiohttp.streams import EofStream

from conformance.clock import run_virtual
from mockserver.incoming import CROWD, LEAST_READ_BYTES, READ_BYTES, Incoming
from mockserver.wire import MAX_FRAME_BYTES


def text_frame(payload: bytes) -> bytes:
    return bytes([0x81, 0x80 | len(payload), 0, 0, 0, 0]) + payload  # masked with zeros


def fed(*chunks: bytes, take: Any = None, late: bool = False, ends: bool = False) -> tuple[list[Any], Any]:
    """The messages that were handed on, and what reading ended with."""
    taken: list[Any] = []

    async def main() -> Any:
        incoming = Incoming(asyncio.Protocol(), asyncio.get_running_loop())
        reader = WebSocketReader(incoming, 1000, compress=False, decode_text=False)
        if not late:
            incoming.hand_to(take or taken.append)
        for chunk in chunks:
            reader.feed_data(chunk)
        if late:
            incoming.hand_to(take or taken.append)
        if ends:
            reader.feed_eof()
        if not incoming.over.done():
            return None
        return incoming.over.exception() or incoming.over.result()

    return taken, run_virtual(main)


def test_messages_are_handed_on_within_the_read_whole_and_in_order() -> None:
    whole = text_frame(b"one") + text_frame(b"two")

    taken, ended = fed(whole[:4], whole[4:])

    assert ([(kind, data) for kind, data, _ in taken], ended) == (
        [(WSMsgType.TEXT, b"one"), (WSMsgType.TEXT, b"two")],
        None,
    )


def test_what_came_with_the_upgrade_request_comes_first() -> None:
    taken, _ = fed(text_frame(b"early"), late=True)

    assert [data for _, data, _ in taken] == [b"early"]


@pytest.mark.parametrize(
    ("chunk", "code"),
    [(b"\xc1\x80\x00\x00\x00\x00", 1002), (bytes([0x81, 0xFE]) + b"\x04\x00" + bytes(4 + 1024), 1009)],
    ids=["reserved bit", "above the limit"],
)
def test_a_frame_that_breaks_the_rules_ends_reading(chunk: bytes, code: int) -> None:
    taken, ended = fed(text_frame(b"one"), chunk, text_frame(b"two"))

    assert [data for _, data, _ in taken] == [b"one"]
    assert isinstance(ended, WebSocketError)
    assert ended.code == code


def test_the_end_of_the_connection_ends_reading() -> None:
    assert isinstance(fed(text_frame(b"one"), ends=True)[1], EofStream)


def test_a_bug_of_the_server_is_raised_and_nothing_more_is_handled() -> None:
    seen: list[Any] = []

    def broken(message: Any) -> None:
        seen.append(message)
        raise KeyError("a bug")

    _, ended = fed(text_frame(b"one") + text_frame(b"two"), take=broken)

    assert (len(seen), repr(ended)) == (1, "KeyError('a bug')")


def test_a_crowd_of_tiny_frames_is_read_in_bites_until_it_is_over() -> None:
    async def main() -> list[int]:
        incoming = Incoming(asyncio.Protocol(), asyncio.get_running_loop())
        reader = WebSocketReader(incoming, 1_000_000, compress=False, decode_text=False)
        incoming.hand_to(lambda message: None)
        transport: Any = SimpleNamespace(max_size=READ_BYTES)
        incoming.take_read(reader, transport, text_frame(b"") * 10_000)
        sizes = [int(transport.max_size)]
        large = struct.pack("!BBQ", 0x81, 0xFF, 900_000) + bytes(4 + 900_000)
        while large:  # a frame that fills whole reads: each may be twice as large as the one before
            chunk, large = large[: transport.max_size], large[transport.max_size :]
            incoming.take_read(reader, transport, chunk)
            sizes.append(int(transport.max_size))
        return sizes

    after_crowd, second, *_, last = run_virtual(main)
    assert after_crowd == 60_000 * CROWD // 10_000
    assert (second, last) == (2 * after_crowd, READ_BYTES)


def test_a_reader_is_never_made_to_read_less_than_a_few_frames() -> None:
    async def main() -> int:
        incoming = Incoming(asyncio.Protocol(), asyncio.get_running_loop())
        reader = WebSocketReader(incoming, 1_000_000, compress=False, decode_text=False)
        incoming.hand_to(lambda message: None)
        transport: Any = SimpleNamespace(max_size=READ_BYTES)
        incoming.take_read(reader, transport, text_frame(b"") * (CROWD + 1))
        return int(transport.max_size)

    assert run_virtual(main) == max(LEAST_READ_BYTES, 6 * (CROWD + 1) * CROWD // (CROWD + 1))


def test_a_frame_without_an_end_is_not_kept_for_ever() -> None:
    chunk = bytes(READ_BYTES)
    head = struct.pack("!BBQ", 0x81, 0xFF, 1 << 40) + bytes(4)

    async def main() -> Any:
        incoming = Incoming(asyncio.Protocol(), asyncio.get_running_loop())
        reader = WebSocketReader(
            incoming, 0, compress=False, decode_text=False
        )  # one without a limit of its own
        transport: Any = SimpleNamespace(max_size=READ_BYTES)
        incoming.hand_to(lambda message: None)
        incoming.take_read(reader, transport, head)
        fed = 0
        while not incoming.over.done():
            incoming.take_read(reader, transport, chunk)
            fed += len(chunk)
        return fed, incoming.over.result().code

    fed, code = run_virtual(main)
    assert (fed // READ_BYTES, code) == (MAX_FRAME_BYTES // READ_BYTES + 1, 1009)
