"""Seams act on the client through the library it uses, and prove that they bit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
import websockets
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve

from conformance.clock import run_virtual
from conformance.seams import SEAMS, Seam, SeamContext, build_seams
from conformance.seams.no_transport import NoTransportSeam
from conformance.seams.swallow_cancellation import SwallowCancellationSeam
from scenarios.faults import FAULTS, Layer, NoTransport, StopReading, SwallowCancellation

ACK = json.dumps({"type": "playback.ack", "response_id": "r"})
CLOSE = json.dumps({"type": "session.close"})


def _context(notes: list[tuple[str, str, dict[str, Any]]] | None = None) -> SeamContext:
    kept = notes if notes is not None else []
    return SeamContext(
        attempt=lambda: None, note=lambda name, state, evidence: kept.append((name, state, evidence))
    )


@asynccontextmanager
async def _peer(received: list[str]) -> AsyncIterator[ClientConnection]:
    async def handler(connection: ServerConnection) -> None:
        try:
            async for message in connection:
                received.append(str(message))
        except websockets.ConnectionClosed:
            return

    async with serve(handler, "127.0.0.1", 0, compression=None) as server:
        port = server.sockets[0].getsockname()[1]
        async with connect(f"ws://127.0.0.1:{port}/", compression=None, proxy=None) as connection:
            yield connection


@contextmanager
def _installed(seam: Seam) -> Iterator[None]:
    """The library with this seam, and itself again afterwards."""
    seam.install()
    try:
        yield
    finally:
        seam.remove()


def test_every_fault_of_the_seam_layer_has_its_seam() -> None:
    assert set(SEAMS) == {name for name, fault in FAULTS.items() if fault.layer is Layer.SEAM}


def test_faults_of_other_layers_make_no_seam() -> None:
    assert build_seams([StopReading()], _context()) == []


def test_a_stubborn_write_swallows_its_cancellation_and_goes_on_when_released() -> None:
    received: list[str] = []
    notes: list[tuple[str, str, dict[str, Any]]] = []
    seam = SwallowCancellationSeam(SwallowCancellation(), 0, _context(notes))

    async def main() -> bool:
        async with _peer(received) as connection:
            write = asyncio.ensure_future(connection.send(ACK))
            await asyncio.sleep(1)
            write.cancel()
            await asyncio.sleep(1)
            stuck = not write.done()
            seam.release()
            await write
            return stuck

    with _installed(seam):
        stuck = run_virtual(main)

    assert stuck
    assert received == [ACK]
    assert seam.report().state == "observed"
    assert [note[1] for note in notes] == ["triggered", "observed"]


def test_a_stubborn_write_lets_the_second_cancellation_through() -> None:
    seam = SwallowCancellationSeam(SwallowCancellation(cancellations=1), 0, _context())

    async def main() -> bool:
        async with _peer([]) as connection:
            write = asyncio.ensure_future(connection.send(ACK))
            for _ in range(2):
                await asyncio.sleep(1)
                write.cancel()
            await asyncio.sleep(1)
            return write.cancelled()

    with _installed(seam):
        assert run_virtual(main)


def test_a_stubborn_write_ends_when_the_connection_is_lost() -> None:
    seam = SwallowCancellationSeam(SwallowCancellation(cancellations=9), 0, _context())

    async def main() -> BaseException | None:
        async with _peer([]) as connection:
            write = asyncio.ensure_future(connection.send(ACK))
            await asyncio.sleep(1)
            connection.transport.abort()
            return (await asyncio.gather(write, return_exceptions=True))[0]

    with _installed(seam):
        error = run_virtual(main)

    assert isinstance(error, websockets.ConnectionClosed)


def test_other_events_pass_a_stubborn_write() -> None:
    received: list[str] = []
    seam = SwallowCancellationSeam(SwallowCancellation(), 0, _context())

    async def main() -> None:
        async with _peer(received) as connection:
            await connection.send(CLOSE)

    with _installed(seam):
        run_virtual(main)

    assert received == [CLOSE]
    assert seam.report().state == "armed"


def test_a_write_that_is_never_cancelled_proves_nothing() -> None:
    seam = SwallowCancellationSeam(SwallowCancellation(), 0, _context())

    async def main() -> None:
        async with _peer([]) as connection:
            write = asyncio.ensure_future(connection.send(ACK))
            await asyncio.sleep(1)
            seam.release()
            await write

    with _installed(seam):
        run_virtual(main)

    assert seam.report().state == "triggered"


def test_the_library_is_itself_again_after_the_seams() -> None:
    send = ClientConnection.send
    for seam in build_seams([SwallowCancellation(), NoTransport()], _context()):
        seam.install()
        seam.remove()

    assert ClientConnection.send is send
    assert "transport" not in ClientConnection.__dict__


def test_a_hidden_transport_is_gone_for_callers_and_there_for_the_library() -> None:
    received: list[str] = []
    seam = NoTransportSeam(NoTransport(), 0, _context())

    def abort(connection: ClientConnection) -> bool:
        return getattr(connection, "transport", None) is None

    async def main() -> tuple[bool, bool]:
        async with _peer(received) as connection:
            hidden = abort(connection)
            await connection.send(ACK)
            seam.release()
            return hidden, connection.transport is not None

    with _installed(seam):
        hidden, shown_again = run_virtual(main)

    assert hidden
    assert shown_again
    assert received == [ACK]
    assert seam.report().state == "observed"


def test_a_transport_that_was_only_looked_at_proves_nothing() -> None:
    seam = NoTransportSeam(NoTransport(), 0, _context())

    async def main() -> None:
        async with _peer([]) as connection:
            assert getattr(connection, "transport", None) is None
            await connection.send(ACK)
        seam.release()

    with _installed(seam):
        run_virtual(main)

    assert seam.report().state == "triggered"


def test_a_connection_left_open_for_want_of_a_transport_is_proof() -> None:
    seam = NoTransportSeam(NoTransport(), 0, _context())

    async def main() -> None:
        async with _peer([]) as connection:
            assert getattr(connection, "transport", None) is None
            seam.release()

    with _installed(seam):
        run_virtual(main)

    assert seam.report().state == "observed"


def test_a_transport_nobody_asks_for_proves_nothing() -> None:
    seam = NoTransportSeam(NoTransport(), 0, _context())

    async def main() -> None:
        async with _peer([]) as connection:
            await connection.send(ACK)

    with _installed(seam):
        run_virtual(main)

    assert seam.report().state == "armed"


@pytest.mark.parametrize("scope", [{"attempt": 2}, {"connection": 2}])
def test_a_seam_of_another_attempt_leaves_this_one_alone(scope: dict[str, int]) -> None:
    received: list[str] = []
    seam = SwallowCancellationSeam(SwallowCancellation(**scope), 0, _context())

    async def main() -> None:
        async with _peer(received) as connection:
            await connection.send(ACK)

    with _installed(seam):
        run_virtual(main)

    assert received == [ACK]
