"""Both loops show whose task and whose socket it is, and where a connection comes from, without touching the client."""

import asyncio
import contextvars
import socket

import pytest

from conformance.clock import (
    SIDE,
    HookedLoop,
    RealLoop,
    Side,
    VirtualLoop,
    close_loop,
    side_of,
    tasks_of,
)

both_loops = pytest.mark.parametrize("make", [VirtualLoop, RealLoop])


def in_side(side: Side) -> contextvars.Context:
    context = contextvars.copy_context()
    context.run(SIDE.set, side)
    return context


@both_loops
def test_a_task_has_the_side_of_the_context_it_runs_in_and_hands_it_on(make: type[HookedLoop]) -> None:
    loop = make()

    async def child() -> None:
        await asyncio.sleep(0.01)

    async def parent() -> asyncio.Task[None]:
        return asyncio.create_task(child())

    async def main() -> list[tuple[Side, Side]]:
        sides: tuple[Side, ...] = ("client", "server", "harness")
        parents = [asyncio.create_task(parent(), context=in_side(side)) for side in sides]
        children = [await task for task in parents]
        assert tasks_of(asyncio.get_running_loop(), "client") == [children[0]]
        await asyncio.gather(*children)
        return [(side_of(one), side_of(other)) for one, other in zip(parents, children, strict=True)]

    assert loop.run_until_complete(main()) == [(side, side) for side in ("client", "server", "harness")]
    assert close_loop(loop) == []


def test_a_task_without_a_side_is_the_harness_own() -> None:
    async def main() -> Side:
        task = asyncio.current_task()
        assert task is not None
        return side_of(task)

    assert asyncio.run(main()) == "harness"


def test_a_loop_without_our_factory_has_no_order_to_give() -> None:
    with asyncio.Runner() as runner, pytest.raises(LookupError, match="task factory"):
        tasks_of(runner.get_loop())


def test_tasks_are_listed_in_the_order_they_were_made() -> None:
    loop = VirtualLoop()
    made = [loop.create_task(asyncio.sleep(1), name=str(number)) for number in range(200)]
    made[5].cancel()
    loop.run_until_complete(asyncio.sleep(0))
    loop.run_until_complete(asyncio.sleep(0))

    assert tasks_of(loop) == made[:5] + made[6:]
    assert close_loop(loop) == []


@both_loops
def test_the_local_port_is_known_before_the_accepting_side_runs(make: type[HookedLoop]) -> None:
    loop = make()
    callers: dict[tuple[str, int], str] = {}
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who")

    def note(sock: socket.socket) -> None:
        callers[sock.getsockname()] = who.get()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name = callers.get(writer.get_extra_info("peername"), "nobody")
        writer.write(name.encode() + b"\n")
        writer.close()

    async def call(port: int, name: str) -> str:
        who.set(name)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        answer = (await reader.readline()).decode().strip()
        writer.close()
        return answer

    async def main() -> list[str]:
        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        answers = await asyncio.gather(*(call(port, f"caller {number}") for number in range(8)))
        server.close()
        await asyncio.sleep(0.01)
        return answers

    loop.on_connect = note

    assert loop.run_until_complete(main()) == [f"caller {number}" for number in range(8)]
    assert close_loop(loop) == []


@both_loops
def test_a_connection_that_will_be_refused_fails_as_it_would_without_us(make: type[HookedLoop]) -> None:
    loop = make()
    announced: list[socket.socket] = []
    loop.on_connect = announced.append
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]

    with pytest.raises(ConnectionRefusedError):
        loop.run_until_complete(asyncio.open_connection("127.0.0.1", port))
    assert len(announced) == 1
    assert close_loop(loop) == []


@both_loops
def test_the_send_buffer_of_new_connections_is_set_while_asked_for(make: type[HookedLoop]) -> None:
    loop = make()

    async def buffer_bytes(port: int, asked: int | None) -> int:
        loop.client_sndbuf_bytes = asked
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        size: int = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        writer.transport.abort()
        return size

    async def main() -> tuple[int, int]:
        server = await asyncio.start_server(lambda r, w: w.transport.abort(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        small, usual = await buffer_bytes(port, 4096), await buffer_bytes(port, None)
        server.close()
        await asyncio.sleep(0.01)
        return small, usual

    small, usual = loop.run_until_complete(main())

    assert small == 8192  # the kernel doubles it for its own book-keeping
    assert usual > 16384
    assert close_loop(loop) == []


@both_loops
def test_open_sockets_are_listed_by_side_until_they_are_closed(make: type[HookedLoop]) -> None:
    loop = make()

    async def main() -> tuple[int, int, int]:
        server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
        connecting = loop.create_connection(asyncio.Protocol, *server.sockets[0].getsockname())
        await asyncio.create_task(connecting, context=in_side("client"))
        await asyncio.sleep(0.01)
        opened = len(loop.open_transports("client")), len(loop.open_transports())
        for transport in loop.open_transports():
            assert isinstance(transport, asyncio.WriteTransport)
            transport.abort()
        server.close()
        await asyncio.sleep(0.01)
        return *opened, len(loop.open_transports())

    assert loop.run_until_complete(main()) == (1, 2, 0)
    assert close_loop(loop) == []
