"""No timer overtakes bytes on their way to somebody who reads; a peer that does not read holds nothing up."""

import asyncio
import contextlib
import ctypes
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from conformance.clock import VirtualLoop, run_virtual, unacked_bytes, unsent_bytes

_SO_ATTACH_FILTER, _SO_DETACH_FILTER = 26, 27


def lose_packets(sock: socket.socket) -> None:
    """Let the kernel drop all that arrives for `sock`: what it does to a segment for which it has no memory.

    A classic BPF program of one instruction, "keep 0 bytes"; no rights needed. Real loss: the sender repeats
    after its retransmission time, 200 ms.
    """
    keep_nothing = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))
    sock.setsockopt(
        socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HL", 1, ctypes.addressof(keep_nothing))
    )


@contextlib.contextmanager
def packets_lost_for_a_while(sock: socket.socket, real_s: float = 0.02) -> Iterator[None]:
    """Lose what arrives for `sock`, until `real_s` after the block was left."""
    lose_packets(sock)
    try:
        yield
    finally:
        threading.Timer(real_s, sock.setsockopt, (socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)).start()


class Peer(asyncio.Protocol):
    """One end: counts what arrives, notes the end of the stream, reads when told to."""

    def __init__(self) -> None:
        self.got_bytes = 0
        self.ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        # asyncio shows a TransportSocket; the socket itself takes the options set here.
        self.sock: socket.socket = transport.get_extra_info("socket")._sock

    def data_received(self, data: bytes) -> None:
        self.got_bytes += len(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended = True


@contextlib.asynccontextmanager
async def connected(receive_bytes: int | None = None, send_bytes: int | None = None):  # type: ignore[no-untyped-def]
    """A client and a server end in this loop, with small buffers where asked for."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    listener = socket.socket()
    if receive_bytes is not None:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    listener.bind(("127.0.0.1", 0))
    accepted: asyncio.Future[Peer] = loop.create_future()

    def accept() -> Peer:
        peer = Peer()
        accepted.set_result(peer)
        return peer

    server = await loop.create_server(accept, sock=listener)
    loop.client_sndbuf_bytes = send_bytes
    _, client = await loop.create_connection(Peer, *listener.getsockname())
    peer = await accepted
    try:
        yield client, peer
    finally:
        client.transport.abort()
        peer.transport.abort()
        server.close()
        await asyncio.sleep(0.001)


def test_bytes_the_kernel_keeps_back_arrive_before_any_timer() -> None:
    async def main() -> int:
        async with connected() as (client, peer):
            # Nothing is sent for 200 ms, as when a segment does not fit the peer's window.
            client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
            client.transport.write(b"ping")
            assert unsent_bytes(client.sock) == 4
            await asyncio.sleep(0.001)
            return int(peer.got_bytes)

    assert run_virtual(main) == 4


def test_bytes_lost_on_the_way_arrive_before_any_timer() -> None:
    async def main() -> int:
        async with connected() as (client, peer):
            with packets_lost_for_a_while(peer.sock):
                client.transport.write(b"ping")
            assert unsent_bytes(client.sock) == 0  # sent, so SIOCOUTQNSD does not see them
            await asyncio.sleep(0.001)
            return int(peer.got_bytes)

    assert run_virtual(main) == 4


@pytest.mark.parametrize("how", ["close", "write_eof"])
def test_the_end_of_a_stream_arrives_before_any_timer(how: str) -> None:
    async def main() -> bool:
        async with connected() as (client, peer):
            with packets_lost_for_a_while(peer.sock):
                getattr(client.transport, how)()
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            await asyncio.sleep(0.001)
            return bool(peer.ended)

    assert run_virtual(main)


@pytest.mark.slow
def test_a_connection_is_accepted_before_any_timer() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Peer, "127.0.0.1", 0)
        listener: socket.socket = server.sockets[0]._sock  # type: ignore[attr-defined]
        with packets_lost_for_a_while(listener):  # the kernel repeats a lost SYN after 1 s
            connecting = asyncio.create_task(loop.create_connection(Peer, *listener.getsockname()))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        transport, _ = await connecting
        connected_s = loop.time()
        transport.abort()
        server.close()
        await asyncio.sleep(1)
        return connected_s

    assert run_virtual(main) == 1000.0


def test_a_writer_held_up_by_late_acknowledgements_goes_on_before_any_timer() -> None:
    async def main() -> list[tuple[int, int]]:
        short: list[tuple[int, int]] = []
        async with connected(receive_bytes=100_000, send_bytes=4096) as (client, peer):
            sent = 0
            for _ in range(20):
                # More than the send buffer takes and less than the window: all that the kernel holds was sent,
                # and its last acknowledgement is kept back.
                peer.transport.pause_reading()
                for _ in range(3):
                    client.transport.write(b"x" * 42_000)
                    sent += 42_000
                    await asyncio.sleep(1)
                peer.transport.resume_reading()
                await asyncio.sleep(0.001)
                if peer.got_bytes != sent:
                    short.append((peer.got_bytes, sent))
        return short

    assert run_virtual(main) == []


def test_five_hundred_stalls_end_at_the_instant_of_their_resume() -> None:
    loop = VirtualLoop()

    async def main() -> list[tuple[int, int]]:
        short: list[tuple[int, int]] = []
        pick = random.Random(7)
        async with connected(receive_bytes=4096, send_bytes=4096) as (client, peer):
            sent = 0
            for _ in range(500):
                peer.transport.pause_reading()
                for size in (pick.choice([10, 1000, 9000, 42_000, 100_000]), pick.choice([10, 200])):
                    client.transport.write(b"x" * size)
                    sent += size
                    await asyncio.sleep(pick.choice([0.25, 1, 30]))
                peer.transport.resume_reading()
                await asyncio.sleep(pick.choice([1e-9, 0.02, 1]))
                if peer.got_bytes != sent:
                    short.append((peer.got_bytes, sent))
        return short

    assert run_virtual(main, loop=loop) == []
    assert loop.unrested == []


def test_a_long_stall_that_ends_is_not_overtaken_by_a_timer() -> None:
    async def main() -> int:
        async with connected(receive_bytes=4096, send_bytes=4096) as (client, peer):
            peer.transport.pause_reading()
            client.transport.write(b"x" * 20_000)
            for _ in range(10):
                await asyncio.sleep(10)
            with packets_lost_for_a_while(client.sock):  # the news that there is room again
                peer.transport.resume_reading()
                for _ in range(5):
                    await asyncio.sleep(0)
                assert 0 < peer.got_bytes < 20_000
            await asyncio.sleep(0.001)
            return int(peer.got_bytes)

    assert run_virtual(main) == 20_000


def test_a_peer_that_does_not_read_holds_nothing_up() -> None:
    async def main() -> tuple[float, int]:
        async with connected(receive_bytes=4096, send_bytes=4096) as (client, peer):
            peer.transport.pause_reading()
            client.transport.write(b"x" * 100_000)
            for _ in range(100):
                await asyncio.sleep(1)
            return asyncio.get_running_loop().time(), unacked_bytes(client.sock)

    began = time.monotonic()
    ended_s, stuck_bytes = run_virtual(main)

    assert ended_s == pytest.approx(1100.0, abs=1e-6)
    assert stuck_bytes > 0
    assert time.monotonic() - began < 2  # one wait of network_cap_s would cost as much


def test_a_paused_socket_sees_an_abort_at_the_instant_it_reads_again() -> None:
    async def main() -> tuple[bool, bool]:
        async with connected(receive_bytes=4096, send_bytes=4096) as (client, peer):
            peer.transport.pause_reading()
            client.transport.write(b"x" * 100_000)
            await asyncio.sleep(1)
            client.transport.abort()
            await asyncio.sleep(900)
            before = peer.ended
            peer.transport.resume_reading()
            await asyncio.sleep(1e-9)
            return before, peer.ended

    assert run_virtual(main) == (False, True)


def test_bytes_that_were_read_do_not_look_unread_once_acknowledgements_are_flushed() -> None:
    async def main() -> list[int]:
        async with connected() as (client, peer):
            for _ in range(40):  # a dialogue: the kernel now keeps acknowledgements back for the next answer
                client.transport.write(b"question")
                await asyncio.sleep(1)
                peer.transport.write(b"answer")
                await asyncio.sleep(1)
            client.transport.write(b"question")
            await asyncio.sleep(100)
            asyncio.get_running_loop().flush_acknowledgements()  # type: ignore[attr-defined]
            return [unacked_bytes(client.sock), unacked_bytes(peer.sock)]

    assert run_virtual(main) == [0, 0]


def test_a_socket_closed_behind_its_transport_does_not_stop_the_loop() -> None:
    loop = VirtualLoop()

    async def main() -> float:
        async with connected() as (client, peer):
            lose_packets(peer.sock)  # so that the clock must ask after these bytes
            peer.transport.pause_reading()
            client.transport.pause_reading()  # poll() would tell of a closed descriptor
            client.transport.write(b"last words")
            await asyncio.sleep(1)
            client.sock.close()
            await asyncio.sleep(1)
            return loop.time()

    assert run_virtual(main, loop=loop) == pytest.approx(1002.0)


def test_what_never_arrives_is_given_up_and_named() -> None:
    loop = VirtualLoop(network_cap_s=0.05)

    async def main() -> None:
        async with connected() as (client, peer):
            lose_packets(peer.sock)
            client.transport.write(b"ping")
            await asyncio.sleep(900)
            assert peer.got_bytes == 0

    run_virtual(main, loop=loop)

    assert len(loop.unrested) >= 1
    assert loop.unrested[0].startswith("bytes from ('127.0.0.1', ")


def test_a_peer_in_another_process_holds_nothing_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:  # not a listener of the loop

        async def main() -> float:
            transport, _ = await asyncio.get_running_loop().create_connection(Peer, *elsewhere.getsockname())
            transport.write(b"x" * 10_000_000)
            await asyncio.sleep(900)
            transport.abort()
            await asyncio.sleep(0)
            return asyncio.get_running_loop().time()

        assert run_virtual(main) == 1900.0
