"""What a performance shows beside the wire: logs, whose task it was, and where a task waits."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import logging
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ParamSpec

import aiohttp
from websockets.asyncio.client import ClientConnection

import conformance
import mockserver
from conformance.clock import SIDE, HookedLoop, side_of, tasks_of
from conformance.observation import Observation, PendingTask, stack_of
from conformance.trace import Recorder

_NOT_THE_CLIENTS = [
    Path(inspect.getfile(module)).parent for module in (mockserver, conformance, aiohttp, asyncio)
]


def side_of_finished(task: asyncio.Task[Any]) -> str:
    """Whose task it was; one that the collector has found is in no registry any more, but its coroutine says."""
    side = side_of(task)
    code = getattr(task.get_coro(), "cr_code", None)
    if side == "harness" and code is not None:
        file = Path(code.co_filename)
        if not any(file.is_relative_to(folder) for folder in _NOT_THE_CLIENTS):
            return "client"
    return side


def context_of(side: str) -> contextvars.Context:
    context = contextvars.copy_context()
    context.run(SIDE.set, side)  # type: ignore[arg-type]
    return context


def client_tasks(loop: HookedLoop, session_of: Callable[[int], str] | None = None) -> list[PendingTask]:
    """The client's tasks that are not done, with the frames they wait in.

    Args:
        session_of: the session of a port of the client's; without it no task is known to be the library's own.
    """
    return [
        PendingTask(task.get_name(), stack_of(task), _kept_alive(task, session_of))
        for task in tasks_of(loop, "client")
    ]


def _kept_alive(task: asyncio.Task[Any], session_of: Callable[[int], str] | None) -> str:
    """The session whose connection the WebSocket library keeps alive in this task of its own; empty: it does not."""
    coro = task.get_coro()
    frame = getattr(coro, "cr_frame", None)
    if session_of is None or frame is None or frame.f_code is not ClientConnection.keepalive.__code__:
        return ""
    address = frame.f_locals["self"].local_address
    return session_of(int(address[1])) if address else ""


Given = ParamSpec("Given")


def guarded(observation: Observation, hook: Callable[Given, None]) -> Callable[Given, None]:
    """A hook of ours that others call: what it raises is an error of ours, and does not reach who called it."""

    def call(*args: Given.args, **kwargs: Given.kwargs) -> None:
        try:
            hook(*args, **kwargs)
        except Exception:  # noqa: BLE001 - in the client's stack any exception would look like the client's
            observation.harness_errors.append(traceback.format_exc())

    return call


class _LogCapture(logging.Handler):
    """Keeps what the client logs, and takes server errors for errors of the harness."""

    def __init__(self, observation: Observation, recorder: Recorder) -> None:
        super().__init__(logging.INFO)
        self.observation = observation
        self.recorder = recorder

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.split(".")[0] in ("mockserver", "aiohttp"):
            if record.levelno >= logging.ERROR:
                told = record.getMessage()
                if record.exc_info and record.exc_info[1] is not None:
                    told += "".join(traceback.format_exception(record.exc_info[1]))
                self.observation.harness_errors.append(f"{record.name}: {told}")
            return
        self.observation.logs.append(record)
        # The folder of a scenario has another name in every run, and the trace must not.
        message = record.getMessage().replace(f"{self.observation.out.parent}/", "")
        self.recorder.add("", "client", "log", {"level": record.levelname, "message": message[:500]})


@contextlib.contextmanager
def captured_logs(observation: Observation, recorder: Recorder) -> Iterator[None]:
    capture = _LogCapture(observation, recorder)
    loggers = [logging.getLogger(name) for name in ("client", "websockets", "aiohttp", "mockserver")]
    before = [(logger.level, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.addHandler(capture)
        logger.setLevel(logging.INFO)
        logger.propagate = False
    try:
        yield
    finally:
        for logger, (level, propagate) in zip(loggers, before, strict=True):
            logger.removeHandler(capture)
            logger.setLevel(level)
            logger.propagate = propagate
