"""An upgrade request on its way to a session, or to a fault that refuses it or keeps it waiting."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

from aiohttp import web

from mockserver.connection_info import ConnectionInfo
from mockserver.faults import FaultRun, FaultSet
from mockserver.faults.actions import Refuse
from mockserver.journal import Journal
from mockserver.reading import Ending

WITHHELD_FOR_S = 1.0
"""An upgrade that was kept waiting for this long proves it."""


class HeldUpgrade:
    """A request that is kept waiting until the faults are released or the client has gone.

    Attributes:
        run: the fault that keeps it.
    """

    def __init__(self, transport: asyncio.Transport, run: FaultRun) -> None:
        self.run = run
        self._transport = transport
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def release(self) -> None:
        """Wait no more."""
        if not self._over.done():
            self._over.set_result(None)

    def abort(self) -> None:
        """Drop the TCP connection; the server is stopping."""
        self._transport.abort()

    async def wait(self, seconds: float | None) -> Exception | bool | None:
        """Wait for `seconds`, or for good.

        Returns: None while the client is there; otherwise what it went with, False for an orderly end.
        """
        ending = Ending(self._transport.get_protocol())
        ending.on_lost = self.release
        self._transport.set_protocol(ending)
        await asyncio.wait({self._over}, timeout=seconds)
        if self._transport.is_closing():
            return ending.error or False
        self._transport.set_protocol(ending.protocol)
        return None


async def ask_faults(
    transport: asyncio.Transport,
    info: ConnectionInfo,
    faults: FaultSet,
    journal: Journal,
    live: MutableMapping[Any, asyncio.Task[None]],
) -> web.Response | None:
    """Let the faults answer an upgrade request.

    Args:
        live: holds whatever can be released or aborted while it lasts.
    Returns: the answer instead of the upgrade; None: the upgrade goes on.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    for run, action in faults.asked(loop.time()):
        assert run is not None
        if isinstance(action, Refuse):
            run.observe({"answered": action.status, "at_s": loop.time()})
            info.ended_by, info.how = "server", "refused"
            _over(info, journal)
            response = web.Response(status=action.status, text=action.body)
            response.force_close()
            return response
        since_s = loop.time()
        held = HeldUpgrade(transport, run)
        live[held] = task
        try:
            gone = await held.wait(run.spec.for_s)
        finally:
            del live[held]
        withheld_s = loop.time() - since_s
        if withheld_s >= WITHHELD_FOR_S:
            run.observe({"withheld": "101 Switching Protocols", "withheld_s": withheld_s})
        if gone is not None:
            info.ended_by, info.how = "client", "fin" if gone is False else "rst"
            _over(info, journal)
            return web.Response(status=500)
    return None


def _over(info: ConnectionInfo, journal: Journal) -> None:
    info.ended_s = asyncio.get_running_loop().time()
    data = {"by": info.ended_by, "how": info.how, "client_close_code": None}
    journal.add(info.ended_s, info.number, "end", "end", data)
