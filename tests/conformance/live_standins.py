"""Odd servers for the tests of live: each is a few answers, in this process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import subprocess
import wave
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from aiohttp import web

MODEL = "openbmb/MiniCPM-o-4_5"
Events = list[dict[str, Any]]
CREATED: dict[str, Any] = {
    "type": "session.created",
    "incarnation": 0,
    "session": {
        "id": "duplex-1",
        "capabilities": {"implementation_level": "model_native_duplex", "chunk_period_ms": 1000},
    },
}
LISTEN: dict[str, Any] = {"type": "response.listen", "response": {"metadata": {"model_listen": True}}}


def speaking(family: str = "response.audio", reply: str = "resp-1") -> Events:
    """A whole short reply."""
    return [
        {"type": "response.created", "response_id": reply, "response": {"id": reply}},
        {
            "type": f"{family}.delta",
            "response_id": reply,
            "delta": "AAAA",
            "metadata": {"audio_duration_ms": 500},
        },
        {"type": "response.done", "response_id": reply, "response": {"id": reply, "status": "completed"}},
    ]


DUPLEX: Mapping[str, Events] = {
    "session.update": [CREATED],
    "input_audio_buffer.append": [LISTEN],
    "input_audio_buffer.commit": [{"type": "input_audio_buffer.committed"}, *speaking()],
    "playback.ack": [{"type": "playback.acknowledged", "event": {}}],
    "session.close": [{"type": "session.closed", "event": {"type": "session.closed"}}],
}
"""What a small duplex server answers to each event."""


def answering(
    script: Mapping[str, Events],
    *,
    ends_after: str = "session.close",
    tell: Callable[[dict[str, Any]], None] = lambda event: None,
) -> Callable[..., Any]:
    """A realtime endpoint that answers events by a script and ends after one of them; each is told."""

    async def handler(request: web.Request) -> web.WebSocketResponse:
        ws = web.WebSocketResponse(max_msg_size=0, compress=False)
        await ws.prepare(request)
        async for message in ws:
            asked = json.loads(message.data)
            tell(asked)
            name = asked["type"]
            for event in script.get(name, []):
                await ws.send_str(json.dumps(event))
            if name == ends_after and script.get(name) is not None:
                break
        await ws.close()
        return ws

    return handler


def status(code: int, body: str = "") -> Callable[..., Awaitable[web.Response]]:
    """An endpoint that answers with a status."""

    async def handler(request: web.Request) -> web.Response:
        return web.Response(status=code, text=body)

    return handler


def models(*names: str) -> Callable[..., Awaitable[web.Response]]:
    """A list of models."""

    async def handler(request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": name} for name in names]})

    return handler


def silent() -> Callable[..., Awaitable[web.Response]]:
    """An endpoint that never answers."""

    async def handler(request: web.Request) -> web.Response:
        await asyncio.sleep(1000)
        return web.Response()

    return handler


@contextlib.asynccontextmanager
async def standing(
    realtime: Any = None,
    *,
    health: Any = None,
    listed: Any = None,
    chat: Any = None,
    tls: ssl.SSLContext | None = None,
    more: Mapping[str, Any] | None = None,
) -> AsyncIterator[str]:
    """A stand-in server; yields host and port."""
    app = web.Application()
    app.router.add_get("/v1/realtime", realtime or answering(DUPLEX))
    app.router.add_get("/health", health or status(200))
    app.router.add_get("/v1/models", listed or models(MODEL))
    if chat is not None:
        app.router.add_post("/v1/chat/completions", chat)
    for path, handler in (more or {}).items():
        app.router.add_get(path, handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    try:
        yield f"127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


class Authority:
    """A certificate authority of its own, made by openssl in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca = folder / "ca.pem"
        self._openssl(
            "req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-days", "9",
            "-subj", "/CN=a test authority", "-addext", "keyUsage=critical,keyCertSign,cRLSign",
            "-keyout", "ca.key", "-out", "ca.pem",
        )  # fmt: skip
        self._openssl(
            "req", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
            "-subj", "/CN=localhost", "-keyout", "server.key", "-out", "server.csr",
        )  # fmt: skip

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, capture_output=True)

    def context(self, name: str, *, days: int = 9) -> ssl.SSLContext:
        """For a server whose certificate stands for a name or address and lasts so many days from now."""
        # From Python 3.13 on certificates are held to RFC 5280: key usage of the one, key identifier of the other.
        (self.folder / "names").write_text(f"subjectAltName={name}\nauthorityKeyIdentifier=keyid\n")
        self._openssl(
            "x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
            "-days", str(days), "-extfile", "names", "-out", "server.pem",
        )  # fmt: skip
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / "server.pem", self.folder / "server.key")
        return context


def voice(path: Path) -> Path:
    """A second of a WAV file."""
    with wave.open(str(path), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(16_000)
        out.writeframes(b"\x10\x20" * 16_000)
    return path
