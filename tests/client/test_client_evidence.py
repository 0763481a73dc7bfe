"""Socket evidence: two samples prove, one guesses nothing (design.md 4)."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from client import evidence
from client.evidence import SocketSample, as_json, bytes_acked, look, unacked_bytes, verdict


def sample(t_s: float, buffered: int | None, unacked: int | None, acked: int | None) -> SocketSample:
    return SocketSample(t_s, "", buffered, unacked, acked)


VERDICTS: list[tuple[str, list[SocketSample], str]] = [
    ("no sample", [], "unknown"),
    ("one sample", [sample(0, 9, 9, 9)], "unknown"),
    ("stuck for 20 s", [sample(0, 9, 9, 9), sample(20, 9, 9, 9)], "peer stopped reading"),
    ("stuck in the kernel alone", [sample(0, 0, 9, 9), sample(20, 0, 9, 9)], "peer stopped reading"),
    ("acknowledged meanwhile", [sample(0, 9, 9, 9), sample(20, 9, 9, 10)], "peer was reading"),
    ("nothing pending", [sample(0, 0, 0, 9), sample(20, 0, 0, 9)], "unknown"),
    ("too near each other", [sample(0, 9, 9, 9), sample(0.5, 9, 9, 9)], "unknown"),
    (
        "near ones and a far one",
        [sample(0, 9, 9, 9), sample(9.5, 9, 9, 9), sample(10, 9, 9, 9)],
        "peer stopped reading",
    ),
    ("kernel says nothing", [sample(0, 9, None, None), sample(20, 9, None, None)], "unknown"),
    ("transport hidden", [sample(0, None, None, None), sample(20, None, None, None)], "unknown"),
]


@pytest.mark.parametrize(("samples", "wanted"), [v[1:] for v in VERDICTS], ids=[v[0] for v in VERDICTS])
def test_verdict(samples: list[SocketSample], wanted: str) -> None:
    assert verdict(samples) == wanted
    assert as_json(samples)["verdict"] == wanted


def test_look_at_a_real_socket_that_nobody_reads() -> None:
    ours, theirs = socket.socket(), socket.socket()
    theirs.bind(("127.0.0.1", 0))
    theirs.listen(1)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    ours.connect(theirs.getsockname())
    peer, _ = theirs.accept()
    ours.setblocking(False)
    try:
        while ours.send(bytes(65_536)):
            pass
    except BlockingIOError:
        pass

    class Transport:
        def get_extra_info(self, name: str) -> Any:
            return ours

        def get_write_buffer_size(self) -> int:
            return 5

    seen = look(7.0, "test", Transport())

    assert seen.write_buffer_bytes == 5
    assert seen.unacked_bytes is not None
    assert seen.bytes_acked
    for sock in (ours, peer, theirs):
        sock.close()
    assert (unacked_bytes(ours), bytes_acked(ours)) == (None, None)


def test_no_transport_knows_nothing() -> None:
    assert look(1.0, "x", None) == SocketSample(1.0, "x", None, None, None)
    assert look(1.0, "x", None).pending_bytes is None


def test_short_answer_of_an_old_kernel_is_unknown() -> None:
    class Old:
        def getsockopt(self, *args: int) -> bytes:
            return bytes(104)

    assert bytes_acked(Old()) is None


def test_refused_ioctl_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*args: Any) -> bytes:
        raise OSError(25, "Inappropriate ioctl for device")

    monkeypatch.setattr(evidence.fcntl, "ioctl", refused)
    with socket.socket() as sock:
        assert unacked_bytes(sock) is None
