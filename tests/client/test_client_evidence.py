"""Socket evidence: two samples prove, one guesses nothing (design.md 4)."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from client import evidence
from client.evidence import Answer, SocketSample, as_json, bytes_acked, look, told, unacked_bytes, verdict


def sample(t_s: float, buffered: int | None, unacked: int | None, acked: int | None) -> SocketSample:
    return SocketSample(t_s, "", buffered, unacked, acked)


VERDICTS: list[tuple[str, list[SocketSample], str]] = [
    ("no sample", [], "unknown"),
    ("one sample", [sample(0, 9, 9, 9)], "unknown"),
    ("stuck for 20 s", [sample(0, 9, 9, 9), sample(20, 9, 9, 9)], "peer stopped reading"),
    ("stuck in the kernel alone", [sample(0, 0, 9, 9), sample(20, 0, 9, 9)], "peer stopped reading"),
    ("acknowledged meanwhile", [sample(0, 9, 9, 9), sample(20, 9, 9, 10)], "peer's system took it"),
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


def full(
    t_s: float, *, again: int = 0, total: int = 0, window: int | None = 65_000, late_s: float = 0.0
) -> SocketSample:
    """A stuck socket whose kernel tells everything."""
    return SocketSample(t_s, "", 9, 9, 9, again, total, window, 1448, late_s)


VERDICTS += [
    ("sent again, unanswered", [full(0), full(20, again=3, total=3)], "network lost it"),
    ("sent again since, answered by nothing", [full(0, total=1), full(20, total=2)], "network lost it"),
    ("sent again long before", [full(0, total=2), full(20, total=2)], "peer stopped reading"),
    ("refused by a shut window", [full(0), full(20, again=3, total=3, window=0)], "peer stopped reading"),
    ("window unknown, sent again", [full(0), full(20, again=1, total=1, window=None)], "network lost it"),
    (
        "sent again but acknowledged",
        [sample(0, 9, 9, 9), SocketSample(20, "", 9, 9, 10, 2, 2, 9, 9)],
        "peer's system took it",
    ),
    ("our loop slept, the kernel had it all", [full(0), full(20, late_s=15)], "peer stopped reading"),
    (
        "our loop slept, the kernel had nothing",
        [sample(0, 9, 0, 9), SocketSample(20, "", 9, 0, 9, loop_late_s=15)],
        "own loop was late",
    ),
    (
        "our loop slept, and the peer took what came",
        [sample(0, 9, 9, 9), SocketSample(20, "", 9, 9, 10, loop_late_s=1.0)],
        "own loop was late",
    ),
    (
        "our loop slept before the first of the two looks",
        [SocketSample(0, "", 9, 9, 9, loop_late_s=15), sample(20, 9, 9, 10)],
        "peer's system took it",
    ),
    ("a little late", [sample(0, 9, 0, 9), SocketSample(20, "", 0, 0, 9, loop_late_s=0.9)], "unknown"),
    (
        "the system says nothing, but we were late",
        [sample(0, 9, None, None), SocketSample(20, "", 9, None, None, loop_late_s=3)],
        "own loop was late",
    ),
]


@pytest.mark.parametrize(("samples", "wanted"), [v[1:] for v in VERDICTS], ids=[v[0] for v in VERDICTS])
def test_verdict(samples: list[SocketSample], wanted: str) -> None:
    assert verdict(samples) == wanted
    assert as_json(samples)["verdict"] == wanted


TOOK = [sample(0, 9, 9, 9), sample(20, 0, 0, 18)]
STUCK = [sample(0, 9, 9, 9), sample(20, 9, 9, 9)]
SILENT = [sample(0, 9, None, None), sample(20, 9, None, None)]


@pytest.mark.parametrize(
    ("samples", "answer", "wanted"),
    [
        (TOOK, None, "peer's system took it"),
        (TOOK, Answer(-0.1, 0.1), "peer's system took it"),  # it answers what was sent before the first look
        (TOOK, Answer(0.0, 19.0), "peer's system took it"),
        (TOOK, Answer(0.1, 19.0), "peer was reading"),
        (SILENT, Answer(1.0, 2.0), "peer was reading"),
        (SILENT, Answer(-1.0, 2.0), "unknown"),
        (STUCK, Answer(-1.0, 2.0), "peer stopped reading"),
    ],
)
def test_only_an_answer_proves_that_the_peer_itself_reads(
    samples: list[SocketSample], answer: Answer | None, wanted: str
) -> None:
    assert verdict(samples, answer) == wanted
    assert as_json(samples, answer)["verdict"] == wanted
    assert ("the peer was reading" in told(samples, 1.0, answer)) is (wanted == "peer was reading")


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
    assert (seen.retransmits, seen.loop_late_s) == (0, 0.0)
    assert seen.mss_bytes
    for sock in (ours, peer, theirs):
        sock.close()
    assert (unacked_bytes(ours), bytes_acked(ours)) == (None, None)


WORDS: list[tuple[list[SocketSample], float | None, str]] = [
    (
        [full(0), full(20)],
        19.5,
        "the peer stopped reading: bytes wait, and it took none for 20.0 s; its last event",
    ),
    ([full(0), full(20, again=1)], None, "the network lost it: segments were sent again, and none was"),
    (
        [sample(0, 9, 9, 9), sample(20, 9, 9, 10)],
        20.0,
        "the peer's system took bytes of ours within 20.0 s; whether the peer itself reads is unknown: it never",
    ),
    (
        [sample(0, 9, 0, 9), SocketSample(20, "", 9, 0, 9, loop_late_s=7)],
        1.0,
        "our own loop was late, by up to 7.0 s",
    ),
    (
        [sample(0, 0, 0, 9), sample(20, 0, 0, 9)],
        None,
        "unknown: nothing of ours waits in the socket; it never sent",
    ),
    ([sample(0, 9, None, None), sample(9, 9, None, None)], 1.0, "unknown: the system does not say"),
    (
        [sample(0, 9, 9, 9)],
        1.0,
        "unknown: the socket was not looked at before; its last event came 1.0 s before",
    ),
]


@pytest.mark.parametrize(("samples", "silent_s", "words"), WORDS, ids=lambda value: str(value)[:30])
def test_words(samples: list[SocketSample], silent_s: float | None, words: str) -> None:
    assert told(samples, silent_s).startswith(words)


@pytest.mark.parametrize("size", [0, 3, 104, 127, 128, 231, 232, 300])
def test_numbers_beyond_the_kernels_answer_are_unknown(size: int) -> None:
    info = bytes(range(256))[:size] + bytes(max(0, size - 256))
    for place, end in (
        (evidence._RETRANSMITS, 3),
        (evidence._BYTES_ACKED, 128),
        (evidence._PEER_WINDOW, 232),
    ):
        assert (evidence.entry(info, place) is None) is (size < end)


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
