"""What the kernel says of a socket, and what is said where it refuses."""

import fcntl
import socket
import sys
from collections.abc import Iterator

import pytest

from conformance.clock import bytes_acked, supported, unacked_bytes, unread_bytes, unsent_bytes
from conformance.clock.sockets import tcp_info


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        with socket.create_connection(listener.getsockname()) as client:
            server, _ = listener.accept()
            with server:
                yield client, server


def test_bytes_the_peer_does_not_read_are_unread_there_and_unsent_here(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    client, server = pair
    client.setblocking(False)
    written = 0
    while True:
        try:
            written += client.send(b"x" * 4096)
        except BlockingIOError:
            break

    assert unread_bytes(server) + unacked_bytes(client) >= written
    assert 0 < unsent_bytes(client) <= unacked_bytes(client) < written
    assert bytes_acked(client) <= unread_bytes(server) + 1  # the handshake counts as one


def test_bytes_that_were_read_are_acknowledged_and_nothing_is_left(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    client, server = pair
    client.sendall(b"ping")
    assert unread_bytes(server) == 4
    server.recv(4)

    assert (unread_bytes(server), unsent_bytes(client)) == (0, 0)
    assert (tcp_info(client).bytes_sent, tcp_info(server).bytes_received) == (4, 4)


def test_a_closed_socket_is_an_error_and_not_zero() -> None:
    closed = socket.socket()
    closed.close()

    for ask in (unsent_bytes, unacked_bytes, unread_bytes, bytes_acked):
        with pytest.raises((OSError, ValueError)):
            ask(closed)


def test_this_system_supports_the_virtual_clock() -> None:
    assert supported() is None


def test_another_system_is_told_so_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")

    assert supported() == "the virtual clock needs Linux (this is darwin): use --clock real"


def test_a_sandbox_that_refuses_is_told_so_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> bytes:
        raise OSError(25, "Inappropriate ioctl for device")

    monkeypatch.setattr(fcntl, "ioctl", refuse)
    reason = supported()

    assert reason is not None
    assert "Inappropriate ioctl" in reason
    assert "--clock real" in reason
    assert "\n" not in reason
