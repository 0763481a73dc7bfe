"""Connections that have not sent a whole request yet, and how long they may take.

aiohttp waits for a first request as long as the connection lives: half a request and then silence would never end.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable

from aiohttp import web, web_app
from aiohttp.typedefs import Handler, Middleware

REQUEST_WITHIN_S = 10.0
"""As long as an opening frame may take (protocol.md 12.1)."""


class Doorway:
    """Makes the protocol of each accepted connection, and closes those that nothing came through.

    Attributes:
        make: aiohttp's own.
    """

    make: Callable[[], web.RequestHandler]

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[asyncio.BaseProtocol, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __call__(self) -> asyncio.BaseProtocol:
        """A connection was accepted."""
        handler = self.make()
        self._waiting[handler] = self._loop.time() + REQUEST_WITHIN_S
        if self._timer is None:
            self._timer = self._loop.call_later(REQUEST_WITHIN_S, self._look)
        return handler

    def middleware(self) -> Middleware:
        """Hears of each request whose head is there; it may take long to be answered."""

        @web.middleware
        async def came(request: web.Request, handler: Handler) -> web.StreamResponse:
            self._waiting.pop(request.protocol, None)
            return await handler(request)

        return came

    def close(self) -> None:
        """The server stops."""
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        """One timer for all, and none while nobody waits: most connections send their request at once."""
        self._timer = None
        now_s = self._loop.time()
        for handler, until_s in list(self._waiting.items()):
            assert isinstance(handler, web.RequestHandler)
            if handler.transport is None:
                del self._waiting[handler]
            elif until_s <= now_s:
                del self._waiting[handler]
                handler.transport.abort()
        if self._waiting:
            self._timer = self._loop.call_at(min(self._waiting.values()), self._look)


def wanting_key(key: str) -> Middleware:
    """Lets nobody in without the key (protocol.md 1.2), but to /health, which says nothing, and to /control."""

    @web.middleware
    async def asked(request: web.Request, handler: Handler) -> web.StreamResponse:
        open_to_all = request.path == "/health" or request.path.startswith("/control")
        given = request.headers.get("Authorization", "").encode("utf-8", "replace")
        if open_to_all or hmac.compare_digest(given, f"Bearer {key}".encode()):
            return await handler(request)
        return web.json_response({"error": "Unauthorized"}, status=401)

    return asked


def forget_handlers() -> None:
    """aiohttp keeps the handlers of up to 1024 servers that were stopped, and with them all that those knew."""
    cached = getattr(web_app, "_cached_build_middleware", None)
    if cached is not None:
        cached.cache_clear()
