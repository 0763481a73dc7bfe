"""`conformance record`: a proxy alone, for any client, that keeps every session."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from conformance.exits import Exit
from conformance.live.cassette import CassetteTape
from conformance.live.server import LiveServer
from conformance.options import ConfigurationError
from mockserver.proxy import ProxyServer


def record_until_stopped(server: LiveServer, out: Path, port: int) -> Exit:
    """Relay and keep until SIGINT or SIGTERM; the first line on standard output tells the URL for clients.

    Raises ConfigurationError: the folder cannot be written.
    """
    try:
        tape = CassetteTape(out, "", target=server.told(), headers=server.headers)
    except OSError as error:
        raise ConfigurationError(f"{out}: {error.strerror or error}") from error
    return asyncio.run(_record(server, tape, out, port))


async def _record(server: LiveServer, tape: CassetteTape, out: Path, port: int) -> Exit:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    proxy = ProxyServer(server.behind(), port=port, tape=tape)
    try:
        await proxy.start()
    except OSError as error:
        print(f"conformance: cannot listen on port {port}: {error.strerror or error}", file=sys.stderr)
        return Exit.UNAVAILABLE
    print(f"recording at {proxy.url} (server {server.told()['url']})", flush=True)
    try:
        await stop.wait()
    finally:
        await proxy.stop()
    if tape.broken is not None:
        print(f"{len(proxy.connections)} session(s), not all of them in {out}", flush=True)
        return Exit.USAGE
    print(f"{len(proxy.connections)} session(s) in {out}", flush=True)
    return Exit.FAILED if proxy.unconfirmed else Exit.PASSED
