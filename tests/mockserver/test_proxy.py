"""The proxy: what goes through untouched, what it refuses, and that it leaves no session behind on the server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import WSMsgType, web

from conformance.clock import run_virtual
from mockserver.app import MockServer
from mockserver.proxy import CANNOT_BE_PROXIED, ProxyServer
from mockserver.upstream import Behind
from scenarios.faults import (
    FAULTS,
    FaultBase,
    LateSessionClosed,
    Layer,
    NeverDone,
    NoSessionClosed,
    NoSessionCreated,
    On,
    StopReading,
)
from scenarios.model import Reply

REPLY = Reply(starts_at_unit=0, units=2, text="One two.")
Handler = Callable[[web.Request], Any]


@contextlib.asynccontextmanager
async def proxied(url: str, *faults: FaultBase, **how: Any) -> AsyncIterator[ProxyServer]:
    """A started proxy in front of a server, stopped at the end."""
    headers = how.pop("headers", {})
    proxy = ProxyServer(Behind(url, headers=headers, connect_s=5.0), faults=faults, seed=1, **how)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.stop()


@contextlib.asynccontextmanager
async def odd(handler: Handler, path: str = "/v1/realtime") -> AsyncIterator[str]:
    """A server that is not ours; yields its WebSocket URL."""
    app = web.Application()
    app.router.add_get(path, handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"ws://127.0.0.1:{runner.addresses[0][1]}/v1/realtime"
    finally:
        await runner.cleanup()


UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


@contextlib.asynccontextmanager
async def get(url: str, headers: dict[str, str] | None = None) -> AsyncIterator[aiohttp.ClientResponse]:
    """Ask for an upgrade, and take the answer as plain HTTP."""
    async with (
        aiohttp.ClientSession() as http,
        http.get(url, headers={**UPGRADE, **(headers or {})}) as answer,
    ):
        yield answer


async def talk(server: Any, bare: Any, proxy: ProxyServer) -> Any:
    """A whole session of one unit and its reply."""
    async with bare(proxy.url) as client:
        await client.open()
        await client.append(frame_bytes=1000)
        await client.append(400)
        await client.send("input_audio_buffer.commit", final=True)
        await asyncio.sleep(5)
        await client.send("session.close")
        await client.ended()
        return client


def test_a_session_through_the_proxy_is_the_server_s_own(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        async with serve(reply=REPLY) as server, proxied(server.url) as proxy:
            client = await talk(server, bare, proxy)
            return server, proxy, client

    server, proxy, client = run_virtual(main)

    read = [[(e.name, e.data) for e in s.journal.of("received")] for s in (proxy, server)]
    assert read[0] == read[1]
    assert [e.name for e in proxy.journal.of("sent")] == [e.name for e in server.journal.of("sent")]
    assert client.names == [e.name for e in proxy.journal.of("sent")]
    assert client.closed.rcvd is None, "July ends without a close frame, and so does the proxy"
    assert not proxy.journal.of("violation")
    (seen,) = proxy.seen.values()
    assert [r.status for r in seen.responses.values()] == ["completed"]
    assert (seen.closed_by_us, proxy.unconfirmed) == (False, [])


def test_frames_pass_byte_for_byte_also_those_that_are_no_events(bare: Any) -> None:
    given = [
        b'{ "type":"odd.event" , "n":1.50,"s":"\\u00e9" }',
        b"no json",
        b"[1]",
        b'{"type":7}',
        b"\xff\xfe",
    ]
    got: list[bytes] = []

    async def server(request: web.Request) -> web.WebSocketResponse:
        ws = web.WebSocketResponse(compress=False, decode_text=False)
        await ws.prepare(request)
        async for message in ws:
            got.append(bytes(message.data))
            for data in given:
                await ws.send_frame(data, WSMsgType.TEXT)
        return ws

    async def main() -> list[bytes]:
        async with (
            odd(server) as url,
            proxied(url) as proxy,
            aiohttp.ClientSession() as http,
            http.ws_connect(proxy.url, compress=0, decode_text=False) as ws,
        ):
            await ws.send_frame(b' {"type" : "session.heartbeat"}', WSMsgType.TEXT)
            return [bytes((await ws._reader.read()).data) for _ in given]

    assert run_virtual(main) == given
    assert got == [b' {"type" : "session.heartbeat"}']


def test_the_server_answers_pings_and_close_frames_itself(bare: Any) -> None:
    async def server(request: web.Request) -> web.WebSocketResponse:
        ws = web.WebSocketResponse(autoping=False, autoclose=False)
        await ws.prepare(request)
        await ws.ping(b"are you there")
        assert (await ws.receive()).data == b"are you there"
        message = await ws.receive()
        assert message.type is WSMsgType.PING
        await ws.pong(message.data + b", from the server")
        assert (await ws.receive()).type is WSMsgType.CLOSE
        await ws.send_frame(b"\x0f\xa1because", WSMsgType.CLOSE)
        return ws

    async def main() -> tuple[bytes, int | None]:
        async with (
            odd(server) as url,
            proxied(url) as proxy,
            aiohttp.ClientSession() as http,
            http.ws_connect(proxy.url, autoping=False, autoclose=False) as ws,
        ):
            await ws.pong((await ws.receive()).data)
            await ws.ping(b"and you")
            answer = (await ws.receive()).data
            await ws.send_frame(b"\x03\xe8", WSMsgType.CLOSE)
            return answer, (await ws.receive()).data

    assert run_virtual(main) == (b"and you, from the server", 4001)


def test_a_client_that_vanishes_leaves_no_session_on_the_server(serve: Any, bare: Any) -> None:
    async def main() -> tuple[MockServer, ProxyServer]:
        async with serve(reply=REPLY) as server, proxied(server.url) as proxy:
            async with bare(proxy.url) as client:
                await client.open()
                await client.append()
            await asyncio.sleep(1)
            return server, proxy

    server, proxy = run_virtual(main)

    assert [e.name for e in server.journal.of("received")][-1] == "session.close"
    assert not [e for e in proxy.journal.of("received") if e.name == "session.close"]
    (seen,) = proxy.seen.values()
    assert seen.closed_by_us
    assert seen.closed_s is not None
    assert proxy.unconfirmed == []


def test_stopping_the_proxy_ends_the_sessions_first(serve: Any, bare: Any) -> None:
    async def main() -> tuple[MockServer, ProxyServer]:
        async with serve(reply=REPLY) as server:
            async with proxied(server.url) as proxy, bare(proxy.url) as client:
                await client.open()
                await proxy.stop()
            return server, proxy

    server, proxy = run_virtual(main)

    assert server.journal.of("sent", "session.closed")
    assert proxy.unconfirmed == []


def test_a_session_whose_end_is_never_confirmed_is_told_within_the_bound(serve: Any, bare: Any) -> None:
    async def main() -> tuple[list[str], float]:
        loop = asyncio.get_running_loop()
        async with serve(LateSessionClosed(delay_s=60), reply=REPLY) as server, proxied(server.url) as proxy:
            async with bare(proxy.url) as client:
                await client.open()
            since_s = loop.time()
            await proxy.stop()
            return proxy.unconfirmed, loop.time() - since_s

    unconfirmed, took_s = run_virtual(main)

    assert len(unconfirmed) == 1
    assert took_s < 9


async def units_until_a_write_waits(client: Any, *, frame_bytes: int, most: int) -> int:
    """How many units could be written, at most `most`, before one took longer than 2 s."""
    for sent in range(most):
        write = asyncio.ensure_future(client.append(frame_bytes=frame_bytes))
        await asyncio.wait({write}, timeout=2)
        if not write.done():
            write.cancel()
            return sent
    return most


def test_a_stalled_server_stalls_the_client_through_the_proxy(serve: Any, bare: Any) -> None:
    """The proxy must not swallow what the server leaves unread."""
    stop = StopReading(on=On(received="session.heartbeat"), buffer_bytes=4096, proof="unread")

    async def main() -> int:
        async with (
            serve(stop, reply=REPLY) as server,
            proxied(server.url) as proxy,
            bare(proxy.url) as client,
        ):
            await client.open()
            await client.send("session.heartbeat")
            sent = await units_until_a_write_waits(client, frame_bytes=200_000, most=200)
            server.release_faults()
            return sent

    assert run_virtual(main, allow_leaks=True) < 60


def test_a_stall_of_the_proxy_blocks_a_client_with_default_buffers_within_a_dozen_units(
    serve: Any, bare: Any
) -> None:
    stop = StopReading(on=On(received="session.heartbeat"), proof="unread")

    async def main() -> int:
        async with (
            serve(reply=REPLY) as server,
            proxied(server.url, stop) as proxy,
            bare(proxy.url) as client,
        ):
            await client.open()
            await client.send("session.heartbeat")
            sent = await units_until_a_write_waits(client, frame_bytes=24_000, most=60)
            proxy.release_faults()
            return sent

    assert run_virtual(main, allow_leaks=True) <= 12


def test_faults_of_the_proxy_change_what_the_client_gets_and_not_what_the_server_sent(
    serve: Any, bare: Any
) -> None:
    async def main() -> Any:
        async with serve(reply=REPLY) as server, proxied(server.url, NeverDone()) as proxy:
            client = await talk(server, bare, proxy)
            return server, proxy, client

    server, proxy, client = run_virtual(main)

    assert "response.done" not in client.names
    assert server.journal.of("sent", "response.done")
    assert [r.state for r in proxy.fault_reports()] == ["observed"]
    (seen,) = proxy.seen.values()
    assert [r.status for r in seen.responses.values()] == ["completed"]


def test_an_event_that_lacks_what_a_fault_changes_passes_and_the_fault_says_so(bare: Any) -> None:
    async def server(request: web.Request) -> web.WebSocketResponse:
        ws = web.WebSocketResponse()
        await ws.prepare(request)
        await ws.receive()
        await ws.send_str('{"type":"response.done"}')
        await ws.receive()
        return ws

    async def main() -> Any:
        async with odd(server) as url, proxied(url, NeverDone()) as proxy, bare(proxy.url) as client:
            await client.send("session.update", session={})
            await asyncio.sleep(1)
            return client.names, proxy.fault_reports()

    names, (report,) = run_virtual(main)

    assert names == ["response.done"]
    assert report.state == "armed"
    assert report.evidence == {"event": "response.done", "missing": "KeyError: 'response_id'"}


def test_a_refused_upgrade_keeps_the_server_s_status(bare: Any) -> None:
    async def server(request: web.Request) -> web.Response:
        return web.Response(status=401)

    async def main() -> Any:
        async with odd(server) as url, proxied(url) as proxy, get(proxy.url) as answer:
            return answer.status, proxy.statuses

    assert run_virtual(main) == (401, [401])


def test_a_server_that_is_away_is_a_bad_gateway_with_the_reason() -> None:
    async def main() -> Any:
        async with proxied("ws://127.0.0.1:9/v1/realtime") as proxy, get(proxy.url) as answer:
            return answer.status, proxy.unreachable

    status, unreachable = run_virtual(main)

    assert status == 502
    assert "127.0.0.1:9" in unreachable[0]


@pytest.mark.parametrize("path", ["/v1/realtime", "/health"])
def test_no_other_host_is_contacted_wherever_the_server_points(path: str) -> None:
    contacted: list[str] = []

    async def elsewhere(request: web.Request) -> web.Response:
        contacted.append(request.path)
        return web.Response(text="here")

    async def main() -> int:
        async with odd(elsewhere, "/{any:.*}") as other:

            async def server(request: web.Request) -> web.Response:
                raise web.HTTPFound(other.replace("ws:", "http:"))

            async with (
                odd(server, "/{any:.*}") as url,
                proxied(url) as proxy,
                aiohttp.ClientSession() as http,
            ):
                headers = UPGRADE if path == "/v1/realtime" else {}
                async with http.get(proxy.http_url + path, headers=headers, allow_redirects=False) as answer:
                    return answer.status

    assert run_virtual(main) in (302, 502)
    assert contacted == []


def test_credentials_are_added_and_the_client_s_headers_and_query_pass() -> None:
    got: list[Any] = []

    async def server(request: web.Request) -> web.Response:
        got.append(
            (
                request.headers["Authorization"],
                request.headers.get("X-Mine"),
                request.rel_url.raw_query_string,
            )
        )
        return web.Response(status=403)

    async def main() -> str:
        async with (
            odd(server) as url,
            proxied(f"{url}?tenant=a", headers={"Authorization": "Bearer s3cret"}) as proxy,
            get(proxy.url + "?model=a%26b", {"X-Mine": "1"}),
        ):
            return repr(proxy.behind)

    told = run_virtual(main)

    assert got == [("Bearer s3cret", "1", "tenant=a&model=a%26b")]
    assert "s3cret" not in told


def test_more_connections_than_the_cap_wait_for_their_turn(serve: Any, bare: Any) -> None:
    async def main() -> int:
        async with serve(reply=REPLY) as server, proxied(server.url, max_sessions=1) as proxy:
            async with bare(proxy.url) as first:
                await first.open()
                second = asyncio.ensure_future(bare(proxy.url).__aenter__())
                await asyncio.sleep(1)
                open_now = len(server.connections)
            client = await second
            await client.__aexit__()
            assert len(server.connections) == 2
            return open_now

    assert run_virtual(main) == 1


@pytest.mark.parametrize("name", sorted(CANNOT_BE_PROXIED))
def test_a_fault_that_cannot_be_proxied_is_refused_with_its_reason(name: str) -> None:
    assert FAULTS[name].layer in (Layer.SESSION, Layer.RESPONSE)

    with pytest.raises(ValueError, match=CANNOT_BE_PROXIED[name]):
        ProxyServer(Behind("ws://127.0.0.1:1/v1/realtime"), faults=[FAULTS[name]()])


def test_a_client_that_closes_without_closing_its_session_leaves_none_behind(serve: Any, bare: Any) -> None:
    """A close frame alone would leave the session its slot for half a minute (protocol.md 12.1)."""

    async def main() -> Any:
        async with serve(reply=REPLY, profile="engine") as server, proxied(server.url) as proxy:
            async with bare(proxy.url) as client:
                await client.open()
                await client.socket.close(4000)
            await asyncio.sleep(1)
            return server, proxy, client

    server, proxy, client = run_virtual(main)

    assert server.journal.of("sent", "session.closed")
    assert proxy.unconfirmed == []
    assert "session.closed" not in client.names
    assert client.closed.rcvd.code == 1000


@pytest.mark.parametrize("profile", ["engine", "july"])
@pytest.mark.parametrize("fault", [None, NoSessionClosed(), NoSessionCreated()])
def test_a_client_s_close_frame_is_answered_although_a_fault_withheld_the_server_s(
    serve: Any, bare: Any, profile: str, fault: FaultBase | None
) -> None:
    async def main() -> Any:
        faults = [] if fault is None else [fault]
        async with (
            serve(profile=profile) as server,
            proxied(server.url, *faults) as proxy,
            bare(proxy.url) as client,
        ):
            await client.open()
            if fault is not None:
                await client.send("session.close")
                await asyncio.sleep(1)
            await client.socket.close(4321, "mine")
            await client.ended()
            return client.closed

    closed = run_virtual(main)
    assert closed.rcvd is not None
    assert closed.rcvd.code == (1000 if fault is None and profile == "engine" else 4321)  # its own came first


def test_a_client_whose_end_waits_behind_bytes_that_nobody_takes_is_seen_to_have_gone(
    serve: Any, bare: Any
) -> None:
    """Its FIN cannot get through: the socket on this side stays established."""
    stop = StopReading(on=On(received="session.heartbeat"), buffer_bytes=4096, proof="unread", attempt=1)

    async def main() -> Any:
        async with serve(reply=REPLY) as server, proxied(server.url, stop, max_sessions=1) as proxy:
            async with bare(proxy.url) as client:
                await client.open()
                await client.send("session.heartbeat")
                write = asyncio.ensure_future(client.append(frame_bytes=400_000))
                await asyncio.wait({write}, timeout=2)
                write.cancel()
            async with bare(proxy.url) as second:
                await asyncio.sleep(3)
                await second.open()
                await asyncio.sleep(1)
                return proxy, second.names

    proxy, names = run_virtual(main, allow_leaks=True)

    assert "session.created" in names
    assert proxy.unconfirmed == []


def test_a_client_that_gives_up_a_held_connection_frees_its_turn_and_its_session(
    serve: Any, bare: Any
) -> None:
    stop = StopReading(on=On(received="session.heartbeat"), buffer_bytes=4096, proof="unread", attempt=1)

    async def main() -> Any:
        async with serve(reply=REPLY) as server, proxied(server.url, stop, max_sessions=1) as proxy:
            async with bare(proxy.url) as client:
                await client.open()
                await client.send("session.heartbeat")
                await client.append()
            async with bare(proxy.url) as second:
                await asyncio.sleep(3)
                await second.open()
                await asyncio.sleep(1)
                return server, proxy, second.names

    server, proxy, names = run_virtual(main)

    assert "session.created" in names
    assert len(proxy.connections) == 2
    assert proxy.unconfirmed == []
    assert len(server.journal.of("sent", "session.closed")) == 2
