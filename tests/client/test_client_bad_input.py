"""What no server should send: the sample ends as the tables say, the oddity stands in its metadata (protocol.md 0, 14).

Named oddities over real sockets in virtual time; test_client_any_json.py has the unnamed ones.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from client import connection
from client.retry import request_sample
from client.run import RunSettings, run_samples
from conformance.clock import run_virtual

COMMIT = "input_audio_buffer.commit"


def outcome(kit: Any, on: dict[str, Any], *, reply: Any = None, seconds: float = 2.4, **changes: Any) -> Any:
    """(output, peer, seconds) of a sample against a peer with these handlers."""

    async def main() -> Any:
        loop = asyncio.get_running_loop()
        peer = kit.Peer(reply=reply, on=on)
        async with peer.running():
            began_s = loop.time()
            output = await request_sample(kit.clip(seconds), kit.settings(peer.url, **changes))
            return output, peer, loop.time() - began_s

    return run_virtual(main)


def said(output: Any) -> str:
    return " ".join(item["sentence"] for item in output.result.timed_sentences)


def raw(*frames: str | bytes) -> Any:
    """A handler that answers the commit with these frames between `committed` and a whole reply."""

    async def commit(session: Any, event: dict[str, Any]) -> None:
        await session.send("input_audio_buffer.committed", event={})
        for frame in frames:
            await session.ws.send(frame)
        await session.send("response.created", response_id="r")
        await session.send("response.audio_transcript.delta", response_id="r", delta="All well.")
        await session.send("response.done", response={"id": "r", "status": "completed"})

    return {COMMIT: commit}


SURVIVED: list[tuple[str, tuple[str | bytes, ...], dict[str, int]]] = [
    ("an array", ("[1, 2]",), {"unreadable_frame": 1}),
    ("a number", ("7",), {"unreadable_frame": 1}),
    ("a string", ('"session.closed"',), {"unreadable_frame": 1}),
    ("NaN", ('{"type": "session.closed", "x": NaN}',), {"unreadable_frame": 1}),
    ("no JSON", ("<html>502</html>", ""), {"unreadable_frame": 2}),
    ("binary", (b"\x00\x01",), {"binary_frame": 1}),
    ("a type that is a number", ('{"type": 5}',), {"unreadable_frame": 1}),
    ("too deep", ('{"type": "x", "a": ' + "[" * 5000 + "]" * 5000 + "}",), {"unreadable_frame": 1}),
    ("deep", ('{"type": "brand.new", "a": ' + "[" * 1000 + "]" * 1000 + "}",), {"unknown_event": 1}),
    ("an integer beyond 64 bits", ('{"type": "brand.new", "n": ' + "9" * 300 + "}",), {"unknown_event": 1}),
    ("a second session.created", ('{"type": "session.created"}',), {"session_created_twice": 1}),
    ("a done without id", ('{"type": "response.done"}',), {"response_done_without_id": 1}),
    (
        "a done of nobody's",
        ('{"type": "response.done", "response_id": "?"}',),
        {"done_of_unknown_response": 1},
    ),
    ("committed again", ('{"type": "input_audio_buffer.committed"}',), {"committed_twice": 1}),
    (
        "audio of a response never created",
        ('{"type": "response.audio.delta", "response_id": "?", "delta": "AAA="}',),
        {"delta_of_unknown_response": 1},
    ),
    (
        "numbers where text belongs",
        (
            '{"type": "response.audio_transcript.delta", "response_id": 4, "delta": 5}',
            '{"type": "response.created", "response_id": 4}',
            '{"type": "session.updated", "session": 9}',
        ),
        {"delta_of_unknown_response": 1, "text_without_data": 1, "response_without_id": 1},
    ),
    (
        "what is not known",
        ('{"type": "brand.new"}', '{"type": "response.speak", "response_id": "r", "mood": 1}'),
        {"unknown_event": 1, "unknown_field": 1},
    ),
]


@pytest.mark.parametrize(
    ("frames", "anomalies"), [row[1:] for row in SURVIVED], ids=[row[0] for row in SURVIVED]
)
def test_oddity_costs_nothing_and_stands_in_the_metadata(
    kit: Any, frames: tuple[str | bytes, ...], anomalies: dict[str, int]
) -> None:
    output, peer, took_s = outcome(kit, raw(*frames))

    assert output.success, output.error
    assert said(output) == "All well."
    assert output.result.metadata["anomalies"] == anomalies
    assert len(peer.sessions) == 1
    assert took_s < 6


def test_unknown_names_stand_in_the_metadata(kit: Any) -> None:
    output, _, _ = outcome(kit, raw('{"type": "brand.new"}', '{"type": "response.speak", "mood": 1}'))

    assert output.result.metadata["unknown"] == ["brand.new", "response.speak: mood"]


def test_two_terminal_events_end_a_reply_once_and_the_first_counts(kit: Any) -> None:
    done = {"type": "response.done", "response": {"id": "q", "status": "completed"}}
    frames = ['{"type": "response.created", "response_id": "q"}', json.dumps(done)]
    done["response"] = {"id": "q", "status": "failed"}

    output, _, _ = outcome(kit, raw(*frames, json.dumps(done)))

    assert output.success
    assert output.result.metadata["anomalies"] == {"response_done_twice": 1}


def test_reply_whose_only_done_has_no_id_is_a_lone_stall(kit: Any) -> None:
    async def commit(session: Any, event: dict[str, Any]) -> None:
        await session.send("input_audio_buffer.committed", event={})
        await session.send("response.created", response_id="r")
        await session.send("response.audio_transcript.delta", response_id="r", delta="Half")
        await session.send("response.done")

    output, peer, _ = outcome(kit, {COMMIT: commit})

    assert not output.success
    assert len(peer.sessions) == 2
    assert "open: r (0 deltas" in output.error
    assert output.result.metadata["anomalies"] == {"response_done_without_id": 1}


def test_events_before_session_created_are_told(kit: Any) -> None:
    async def update(session: Any, event: dict[str, Any]) -> None:
        await session.send("response.created", response_id="early")
        await session.send("response.audio_transcript.delta", response_id="early", delta="Soon.")
        await session.send("response.done", response={"id": "early"})
        await session.send("session.created")

    output, _, _ = outcome(kit, {"session.update": update}, reply=kit.Reply())

    assert output.success
    assert output.result.metadata["anomalies"] == {"event_before_session_created": 3}
    assert said(output) == "Soon. A cyclist passes."


def test_session_that_is_not_full_duplex_is_refused_before_the_clip_and_closed(kit: Any) -> None:
    async def update(session: Any, event: dict[str, Any]) -> None:
        capabilities = {"implementation_level": "serving_session_adapter", "chunk_period_ms": 1000}
        await session.send("session.created", session={"capabilities": capabilities})

    output, peer, _ = outcome(kit, {"session.update": update}, reply=kit.Reply())

    assert not output.success
    assert "implementation_level is 'serving_session_adapter'" in output.error
    assert "Traceback" not in output.error
    assert len(peer.sessions) == 1
    assert peer.sessions[0].names == ["session.update", "session.close"]


def test_ten_thousand_events_a_second_hold_nothing_up(kit: Any) -> None:
    async def flood(session: Any, event: dict[str, Any]) -> None:
        await session.unit()
        for k in range(10_000):
            await session.send("brand.new", event_id=f"e{session.units}-{k}")

    output, peer, took_s = outcome(
        kit, {"input_audio_buffer.append": flood}, reply=kit.Reply(at=0), seconds=3.0
    )

    assert output.success, output.error
    assert output.result.metadata["anomalies"]["unknown_event"] >= 30_000
    assert took_s < 8
    assert len(output.result.metadata["unknown"]) == 1
    assert len(peer.sessions) == 1


def padded(size: int) -> str:
    """A text frame of exactly `size` bytes that holds an unknown event."""
    head, tail = '{"type":"big","x":"', '"}'
    return head + "x" * (size - len(head) - len(tail)) + tail


@pytest.mark.parametrize(
    ("over", "fits"), [(-1, True), (0, True), (1, False)], ids=["just below", "at the limit", "just above"]
)
def test_frame_around_the_limit(kit: Any, monkeypatch: pytest.MonkeyPatch, over: int, fits: bool) -> None:
    limit = 1024 * 1024
    monkeypatch.setattr(connection, "MAX_FRAME_BYTES", limit)

    output, peer, took_s = outcome(kit, raw(padded(limit + over)))

    assert len(peer.sessions) == 1
    assert took_s < 6
    if fits:
        assert output.success
        assert output.result.metadata["anomalies"] == {"unknown_event": 1}
    else:
        assert not output.success
        assert "closed by this client with 1009" in output.error
        assert "Traceback" not in output.error
        assert output.result.close == "lost"


@pytest.mark.slow
@pytest.mark.parametrize("over", [0, 1])
def test_frame_of_64_mib(kit: Any, over: int) -> None:
    assert connection.MAX_FRAME_BYTES == 64 * 1024 * 1024

    output, _, _ = outcome(kit, raw(padded(connection.MAX_FRAME_BYTES + over)))

    assert output.success is (over == 0)


FATAL: list[tuple[str, list[str], str]] = [
    (
        "an error that is a string",
        ['{"type":"error","error":"out of memory","code":"oom"}'],
        "oom: out of memory",
    ),
    ("an error with a null code", ['{"type":"error","error":{"code":null,"message":"busy"}}'], "error: busy"),
    ("an error with numbers", ['{"type":"error","error":{"code":500,"message":12}}'], "500: 12"),
    ("an error with nothing", ['{"type":"error"}'], "error"),
    (
        "half a character in an error",
        ['{"type":"error","error":{"code":"c","message":"\\ud83d"}}'],
        "c: \ufffd",
    ),
    (
        "session.expired",
        ['{"type":"session.expired","reason":"idle_ttl_expired"}'],
        "session.expired (idle_ttl_exp",
    ),
    ("session.replaced", ['{"type":"session.replaced"}'], "session.replaced"),
    ("session.closed", ['{"type":"session.closed"}'], "session.closed by the server"),
]


@pytest.mark.parametrize(("frames", "told"), [row[1:] for row in FATAL], ids=[row[0] for row in FATAL])
def test_what_fails_a_sample_is_told_in_its_own_words_and_not_tried_again(
    kit: Any, frames: list[str], told: str
) -> None:
    output, peer, _ = outcome(kit, raw(*frames))

    assert not output.success
    assert told in output.error
    assert "Traceback" not in output.error
    assert len(peer.sessions) == 1


def test_failed_samples_leave_metadata_alone_and_never_an_answer(
    kit: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Evaluation.md 12.1, last row: also a sample that ended with an exception."""
    caplog.set_level(logging.CRITICAL)

    async def refuse(session: Any, event: dict[str, Any]) -> None:
        await session.send("error", error={"code": "bad", "message": "no"})

    async def silent(session: Any, event: dict[str, Any]) -> None: ...

    async def main(on: dict[str, Any], name: str, deferred: bool) -> Any:
        async with kit.Peer(on=on).running() as peer:
            settings = RunSettings(kit.settings(peer.url), tmp_path / name, defer_artifacts=deferred)
            return await run_samples([kit.clip(1.4)], settings)

    for name, on in (("error", {COMMIT: refuse}), ("no session", {"session.update": silent})):
        for deferred in (False, True):
            folder = f"{name} {deferred}"
            result = run_virtual(lambda on=on, folder=folder, deferred=deferred: main(on, folder, deferred))
            files = sorted(p.name for p in (tmp_path / folder / "RTD_Omni").iterdir())
            assert result.failed == 1
            assert files == ["1.meta.json"], folder
            metadata = json.loads((tmp_path / folder / "RTD_Omni" / "1.meta.json").read_text())
            assert (metadata["id"], metadata["split"]) == ("1", "RTD_Omni")
            assert metadata["response_done"] is False
            assert metadata["retry_count"] == (1 if name == "no session" else 0)


def test_audio_that_is_damaged_leaves_the_rest_whole(kit: Any) -> None:
    good, odd = base64.b64encode(bytes(48)).decode(), base64.b64encode(bytes(7)).decode()
    created = '{"type":"response.created","response_id":"q"}'
    deltas = [
        json.dumps({"type": "response.audio.delta", "response_id": "q", "delta": delta, **more})
        for delta, more in ((good, {}), (odd, {}), ("AA!A", {}), (good, {"sample_rate_hz": 8000}), (None, {}))
    ]
    done = '{"type":"response.done","response_id":"q"}'

    output, _, _ = outcome(kit, raw(created, *deltas, done))

    assert output.success
    assert output.result.audio_bytes == 48 + 6 + 48
    assert output.result.metadata["anomalies"] == {
        "audio_rate_changed": 1,
        "audio_without_data": 1,
        "damaged_base64": 1,
        "odd_audio_bytes": 1,
    }
