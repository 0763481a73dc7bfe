"""A judge on a real socket that plays a script of HTTP answers, and what tests of the judge client need beside it."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from client.clips import StillClip
from client.judge.errors import JudgeError
from client.judge.http import JudgeHttp
from client.judge.judge import Judge, Question, user_message
from client.judge.settings import JudgeSettings
from client.judge.subject import Sentence, Subject
from client.judge.trace import Trace, read_trace
from client.media import Frame
from conformance.clock import run_virtual


@dataclass
class Exchange:
    """One HTTP answer: a status, headers and a body, after `wait_s`."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    wait_s: float = 0.0
    drop: bool = False
    """End the connection instead."""


def completion(content: Any, finish_reason: str | None = "stop", **message: Any) -> Exchange:
    """An answer with one choice."""
    choice = {"index": 0, "message": {"role": "assistant", "content": content, **message}}
    return Exchange(
        {"choices": [choice if finish_reason is None else {**choice, "finish_reason": finish_reason}]}
    )


class ScriptedJudge:
    """Answers requests in the order of its script; the last entry repeats."""

    def __init__(self, *script: Exchange | Callable[[dict[str, Any]], Exchange]) -> None:
        self.script = script
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.times: list[float] = []
        self.url = ""
        self.released = asyncio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[ScriptedJudge]:
        app = web.Application(client_max_size=64 << 20)
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            self.released.set()
            await asyncio.sleep(0.01)
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.requests.append(body)
        self.headers.append(dict(request.headers) | {"path": request.path})
        self.times.append(asyncio.get_running_loop().time())
        entry = self.script[min(len(self.requests), len(self.script)) - 1]
        exchange = entry if isinstance(entry, Exchange) else entry(body)
        if exchange.wait_s:
            released = asyncio.ensure_future(self.released.wait())
            await asyncio.wait([released], timeout=exchange.wait_s)
            released.cancel()
        if exchange.drop:
            assert request.transport is not None
            request.transport.abort()
        text = exchange.body if isinstance(exchange.body, str) else json.dumps(exchange.body)
        return web.Response(status=exchange.status, text=text, headers=exchange.headers)


@dataclass
class Bench:
    """A folder, and short ways to judge in it."""

    folder: Path
    Exchange: type[Exchange] = Exchange
    ScriptedJudge: type[ScriptedJudge] = ScriptedJudge
    settings: JudgeSettings = field(
        default_factory=lambda: JudgeSettings("http://127.0.0.1:9", "judge-model", timeout_s=30.0)
    )

    def completion(self, content: Any, finish_reason: str | None = "stop", **message: Any) -> Exchange:
        return completion(content, finish_reason, **message)

    @property
    def trace(self) -> list[dict[str, Any]]:
        return read_trace(self.folder / "1.judge.jsonl")

    def question(self, kind: Any = "chat", **more: Any) -> Question:
        return Question(kind, (user_message("Was it named?"),), **more)

    def subject(self, family: Any = "rtd", task: Any = None, **more: Any) -> Subject:
        stills = tuple(Frame(float(t), b"\xff\xd8" + bytes([t])) for t in range(12))
        base = Subject(
            "RTD_Omni", "1", family, task, "What happens?", ("A cyclist.", ""), (), 12.0, StillClip(stills)
        )
        return replace(base, **more)

    def sentences(self, *spans: tuple[float, float]) -> list[Sentence]:
        return [Sentence(f"Sentence {k}.", start, end) for k, (start, end) in enumerate(spans)]

    def run(self, peer: ScriptedJudge, job: Callable[[Judge], Any], **changes: Any) -> Any:
        """Start the peer and do a job with a judge of sample RTD_Omni/1, in virtual time."""

        async def main() -> Any:
            async with peer.running():
                settings = replace(self.settings, base_url=peer.url, **changes)
                async with JudgeHttp(settings, random.Random(7)) as http:
                    return await job(Judge("RTD_Omni/1", http, Trace(self.folder / "1.judge.jsonl")))

        return run_virtual(main)

    def ask(self, script: Sequence[Any], kind: Any = "chat", **changes: Any) -> tuple[Any, ScriptedJudge]:
        """The verdict on one question, or the error; and the peer."""
        peer = ScriptedJudge(*script)

        async def job(judge: Judge) -> Any:
            try:
                return await judge.judge(self.question(kind))
            except JudgeError as error:
                return error

        return self.run(peer, job, **changes), peer


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A bench in a fresh folder."""
    return Bench(tmp_path)
