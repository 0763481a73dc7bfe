"""The request around the attempts: timeouts, retries, latency, diagnostics (evaluation.md 14, 15)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from client.retry import ATTEMPT, request_sample
from conformance.clock import VirtualLoop, run_virtual

COMMIT = "input_audio_buffer.commit"
APPEND = "input_audio_buffer.append"


async def nothing(session: Any, event: dict[str, Any]) -> None:
    """Read and say nothing."""


def request(
    kit: Any,
    *,
    settings: dict[str, Any] | None = None,
    small: bool = False,
    seconds: float = 2.4,
    **peer: Any,
) -> Any:
    """(output, peer, diagnostics, seconds) of one sample."""
    diagnostics: list[dict[str, Any]] = []
    loop = VirtualLoop()
    if small:
        loop.client_sndbuf_bytes = 4096
        peer["rcvbuf"] = 4096

    async def main() -> Any:
        server = kit.Peer(**peer)
        async with server.running():
            began_s = loop.time()
            output = await request_sample(
                kit.clip(seconds),
                kit.settings(server.url, **(settings or {})),
                on_failed_attempt=lambda **facts: diagnostics.append(facts),
            )
            return output, server, diagnostics, loop.time() - began_s

    return run_virtual(main, loop=loop)


def test_clean_sample_records_no_retry_and_no_diagnostics(kit: Any) -> None:
    output, _peer, diagnostics, took_s = request(kit)

    assert (output.success, output.attempts, output.retry_count, output.error) == (True, 1, 0, "")
    assert output.result.metadata["retry_count"] == 0
    assert diagnostics == []
    assert output.latency_s == pytest.approx(took_s)


def frozen_once() -> dict[str, Any]:
    """The first session freezes after the commit; the second is sound."""
    calls: list[int] = []

    async def commit(session: Any, event: dict[str, Any]) -> None:
        if session.number > 1:
            await session.send("input_audio_buffer.committed", event={})
            await session.send("response.created", response_id="r2")
            await session.send("response.audio_transcript.delta", response_id="r2", delta="Second.")
            await session.send("response.done", response={"id": "r2"})
            return
        calls.append(1)
        await session.send("input_audio_buffer.committed", event={})
        await session.send("response.created", response_id="r1")
        await session.send("response.audio_transcript.delta", response_id="r1", delta="The kettle ")

    return {COMMIT: commit, APPEND: nothing}


def test_lone_stall_is_retried_once_on_a_fresh_connection(kit: Any) -> None:
    output, peer, diagnostics, _ = request(kit, on=frozen_once())

    assert output.success
    assert len(peer.sessions) == output.attempts == 2
    assert output.retry_count == output.result.metadata["retry_count"] == 1
    assert [item["sentence"] for item in output.result.timed_sentences] == ["Second."]
    assert output.latency_s < 10
    assert output.started_s > 1100
    (first,) = diagnostics
    assert (first["attempt"], first["row"], first["action"], first["phase"]) == (1, 6, "retry", "closing")
    assert first["partial_text"] == "The kettle"
    assert first["open_responses"] == ["r1 (0 deltas, 0 ms)"]
    assert first["timeouts"]["drain"] == first["reason"]
    assert first["last_events"]
    assert first["deadlines"][0]["what"] == "drain"


def test_always_stalling_server_sees_exactly_two_sessions(kit: Any) -> None:
    output, peer, diagnostics, _ = request(kit, on={COMMIT: nothing, APPEND: nothing})

    assert len(peer.sessions) == 2
    assert not output.success
    assert output.error.startswith("drain: 122.4 s passed")
    assert [d["row"] for d in diagnostics] == [6, 16]
    assert output.result.metadata["retry_count"] == 1


def test_server_error_beside_a_stall_is_not_retried(kit: Any) -> None:
    async def commit(session: Any, event: dict[str, Any]) -> None:
        await session.send("error", error={"code": "engine_error", "message": "drain: 122.4 s passed"})

    output, peer, _, _ = request(kit, on={COMMIT: commit, APPEND: nothing})

    assert len(peer.sessions) == 1
    assert output.result.server_errors == ["engine_error: drain: 122.4 s passed"]
    assert output.error.startswith("engine_error: ")


def test_failed_response_beside_a_stall_is_not_retried(kit: Any) -> None:
    async def commit(session: Any, event: dict[str, Any]) -> None:
        await session.send("response.created", response_id="r1")
        await session.send("response.done", response={"id": "r1", "status": "failed"})

    output, peer, _, _ = request(kit, on={COMMIT: commit, APPEND: nothing})

    assert len(peer.sessions) == 1
    assert "response r1 ended failed" in output.error


def test_stall_cancelled_by_our_close_stays_a_lone_stall(kit: Any) -> None:
    async def commit(session: Any, event: dict[str, Any]) -> None:
        await session.send("input_audio_buffer.committed", event={})
        await session.send("response.created", response_id="r1")

    async def close(session: Any, event: dict[str, Any]) -> None:
        details = {"type": "cancelled", "reason": "session_close"}
        await session.send(
            "response.done", response={"id": "r1", "status": "cancelled", "status_details": details}
        )
        await session.send("session.closed", event={})

    output, peer, _, _ = request(
        kit, reply=None, on={COMMIT: commit, APPEND: nothing, "session.close": close}
    )

    assert len(peer.sessions) == 2
    assert output.error == output.result.drain_timeout


def test_silent_handshake_is_an_inner_timeout_named_at_20_s(
    kit: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        output, peer, diagnostics, _ = request(kit, on={"session.update": nothing})

    assert len(peer.sessions) == 2
    assert output.result is None
    assert output.retry_count == 1
    assert "session.created: 20.0 s passed" in output.error
    assert "per-request" not in caplog.text
    assert "RTD_Omni/1: attempt 1 stalled" in caplog.text
    assert [d["row"] for d in diagnostics] == [13, 16]
    assert "DeadlineExceeded" in diagnostics[0]["traceback"]


def test_request_deadline_is_retried_once_and_named(kit: Any, caplog: pytest.LogCaptureFixture) -> None:
    output, peer, diagnostics, took_s = request(
        kit, on={COMMIT: nothing}, settings={"deadlines": {"request_s": 30.0}}
    )

    assert len(peer.sessions) == 2
    assert output.error.startswith("per-request timeout: request: 30.0 s passed")
    assert [d["row"] for d in diagnostics] == [12, 16]
    assert diagnostics[0]["phase"] == "forcing"
    assert took_s < 2 * 30 + 65
    assert all("session.close" not in s.names for s in peer.sessions)


def test_refused_connection_is_one_attempt_with_its_text_first(kit: Any) -> None:
    diagnostics: list[dict[str, Any]] = []

    async def main() -> Any:
        return await request_sample(
            kit.clip(1.0),
            kit.settings("ws://127.0.0.1:9/v1/realtime"),
            on_failed_attempt=lambda **facts: diagnostics.append(facts),
        )

    output = run_virtual(main)

    assert (output.attempts, output.success, output.result) == (1, False, None)
    assert output.error.startswith("ConnectionRefusedError: ")
    assert "\n" not in output.error
    assert diagnostics[0]["row"] == 14
    assert "Traceback" in diagnostics[0]["traceback"]
    assert diagnostics[0]["close"] == "none"


def test_refused_upgrade_is_one_attempt(kit: Any) -> None:
    async def main() -> Any:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            return await request_sample(kit.clip(1.0), kit.settings(f"ws://127.0.0.1:{port}"))

    output = run_virtual(main)

    assert output.attempts == 1
    assert "401" in output.error


def test_upgrade_that_never_comes_is_bounded_and_retried(kit: Any) -> None:
    accepted: list[int] = []

    async def main() -> Any:
        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accepted.append(1)
            await reader.read()
            writer.close()

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            return await request_sample(kit.clip(1.0), kit.settings(f"ws://127.0.0.1:{port}"))

    output = run_virtual(main)

    assert len(accepted) == 2
    assert "connect: 20.0 s passed" in output.error


def test_peer_without_pongs_is_row_14_with_its_text(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def commit(session: Any, event: dict[str, Any]) -> None:
        session.ws.protocol.recv_ping = None
        session.ws.transport.pause_reading()
        await session.send("input_audio_buffer.committed", event={})
        await session.send("response.created", response_id="r1")
        await session.send("response.audio_transcript.delta", response_id="r1", delta="The kettle ")
        await asyncio.sleep(200)

    output, _peer, diagnostics, took_s = request(kit, reply=None, on={COMMIT: commit})

    assert output.attempts == 1
    assert output.error == "ConnectionLost: keep-alive: no pong for 20 s (1011)"
    assert diagnostics[0]["row"] == 14
    assert diagnostics[0]["partial_text"] == "The kettle"
    assert took_s < 60


def test_write_stuck_while_streaming_is_a_lone_stall_with_evidence(kit: Any) -> None:
    async def stop(session: Any, event: dict[str, Any]) -> None:
        if len(session.of(APPEND)) == 2:
            session.ws.transport.pause_reading()
            await session.stop_reading()

    output, peer, diagnostics, took_s = request(kit, small=True, seconds=8.0, reply=None, on={APPEND: stop})

    assert len(peer.sessions) == 2
    assert output.result.stream_timeout.startswith("input_audio_buffer.append: 30.0 s passed")
    assert output.result.metadata["stream_timeout"] == output.result.stream_timeout
    assert [d["row"] for d in diagnostics] == [7, 16]
    assert diagnostics[0]["socket_evidence"]["verdict"] == "peer stopped reading"
    assert "the peer stopped reading" in diagnostics[0]["deadlines"][0]["evidence"]
    assert took_s < 2 * (8 + 30 + 5 + 65)


@pytest.mark.parametrize("after_s", [0.5, 30.0, 125.0, 140.0])
def test_outer_cancellation_propagates_with_no_task_left(kit: Any, after_s: float) -> None:
    async def main() -> Any:
        async with kit.Peer(on={COMMIT: nothing, "session.close": nothing}).running() as peer:
            task = asyncio.create_task(request_sample(kit.clip(2.4), kit.settings(peer.url)))
            await asyncio.sleep(after_s)
            task.cancel()
            await asyncio.wait([task])
            return task.cancelled(), len(peer.sessions)

    assert run_virtual(main) == (True, 1)


def test_attempt_is_known_before_its_connection_is_made(kit: Any) -> None:
    seen: list[Any] = []
    loop = VirtualLoop()
    loop.on_connect = lambda sock: seen.append(ATTEMPT.get())

    async def main() -> None:
        async with kit.Peer(on={"session.update": nothing}).running() as peer:
            await request_sample(kit.clip(1.0, sample_id="610"), kit.settings(peer.url))

    run_virtual(main, loop=loop)

    assert seen == [("RTD_Omni", "610", 1), ("RTD_Omni", "610", 2)]


def test_full_disk_does_not_cost_the_retry(kit: Any, caplog: pytest.LogCaptureFixture) -> None:
    def full(**facts: Any) -> None:
        raise OSError(28, "No space left on device")

    async def main() -> Any:
        async with kit.Peer(on=frozen_once()).running() as peer:
            return await request_sample(kit.clip(2.4), kit.settings(peer.url), on_failed_attempt=full)

    assert run_virtual(main).success
    assert "attempt diagnostics not written" in caplog.text


def test_credentials_reach_neither_error_nor_diagnostics(kit: Any) -> None:
    async def refuse(session: Any, event: dict[str, Any]) -> None:
        header = session.ws.request.headers["Authorization"]
        await session.send("error", error={"code": "unauthorized", "message": f"bad credentials {header}"})

    headers = {"headers": {"Authorization": "Bearer sk-verysecret"}}
    output, _, diagnostics, _ = request(kit, on={"session.update": refuse}, settings=headers)

    assert "unauthorized: bad credentials ***" in output.error
    assert "verysecret" not in repr(output)
    assert "verysecret" not in repr(diagnostics)


def test_a_key_in_the_reason_of_a_close_frame_is_not_told(kit: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def refuse(session: Any, event: dict[str, Any]) -> None:
        await session.ws.close(1008, "unknown key sk-verysecret")

    headers = {"headers": {"Authorization": "Bearer sk-verysecret"}}
    output, *_ = request(kit, on={"input_audio_buffer.append": refuse}, settings=headers)

    assert "closed by the peer with 1008 (unknown key ***)" in output.metadata["close_error"]
    assert "verysecret" not in repr(output.metadata) + output.error + caplog.text + repr(output.result)


def test_steps_are_told_in_order(kit: Any) -> None:
    steps: list[tuple[str, Any]] = []

    async def main() -> None:
        async with kit.Peer().running() as peer:
            await request_sample(
                kit.clip(2.4),
                kit.settings(peer.url),
                observer=lambda step, fields: steps.append((step, dict(fields))),
            )

    run_virtual(main)

    assert next(step for step, _ in steps) == "attempt_started"
    assert [step for step, _ in steps][-1] == "attempt_ended"
    phases = [fields["name"] for step, fields in steps if step == "phase"]
    assert phases == [
        "configuring",
        "streaming",
        "committed",
        "draining",
        "settled",
        "pad_join",
        "ack_join",
        "final_ack",
        "closing",
    ]
    assert all(fields["split"] == "RTD_Omni" for _, fields in steps)
