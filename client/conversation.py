"""A live session: connection, session state, reader and trail in one place."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from client.bounds import SessionTooLarge
from client.connection import Connection, ConnectionLost
from client.deadlines import DeadlineExceeded, Deadlines, Signal
from client.engine_stats import note_stats, session_id_of
from client.record import AttemptRecord
from client.session import ClientSession
from client.wire import Event, read_event


class SessionOver(Exception):
    """The session cannot go on. The text is the error entry; empty when the server's own error says it all."""


@dataclass
class Timeouts:
    """What ran past its deadline, each in its own words (evaluation.md 12.1); None: in time."""

    stream: str | None = None
    """A streamed append or the commit."""
    drain: str | None = None
    close: str | None = None
    ack: str | None = None
    """Advisory: never an error, never a retry reason (R2, R4)."""
    padding: str | None = None
    """Advisory: a padded unit that could not be written."""
    close_error: str | None = None
    """Advisory: the connection was gone when a completed session was to be closed."""


@dataclass
class Conversation:
    """What the parts of an attempt share. `name` (split/id) heads log messages."""

    name: str
    deadlines: Deadlines
    connection: Connection
    session: ClientSession
    record: AttemptRecord
    timeouts: Timeouts = field(default_factory=Timeouts)
    changed: Signal = field(default_factory=Signal)
    """For the attempt itself: something it may be waiting for has come."""
    over: Signal = field(default_factory=Signal)
    """The session has ended: what a pause waits for, which no other event need wake."""
    listeners: list[Signal] = field(default_factory=list)
    """Further waiters, told of the same changes."""
    session_id: str | None = None
    """The server's name of the session, once it told it; for metrics."""
    response_done: bool = False
    """The drain ended by its condition and a reply of the input was completed."""

    async def send(self, event: Event, *, within_s: float, grace_s: float | None = None) -> None:
        """Write one event, noted in the trail. Errors as `Connection.send()`."""
        await self.send_all((event,), within_s=within_s, grace_s=grace_s)

    async def send_all(
        self, events: Sequence[Event], *, within_s: float, grace_s: float | None = None
    ) -> None:
        """Write events of one type under one bound, noted in the trail."""
        for event in events:
            self.record.sent(event)
        try:
            await self.connection.send_all(events, within_s=within_s, grace_s=grace_s)
        except DeadlineExceeded as late:
            self.record.missed(late)
            raise

    async def read(self) -> None:
        """The reader: takes every frame until the connection ends. Runs in a task of its own as long as the attempt."""
        try:
            await self.connection.listen(self.take)
        except ConnectionLost as lost:
            self.session.connection_ended(f"{type(lost).__name__}: {lost}")
        except SessionTooLarge as flood:
            self.session.connection_ended(str(flood))
            self.connection.abort()
        finally:
            self.session.connection_ended("the reader stopped")
            self.notify()

    def take(self, frame: str | bytes) -> None:
        """One frame: binary ones and those that hold no event are counted and ignored (protocol.md 14)."""
        event = read_event(frame) if isinstance(frame, str) else None
        if event is None:
            self.session.anomalies["unreadable_frame" if isinstance(frame, str) else "binary_frame"] += 1
            return
        now_s = asyncio.get_running_loop().time()
        self.record.received(event, now_s)
        changed = self.session.receive(event, now_s)
        if self.session.owed:
            owed, self.session.owed = self.session.owed, 0
            self.connection.budget.charge(owed)
        note_stats(self.session.responses, event)
        if self.session_id is None:
            self.session_id = session_id_of(event)
        if changed:
            self.notify()

    def notify(self) -> None:
        """Wake whoever waits for the session to change."""
        self.changed.set()
        if self.session.ended is not None:
            self.over.set()
        for signal in self.listeners:
            signal.set()

    async def pause(self, seconds: float) -> None:
        """Let `seconds` pass; none at all still lets the others have a turn.

        Raises SessionOver: the session ended meanwhile; waiting on would serve nothing.
        """
        loop = asyncio.get_running_loop()
        until_s = loop.time() + seconds
        if seconds <= 0:
            await asyncio.sleep(0)
        while True:
            self.check_alive()
            if loop.time() >= until_s:
                return
            await self.over.wait_until(until_s)

    def check_alive(self) -> None:
        """Raises SessionOver: the session or its connection has ended."""
        if self.session.ended is not None:
            raise SessionOver(self.session.ended)
