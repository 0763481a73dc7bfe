"""The server over real loopback sockets: endpoints, ends of connections, what it knows of them (protocol.md 1, 2)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
from typing import Any

import aiohttp
import pybase64
import pytest
import websockets

from conformance.clock import run_virtual
from mockserver.app import MockServer
from mockserver.journal import Entry
from scenarios.model import Reply

REPLY = Reply(starts_at_unit=0, units=2, text="One two.")


async def whole_session(client: Any) -> None:
    await client.open()
    await client.append()
    await asyncio.sleep(5)
    await client.send("session.close")
    await client.ended()


def test_the_july_server_ends_the_connection_without_a_close_frame(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        async with serve(reply=REPLY) as server, bare(server.url) as client:
            await whole_session(client)
            return client.closed, server.connections[0]

    closed, info = run_virtual(main)
    assert closed.rcvd is None
    assert str(closed).startswith("no close frame received")
    assert (info.ended_by, info.how, info.client_close_code) == ("server", "tcp_end", None)


def test_the_input_driven_server_closes_with_1000_and_hears_the_answer(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        async with serve(reply=REPLY, profile="input-driven") as server, bare(server.url) as client:
            await whole_session(client)
            await asyncio.sleep(0.01)
            return client.closed, server.connections[0]

    closed, info = run_virtual(main)
    assert closed.rcvd.code == 1000
    assert (info.ended_by, info.how, info.client_close_code) == ("server", "close_frame", 1000)


async def _close_frame(client: Any) -> None:
    await client.socket.close(1001)


async def _abort(client: Any) -> None:
    sock = client.socket.transport.get_extra_info("socket")
    sock.setsockopt(1, 13, struct.pack("ii", 1, 0))  # SOL_SOCKET, SO_LINGER
    client.socket.transport.abort()


async def _fin(client: Any) -> None:
    client.socket.transport.abort()


@pytest.mark.parametrize(
    ("leave", "how", "code"),
    [(_close_frame, "close_frame", 1001), (_abort, "rst", None), (_fin, "fin", None)],
)
def test_how_the_client_ended_the_connection_is_known(
    serve: Any, bare: Any, leave: Any, how: str, code: int | None
) -> None:
    async def main() -> Any:
        async with serve() as server:
            async with bare(server.url) as client:
                await client.open()
                await leave(client)
            await asyncio.sleep(0.1)
            return server.connections[0], server.journal.entries[-1]

    info, last = run_virtual(main)
    assert (info.ended_by, info.how, info.client_close_code) == ("client", how, code)
    assert (last.kind, last.data["how"]) == ("end", how)


def test_frames_sent_just_before_the_client_vanished_are_still_read(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        async with serve() as server:
            async with bare(server.url) as client:
                await client.open()
                for _ in range(20):
                    await client.send("session.event_ack", server_event_seq=1)
                client.socket.transport.close()
            await asyncio.sleep(0.1)
            return server.connections[0].received

    assert run_virtual(main)["session.event_ack"] == 20


def test_a_slow_model_never_blocks_reading(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        async with serve(decision_ms=30_000) as server, bare(server.url) as client:
            await client.open()
            for _ in range(3):
                await client.append()
            await client.send("session.heartbeat")
            await asyncio.sleep(0.01)
            return client.times("session.heartbeat_ack"), asyncio.get_running_loop().time()

    times, now_s = run_virtual(main)
    assert len(times) == 1
    assert now_s < 1001


def test_a_client_that_does_not_read_does_not_block_the_server(serve: Any, bare: Any) -> None:
    """200 replies of a second fill every buffer; the server reads on all the same."""
    endless = Reply(starts_at_unit=0, units=300, text="x")

    async def main() -> Any:
        async with serve(reply=endless) as server, bare(server.url, pings=False) as client:
            await client.open()
            client.socket.transport.pause_reading()
            await client.append()
            await asyncio.sleep(250)
            await client.send("session.heartbeat")
            await asyncio.sleep(1)
            return server.connections[0]

    info = run_virtual(main)
    assert info.sent["response.audio.delta"] > 200
    assert info.received["session.heartbeat"] == 1


@pytest.mark.parametrize(
    ("frame", "code", "rule"),
    [(b"\xff\xff", 1007, "invalid-utf8"), (b"x" * (16 * 1024 * 1024 + 1), 1009, "frame-too-large")],
    ids=["utf8", "size"],
)
def test_frames_that_break_the_limits_of_the_websocket_end_it_with_their_code(
    serve: Any, bare: Any, frame: bytes, code: int, rule: str
) -> None:
    async def main() -> Any:
        async with serve() as server, bare(server.url) as client:
            await client.open()
            with contextlib.suppress(websockets.ConnectionClosed):  # the end may come before the frame is out
                await client.socket.send(frame, text=True)
            await client.ended()
            return client.closed, server.journal.of("violation")

    closed, violations = run_virtual(main)
    assert closed.rcvd.code == code
    assert [v.name for v in violations] == [rule]


def test_a_frame_of_just_the_limit_costs_the_event_alone(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        async with serve() as server, bare(server.url) as client:
            await client.open()
            await client.socket.send(b"x" * 16 * 1024 * 1024, text=True)
            await asyncio.sleep(0.1)
            await client.send("session.heartbeat")
            await asyncio.sleep(0.1)
            return client.names, client.events[2][1]["error"]["code"]

    names, code = run_virtual(main)
    assert code == "event_too_large"
    assert names[2:] == ["error", "session.heartbeat_ack"]


def test_subprotocols_are_neither_selected_nor_told_where_a_key_may_stand_in_them(
    serve: Any, caplog: pytest.LogCaptureFixture
) -> None:
    offered = [websockets.Subprotocol("realtime"), websockets.Subprotocol("openai-insecure-api-key.sk-1234")]

    async def main() -> Any:
        async with serve() as server:
            url = f"{server.url}?duplex=1&autostart=0"
            async with websockets.connect(url, subprotocols=offered, proxy=None, compression=None) as socket:
                return socket.subprotocol, json.dumps([entry.data for entry in server.journal.of("open")])

    selected, opened = run_virtual(main)
    assert selected is None
    assert "sk-1234" not in caplog.text + opened


def test_http_endpoints_answer(serve: Any) -> None:
    async def main() -> Any:
        async with serve() as server, aiohttp.ClientSession() as http:
            answers = []
            for path in ("/health", "/v1/models", "/metrics"):
                async with http.get(server.http_url + path) as response:
                    answers.append((response.status, await response.text()))
            return answers

    health, models, metrics = run_virtual(main)
    assert json.loads(health[1]) == {"status": "healthy"}
    assert json.loads(models[1])["data"][0]["id"] == "openbmb/MiniCPM-o-4_5"
    assert "# TYPE duplex_sessions_total counter" in metrics[1]
    assert {status for status, _ in (health, models, metrics)} == {200}


def _journal(serve: Any, bare: Any, seed_shift: int = 0) -> list[Entry]:
    async def main() -> Any:
        server = MockServer(profile="july", replies=[REPLY], seed=1 + seed_shift)
        await server.start()
        async with bare(server.url) as first, bare(server.url) as second:
            await asyncio.gather(whole_session(first), whole_session(second))
        await server.stop()
        return server.journal.entries

    return list(run_virtual(main))


def test_the_same_seed_gives_the_same_journal_and_another_one_other_ids(serve: Any, bare: Any) -> None:
    assert _journal(serve, bare) == _journal(serve, bare)
    assert _journal(serve, bare) != _journal(serve, bare, 1)


def test_the_journal_tells_media_by_length_and_hash(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        async with serve(reply=REPLY) as server, bare(server.url) as client:
            await client.open()
            await client.append(frame_bytes=500)
            await asyncio.sleep(1)
            return server.journal

    journal = run_virtual(main)
    (append,) = journal.of("received", "input_audio_buffer.append")
    (delta,) = journal.of("sent", "response.audio.delta")
    assert append.data["audio_bytes"] == 32_000
    assert len(append.data["audio_sha"]) == 16
    assert append.data["frames"][0]["bytes"] == 502
    assert delta.data["audio_bytes"] == 960 * 48
    assert len(json.dumps([dict(e.data) for e in journal.entries])) < 10_000


def test_the_sink_gets_each_entry_as_it_is_made(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        told: list[Entry] = []
        async with serve() as server, bare(server.url) as client:
            server.journal.sink = told.append
            await client.open()
            return told, server.journal.entries

    told, entries = run_virtual(main)
    assert told
    assert all(entry in entries for entry in told)


def test_stopping_drops_connections_at_once_and_twice_is_once(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        server = MockServer(profile="july", replies=[])
        await server.start()
        async with bare(server.url) as client:
            await client.open()
            started_s = asyncio.get_running_loop().time()
            await server.stop()
            await server.stop()
            await client.ended()
            return asyncio.get_running_loop().time() - started_s

    assert run_virtual(main) < 0.5


def test_an_unknown_profile_is_named_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="july"):
        MockServer(profile="june", replies=[])


@pytest.mark.real
@pytest.mark.asyncio
async def test_a_session_runs_on_the_wall_clock_too() -> None:
    server = MockServer(profile="july", replies=[Reply(starts_at_unit=0, units=1, text="x")], decision_ms=5)
    await server.start()
    url = f"{server.url}?duplex=1&autostart=0"
    async with websockets.connect(url, compression=None, proxy=None) as client:
        extra = {"auto_response": True, "minicpmo45_native_duplex": True}
        session = {"modalities": ["text"], "extra_body": extra}
        await client.send(json.dumps({"type": "session.update", "session": session}))
        await client.send(
            json.dumps(
                {"type": "input_audio_buffer.append", "audio": pybase64.b64encode(bytes(32_000)).decode()}
            )
        )
        names = []
        while "rate_limits.updated" not in names:
            names.append(json.loads(await client.recv())["type"])
        await client.send(json.dumps({"type": "session.close"}))
        names.append(json.loads(await client.recv())["type"])
        with pytest.raises(websockets.ConnectionClosedError):
            await client.recv()
    await server.stop()

    assert names[-3:] == ["response.done", "rate_limits.updated", "session.closed"]


def test_a_connection_that_is_dropped_with_its_server_was_not_ended_by_the_client(bare: Any) -> None:
    async def main() -> Any:
        server = MockServer(profile="july", replies=[])
        await server.start()
        async with bare(server.url) as client:
            await client.open()
            await server.stop()
            return server.journal.of("end")[0].data

    data = run_virtual(main)
    assert (data["by"], data["how"]) == ("server", "reset")
