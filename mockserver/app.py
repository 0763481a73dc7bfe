"""The server: aiohttp in front of scripted sessions, on a port of its own (protocol.md 1, 2)."""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import cast

from aiohttp import web

from mockserver.admission import Slots
from mockserver.arming import Armed, in_scope, make_listener, refit
from mockserver.connection import Connection
from mockserver.connection_info import ConnectionInfo
from mockserver.doorway import Doorway, forget_handlers, wanting_key
from mockserver.faults import FaultReport, FaultRun, FaultSet, acts_on_upgrade, check_played, make_fault
from mockserver.incoming import Upgraded
from mockserver.journal import Journal
from mockserver.profiles import PROFILES, Profile
from mockserver.replies import ReplySpec
from mockserver.session import ServerSession
from mockserver.upgrading import HeldUpgrade, ask_faults
from scenarios.faults import FaultBase

MODEL = "openbmb/MiniCPM-o-4_5"
BACKLOG = 1024
"""Connections that the kernel may hold until they are accepted."""
SHUTDOWN_S = 0.1
"""Handlers have ended before aiohttp is asked to shut down; it waits this long twice for one that has not."""

LINGER_S = 1.0
"""For so long the rest of a refused body is read away, so that its sender can read the answer."""

Identify = Callable[[tuple[str, int]], tuple[str, str, int] | None]

__all__ = ["ConnectionInfo", "MockServer"]


class MockServer:
    """A fake full-duplex server.

    Args:
        profile: a name of `mockserver.profiles.PROFILES`, or a profile of one's own.
        replies: what the scripted model says, the same in every session.
        faults: each connection gets fresh runs of those in whose scope it is.
        seed: of all ids; the same seed and the same client give the same journal.
        decision_ms: model time a unit takes, unless the profile's pace has a real-time factor.
        host: address to listen on.
        port: 0 takes a free one.
        max_sessions: sessions at a time; None: as the profile says.
        identify: (split, id, attempt) of a connection by the client's address; None where it cannot tell.
        journal: where entries go; a new one where None.
        listener: a bound socket to listen on, for clients in another network namespace; its buffers are its owner's
            affair. Closed with the server. None: one of its own, on `host` and `port`.
        keep_connections: how many connections are remembered, twice as many at most; None: all.
        tls: certificate and key, for wss and https.
        api_key: wanted as a bearer token on every path but /health and the control API's.
    Raises ValueError: unknown profile, or a fault that the server does not play.
    """

    def __init__(
        self,
        *,
        profile: str | Profile,
        replies: Sequence[ReplySpec],
        faults: Sequence[FaultBase] = (),
        seed: int = 0,
        decision_ms: int = 50,
        host: str = "127.0.0.1",
        port: int = 0,
        max_sessions: int | None = None,
        identify: Identify | None = None,
        journal: Journal | None = None,
        listener: socket.socket | None = None,
        keep_connections: int | None = None,
        tls: ssl.SSLContext | None = None,
        api_key: str | None = None,
    ) -> None:
        if isinstance(profile, str):
            if profile not in PROFILES:
                raise ValueError(f"unknown profile {profile!r}; known: {', '.join(sorted(PROFILES))}")
            profile = PROFILES[profile]
        for spec in faults:
            check_played(spec, tls=tls is not None)
        self.profile = profile
        self.journal = journal if journal is not None else Journal()
        self.connections: list[ConnectionInfo] = []
        """Of all connections since the start or the last reset, or of the last ones."""
        self.accepted = 0
        self.open: dict[int, tuple[Connection, ServerSession]] = {}
        """By number."""
        self.routes: list[web.RouteDef] = []
        """What else is served on the same port; read at the start."""
        self._keep = keep_connections
        self._replies = replies
        self.armed = Armed(faults, seed, self.journal)
        self.seed = seed
        self._decision_s = decision_ms / 1000
        self._address = (host, port)
        self._given = listener
        self._tls = tls
        self._api_key = api_key
        self._identify = identify
        limit = max_sessions if max_sessions is not None else self.profile.max_sessions
        self.slots = Slots(limit, self.profile.disconnect_grace_s)
        self._runner: web.AppRunner | None = None
        self._site: asyncio.Server | None = None
        self._doorway: Doorway | None = None
        self._listener: socket.socket | None = None
        self._live: dict[Connection | HeldUpgrade, asyncio.Task[None]] = {}
        self._closing = False

    @property
    def url(self) -> str:
        """Of the realtime endpoint, without a query; valid once started."""
        return f"ws{'s' if self._tls else ''}://{self._host_and_port}/v1/realtime"

    @property
    def fault_runs(self) -> list[FaultRun]:
        """Of every connection so far."""
        return self.armed.runs

    @property
    def http_url(self) -> str:
        """Of the HTTP endpoints, without a path; valid once started."""
        return f"http{'s' if self._tls else ''}://{self._host_and_port}"

    async def start(self) -> None:
        """Listen.

        Raises OSError: the address cannot be bound.
        """
        self._doorway = doorway = Doorway()
        keys = [] if self._api_key is None else [wanting_key(self._api_key)]
        app = web.Application(middlewares=[doorway.middleware(), *keys])
        app.router.add_get("/v1/realtime", self._realtime)
        if not self.profile.dialect.query_must_opt_in:  # another vocabulary before N (protocol.md 1.1)
            app.router.add_get("/v1/duplex", self._realtime)
        app.router.add_get("/health", _health)
        app.router.add_get("/v1/models", _models)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_routes(self.routes)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            shutdown_timeout=SHUTDOWN_S,
            handle_signals=False,
            lingering_time=LINGER_S,
        )
        await self._runner.setup()
        self._listener = listener = self._given or make_listener(self._address, self.armed.specs)
        self._address = cast(tuple[str, int], listener.getsockname()[:2])
        assert self._runner.server is not None
        doorway.make = self._runner.server
        self._site = await asyncio.get_running_loop().create_server(
            doorway, sock=listener, backlog=BACKLOG, ssl=self._tls
        )

    def abort(self) -> None:
        """Drop every connection."""
        for held in list(self._live):
            held.abort()

    async def stop(self) -> None:
        """Drop every connection, stop listening; a second call does nothing."""
        runner, self._runner = self._runner, None
        if runner is None:
            return
        if self._site is not None and self._doorway is not None:
            self._site.close()
            self._doorway.close()
        self.abort()
        if self._live:
            await asyncio.wait(list(self._live.values()), timeout=1.0)
        await runner.cleanup()
        forget_handlers()

    async def shut_down(self, grace_s: float) -> None:
        """Take nobody any more, end every session as a server does that goes away (protocol.md 10.2), and stop.

        Args:
            grace_s: for how long clients may take to leave.
        """
        if self._site is not None:
            self._site.close()
        await self._end_sessions(grace_s)
        await self.stop()

    async def reset(self, grace_s: float = 1.0) -> None:
        """Be as after the start: sessions ended, connections numbered from 1, the faults those from the start."""
        await self._end_sessions(grace_s)
        self.armed.reset()
        self._refit()
        self.connections.clear()
        self.accepted = 0
        self.slots = Slots(self.slots.limit, self.slots.grace_s)
        self.journal.renumber()
        self._closing = False

    def arm(self, spec: FaultBase) -> int:
        """Arm a fault on connections from here on, or at once on the open one that it names (`connection`).

        Returns: its position among all faults.
        Raises ValueError: the server does not play it, there are too many, or its connection is over.
        """
        check_played(spec, tls=self._tls is not None)
        number = spec.connection
        if number is None or number not in self.open:
            if number is not None and number <= self.accepted:
                held = any(run.connection == number for run in self._holding)
                raise ValueError(f"connection {number} {'waits for its upgrade' if held else 'is over'}")
            index = self.armed.arm(spec)
            self._refit()
            return index
        connection, session = self.open[number]
        if acts_on_upgrade(spec):
            raise ValueError(f"{spec.name} acts on the upgrade, which connection {number} has behind it")
        if not in_scope(spec, connection.info):
            raise ValueError(f"connection {number} is attempt {connection.info.attempt}, not {spec.attempt}")
        now_s = asyncio.get_running_loop().time()
        index = self.armed.arm(spec)
        run = self.armed.onto(
            index,
            connection.info,
            _who(connection.info),
            lambda s, chance: make_fault(s, session, chance),
            now_s,
        )
        connection.act([], connection.faults.join(run, now_s))
        return index

    def disarm(self, index: int) -> None:
        """A fault is over, also where it acts now; what it did stays in the reports.

        Raises ValueError: no such fault is armed.
        """
        now_s = asyncio.get_running_loop().time()
        for run in self.armed.disarm(index):
            if run.connection in self.open:
                self.open[run.connection][0].end_fault(run)
            else:
                run.end(now_s)  # its upgrade is still to be answered
                if run in self._holding:
                    self._holding[run].release()
        self._refit()

    def release_faults(self) -> None:
        """Read every socket again and end every scripted wait, for good."""
        for connection in list(self._live):
            connection.release()

    def fault_reports(self) -> list[FaultReport]:
        """What each fault did on each connection in its scope; without a connection where there was none."""
        return self.armed.reports()

    # -- inside

    def _refit(self) -> None:
        if self._listener is not None:
            refit(self._listener, self.armed.standing)

    @property
    def _holding(self) -> dict[FaultRun, HeldUpgrade]:
        """Faults that keep an upgrade waiting."""
        return {held.run: held for held in self._live if isinstance(held, HeldUpgrade)}

    async def _end_sessions(self, grace_s: float) -> None:
        self._closing = True
        now_s = asyncio.get_running_loop().time()
        for connection, session in list(self.open.values()):
            connection.release()
            connection.act(session.shut_down(now_s))
        for grace in (grace_s, 1.0):
            if self._live:
                await asyncio.wait(list(self._live.values()), timeout=grace)
            self.abort()

    @property
    def _host_and_port(self) -> str:
        host, port = self._address
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def _realtime(self, request: web.Request) -> web.StreamResponse:
        # No compression: protocol.md 1.3 leaves it open, and it would cost most of the time.
        websocket = Upgraded()
        if not websocket.can_prepare(request):
            await websocket.prepare(request)  # no upgrade: raises what it is answered with
        transport = request.transport
        if transport is None:
            return web.Response(status=400)  # gone already
        if self._closing:
            return web.Response(status=503, text="the server is going away\n")
        info, session, faults = self._accepted(transport, request)
        answer = await ask_faults(transport, info, faults, self.journal, self._live)
        if answer is not None:
            return answer
        try:
            await websocket.prepare(request)
        except ConnectionResetError:  # gone before its upgrade was answered
            info.ended_s, info.ended_by, info.how = asyncio.get_running_loop().time(), "client", "rst"
            return web.Response(status=400)  # aiohttp finds the connection gone and lets it be
        connection = Connection(
            websocket, transport, info=info, session=session, faults=faults, journal=self.journal
        )
        task = cast("asyncio.Task[None]", asyncio.current_task())
        self._live[connection] = task
        self.open[info.number] = connection, session
        try:
            await connection.run()
        finally:
            del self._live[connection]
            self.open.pop(info.number, None)
        return websocket

    def _accepted(
        self, transport: asyncio.Transport, request: web.Request
    ) -> tuple[ConnectionInfo, ServerSession, FaultSet]:
        loop = asyncio.get_running_loop()
        self.accepted += 1
        number = self.accepted
        peer = cast(tuple[str, int], tuple(transport.get_extra_info("peername")[:2]))
        known = self._identify(peer) if self._identify is not None else None
        info = ConnectionInfo(
            number,
            sample=known[:2] if known else None,
            attempt=known[2] if known else number,
            query=dict(request.query),
            opened_s=loop.time(),
        )
        self.connections.append(info)
        if self._keep is not None and len(self.connections) >= 2 * self._keep:
            del self.connections[: -self._keep]
            self.armed.forget(self.connections[0].number)
        who = _who(info)
        session = ServerSession(
            self.profile,
            self._replies,
            query=info.query,
            # by sample and attempt, so that the order in which connections arrive does not change anybody's ids
            ids=random.Random(f"{self.seed}/{who}"),
            decision_s=self._decision_s,
            slots=self.slots,
            chance=random.Random(f"{self.seed}/{who}/pace") if self.profile.pace.jitter_ms else None,
        )
        faults = self.armed.for_connection(info, who, lambda spec, chance: make_fault(spec, session, chance))
        return info, session, faults

    async def _metrics(self, request: web.Request) -> web.Response:
        lines = (
            "# HELP duplex_sessions_total Connections accepted.",
            "# TYPE duplex_sessions_total counter",
            f"duplex_sessions_total {self.accepted}",
        )
        return web.Response(text="\n".join(lines) + "\n", content_type="text/plain")


def _who(info: ConnectionInfo) -> str:
    """Sample and attempt, or the connection; seeds all its chance."""
    return f"{info.sample[0]}/{info.sample[1]}#{info.attempt}" if info.sample else str(info.number)


async def _health(request: web.Request) -> web.Response:
    return web.json_response({"status": "healthy"})


async def _models(request: web.Request) -> web.Response:
    model = {
        "id": MODEL,
        "object": "model",
        "created": 1785300000,
        "owned_by": "vllm",
        "root": MODEL,
        "parent": None,
        "max_model_len": 8192,
        "permission": [],
    }
    return web.json_response({"object": "list", "data": [model]})
