"""What both loops share: hooks at connect, one executor thread whose jobs are counted, tasks with sides."""

import asyncio
import concurrent.futures
import contextvars
import functools
import socket
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from conformance.clock.tasks import SIDE, Side, install_task_factory

T = TypeVar("T")


def _job_name(func: Callable[..., Any]) -> str:
    """The function that a job runs; `to_thread` wraps it in the call of a context."""
    while isinstance(func, functools.partial):
        wraps_another = isinstance(getattr(func.func, "__self__", None), contextvars.Context)
        func = func.args[0] if wraps_another else func.func
    name = getattr(func, "__qualname__", None)  # the repr of a bound method may spell out megabytes of media
    return name if isinstance(name, str) else repr(func)


@dataclass
class _Spent:
    """Loop time that a job has spent; it passes when the job hands its result over."""

    seconds: float = 0.0


class HookedLoop(asyncio.SelectorEventLoop):
    """A selector loop that shows connections, jobs and transports without touching the client."""

    def __init__(self, selector: Any = None) -> None:
        super().__init__(selector)
        self.client_sndbuf_bytes: int | None = None
        """SO_SNDBUF of sockets connected from now on (bytes; the kernel doubles it); None: the default."""
        self.on_connect: Callable[[socket.socket], None] | None = None
        """Called in the task that connects, in the same step as connect(): the local port is known, and no
        callback of the accepting side has run yet. (Whether the connection will be refused is not known.)"""
        self._jobs: dict[concurrent.futures.Future[Any], str] = {}
        self._in_job = threading.local()
        self._made: weakref.WeakKeyDictionary[asyncio.BaseTransport, Side] = weakref.WeakKeyDictionary()
        # One thread: two jobs never race, so their order is the same in every run.
        self.set_default_executor(
            concurrent.futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix="conformance")
        )
        install_task_factory(self)

    # --- connections ------------------------------------------------------------------------------

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        if self.client_sndbuf_bytes is not None:
            # Before connect(): later the window has been negotiated for the larger buffer.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.client_sndbuf_bytes)
        await super().sock_connect(sock, address)

    def _sock_connect(self, fut: asyncio.Future[None], sock: socket.socket, address: Any) -> None:
        """The step of asyncio's `sock_connect` that makes the system call (3.11 to 3.14 alike).

        The public `sock_connect` gives no place between the call and the first turn of the accepting side; a
        bind beforehand would, but a bound port cannot be used again for 60 s, and a fuzz run needs more ports
        than there are.
        """
        super()._sock_connect(fut, sock, address)  # type: ignore[misc]
        if fut.done() and fut.exception() is not None:  # no route, no port left
            return
        self._connecting(fut, sock, address)
        if self.on_connect is not None:
            self.on_connect(sock)

    def _connecting(self, fut: asyncio.Future[None], sock: socket.socket, address: Any) -> None:
        """For the virtual loop: a connection is on its way."""

    def transport_made(self, transport: asyncio.BaseTransport) -> None:
        self._made[transport] = SIDE.get()

    def _make_socket_transport(self, sock: socket.socket, *args: Any, **kwargs: Any) -> asyncio.Transport:
        # Private, but the only place where every TCP transport passes, ours and the libraries'.
        transport: asyncio.Transport = super()._make_socket_transport(sock, *args, **kwargs)  # type: ignore[misc]
        self.transport_made(transport)
        return transport

    def open_transports(self, side: Side | None = None) -> list[asyncio.BaseTransport]:
        """The socket transports whose socket is not closed, in the order of their creation.

        Args:
            side: only those made in the context of this side; None for all.
        """
        return [
            transport
            for transport, its in list(self._made.items())
            if (side is None or its == side) and transport.get_extra_info("socket").fileno() != -1
        ]

    # --- jobs in threads --------------------------------------------------------------------------

    def set_default_executor(self, executor: concurrent.futures.ThreadPoolExecutor) -> None:  # type: ignore[override]
        super().set_default_executor(executor)
        self.executor = executor

    def run_in_executor(  # type: ignore[override]
        self, executor: concurrent.futures.Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """As in asyncio (`to_thread` and `getaddrinfo` come here too); a job in any executor is counted."""
        self._check_closed()  # type: ignore[attr-defined]
        spent = _Spent()
        job = (self.executor if executor is None else executor).submit(self._run_job, spent, func, args)
        future: asyncio.Future[T] = self.create_future()
        future.add_done_callback(lambda ended: job.cancel() if ended.cancelled() else None)
        self._jobs[job] = _job_name(func)
        self.job_started()
        job.add_done_callback(lambda job: self._job_ended_in_thread(job, future, spent))
        return future

    def _run_job(self, spent: _Spent, func: Callable[..., T], args: tuple[Any, ...]) -> T:
        self._in_job.spent = spent
        try:
            return func(*args)
        finally:
            self._in_job.spent = None

    @property
    def jobs(self) -> list[str]:
        """Executor jobs that have not ended, oldest first (a cancelled await does not end a job)."""
        return [what for job, what in list(self._jobs.items()) if not job.done()]

    def job_futures(self) -> list[concurrent.futures.Future[Any]]:
        """The same jobs, to be waited for by a thread that is not in the loop."""
        return list(self._jobs)

    def job_started(self) -> None:
        """For the virtual loop: there is one more job to wait for."""

    def _job_ended_in_thread(
        self, job: concurrent.futures.Future[Any], future: asyncio.Future[Any], spent: _Spent
    ) -> None:
        try:
            self.call_soon_threadsafe(self._hand_over, job, future, spent)
        except RuntimeError:  # the loop was closed before its job ended: close_loop has named the job
            return

    def _hand_over(
        self, job: concurrent.futures.Future[Any], future: asyncio.Future[Any], spent: _Spent
    ) -> None:
        """What the job spent, then its result, then its end, in one step of the loop.

        Nothing can come between them, so the order does not hang on how fast the thread was; and the clock cannot jump
        before the result has been handed to the loop.
        """
        if spent.seconds:
            self.spend(spent.seconds)
        if future.done():
            pass  # nobody waits any more
        elif job.cancelled():
            future.cancel()
        elif (error := job.exception()) is not None:
            future.set_exception(error)
        else:
            future.set_result(job.result())
        self.job_ended(job)

    def job_ended(self, job: concurrent.futures.Future[Any]) -> None:
        self._jobs.pop(job, None)

    def spend(self, seconds: float) -> None:
        """Let time pass while the code that runs now goes on, as a slow disk does: nothing else of the loop runs.

        From a job it stands when the job has ended, from another thread a moment later.
        """
        raise NotImplementedError


class RealLoop(HookedLoop):
    """The wall clock, with the same hooks, task factory and executor as the virtual loop."""

    def spend(self, seconds: float) -> None:
        """The caller sleeps; called in the loop's thread, the loop stands."""
        time.sleep(seconds)
