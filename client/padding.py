"""Drain padding: silence after the commit keeps the server's step loop going (evaluation.md 8)."""

from __future__ import annotations

import asyncio
import logging

from client import wire
from client.connection import ConnectionLost
from client.conversation import Conversation
from client.deadlines import DeadlineExceeded, Signal

log = logging.getLogger("client.padding")


class Padding:
    """Sends one unit of silence a chunk period for as long as the session needs units.

    It pauses while nothing is awaited any more and resumes when a new response opens (design.md 7). Made after the
    commit has returned, never before (R37).
    """

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self.stopped = False
        self._signal = Signal()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin at once: the commit has been written."""
        self.conversation.listeners.append(self._signal)
        self._task = asyncio.create_task(self.run(), name="padding")
        self._task.add_done_callback(lambda _: self.conversation.notify())

    def stop(self) -> None:
        """No further unit is begun."""
        self.stopped = True
        self._signal.set()

    @property
    def task(self) -> asyncio.Task[None] | None:
        """The running task; None before the start."""
        return self._task

    def failure(self) -> BaseException | None:
        """What ended the padding, if it was an error that must surface (R41)."""
        if self._task is None or not self._task.done() or self._task.cancelled():
            return None
        return self._task.exception()

    async def run(self) -> None:
        """The task: ends when stopped, and quietly on a closed socket; any other exception surfaces (R41, R45)."""
        try:
            await self.beat()
        except DeadlineExceeded as stuck:
            self.conversation.timeouts.padding = str(stuck)
            log.warning("%s: padding ends: %s", self.conversation.name, stuck)
        except (ConnectionLost, OSError) as gone:
            log.info("%s: padding ends with its socket: %s", self.conversation.name, gone)

    async def beat(self) -> None:
        """One unit a period while units are wanted; a pause keeps the beat."""
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        while not self.stopped:
            if not self.wanted():
                await self._signal.wait_until(loop.time() + self.conversation.deadlines.request_s)
            elif loop.time() < due_s:
                await self._signal.wait_until(due_s)
            else:
                await self.send_unit()
                due_s = loop.time() + self.period_s()

    def wanted(self) -> bool:
        """Whether the session still needs units."""
        return self.conversation.session.padding_wanted()

    def period_s(self) -> float:
        """Seconds between two units: the negotiated chunk period."""
        return self.conversation.session.chunk_period_ms / 1000.0

    async def send_unit(self) -> None:
        """Write one unit; the media clock advances as for a streamed one (R39)."""
        session = self.conversation.session
        period_ms = session.chunk_period_ms
        audio_end_ms = session.append_sent(period_ms)
        session.padded_units += 1
        await self.conversation.send(
            wire.silence_append(period_ms, audio_end_ms=audio_end_ms),
            within_s=self.conversation.deadlines.write_s,
        )
