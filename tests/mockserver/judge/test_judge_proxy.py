"""The judge proxy: answers pass byte for byte, faults change them with proof, credentials are the proxy's own."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
from aiohttp import web

from conformance.clock import run_virtual
from mockserver.judge_proxy import JudgeProxy
from scenarios.faults_base import FaultBase
from scenarios.faults_judge import Prose

ASKED = {
    "model": "m",
    "temperature": 0.1,
    "max_tokens": 1200,
    "messages": [{"role": "user", "content": "Judge this. Answer with success_score."}],
}
VERDICT = b'{ "choices": [ {"message": {"content": "{\\"success_score\\": 1}"}, "finish_reason": "stop"} ] }'


def asked(
    *faults: FaultBase, status: int = 200, body: bytes = VERDICT, away: bool = False
) -> tuple[int, bytes, JudgeProxy, list[Any]]:
    """One request through the proxy, and what the judge behind it got."""
    got: list[Any] = []

    async def judge(request: web.Request) -> web.Response:
        got.append((request.headers["Authorization"], await request.json()))
        return web.Response(
            status=status, body=body, content_type="application/json", headers={"Retry-After": "7"}
        )

    async def main() -> tuple[int, bytes, JudgeProxy]:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", judge)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = 9 if away else runner.addresses[0][1]
        proxy = JudgeProxy(
            f"http://127.0.0.1:{port}/v1/chat/completions",
            headers={"Authorization": "Bearer theirs"},
            timeout_s=5.0,
            faults=faults,
        )
        await proxy.start()
        async with aiohttp.ClientSession() as http:
            headers = {"Authorization": "Bearer canary"}
            async with http.post(f"{proxy.url}/chat/completions", json=ASKED, headers=headers) as answer:
                found = answer.status, await answer.read(), proxy
        await proxy.stop()
        await runner.cleanup()
        await asyncio.sleep(0.1)
        return found

    return (*run_virtual(main), got)


def test_an_answer_passes_byte_for_byte_and_is_entered_with_its_verdict() -> None:
    status, body, proxy, got = asked()

    assert (status, body) == (200, VERDICT)
    assert got == [("Bearer theirs", ASKED)]
    (entry,) = proxy.ledger.entries
    assert entry.source == "behind"
    assert entry.content == '{"success_score": 1}'


def test_a_fault_changes_the_answer_and_proves_it() -> None:
    _, body, proxy, got = asked(Prose())

    assert b"success_score" not in body
    assert len(got) == 1
    assert [report.state for report in proxy.fault_reports()] == ["observed"]


def test_a_refusal_of_the_judge_keeps_its_status_and_its_pause() -> None:
    status, body, proxy, _ = asked(status=429, body=b"busy")

    assert (status, body) == (429, b"busy")
    assert proxy.ledger.entries[0].status == 429


def test_a_judge_that_is_away_is_a_bad_gateway() -> None:
    status, body, _, _ = asked(away=True)

    assert status == 502
    assert b"judge_away" in body
