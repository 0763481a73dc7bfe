"""A connection must send a whole request in time; what is done with the request may take longer."""

from __future__ import annotations

import asyncio
from typing import Any

from conformance.clock import run_virtual
from mockserver.app import MockServer
from mockserver.doorway import REQUEST_WITHIN_S
from scenarios.faults_transport import NeverUpgrade

REQUEST = (
    b"GET /v1/realtime?duplex=1&model=m&autostart=0 HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
    b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


def ends(*sent: bytes, faults: Any = (), within_s: float = 60.0) -> list[float | None]:
    """When each of these connections ended, by its own time; None: not within the time."""

    async def one(server: MockServer, data: bytes) -> float | None:
        host, port = server.http_url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        since_s = asyncio.get_running_loop().time()
        writer.write(data)
        try:
            async with asyncio.timeout(within_s):
                while await reader.read(65536):
                    pass
        except ConnectionResetError:
            pass
        except TimeoutError:
            return None
        finally:
            writer.close()
        return round(asyncio.get_running_loop().time() - since_s, 3)

    async def main() -> list[float | None]:
        server = MockServer(profile="july", replies=[], faults=faults)
        await server.start()
        try:
            return await asyncio.gather(*(one(server, data) for data in sent))
        finally:
            server.release_faults()
            await server.stop()
            await asyncio.sleep(1)

    return run_virtual(main)


def test_silence_and_half_a_request_end_with_their_time() -> None:
    assert ends(b"", REQUEST[:-2], REQUEST[:40]) == [REQUEST_WITHIN_S] * 3


def test_a_request_that_is_kept_waiting_by_a_fault_is_not_hurried() -> None:
    assert ends(REQUEST, faults=[NeverUpgrade()]) == [None]
