"""The control API: JSON over HTTP beside a running server, to look at it and to arm faults.

| request | answer |
|---|---|
| `GET /control/state` | profile, sessions, connections, faults with what became of them |
| `GET /control/journal?since=N&limit=M` | lines of the journal after a number |
| `POST /control/faults` | arms one fault, written as in a scenario's `faults` |
| `DELETE /control/faults/ID` | disarms it |
| `POST /control/reset` | as after the start |

Errors are `{"error": {"message": …, "problems": […]}}`, with the status 400, 401, 403, 404, 408, 409 or 413.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

import orjson
from aiohttp import web

from mockserver.app import MockServer
from mockserver.arming import provable
from mockserver.connection_info import ConnectionInfo
from mockserver.control_guard import Guard
from mockserver.faults import FAULTS
from mockserver.journal_ring import JournalRing
from scenarios.errors import ScenarioError, shown
from scenarios.faults import FaultBase, Layer
from scenarios.loader import read_fault

MAX_BODY_BYTES = 64 * 1024
BODY_WITHIN_S = 10.0
"""A request that has not sent its body by then is given up."""
MAX_TOLD_CONNECTIONS = 100
"""The state tells the last ones."""
MAX_LIMIT = 1_000
"""Lines of the journal in one answer."""

_Handler = Callable[[web.Request], Awaitable[Any]]


class ApiError(Exception):
    """What is wrong with a request, and the status that says so."""

    def __init__(self, status: int, message: str, problems: list[str] | None = None) -> None:
        super().__init__(message)
        self.status, self.problems = status, problems


class ControlApi:
    """Serves `/control` on a server's own port.

    Args:
        server: not yet started.
        ring: the journal's last lines.
        guard: who may.
        on_reset: what else is set back.
    """

    def __init__(
        self, server: MockServer, ring: JournalRing, guard: Guard, on_reset: Callable[[], None] = lambda: None
    ) -> None:
        self._server = server
        self._ring = ring
        self._guard = guard
        self._on_reset = on_reset
        self._resetting = asyncio.Lock()
        server.routes += [
            web.get("/control/state", self._guarded(self._state)),
            web.get("/control/journal", self._guarded(self._journal)),
            web.post("/control/faults", self._guarded(self._arm)),
            web.delete("/control/faults/{id}", self._guarded(self._disarm)),
            web.post("/control/reset", self._guarded(self._reset)),
            web.route("*", "/control{rest:(/.*)?}", self._guarded(_unknown)),
        ]

    def _guarded(self, handler: _Handler) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def guarded(request: web.Request) -> web.StreamResponse:
            denied = self._guard.denied(request.headers)
            if denied is not None:
                return _error(denied.status, denied.reason)
            try:
                told = await handler(request)
            except ApiError as error:
                return _error(error.status, str(error), error.problems)
            except ScenarioError as error:
                return _error(400, "no fault as a scenario has it", [str(p) for p in error.problems])
            return _json(200, told if isinstance(told, bytes) else orjson.dumps(told, default=str))

        return guarded

    async def _state(self, request: web.Request) -> dict[str, Any]:
        server = self._server
        now_s = asyncio.get_running_loop().time()
        profile = server.profile
        return {
            "url": server.url,
            "profile": {
                "name": profile.name,
                "dialect": profile.dialect.letter,
                "continuation": profile.continuation,
                "pace": asdict(profile.pace),
                "deltas_per_unit": profile.deltas_per_unit,
                "listens_in_padding": profile.listens_in_padding,
                "metrics": list(profile.metrics),
            },
            "seed": server.seed,
            "now_s": round(now_s, 3),
            "sessions": {
                "accepted": server.accepted,
                "open": len(server.open),
                "max_sessions": server.slots.limit,
                "slots_in_use": server.slots.in_use(now_s),
            },
            "connections": [self._connection(info) for info in server.connections[-MAX_TOLD_CONNECTIONS:]],
            "faults": [self._fault(index) for index in range(len(server.armed.specs))],
            "journal": {"oldest": self._ring.oldest, "last": self._ring.last},
        }

    def _connection(self, info: ConnectionInfo) -> dict[str, Any]:
        told: dict[str, Any] = {
            "connection": info.number,
            "session_id": info.session_id,
            "opened_s": round(info.opened_s, 3),
            "ended_s": None if info.ended_s is None else round(info.ended_s, 3),
            "ended_by": info.ended_by,
            "how": info.how,
            "units": info.units,
            "received": dict(info.received),
            "sent": dict(info.sent),
        }
        if info.number in self._server.open:
            session = self._server.open[info.number][1]
            told["state"] = session.state
            told["response_id"] = session.response.id if session.response is not None else None
        else:
            told |= {"state": "closed", "response_id": None}
        return told

    def _fault(self, index: int) -> dict[str, Any]:
        armed = self._server.armed
        runs = [run.report() for run in armed.runs if run.index == index]
        return {
            "id": index,
            "fault": _written(armed.specs[index]),
            "from": "scenario" if armed.is_scripted(index) else "control",
            "armed": index not in armed.disarmed,
            "runs": [
                {"connection": run.connection, "state": run.state, "evidence": dict(run.evidence)}
                for run in runs[-MAX_TOLD_CONNECTIONS:]
            ],
        }

    async def _journal(self, request: web.Request) -> bytes:
        since = _number(request, "since", 0, 2**53)
        return self._ring.since(since, _number(request, "limit", 100, MAX_LIMIT))

    async def _arm(self, request: web.Request) -> dict[str, Any]:
        spec = provable(read_fault(await _body(request), "request"))
        if spec.layer is Layer.SEAM:
            raise ApiError(409, f"{spec.name} acts on a client in the same process; a server cannot play it")
        if spec.name not in FAULTS:
            raise ApiError(409, f"{spec.name} is a fault of the {spec.layer}; give it in a scenario")
        if spec.sample is not None:
            raise ApiError(
                409, "sample: this server cannot tell whose connection it is; use connection or attempt"
            )
        try:
            index = self._server.arm(spec)
        except ValueError as error:
            raise ApiError(409, str(error)) from None
        self._note("fault-armed", {"id": index, "fault": _written(spec)})
        return self._fault(index)

    async def _disarm(self, request: web.Request) -> dict[str, Any]:
        named = request.match_info["id"]
        if not named.isascii() or not named.isdecimal() or len(named) > 9:
            raise ApiError(404, f"no fault {named[:40]!r}; a fault's id is a number")
        try:
            self._server.disarm(int(named))
        except ValueError as error:
            raise ApiError(404, str(error)) from None
        self._note("fault-disarmed", {"id": int(named)})
        return self._fault(int(named))

    async def _reset(self, request: web.Request) -> dict[str, Any]:
        async with self._resetting:
            await self._server.reset()
            self._on_reset()
            self._note("reset", {})
        return await self._state(request)

    def _note(self, name: str, data: dict[str, Any]) -> None:
        self._server.journal.add(asyncio.get_running_loop().time(), 0, "control", name, data)


def _written(spec: FaultBase) -> dict[str, Any]:
    """A fault as it is written in a scenario, without what was left to its default."""
    return {spec.name: spec.model_dump(mode="json", exclude_unset=True)}


def _number(request: web.Request, name: str, default: int, most: int) -> int:
    text = request.query.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdecimal() or len(text) > 16 or int(text) > most:
        raise ApiError(400, f"{name}: {shown(text)}; a whole number from 0 to {most}")
    return int(text)


async def _body(request: web.Request) -> Any:
    """The JSON of a body, within bounds of size and time."""
    if request.content_length is not None and request.content_length > MAX_BODY_BYTES:
        raise ApiError(413, f"a body of {request.content_length} bytes; at most {MAX_BODY_BYTES} are read")
    body = b""
    try:
        async with asyncio.timeout(BODY_WITHIN_S):
            while len(body) <= MAX_BODY_BYTES and (piece := await request.content.readany()):
                body += piece
    except TimeoutError:
        raise ApiError(408, f"the body was not there within {BODY_WITHIN_S:g} s") from None
    if len(body) > MAX_BODY_BYTES:
        raise ApiError(413, f"a longer body; at most {MAX_BODY_BYTES} bytes are read")
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ApiError(400, f"not JSON: {error}") from None


async def _unknown(request: web.Request) -> None:
    allowed = "state, journal, faults, reset (see docs/serve.md)"
    raise ApiError(404, f"nothing answers {request.method} {shown(request.path)}; there are {allowed}")


def _error(status: int, message: str, problems: list[str] | None = None) -> web.Response:
    error: dict[str, Any] = {"message": message}
    if problems:
        error["problems"] = problems
    response = _json(status, orjson.dumps({"error": error}))
    if status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    if status in (408, 413):
        response.force_close()  # what is left of the body is not read
    return response


def _json(status: int, body: bytes) -> web.Response:
    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return web.Response(body=body + b"\n", status=status, content_type="application/json", headers=headers)
