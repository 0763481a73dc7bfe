"""OpenAI's own Python SDK holds a session in the GA dialect, on the wall clock (protocol.md 0, dialect N; 17)."""

from __future__ import annotations

import asyncio
import base64
from collections import Counter
from typing import Any

import pytest

from mockserver.app import MockServer
from scenarios.model import Reply

TEXT = "A cyclist passes. Another one follows."
UNIT = base64.b64encode(b"\x00\x20\x00\xe0" * 8_000).decode()
"""A second of sound, 16 kHz."""
SESSION: dict[str, Any] = {
    "type": "realtime",
    "output_modalities": ["audio"],
    "audio": {
        "input": {"format": {"type": "audio/pcm", "rate": 16_000}, "turn_detection": None},
        "output": {"format": {"type": "audio/pcm", "rate": 24_000}},
    },
    "ref_audio": "data:audio/wav;base64,UklGRiQAAABXQVZF",
    "extra_body": {"auto_response": True},
}


async def held(server: MockServer) -> tuple[list[Any], Any]:
    """One session: two units, a commit, the reply to its end, a close. Everything that came, and how it ended."""
    from openai import AsyncOpenAI  # a second to import: nobody else pays for it
    from websockets import ConnectionClosed

    client = AsyncOpenAI(
        api_key="not-a-key",
        base_url=f"{server.http_url}/v1",
        websocket_base_url=server.url.removesuffix("/realtime"),
    )
    events: list[Any] = []
    async with client.realtime.connect(
        model="openbmb/MiniCPM-o-4_5",
        extra_query={"duplex": "1", "autostart": "0"},
        websocket_connection_options={"proxy": None, "compression": None},
    ) as connection:
        await connection.session.update(session=SESSION)
        for _ in range(2):
            await connection.input_audio_buffer.append(audio=UNIT)
        await connection.input_audio_buffer.commit()
        async for event in connection:
            events.append(event)
            if event.type == "response.done":
                await connection.send({"type": "session.close"})
        try:
            await connection.recv()
        except ConnectionClosed as closed:
            return events, closed
    raise AssertionError("the connection goes on after its end")


@pytest.mark.real
@pytest.mark.asyncio
async def test_the_openai_sdk_holds_a_session() -> None:
    server = MockServer(
        profile="engine",
        replies=[Reply(starts_at_unit=1, units=1, text=TEXT, audio_ms=480)],
        decision_ms=5,
        seed=1,
    )
    await server.start()
    try:
        events, closed = await asyncio.wait_for(held(server), 20)
        # The SDK's own types hold what came, not just their names.
        kinds = {event.type: type(event).__name__ for event in events}
        assert kinds["response.output_audio.delta"] == "ResponseAudioDeltaEvent"
        assert kinds["response.output_audio_transcript.delta"] == "ResponseAudioTranscriptDeltaEvent"
        assert kinds["response.done"] == "ResponseDoneEvent"
        count = Counter(event.type for event in events)
        assert count["response.created"] == count["response.done"] == count["session.closed"] == 1
        assert events[0].type == "session.created"
        assert events[0].session.id.startswith("duplex-")
        spoken = [e.delta for e in events if e.type == "response.output_audio_transcript.delta"]
        assert "".join(spoken) == TEXT
        audio = b"".join(base64.b64decode(e.delta) for e in events if e.type == "response.output_audio.delta")
        assert len(audio) == 480 * 48
        done = next(e.response for e in events if e.type == "response.done")
        assert done.status == "completed"
        assert done.output[0].content[0].transcript == TEXT
        assert events[-1].type == "session.closed"
        assert (closed.rcvd.code, closed.rcvd.reason) == (1000, "client_close")
        violations = [entry.name for entry in server.journal.of("violation")]
        assert violations == []
    finally:
        await server.stop()
