"""`conformance serve` against clients that mean harm: bounded in memory and time, fair to others, its journal readable.

One child for all of it, on the real clock; the figures are the child's own, from /proc. The tests stand in the order in
which they have to run.
"""

from __future__ import annotations

import json
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

MIB = 1024 * 1024
TOO_MUCH_BYTES = 150 * MIB
"""What the child may grow by: frames of 16 MiB, each copied a few times on its way, are the most of it."""
PATIENCE_S = 60.0
"""For whatever must come; nothing takes long on a machine that has time."""


class Child:
    """`conformance serve` in a process of its own, with a journal."""

    def __init__(self, folder: Path) -> None:
        self.journal = folder / "journal.ndjson"
        command = [sys.executable, "-m", "conformance", "serve", "--port", "0", "--judge-port", "0"]
        self.process = subprocess.Popen(
            [*command, "--journal", str(self.journal)], stdout=subprocess.PIPE, text=True, cwd=folder
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.port = int(line.split("/v1/")[0].rpartition(":")[2])

    def bytes_(self, what: str) -> int:
        """VmRSS or VmHWM of the child."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(what)) * 1024

    def stop(self) -> int:
        """By the signal that a person sends."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE_S)


@pytest.fixture(scope="module")
def child(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (min(limits[1], 4096), limits[1])
    )  # 1,000 sockets are open here
    made = Child(tmp_path_factory.mktemp("hostile"))
    try:
        yield made
    finally:
        if made.process.poll() is None:
            made.process.kill()
            made.process.wait()
        assert made.process.stdout is not None
        made.process.stdout.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def frame(payload: bytes, opcode: int = 1, *, first_bits: int = 0x80) -> bytes:
    """A frame of a client, masked with zeros."""
    head = struct.pack("!B", first_bits | opcode)
    if len(payload) < 126:
        head += struct.pack("!B", 0x80 | len(payload))
    elif len(payload) < 65536:
        head += struct.pack("!BH", 0xFE, len(payload))
    else:
        head += struct.pack("!BQ", 0xFF, len(payload))
    return head + bytes(4) + payload


def event(name: str, **fields: Any) -> bytes:
    return frame(json.dumps({"type": name, **fields}).encode())


@pytest.fixture(scope="module")
def silent(child: Child) -> Iterator[list[Peer]]:
    """One that upgrades and then says nothing, 100 that send half a request, 900 that send none: before all else."""
    before = child.bytes_("VmRSS")
    with ExitStack() as peers:
        mute = peers.enter_context(Peer(child.port, opens=False))
        halves = [peers.enter_context(Peer(child.port, upgrade=False)) for _ in range(100)]
        for peer in halves:
            peer.send(b"GET /v1/realtime?duplex=1 HTTP/1.1\r\nHost: localhost\r\nUpgr")
        mutes = [peers.enter_context(Peer(child.port, upgrade=False)) for _ in range(900)]
        with Peer(child.port) as other:
            beat(other)
        assert child.bytes_("VmRSS") - before < TOO_MUCH_BYTES / 2
        yield [mute, *halves, *mutes]


OPENING = event(
    "session.update",
    session={
        "modalities": ["audio", "text"],
        "ref_audio": "data:audio/wav;base64,AAAA",
        "extra_body": {"auto_response": True, "minicpmo45_native_duplex": True},
    },
)


class Peer:
    """A TCP connection that upgrades and speaks frames, right or wrong."""

    def __init__(self, port: int, *, upgrade: bool = True, opens: bool = True) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self._read = b""
        if upgrade:
            self.socket.sendall(
                b"GET /v1/realtime?duplex=1&model=m&autostart=0&minicpmo45_native_duplex=1 HTTP/1.1\r\n"
                b"Host: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
            )
            while b"\r\n\r\n" not in self._read:
                self._read += self.socket.recv(65536)
            head, _, self._read = self._read.partition(b"\r\n\r\n")
            assert b" 101 " in head
        if upgrade and opens:
            self.socket.sendall(OPENING)
            self.until("session.updated")

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def next(self) -> tuple[int, bytes]:
        """Opcode and payload of the next frame; (-1, b"") at the end of the connection."""
        while True:
            if len(self._read) >= 2:
                length, start = self._read[1], 2
                if length == 126 and len(self._read) >= 4:
                    length, start = struct.unpack("!H", self._read[2:4])[0], 4
                elif length == 127 and len(self._read) >= 10:
                    length, start = struct.unpack("!Q", self._read[2:10])[0], 10
                elif length >= 126:
                    length = 1 << 62
                if len(self._read) >= start + length:
                    opcode, payload = self._read[0] & 0xF, self._read[start : start + length]
                    self._read = self._read[start + length :]
                    return opcode, payload
            try:
                more = self.socket.recv(65536)
            except ConnectionResetError:
                more = b""
            if not more:
                return -1, b""
            self._read += more

    def until(self, name: str) -> dict[str, Any]:
        """The next event of this name; or the error that came instead."""
        while True:
            opcode, payload = self.next()
            assert opcode != -1, f"the connection ended before {name}"
            if opcode == 1:
                told: dict[str, Any] = json.loads(payload)
                if told["type"] in (name, "error"):
                    return told

    def over(self) -> int:
        """Reads to the server's close frame. Returns: its code; 1006 where the connection ends without one."""
        while True:
            opcode, payload = self.next()
            if opcode == -1:
                return 1006
            if opcode == 8:
                return int(struct.unpack("!H", payload[:2])[0]) if payload else 1005

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def beat(peer: Peer) -> float:
    """Seconds that a heartbeat takes."""
    since_s = time.monotonic()
    peer.send(event("session.heartbeat"))
    assert peer.until("session.heartbeat_ack")["type"] == "session.heartbeat_ack"
    return time.monotonic() - since_s


def test_a_million_tiny_frames_let_other_sessions_have_their_turns(child: Child, silent: list[Peer]) -> None:
    before = child.bytes_("VmRSS")
    with Peer(child.port) as other, Peer(child.port) as flood:
        beat(other)
        pongs, empties = frame(b"", 10) * 4000, frame(b"{}") * 2000
        sent, waits = 0, []
        flood.socket.setblocking(False)
        until_s = time.monotonic() + PATIENCE_S
        block = memoryview(pongs * 248 + empties * 4)  # 992,000 pongs and 8,000 events that are none
        while len(block) and time.monotonic() < until_s:
            with suppress(BlockingIOError):
                count = flood.socket.send(block[: 1 << 18])
                block, sent = block[count:], sent + count
            with suppress(BlockingIOError, ConnectionResetError):
                while flood.socket.recv(1 << 20):
                    pass
            if sent // (1 << 20) > len(waits):
                waits.append(beat(other))
        assert not len(block), "the server stopped reading"
        flood.socket.setblocking(True)
        flood.send(event("session.close"))
        while flood.socket.recv(1 << 20):  # to the end, so that all of it was handled
            pass
        assert sorted(waits)[len(waits) // 2] < 1.0  # 32,000 answers in one go take longer
        assert child.bytes_("VmRSS") - before < TOO_MUCH_BYTES


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (struct.pack("!BBQ", 0x81, 0xFF, 1 << 62) + bytes(4), 1009),
        (struct.pack("!BBQ", 0x81, 0xFF, 16 * MIB + 1) + bytes(4), 1009),
        (frame(b"", 3), 1002),
        (frame(b"x", first_bits=0xC0), 1002),
        (frame(b"x" * 126, 9), 1002),
        (frame(b'{"type":"session.heartbeat","x":"\xff"}'), 1007),
    ],
    ids=["2^62 bytes", "above 16 MiB", "no opcode", "reserved bit", "long ping", "invalid UTF-8"],
)
def test_a_frame_that_breaks_the_rules_costs_its_own_connection(child: Child, data: bytes, code: int) -> None:
    with Peer(child.port) as peer:
        peer.send(data)
        if not select.select([peer.socket], [], [], 1.0)[0]:
            with suppress(ConnectionError):  # older versions of aiohttp look when 16 MiB are there
                peer.send(bytes(17 * MIB))
        assert peer.over() == code


NESTED = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (NESTED, "invalid_json"),
        ('{"type":"session.heartbeat","x":' + NESTED + "}", "invalid_json"),
        ('{"type":"session.heartbeat","x":NaN}', "invalid_json"),
        ('{"type":"playback.ack","played_ms":-Infinity}', "invalid_json"),
        ('{"type":"playback.ack","response_id":"r","played_ms":' + "9" * 400 + "}", None),
        ('{"type":"playback.ack","response_id":"r","played_ms":' + "9" * 300 + "}", "playback.acknowledged"),
        ('{"type":"session.event_ack","server_event_seq":' + "9" * 5000 + "}", None),
        ('{"type":"conversation.item.retrieve","item_id":"../../../etc/passwd"}', "item_not_found"),
        ('{"type":"playback.ack","response_id":"../../x\\u0000","played_ms":1}', "playback.acknowledged"),
    ],
    ids=["deep", "deep value", "NaN", "infinite", "10^400", "10^300", "10^5000", "path", "path and NUL"],
)
def test_an_event_that_is_hard_to_read_costs_nobody_anything(
    child: Child, text: str, answer: str | None
) -> None:
    with Peer(child.port) as peer:
        peer.send(frame(text.encode()))
        told = peer.until("playback.acknowledged")
        kind = told["error"]["code"] if told["type"] == "error" else told["type"]
        assert kind == answer if answer is not None else kind in ("invalid_json", "invalid_event_ack")
        beat(peer)


def test_large_events_are_given_back_as_memory(child: Child) -> None:
    before = child.bytes_("VmRSS")
    large = frame(b'{"type":"session.heartbeat","x":"' + b"y" * (15 * MIB - 100) + b'"}')
    for _ in range(4):
        with Peer(child.port) as one, Peer(child.port) as two:
            for peer in (one, two):
                peer.send(large)
            for peer in (one, two):
                assert peer.until("session.heartbeat_ack")["type"] == "session.heartbeat_ack"
    assert child.bytes_("VmRSS") - before < TOO_MUCH_BYTES


def test_who_completes_no_request_is_dropped(child: Child, silent: list[Peer]) -> None:
    with Peer(child.port) as other:
        beat(other)
        since_s = time.monotonic()
        assert silent[0].until("error")["error"]["code"] == "config_timeout"
        for peer in silent[1:]:
            assert peer.over() == 1006
        assert time.monotonic() - since_s < PATIENCE_S
        beat(other)


def test_what_a_client_can_have_kept_has_an_end(child: Child) -> None:
    with Peer(child.port) as peer:
        item = {"content": [{"type": "input_text", "text": "z" * 7 * MIB}]}
        codes = []
        for _ in range(6):
            peer.send(event("conversation.item.create", item=item))
            told = peer.until("conversation.item.done")
            codes.append(told["error"]["code"] if told["type"] == "error" else "")
        assert codes == ["", "", "", "", "input_backpressure", "input_backpressure"]


def test_at_the_end_the_server_stops_in_time_and_its_journal_is_readable(child: Child) -> None:
    with Peer(child.port) as peer:  # the tests before may have run in another process
        peer.send(frame(b"{}") * 2000 + event("session.close"))
        while peer.socket.recv(1 << 20):
            pass
    assert child.bytes_("VmHWM") < 400 * MIB

    assert child.stop() == 0

    kinds: dict[str, int] = {}
    with child.journal.open("rb") as lines:
        for line in lines:
            assert len(line) < 100_000
            kinds[json.loads(line)["kind"]] = kinds.get(json.loads(line)["kind"], 0) + 1
    assert kinds["open"] == kinds["end"]
    assert kinds["violation"] >= 2000
    assert not [path for path in child.journal.parent.iterdir() if path != child.journal]
