"""A server that floods costs its own sample: what a session receives and keeps is bounded (evaluation.md 4.1)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from client import bounds
from client.retry import request_sample
from conformance.clock import run_virtual


async def text(session: Any, n: int) -> None:
    await session.send("response.audio_transcript.delta", delta="x" * 200)


async def response(session: Any, n: int) -> None:
    await session.send("response.created", response_id=f"r{n}")


async def error(session: Any, n: int) -> None:
    await session.send("error", error={"code": "e", "message": "x" * 1_000})


async def tiny(session: Any, n: int) -> None:
    await session.ws.send("")


async def ping(session: Any, n: int) -> None:
    await session.ws.ping(str(n))


async def pieces(session: Any, n: int) -> None:
    async def long() -> Any:
        for _ in range(400):
            yield "x"
            await asyncio.sleep(0)  # the client has its turn: a flood from memory never waits for one

    await session.ws.send(long())


FLOODS = [text, response, error, tiny, ping, pieces]


@pytest.mark.parametrize("flood", FLOODS)
def test_a_flood_ends_its_session_with_one_error_and_no_retry(
    kit: Any, monkeypatch: pytest.MonkeyPatch, flood: Callable[[Any, int], Awaitable[None]]
) -> None:
    monkeypatch.setattr(bounds, "MAX_SESSION_BYTES", 50_000)
    sent = 0

    async def appended(session: Any, event: dict[str, Any]) -> None:
        nonlocal sent
        while sent < 20_000:
            sent += 1
            await flood(session, sent)

    async def main() -> Any:
        peer = kit.Peer(on={"input_audio_buffer.append": appended})
        async with peer.running():
            return await request_sample(kit.clip(3.0), kit.settings(peer.url)), len(peer.sessions)

    output, sessions = run_virtual(main)

    assert not output.success
    assert sessions == 1
    assert "session too large: found " in output.error
    assert output.error.endswith("; allowed: 50000")
    assert output.metadata["error"] == output.error
    assert output.metadata["close"] == "forced"
    assert output.result is not None
    assert sum(len(item["sentence"]) for item in output.result.timed_sentences) < 50_000 // 256 + 200
