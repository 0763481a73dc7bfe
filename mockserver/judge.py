"""The judge: an OpenAI-compatible endpoint with a script, on a listener of its own (evaluation.md 16)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast
from urllib.parse import unquote

from aiohttp import web
from aiohttp.web_exceptions import HTTPRequestEntityTooLarge

from mockserver.doorway import forget_handlers
from mockserver.faults.judging import JudgeFaultRun
from mockserver.faults.mechanism import FaultReport
from mockserver.judge_answers import (
    Exhausted,
    Hold,
    HttpError,
    JudgeScript,
    ReplySpec,
    completion,
    error_body,
)
from mockserver.judge_faults import JudgeFaultSet, change, in_front
from mockserver.judge_ledger import JudgedSample, JudgeRequest, Ledger
from mockserver.judge_reading import Asked, Malformed, read_request
from mockserver.judge_strict import reask_violations, request_violations
from mockserver.judge_verdict import read_verdict
from scenarios.faults_base import FaultBase

MAX_BODY_BYTES = 64 * 1024 * 1024
"""A content request with 16 frames is a few megabytes; this is the bound, not the expectation."""
REQUEST_ID = "X-Client-Request-Id"
SHUTDOWN_S = 0.1
DUPLEX_MODEL = "openbmb/MiniCPM-o-4_5"
Event = Literal["asked", "answered", "fault"]

__all__ = ["JudgeServer", "JudgedSample"]


class JudgeServer:
    """A fake judge.

    Args:
        replies: the script; each entry answers as many requests as it says.
        fall_back: whether a request that no entry is left for gets a plausible verdict; otherwise it is answered
            with status 500, and the ledger says that the script was exhausted.
        again: as of `JudgeScript`.
        faults: those of the layer `judge`.
        samples: what may be judged, to tell whose request is read.
        model: the model it serves; requests for another are answered all the same, and noted.
        answers_after_s: model time of a reply, in seconds.
        host: address to listen on.
        port: 0 takes a free one.
        identify: (split, id) by the client's address; asked where the request carries no id of its own.
        sink: called with each thing that happens: `asked` (a request was read), `answered`, `fault` (one changed its
            state), and its data.
        keep: how many requests the ledger remembers, twice as many at most; None: all.
    Raises ValueError: a fault that the judge does not play.
    """

    def __init__(
        self,
        *,
        replies: Sequence[ReplySpec] = (),
        fall_back: bool = True,
        again: bool = False,
        faults: Sequence[FaultBase] = (),
        samples: Sequence[JudgedSample] = (),
        model: str = "judge-model",
        answers_after_s: float = 0.02,
        host: str = "127.0.0.1",
        port: int = 0,
        identify: Callable[[tuple[str, int]], tuple[str, str] | None] | None = None,
        sink: Callable[[str, Mapping[str, Any]], None] | None = None,
        keep: int | None = None,
    ) -> None:
        self._keep = keep
        self._made_of = samples, replies, (fall_back, again), faults
        self.reset()
        self.model = model
        self._answers_after_s = answers_after_s
        self._address = (host, port)
        self._identify = identify
        self._sink = sink
        self.listener: socket.socket | None = None
        """A bound socket to listen on, set before the start; None: one of its own, on `host` and `port`."""
        self._runner: web.AppRunner | None = None
        self._released: asyncio.Event | None = None

    def reset(self) -> None:
        """Be as after the start: nothing asked, nothing of the script used up, no fault acted."""
        samples, replies, (fall_back, again), faults = self._made_of
        self.ledger = Ledger(samples, self._keep)
        self.script = JudgeScript(replies, fall_back=fall_back, again=again)
        self._faults = JudgeFaultSet(faults, self._fault_changed)

    @property
    def url(self) -> str:
        """Base of the endpoints, as clients take it: it ends in `/v1`. Valid once started."""
        host, port = self._address
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"

    async def start(self) -> None:
        """Listen.

        Raises OSError: the address cannot be bound.
        """
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_post("/v1/chat/completions", self._completions)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/health", _health)
        self._released = asyncio.Event()
        # A client that gives up must end its handler: a stalled answer would else outlive the scenario.
        self._runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=SHUTDOWN_S, handle_signals=False, handler_cancellation=True
        )
        await self._runner.setup()
        listener = self.listener if self.listener is not None else self._bound()
        self._address = cast(tuple[str, int], listener.getsockname()[:2])
        await web.SockSite(self._runner, listener).start()

    def _bound(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self._address[0] else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(self._address)
            listener.setblocking(False)
        except BaseException:
            listener.close()
            raise
        return listener

    async def stop(self) -> None:
        """Answer what is held, stop listening; a second call does nothing."""
        runner, self._runner = self._runner, None
        if runner is None:
            return
        self.release_faults()
        await runner.cleanup()
        forget_handlers()

    def release_faults(self) -> None:
        """End every held answer, for good."""
        if self._released is not None:
            self._released.set()

    def fault_reports(self) -> list[FaultReport]:
        """What each fault did, in the scenario's order."""
        return [run.report() for run in self._faults.runs]

    # -- a request

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        entry = self.ledger.open(asyncio.get_running_loop().time())
        try:
            asked = read_request(await request.read())
        except (Malformed, HTTPRequestEntityTooLarge) as error:
            return await self._refuse(request, entry, error)
        hint, entry.beside = self._hint(request)
        before = self.ledger.place(entry, asked, hint)
        entry.violations += request_violations(asked, request.headers)
        entry.violations += reask_violations(asked, before)
        self._tell("asked", entry)
        taken = self._faults.take(entry)
        front = in_front(taken, entry)
        if front is not None:
            run, instead = front
            if isinstance(instead, HttpError):
                return await self._fail(request, entry, run, instead)
            await self._hold(entry, run, instead)
        return await self._answer(request, entry, asked, taken)

    async def _answer(
        self, request: web.Request, entry: JudgeRequest, asked: Asked, taken: Sequence[JudgeFaultRun]
    ) -> web.StreamResponse:
        try:
            answer = self.script.answer(entry, asked)
        except Exhausted as error:
            return await self._send(
                request, entry, HttpError(500, error_body(str(error), "script_exhausted"))
            )
        if self._answers_after_s:
            await asyncio.sleep(self._answers_after_s)
        biting = change(taken, answer, entry)
        entry.content, entry.finish_reason = answer.content, answer.finish_reason
        if not answer.odd_choices:
            assert entry.kind is not None, "a request that was placed has its kind"
            entry.verdict = read_verdict(entry.kind, answer.content, answer.finish_reason)
        response = await self._send(request, entry, HttpError(200, completion(entry, asked, answer)))
        for run in biting:
            entry.faults.append(run.name)
            run.observe(entry, sent=(answer.content or "")[:120], finish_reason=answer.finish_reason)
        self._tell("answered", entry)
        return response

    async def _fail(
        self, request: web.Request, entry: JudgeRequest, run: JudgeFaultRun, error: HttpError
    ) -> web.StreamResponse:
        entry.source = "fault"
        entry.faults.append(run.name)
        response = await self._send(request, entry, error)
        run.observe(entry, status=error.status)
        self._tell("answered", entry)
        return response

    async def _hold(self, entry: JudgeRequest, run: JudgeFaultRun, hold: Hold) -> None:
        """Wait as the fault says. That the client gave up meanwhile is the proof, and so is its patience."""
        assert self._released is not None
        entry.faults.append(run.name)
        loop = asyncio.get_running_loop()
        since_s = loop.time()
        try:
            async with asyncio.timeout(hold.delay_s):
                await self._released.wait()
        except TimeoutError:
            run.observe(entry, held_s=hold.delay_s)
            return
        except asyncio.CancelledError:
            entry.source = "fault"
            run.observe(entry, held_s=round(loop.time() - since_s, 6), ended="the client gave up")
            self._tell("answered", entry)
            raise
        held_s = round(loop.time() - since_s, 6)
        if held_s > 1:
            run.observe(entry, held_s=held_s, ended="the scenario ended")

    async def _refuse(
        self, request: web.Request, entry: JudgeRequest, error: Malformed | HTTPRequestEntityTooLarge
    ) -> web.StreamResponse:
        entry.source = "refused"
        self._tell("asked", entry)
        if isinstance(error, Malformed):
            answer = HttpError(400, error_body(str(error), param=error.param))
        else:
            answer = HttpError(413, error_body(f"the body is larger than {MAX_BODY_BYTES} bytes"))
        response = await self._send(request, entry, answer)
        self._tell("answered", entry)
        return response

    async def _send(self, request: web.Request, entry: JudgeRequest, answer: HttpError) -> web.StreamResponse:
        """Write an answer whole; `entry.status` is set once it is on its way."""
        response = web.Response(
            status=answer.status,
            body=answer.body,
            content_type=answer.content_type,
            headers=dict(answer.headers),
        )
        await response.prepare(request)
        await response.write_eof()
        entry.status = answer.status
        return response

    # -- around it

    def _hint(self, request: web.Request) -> tuple[tuple[str, str] | None, bool]:
        """(split, id) as the request's own id or the client's address says, and whether it is beside the score.

        `X-Client-Request-Id` is free text; `split/id/kind/...`, percent-encoded, is what our client sends.
        """
        parts = unquote(request.headers.get(REQUEST_ID, "")).split("/")
        if len(parts) > 2 and parts[0] and parts[1]:
            return (parts[0], parts[1]), parts[2].startswith("late-")
        transport = request.transport
        if self._identify is None or transport is None:
            return None, False
        return self._identify(cast(tuple[str, int], tuple(transport.get_extra_info("peername")[:2]))), False

    def _tell(self, event: Event, entry: JudgeRequest) -> None:
        if self._sink is not None:
            self._sink(event, entry.to_json())

    def _fault_changed(self, run: JudgeFaultRun) -> None:
        if self._sink is not None:
            data = {"name": run.name, "index": run.index, "state": run.state, **run.evidence}
            self._sink("fault", data)

    async def _models(self, request: web.Request) -> web.Response:
        models = [
            {"id": name, "object": "model", "created": 1785300000, "owned_by": "vllm", "root": name}
            for name in (self.model, DUPLEX_MODEL)
        ]
        return web.json_response({"object": "list", "data": models})


async def _health(request: web.Request) -> web.Response:
    return web.json_response({"status": "healthy"})
