"""The same faults in the path to a live server: frames go through untouched, what is scripted happens here.

The client speaks to a loopback port of this process; the proxy speaks to the one server it was given, with TLS and
credentials of its own. Both directions are journaled as the mock journals them, and every fault proves that it bit.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

import aiohttp
from aiohttp import web

from mockserver.app import SHUTDOWN_S, Identify
from mockserver.arming import Armed, make_listener
from mockserver.connection_info import ConnectionInfo
from mockserver.faults import Fault, FaultReport, FaultRun, check_played, make_fault
from mockserver.incoming import Upgraded
from mockserver.journal import Journal
from mockserver.profiles import Dialect
from mockserver.relay import Relay
from mockserver.relayed import RelayedConnection
from mockserver.seen import Seen
from mockserver.tolerant import Tolerant
from mockserver.upgrading import HeldUpgrade, ask_faults
from mockserver.upstream import (
    CLOSED_WITHIN_S,
    ENDED_WITHIN_S,
    MAX_FRAME_BYTES,
    Behind,
    Tape,
    Unreachable,
    Upstream,
    connect,
    make_http,
)
from scenarios.faults import FaultBase

CANNOT_BE_PROXIED: Mapping[str, str] = {
    "journal_overflow": "the server's own numbers cannot be taken away from the path to it",
    "freeze_tail": "the server's own silence cannot be switched off from the path to it",
    "extra_reply_in_padding": "a reply cannot be put into the model's mouth from the path to it",
    "listen_per_padded_unit": "which unit the server decides is not on the wire",
}
"""Faults of the server that a proxy cannot play, and why; it plays all others."""
MSS_BYTES = 1460
"""Of connections that a fault is to stall: a program of others then blocks within a dozen units, not forty."""
NO_CAPACITY = 503
"""With which an upgrade is refused for want of a slot."""
FULL = -1
"""In the place of a status: nobody was asked, for the server is known to be full."""
HOP_BY_HOP = frozenset(
    {"host", "connection", "upgrade", "keep-alive", "transfer-encoding", "content-length", "te", "trailer"}
)
"""Headers that belong to one connection (RFC 9110 7.6.1)."""


class Turn:
    """One of the sessions that may be open at a time; given back when the server's session is over, once."""

    def __init__(self, turns: asyncio.Semaphore | None) -> None:
        self._turns = turns
        self._taken = False

    async def take(self) -> None:
        """Wait for it."""
        if self._turns is not None:
            await self._turns.acquire()
            self._taken = True

    def give_back(self) -> None:
        """Another one may have it."""
        if self._taken and self._turns is not None:
            self._taken = False
            self._turns.release()


class ProxyServer:
    """A proxy in front of one server, with the surface of `mockserver.app.MockServer`.

    Args:
        behind: the server.
        faults: each connection gets fresh runs of those in whose scope it is.
        seed: of injected ids and of all chance.
        dialect: of the server, where known; otherwise its spelling tells.
        max_sessions: connections to the server at a time; more wait for their turn.
        identify: (split, id, attempt) of a connection by the client's address.
        journal: where entries go.
        tape: keeps every session.
        drop_headers: of the client, in lower case, that are not passed on.
        once_full: a server that had no slot is not asked again: whoever comes then gets 503 from here.
    Raises ValueError: a fault that a proxy cannot play.
    """

    def __init__(
        self,
        behind: Behind,
        *,
        faults: Sequence[FaultBase] = (),
        seed: int = 0,
        dialect: Dialect | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        max_sessions: int | None = None,
        identify: Identify | None = None,
        journal: Journal | None = None,
        tape: Tape | None = None,
        drop_headers: frozenset[str] = frozenset(),
        once_full: bool = False,
    ) -> None:
        for spec in faults:
            check_played(spec)
            if spec.name in CANNOT_BE_PROXIED:
                raise ValueError(f"a proxy cannot play {spec.name}: {CANNOT_BE_PROXIED[spec.name]}")
        self.journal = journal if journal is not None else Journal()
        self.connections: list[ConnectionInfo] = []
        self.seen: dict[int, Seen] = {}
        """What the server did, by the connection's number, before any fault."""
        self.unreachable: list[str] = []
        """Why the server could not be reached, each time."""
        self.statuses: list[int] = []
        """HTTP statuses with which it refused an upgrade."""
        self.behind = behind
        self._armed = Armed(faults, seed, self.journal)
        self._seed = seed
        self._dialect = dialect
        self._address = (host, port)
        self._turns = asyncio.Semaphore(max_sessions) if max_sessions is not None else None
        self._identify = identify
        self._tape = tape
        self._dropped = HOP_BY_HOP | drop_headers
        self._once_full = once_full
        self._stopping = False
        self._runner: web.AppRunner | None = None
        self._http: aiohttp.ClientSession | None = None
        self._live: dict[RelayedConnection | HeldUpgrade, asyncio.Task[None]] = {}
        self._upstreams: set[Upstream] = set()

    @property
    def url(self) -> str:
        """Of the realtime endpoint, without a query; valid once started."""
        return f"ws://{self._host_and_port}/v1/realtime"

    @property
    def http_url(self) -> str:
        """Of the HTTP endpoints, without a path; valid once started."""
        return f"http://{self._host_and_port}"

    @property
    def fault_runs(self) -> list[FaultRun]:
        """Of every connection so far."""
        return self._armed.runs

    async def start(self) -> None:
        """Listen; the server behind is contacted when a client comes.

        Raises OSError: the address cannot be bound.
        """
        self._http = make_http(self.behind)
        app = web.Application()
        app.router.add_get("/v1/realtime", self._realtime)
        app.router.add_get("/{path:.*}", self._passed_on)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_S, handle_signals=False)
        try:
            await self._runner.setup()
            listener = make_listener(self._address, self._armed.specs, mss_bytes=MSS_BYTES)
            self._address = cast(tuple[str, int], listener.getsockname()[:2])
            await web.SockSite(self._runner, listener).start()
        except BaseException:
            await self._http.close()
            raise

    async def stop(self) -> None:
        """End every session on the server, drop every connection, stop listening; a second call does nothing."""
        runner, self._runner = self._runner, None
        if runner is None:
            return
        self._stopping = True
        for connection in list(self._live):
            connection.abort()
        if self._live:
            await asyncio.wait(list(self._live.values()), timeout=CLOSED_WITHIN_S + ENDED_WITHIN_S + 1.0)
        for upstream in list(self._upstreams):
            upstream.abort()
        await runner.cleanup()
        if self._http is not None:
            await self._http.close()

    def release_faults(self) -> None:
        """Read every socket again and end every scripted wait, for good."""
        for connection in list(self._live):
            connection.release()

    def fault_reports(self) -> list[FaultReport]:
        """What each fault did on each connection in its scope; without a connection where there was none."""
        for run in self._armed.runs:
            if isinstance(run.fault, Tolerant) and run.fault.odd is not None and run.state != "observed":
                run.evidence.setdefault("event", run.fault.odd["event"])
                run.evidence.setdefault("missing", run.fault.odd["missing"])
        return self._armed.reports()

    @property
    def unconfirmed(self) -> list[str]:
        """Ids of sessions whose end the server has not confirmed: it may still count their slots."""
        return [seen.session_id for seen in self.seen.values() if seen.holds_slot]

    @property
    def no_slot(self) -> list[str]:
        """Each session, or upgrade, that the server refused for want of a slot, in its words."""
        upgrades = [f"the upgrade is answered with HTTP {s}" for s in self.statuses if s == NO_CAPACITY]
        return [seen.no_slot for seen in self.seen.values() if seen.no_slot] + upgrades

    # -- inside

    @property
    def _host_and_port(self) -> str:
        host, port = self._address
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def _passed_on(self, request: web.Request) -> web.Response:
        """A GET of anything else, such as /health."""
        assert self._http is not None
        url = self.behind.http_url.join(request.rel_url)
        try:
            async with self._http.get(url, allow_redirects=False) as answer:
                body = await answer.content.read(MAX_FRAME_BYTES)
                return web.Response(status=answer.status, body=body, content_type=answer.content_type)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return web.Response(status=502, text=f"{type(error).__name__}: {error}")

    async def _realtime(self, request: web.Request) -> web.StreamResponse:
        websocket = Upgraded()
        if not websocket.can_prepare(request):
            await websocket.prepare(request)  # no upgrade: raises what it is answered with
        transport = request.transport
        if transport is None or self._stopping:
            return web.Response(status=503, text="the proxy is stopping")
        return await self._relay(request, transport, websocket)

    async def _relay(
        self, request: web.Request, transport: asyncio.Transport, websocket: Upgraded
    ) -> web.StreamResponse:
        info, who = self._accepted(transport, request)
        upstreams: list[Upstream] = []
        relay = Relay(
            query=info.query,
            ids=random.Random(f"{self._seed}/{who}"),
            forward=lambda payload, kind: upstreams[0].forward(payload, kind),
            lost=lambda: upstreams[0].client_lost(),
            opened_s=info.opened_s,
            dialect=self._dialect,
        )
        self.seen[info.number] = relay.seen
        faults = self._armed.for_connection(info, who, lambda spec, chance: _tolerant(spec, relay, chance))
        answer = await ask_faults(transport, info, faults, self.journal, self._live)
        if answer is not None:
            return answer
        turn = Turn(self._turns)
        await turn.take()
        try:
            if transport.is_closing():
                turn.give_back()
                return self._gone(info, websocket)  # it has not waited for its turn
            peer = await self._reached(request)
        except Unreachable as error:
            turn.give_back()
            return self._refused(info, error)
        relay.seen.reached = True
        upstream = Upstream(peer, info.number, self._tape, over=turn.give_back)
        upstreams.append(upstream)
        self._upstreams.add(upstream)
        if self._tape is not None:
            self._tape.opened(info.number, request.path_qs, info.opened_s)
        try:
            try:
                await websocket.prepare(request)
            except ConnectionResetError:
                return self._gone(info, websocket)
            connection = RelayedConnection(
                websocket,
                transport,
                info=info,
                session=relay,
                faults=faults,
                journal=self.journal,
                peer_frame=upstream.client_frame,
            )
            upstream.begin(relay, connection)
            self._live[connection] = cast("asyncio.Task[None]", asyncio.current_task())
            try:
                await connection.run()
                await upstream.finished()
            finally:
                del self._live[connection]
        finally:
            await upstream.dismiss()
            turn.give_back()
            self._upstreams.discard(upstream)
        return websocket

    async def _reached(self, request: web.Request) -> aiohttp.ClientWebSocketResponse[Literal[False]]:
        if self._once_full and self.no_slot:
            raise Unreachable("it had no free slot before, and is not asked again", FULL)
        assert self._http is not None
        return await connect(self._http, self.behind, request.rel_url.raw_query_string, self._own(request))

    def _own(self, request: web.Request) -> dict[str, str]:
        """The client's headers that are for the server."""
        return {
            name: value
            for name, value in request.headers.items()
            if name.lower() not in self._dropped and not name.lower().startswith("sec-websocket-")
        }

    def _accepted(self, transport: asyncio.Transport, request: web.Request) -> tuple[ConnectionInfo, str]:
        number = len(self.connections) + 1
        peer = cast(tuple[str, int], tuple(transport.get_extra_info("peername")[:2]))
        known = self._identify(peer) if self._identify is not None else None
        info = ConnectionInfo(
            number,
            sample=known[:2] if known else None,
            attempt=known[2] if known else number,
            query=dict(request.query),
            opened_s=asyncio.get_running_loop().time(),
        )
        self.connections.append(info)
        return info, f"{known[0]}/{known[1]}#{known[2]}" if known else str(number)

    def _gone(self, info: ConnectionInfo, websocket: Upgraded) -> Upgraded:
        """The client left before the upgrade was answered."""
        info.ended_by, info.how = "client", "fin"
        info.ended_s = asyncio.get_running_loop().time()
        self.journal.add(info.ended_s, info.number, "end", "end", {"by": "client", "how": "fin"})
        return websocket

    def _refused(self, info: ConnectionInfo, error: Unreachable) -> web.Response:
        """The server's own refusal is passed on; where there was no answer, this is a bad gateway."""
        if error.status is None:
            self.unreachable.append(str(error))
        elif error.status != FULL:
            self.statuses.append(error.status)
        info.ended_by, info.how = "server", "refused"
        info.ended_s = asyncio.get_running_loop().time()
        self.journal.add(info.ended_s, info.number, "end", "end", {"by": "server", "how": "refused"})
        response = web.Response(
            status=NO_CAPACITY if error.status == FULL else error.status or 502,
            text=f"the server behind: {error}",
        )
        response.force_close()
        return response


def _tolerant(spec: FaultBase, relay: Relay, chance: random.Random) -> Fault:
    # Faults look at ids, dialect, the open reply and the commits, which the relay has by the same names.
    fault = Tolerant(make_fault(spec, cast(Any, relay), chance))
    fault.session, fault.chance = cast(Any, relay), chance
    return fault
