"""What aiohttp's reader makes of a client's bytes is handled at once; what ends it is told apart from our own bugs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import WebSocketError, WSMsgType
from aiohttp._websocket.reader import WebSocketReader
from aiohttp.streams import EofStream

from conformance.clock import run_virtual
from mockserver.incoming import Incoming


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
        return incoming.over.exception() if incoming.over.done() else None

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
    [(b"\xc1\x80\x00\x00\x00\x00", 1002), (bytes([0x81, 0xFE]) + b"\x04\x00" + bytes(4), 1009)],
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
