"""The clock asks the kernel only where its own count of bytes leaves a doubt, and jumps over nothing it leaves out."""

import asyncio
import contextlib
import os
import socket
import struct
import threading
from collections.abc import AsyncIterator

import pytest

from conformance.clock import VirtualLoop, run_virtual
from conformance.clock import network as network_module
from conformance.clock.sockets import HasSocketCalls, TcpInfo, tcp_info
from conformance.clock.tasks import SIDE


class Echo(asyncio.Protocol):
    """Answers what it reads, counts it, notes the end."""

    def __init__(self, answers: bool) -> None:
        self.answers = answers
        self.got_bytes = 0
        self.pieces: list[int] = []
        self.ended_s: float | None = None
        self.lost: Exception | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.got_bytes += len(data)
        self.pieces.append(len(data))
        if self.answers:
            self.transport.write(data)

    def eof_received(self) -> bool:
        self.ended_s = asyncio.get_running_loop().time()
        return True  # the other direction stays open

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = exc


async def listening(answers: bool) -> tuple[asyncio.Server, list[Echo]]:
    """A server, and the ends that it has accepted so far."""
    made: list[Echo] = []

    def accept() -> Echo:
        made.append(Echo(answers))
        return made[-1]

    return await asyncio.get_running_loop().create_server(accept, "127.0.0.1", 0), made


@contextlib.asynccontextmanager
async def dialogue(buffer_bytes: int | None = None) -> AsyncIterator[tuple[VirtualLoop, Echo, Echo]]:
    """A client end and an answering server end of one connection, at rest; with buffers as small as that, if given."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    server, made = await listening(answers=True)
    if buffer_bytes is not None:
        server.sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        loop.client_sndbuf_bytes = buffer_bytes
    _, client = await loop.create_connection(lambda: Echo(answers=False), *server.sockets[0].getsockname())
    await asyncio.sleep(0.01)
    try:
        yield loop, client, made[0]
    finally:
        for end in (client, made[0]):
            if end.transport.get_extra_info("socket").fileno() != -1:
                end.transport.abort()
        server.close()
        await asyncio.sleep(0.01)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Descriptors of which the clock has asked the kernel."""
    seen: list[int] = []

    def counted(sock: HasSocketCalls) -> TcpInfo:
        seen.append(sock.fileno())
        return tcp_info(sock)

    monkeypatch.setattr(network_module, "tcp_info", counted)
    return seen


def test_a_dialogue_asks_the_kernel_nothing(asked: list[int]) -> None:
    async def main() -> int:
        async with dialogue() as (_, client, _):
            asked.clear()
            for _ in range(100):
                client.transport.write(b"x" * 1000)
                await asyncio.sleep(1)
            assert asked == []
            return client.got_bytes

    assert run_virtual(main) == 100_000


def test_bytes_that_nobody_reads_are_asked_about(asked: list[int]) -> None:
    async def main() -> None:
        async with dialogue() as (_, client, server):
            asked.clear()
            server.transport.pause_reading()
            client.transport.write(b"ping")
            await asyncio.sleep(1)

    run_virtual(main)
    assert asked


@pytest.mark.parametrize("what", ["bytes", "end"])
def test_what_a_paused_end_left_in_the_kernel_comes_before_the_next_timer(what: str) -> None:
    async def main() -> tuple[int, bool]:
        async with dialogue() as (loop, client, server), dialogue() as (_, other, _):
            server.transport.pause_reading()
            if what == "bytes":
                client.transport.write(b"ping")
            else:
                client.transport.write_eof()
            await asyncio.sleep(60)
            other.transport.write(b"unlike the first, this is read")
            await asyncio.sleep(60)
            assert (server.got_bytes, server.ended_s) == (0, None)
            server.transport.resume_reading()
            resumed_s = loop.time()
            await asyncio.sleep(1e-9)
            return server.got_bytes, server.ended_s == resumed_s

    assert run_virtual(main) == ((4, False) if what == "bytes" else (0, True))


@pytest.mark.parametrize("how", ["close", "abort"])
def test_what_a_closed_connection_left_unread_is_waited_for_no_more(how: str) -> None:
    async def main() -> bool:
        async with dialogue() as (loop, client, server):
            server.transport.pause_reading()
            client.transport.write(b"ping")
            await asyncio.sleep(1)
            assert not loop._network.settled()
            getattr(server.transport, how)()
            await asyncio.sleep(1)
            client.transport.write(b"ping")  # to nobody
            client.transport.abort()
            await asyncio.sleep(1)
            return loop._network.settled()

    assert run_virtual(main)


def test_who_writes_past_the_transport_makes_the_clock_ask_from_then_on(asked: list[int]) -> None:
    async def main() -> int:
        async with dialogue() as (_, client, server):
            client.transport.get_extra_info("socket")._sock.send(b"past it")
            client.transport.write(b"ping")
            await asyncio.sleep(1)
            server.transport.pause_reading()
            asked.clear()
            client.transport.write(b"as much")  # what is unread now makes up for what was read too much
            await asyncio.sleep(1)
            return server.got_bytes

    assert run_virtual(main) == 11
    assert asked


def test_lines_written_at_once_are_counted_once() -> None:
    async def main() -> bool:
        async with dialogue() as (loop, client, _):
            client.transport.writelines([b"one", b"two", b"three"])
            await asyncio.sleep(1)
            assert client.got_bytes == 11
            return loop._network.settled()

    assert run_virtual(main)


def test_what_was_written_and_closed_before_it_was_accepted_comes_before_the_next_timer() -> None:
    async def main() -> int:
        loop = asyncio.get_running_loop()
        server, made = await listening(answers=False)
        with socket.create_connection(server.sockets[0].getsockname()) as sock:  # past the loop
            sock.sendall(b"ping")
        loop.call_soon(lambda: None)
        for _ in range(60):  # as many passes as may go by without a look
            await asyncio.sleep(0)
        await asyncio.sleep(1e-9)
        got = made[0].got_bytes
        made[0].transport.abort()
        server.close()
        await asyncio.sleep(0.01)
        return got

    assert run_virtual(main) == 4


def test_a_connection_of_another_process_is_looked_at_in_every_pass() -> None:
    async def main() -> list[int]:
        server, made = await listening(answers=False)
        got = []
        with socket.create_connection(server.sockets[0].getsockname()) as sock:  # as another process would
            while not made:  # noqa: ASYNC110 - passes of the loop are counted
                await asyncio.sleep(0)
            for _ in range(5):
                sock.sendall(b"ping")
                await asyncio.sleep(1e-9)
                got.append(made[0].got_bytes)
        made[0].transport.abort()
        server.close()
        await asyncio.sleep(0.01)
        return got

    assert run_virtual(main) == [4, 8, 12, 16, 20]


def test_what_is_no_connection_is_looked_at_in_every_pass() -> None:
    async def main() -> list[bytes]:
        loop = asyncio.get_running_loop()
        reading, writing = os.pipe()
        got: list[bytes] = []
        seen = []
        loop.add_reader(reading, lambda: got.append(os.read(reading, 100)))
        try:
            for number in range(5):
                os.write(writing, str(number).encode())
                await asyncio.sleep(1e-9)
                seen.append(got[-1] if got else b"")
        finally:
            loop.remove_reader(reading)
            os.close(reading)
            os.close(writing)
        return seen

    assert run_virtual(main) == [b"0", b"1", b"2", b"3", b"4"]


def test_a_thread_that_holds_nothing_still_wakes_a_loop_that_never_rests() -> None:
    async def main() -> bool:
        loop = asyncio.get_running_loop()
        woken = asyncio.Event()
        thread = threading.Thread(target=lambda: loop.call_soon_threadsafe(woken.set))
        thread.start()
        while not woken.is_set():  # noqa: ASYNC110 - to wait for the event would let the loop rest
            await asyncio.sleep(0.001)
        thread.join()
        return loop.time() < 1e6

    assert run_virtual(main)


MORE_THAN_A_FIRST_WINDOW = 150_000
"""Of TCP: the second half leaves only when the first was read."""


def test_what_was_written_at_once_is_handed_on_at_once() -> None:
    async def main() -> list[int]:
        async with dialogue() as (_, client, server):
            server.answers = False
            client.transport.write(b"x" * MORE_THAN_A_FIRST_WINDOW)
            await asyncio.sleep(1e-9)
            return server.pieces

    assert run_virtual(main) == [MORE_THAN_A_FIRST_WINDOW]


@contextlib.asynccontextmanager
async def backlog(size_bytes: int) -> AsyncIterator[tuple[Echo, Echo]]:
    """A writer whose kernel would not take so much in all, and a reader that has stopped."""
    async with dialogue(buffer_bytes=4096) as (_, client, server):
        server.answers = False
        server.transport.pause_reading()
        for _ in range(size_bytes // 500):
            client.transport.write(b"x" * 500)
            await asyncio.sleep(0.25)
        assert client.transport.get_write_buffer_size() > 0
        yield client, server


def test_a_backlog_is_handed_on_at_once_whatever_the_kernel_took_of_it() -> None:
    async def main() -> list[int]:
        async with backlog(25_000) as (_, server):
            server.transport.resume_reading()
            await asyncio.sleep(1e-9)
            return server.pieces

    assert run_virtual(main) == [25_000]


def test_a_writer_hears_of_its_backlogs_end_in_a_context_of_its_own() -> None:
    heard: list[str] = []

    class Told(Echo):
        def connection_lost(self, exc: Exception | None) -> None:
            heard.append(SIDE.get())

    async def main() -> int:
        SIDE.set("client")
        async with backlog(25_000) as (client, server):
            client.transport.set_protocol(Told(answers=False))
            client.transport.close()  # behind all that it still holds
            SIDE.set("server")
            server.transport.resume_reading()
            await asyncio.sleep(1e-9)
            return server.got_bytes

    assert run_virtual(main) == 25_000
    assert heard == ["client"]


def test_no_more_is_handed_on_at_once_than_a_read_may_take() -> None:
    async def main() -> list[int]:
        async with dialogue() as (_, client, server):
            server.answers = False
            server.transport.max_size = 40_000  # type: ignore[attr-defined]
            client.transport.write(b"x" * 100_000)
            await asyncio.sleep(1e-9)
            return server.pieces

    assert run_virtual(main) == [40_000, 40_000, 20_000]


def test_a_reset_behind_half_of_what_was_written_is_a_reset() -> None:
    async def main() -> tuple[int, Exception | None]:
        async with dialogue() as (_, client, server):
            server.answers = False
            client.transport.write(b"x" * MORE_THAN_A_FIRST_WINDOW)
            sock = client.transport.get_extra_info("socket")._sock
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.transport.abort()
            await asyncio.sleep(1)
            return server.got_bytes, server.lost

    got_bytes, lost = run_virtual(main)
    assert got_bytes < MORE_THAN_A_FIRST_WINDOW
    assert isinstance(lost, ConnectionResetError)
