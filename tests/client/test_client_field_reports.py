"""Sessions of public bug reports, played against the shipped client (the handed folder `cases`).

A case says what became of the sample: completed; failed (one attempt); stalled (no completed reply, at most one retry).
"""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import struct
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from client.retry import RequestOutput, request_sample
from conformance.clock import VirtualLoop, run_virtual

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "field_reports.json"
KINDS = ("event_sequence", "transport")


def load() -> list[Any]:
    """The cases as parameters; one that skips with the reason where the folder is absent."""
    if not CASES.is_file():
        reason = f"{CASES.parent} (handed data beside the project) is not here"
        return [pytest.param(None, id="absent", marks=pytest.mark.skip(reason=reason))]
    cases = json.loads(CASES.read_text("utf-8"))
    return [pytest.param(case, id=case["id"]) for case in cases if case["kind"] in KINDS]


class Player:
    """A server that plays the steps of one case on every connection."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.steps = case["input"]["steps"]
        self.case_id = case["id"]
        self.received: list[list[str]] = []
        self.close_codes: list[int | None] = []
        self.released = asyncio.Event()

    async def serve(self, ws: ServerConnection) -> None:
        names: list[str] = []
        self.received.append(names)
        changed = asyncio.Event()
        limit = next((step for step in self.steps if "on_message_over_bytes" in step), None)
        reader = asyncio.create_task(self.read(ws, names, changed, limit))
        try:
            for step in self.steps:
                await self.play(ws, step, names, changed, reader)
            await self.decide_residual(ws, names)
            await asyncio.wait(
                [reader, asyncio.create_task(self.released.wait())], return_when=asyncio.FIRST_COMPLETED
            )
        except ConnectionClosed:
            pass
        finally:
            reader.cancel()
            await asyncio.wait([reader])
            self.close_codes.append(ws.protocol.close_rcvd.code if ws.protocol.close_rcvd else None)

    async def read(
        self, ws: ServerConnection, names: list[str], changed: asyncio.Event, limit: dict[str, Any] | None
    ) -> None:
        try:
            async for text in ws:
                names.append(json.loads(text)["type"])
                changed.set()
                if limit is not None and len(text) > limit["on_message_over_bytes"]:
                    await ws.close(limit["close"]["code"], limit["close"]["reason"])
        except ConnectionClosed:
            pass
        finally:
            names.append("(end)")
            changed.set()

    async def wait_for(self, step: dict[str, Any], names: list[str], changed: asyncio.Event) -> None:
        wanted = step.get("count", 1) + (names.count(step["wait_for"]) if step.get("fresh") else 0)
        until_s = asyncio.get_running_loop().time() + (1.0 if step.get("optional") else 300.0)
        while names.count(step["wait_for"]) < wanted and "(end)" not in names:
            left_s = until_s - asyncio.get_running_loop().time()
            if left_s <= 0:
                return
            changed.clear()
            waiter = asyncio.create_task(changed.wait())
            await asyncio.wait([waiter], timeout=left_s)
            waiter.cancel()

    async def play(
        self,
        ws: ServerConnection,
        step: dict[str, Any],
        names: list[str],
        changed: asyncio.Event,
        reader: Any,
    ) -> None:
        if "wait_for" in step:
            if step["wait_for"] == "session.close":
                await self.decide_residual(ws, names)
            await self.wait_for(step, names, changed)
        elif "send" in step:
            await ws.send(json.dumps(step["send"]))
        elif "send_text" in step:
            await ws.send(step["send_text"])
        elif "send_raw_b64" in step:
            ws.transport.write(base64.b64decode(step["send_raw_b64"]))
        elif "sleep_ms" in step:
            await asyncio.sleep(step["sleep_ms"] / 1000)
        elif "close" in step and "on_message_over_bytes" not in step:
            await ws.close(step["close"]["code"], step["close"]["reason"])
        elif "stop_reading" in step or "no_pong" in step:
            reader.cancel()
            ws.transport.pause_reading()
        elif "rst" in step:
            sock = ws.transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            ws.transport.abort()
        elif "fin" in step:
            ws.transport.write_eof()
        elif "keep_open_s" in step or "silence_s" in step:
            await asyncio.wait(
                [asyncio.create_task(self.released.wait())],
                timeout=step.get("keep_open_s", step.get("silence_s")),
            )

    async def decide_residual(self, ws: ServerConnection, names: list[str]) -> None:
        """Adapted: the servers of two reports know no units; here the residual of the commit is decided."""
        if self.case_id in ("fr15-ack-after-commit", "fr17-reply-before-commit"):
            await ws.send(
                json.dumps({"type": "response.listen", "response": {"metadata": {"model_listen": True}}})
            )


def played(case: dict[str, Any], kit: Any) -> tuple[RequestOutput, Player, list[dict[str, Any]], float]:
    """What the client makes of a case: output, player, attempt diagnostics, seconds of the sample."""
    small = "rcvbuf_bytes" in case["input"]
    loop = VirtualLoop()
    loop.client_sndbuf_bytes = 4096 if small else None
    diagnostics: list[dict[str, Any]] = []

    async def main() -> Any:
        player = Player(case)
        listener = socket.socket()
        if small:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, case["input"]["rcvbuf_bytes"])
        listener.bind(("127.0.0.1", 0))
        async with serve(player.serve, sock=listener, compression=None, ping_interval=None, close_timeout=1):
            told = case["input"].get("clip", {})
            jpeg_bytes = max(2_000, (told.get("bytes_per_unit_hint", 0) - 43_000) * 3 // 4)
            clip = kit.clip(told.get("seconds", 3.0), jpeg_bytes=jpeg_bytes)
            settings = kit.settings(f"ws://127.0.0.1:{listener.getsockname()[1]}/v1/realtime")
            output = await request_sample(
                clip, settings, on_failed_attempt=lambda **facts: diagnostics.append(facts)
            )
            player.released.set()
        return output, player, diagnostics

    output, player, attempts = run_virtual(main, loop=loop, allow_leaks=True)
    return output, player, attempts, output.latency_s


@pytest.mark.shared_data
@pytest.mark.parametrize("case", load())
def test_field_report(case: dict[str, Any], kit: Any) -> None:
    checks = case["checks"]
    output, player, diagnostics, _ = played(case, kit)

    assert output.attempts <= 1 + checks.get("retries_allowed", 1)
    if "sample" in checks:
        assert output.success is (checks["sample"] == "completed"), output.error
    if not output.success:
        assert output.error
        assert len(diagnostics) == output.attempts
    if "transcript" in checks and output.success:
        assert " ".join(item["sentence"] for item in output.result.timed_sentences) == checks["transcript"]
    if "audio_samples" in checks:
        assert output.result.audio_bytes // 2 == checks["audio_samples"]
    if "server_errors" in checks:
        assert len(output.result.server_errors) == checks["server_errors"]
    if "anomalies" in checks:
        assert sum(output.result.metadata["anomalies"].values()) == checks["anomalies"]
    if "reason_contains" in checks:
        assert checks["reason_contains"] in output.error
    if "close_code_received" in checks:
        assert str(checks["close_code_received"]) in output.error
    if "close_code_sent" in checks:
        assert str(checks["close_code_sent"]) in output.error
    if "client_sends_before" in checks:
        for first, then in checks["client_sends_before"].items():
            assert player.received[0].index(first) < player.received[0].index(then)
    if "timeouts_recorded" in checks:
        assert output.result.ack_timeout
        assert output.result.close_timeout
