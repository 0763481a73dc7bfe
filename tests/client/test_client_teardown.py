"""Teardown over real sockets in virtual time (evaluation.md 10): bounded steps, advisory once the reply is complete."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection

from client.connection import Connection
from client.generate import generate_sample
from client.retry import RequestOutput, request_sample
from conformance.clock import VirtualLoop, run_virtual

SMALL = 4096
"""Socket buffers with which a stopped peer blocks the first unit."""


def virtual(main: Any, **options: Any) -> Any:
    """Run with small client buffers, so that a peer that stops reading blocks at once."""
    loop = VirtualLoop()
    loop.client_sndbuf_bytes = SMALL
    return run_virtual(main, loop=loop, **options)


async def stop_at_commit(session: Any, event: dict[str, Any]) -> None:
    """Read nothing after the commit, and go on talking: the reply completes by itself."""
    session.ws.transport.pause_reading()
    await session.send("input_audio_buffer.committed", item_id="i", event={})
    await session.send("response.created", response_id="r1")
    await session.send("response.audio.delta", response_id="r1", delta="AAAA" * 200)
    await session.send("response.audio_transcript.delta", response_id="r1", delta="The lid is open.")
    await asyncio.sleep(3)
    await session.send("response.done", response={"id": "r1", "status": "completed"})
    await session.stop_reading()


def outcome(
    kit: Any, on: dict[str, Any], *, deadlines: dict[str, float] | None = None, rcvbuf: int | None = SMALL
) -> Any:
    """(output, peer, seconds) of a sample against a peer with these handlers."""

    async def main() -> Any:
        loop = asyncio.get_running_loop()
        reply = None if "input_audio_buffer.commit" in on else kit.Reply()
        peer = kit.Peer(reply=reply, on=on, rcvbuf=rcvbuf)
        async with peer.running():
            began_s = loop.time()
            output = await request_sample(kit.clip(2.4), kit.settings(peer.url, deadlines=deadlines or {}))
            return output, peer, loop.time() - began_s

    return virtual(main)


def test_peer_that_stops_reading_costs_the_teardown_not_the_sample(kit: Any) -> None:
    output, peer, took_s = outcome(kit, {"input_audio_buffer.commit": stop_at_commit})

    assert output.success
    assert output.attempts == len(peer.sessions) == 1
    assert output.result.close == "forced"
    assert output.result.ack_timeout
    assert output.result.close_timeout
    assert output.result.error == ""
    assert took_s < 2.4 + 3 + 2 + 65
    assert output.result.socket_evidence["verdict"] == "peer stopped reading"
    missed = output.result.metadata["missed_deadlines"]
    assert len(missed) >= 2
    assert all(": the peer stopped reading: bytes wait, and it took none for " in text for text in missed), (
        missed
    )


def test_slow_good_close_is_not_aborted(kit: Any) -> None:
    async def slow(session: Any, event: dict[str, Any]) -> None:
        await asyncio.sleep(19.9)
        await session.send("session.closed")
        await session.ws.close()

    output, _, _ = outcome(kit, {"session.close": slow})

    assert output.success
    assert output.result.close == "clean"
    assert output.result.close_timeout is None


def test_unanswered_close_is_forced_and_advisory_after_a_reply(
    kit: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def silence(session: Any, event: dict[str, Any]) -> None: ...

    output, peer, took_s = outcome(kit, {"session.close": silence})

    assert output.success
    assert "session.closed: 20.0 s" in output.result.metadata["close_timeout"]
    (missed,) = output.result.metadata["missed_deadlines"]
    assert missed.startswith(
        "session.closed: 20.0 s passed: the peer's system took bytes of ours within 20.0 s; "
        "whether the peer itself reads is unknown: its last answer came "
    )
    assert output.result.socket_evidence["verdict"] == "peer's system took it"
    assert output.result.close == "forced"
    assert len(peer.sessions) == 1
    assert 24 < took_s < 32


def test_clean_close_has_close_frames_and_no_warning(kit: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "client"):
        output, peer, _ = outcome(kit, {})

    assert output.result.close == "clean"
    assert output.result.metadata["missed_deadlines"] == []
    assert output.result.socket_evidence["samples"] == []
    assert peer.sessions[0].ended_by == "close frame"
    assert caplog.records == []


@pytest.mark.parametrize("end", ["drop", "reset"])
def test_end_without_close_frame_after_session_closed_is_clean_enough(kit: Any, end: str) -> None:
    async def july(session: Any, event: dict[str, Any]) -> None:
        await session.send("session.closed", event={})
        getattr(session, end)()

    output, _, _ = outcome(kit, {"session.close": july})

    assert output.success
    assert output.result.close in ("by_peer", "lost") if end == "reset" else output.result.close == "by_peer"
    assert output.result.close_timeout is None


def test_close_frame_left_unanswered_after_session_closed_ends_by_the_library(kit: Any) -> None:
    async def half(session: Any, event: dict[str, Any]) -> None:
        await session.send("session.closed")
        session.ws.transport.pause_reading()
        await asyncio.sleep(60)

    output, _, took_s = outcome(kit, {"session.close": half})

    assert output.success
    assert output.result.close == "clean"
    assert output.result.close_timeout is None
    assert took_s < 20


def test_connection_lost_before_the_close_is_advisory_after_a_reply(kit: Any) -> None:
    async def gone(session: Any, event: dict[str, Any]) -> None:
        session.drop()

    output, peer, _ = outcome(kit, {"session.close": gone})

    assert output.success
    assert output.result.close == "lost"
    assert "ConnectionLost" in output.result.metadata["close_error"]
    assert len(peer.sessions) == 1


class StubbornWrite:
    """A write of the client that suppresses its first cancellation and blocks again, until released."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, event: bytes, cancellations: int = 1) -> None:
        self.released: asyncio.Future[None] | None = None
        self.swallowed = 0
        real = ClientConnection.send

        async def send(connection: ClientConnection, message: Any, *args: Any, **kwargs: Any) -> None:
            if event in bytes(message[:200]):
                self.released = self.released or asyncio.get_running_loop().create_future()
                for _ in range(cancellations):
                    try:
                        await asyncio.shield(self.released)
                    except asyncio.CancelledError:
                        self.swallowed += 1
                await asyncio.shield(self.released)
            await real(connection, message, *args, **kwargs)

        monkeypatch.setattr(ClientConnection, "send", send)

    def release(self) -> None:
        if self.released is not None:
            self.released.set_result(None)


@pytest.mark.parametrize("event", [b'"playback.ack"', b'"session.close"'])
def test_write_that_swallows_its_cancellation_is_abandoned(
    kit: Any, monkeypatch: pytest.MonkeyPatch, event: bytes
) -> None:
    stubborn = StubbornWrite(monkeypatch, event)

    async def main() -> tuple[RequestOutput, float]:
        loop = asyncio.get_running_loop()
        async with kit.Peer().running() as peer:
            began_s = loop.time()
            output = await request_sample(kit.clip(2.4), kit.settings(peer.url))
            took_s = loop.time() - began_s
            stubborn.release()
            await asyncio.sleep(1)
            return output, took_s

    output, took_s = virtual(main)

    assert stubborn.swallowed >= 1
    assert output.success
    assert took_s < 2.4 + 2 + 65
    assert output.result.ack_timeout if b"ack" in event else output.result.close_timeout


def test_missing_transport_is_said_and_the_close_stays_bounded(
    kit: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Blind:
        """The client's socket without its transport."""

        def __init__(self, socket: ClientConnection) -> None:
            self._real = socket

        def __getattr__(self, name: str) -> Any:
            if name == "transport":
                raise AttributeError(name)
            return getattr(self._real, name)

    dial = Connection._dial

    async def blind_dial(self: Connection, *args: Any) -> None:
        await dial(self, *args)
        assert self._socket is not None
        self._socket = Blind(self._socket)  # type: ignore[assignment]

    monkeypatch.setattr(Connection, "_dial", blind_dial)

    async def silence(session: Any, event: dict[str, Any]) -> None: ...

    output, _, took_s = outcome(kit, {"session.close": silence})

    assert "realtime transport has no abortable handle on Blind" in caplog.text
    assert output.success
    assert took_s < 40


def test_missing_socket_is_said(caplog: pytest.LogCaptureFixture, kit: Any) -> None:
    connection = Connection("S/1", kit.settings("ws://x").deadlines)
    del connection._socket

    connection.abort()

    assert "S/1: realtime client has no socket to abort" in caplog.text


@pytest.mark.parametrize("after_s", [0.0, 0.5, 2.0, 2.4, 2.9, 5.0, 12.0, 27.0, 31.0, 48.0])
def test_outer_cancellation_at_any_point_sends_nothing_more(kit: Any, after_s: float) -> None:
    async def main() -> tuple[Any, float, Any]:
        loop = asyncio.get_running_loop()
        peer = kit.Peer(reply=None, on={"input_audio_buffer.commit": stop_at_commit}, rcvbuf=SMALL)
        async with peer.running():
            task = asyncio.create_task(request_sample(kit.clip(2.4), kit.settings(peer.url)))
            await asyncio.sleep(after_s)
            task.cancel()
            began_s = loop.time()
            await asyncio.wait([task])
            return task.cancelled(), loop.time() - began_s, peer

    cancelled, took_s, peer = virtual(main)

    assert cancelled
    assert took_s <= 15.1
    for session in peer.sessions:
        assert "session.close" not in session.names


def test_outer_cancellation_in_the_ack_join_propagates(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stubborn = StubbornWrite(monkeypatch, b'"playback.ack"')
    phases: list[str] = []

    async def main() -> tuple[bool, Any]:
        joining = asyncio.Event()

        def observe(step: str, fields: Any) -> None:
            if step == "phase":
                phases.append(fields["name"])
                if fields["name"] == "ack_join":
                    joining.set()

        async with kit.Peer().running() as peer:
            task = asyncio.create_task(
                generate_sample(kit.clip(2.4), kit.settings(peer.url), observer=observe)
            )
            await joining.wait()
            await asyncio.sleep(1)
            task.cancel()
            await asyncio.wait([task])
            stubborn.release()
            await asyncio.sleep(1)
            return task.cancelled(), peer

    cancelled, peer = virtual(main)

    assert cancelled
    assert phases[-2:] == ["ack_join", "forcing"]
    assert "session.close" not in peer.sessions[0].names


def test_genuine_failure_of_the_ack_loop_fails_the_sample(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(response_id: str, played_ms: int) -> Any:
        raise KeyError("played")

    monkeypatch.setattr("client.wire.playback_ack", broken)

    output, _peer, _ = outcome(kit, {})

    assert not output.success
    assert output.attempts == 1
    assert "KeyError" in output.error


def test_abandoned_write_leaves_no_never_retrieved_message(
    kit: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import gc

    stubborn = StubbornWrite(monkeypatch, b'"session.close"', cancellations=5)

    async def main() -> None:
        async with kit.Peer().running() as peer:
            await request_sample(kit.clip(1.4), kit.settings(peer.url))
            assert stubborn.released is not None
            stubborn.released.set_exception(RuntimeError("late"))
            await asyncio.sleep(1)

    virtual(main)
    gc.collect()

    assert "never retrieved" not in caplog.text
