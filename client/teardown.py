"""The end of a session: bounded at every step, advisory once the reply is complete (evaluation.md 10).

In order: stop padding, join the ack task, final ack, close, force where needed, join the reader. A failure in one step
is kept and raised after the last, so that nothing is skipped; an outer cancellation is never taken for one, and nothing
is sent after it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from client import wire
from client.acks import record_ack_timeout, send_acks
from client.connection import ConnectionLost
from client.conversation import Conversation
from client.deadlines import DeadlineExceeded, bounded, settle
from client.padding import Padding

log = logging.getLogger("client.teardown")


@dataclass
class Running:
    """The tasks of an attempt, as far as they were started."""

    reader: asyncio.Task[None] | None = None
    acks: asyncio.Task[None] | None = None
    padding: Padding | None = None


async def tear_down(conversation: Conversation, running: Running) -> None:
    """End a session in order.

    Raises:
        Exception: a genuine failure of a task or a step, raised after everything was cleaned up.
        CancelledError: an outer cancellation; the rest is left to `abandon()`.
    """
    failures = [
        await join_padding(conversation, running.padding),
        await join_acks(conversation, running.acks),
        await failure_of(final_ack(conversation)),
        await failure_of(end_session(conversation)),
    ]
    if failures[-1] is not None:
        await force(conversation)
    failures.append(await join_reader(conversation, running.reader))
    for failure in failures:
        if failure is not None:
            raise failure


async def failure_of(step: Coroutine[Any, Any, None]) -> Exception | None:
    """Run a step and return its failure, so that the steps behind it are not skipped (R8)."""
    try:
        await step
    except Exception as error:  # noqa: BLE001 - raised by `tear_down` after the last step
        return error
    return None


async def join_padding(conversation: Conversation, padding: Padding | None) -> BaseException | None:
    """Stop the padding and join it: a unit being written may finish within the grace. Returns its failure."""
    if padding is None or padding.task is None:
        return None
    conversation.record.enter("pad_join")
    padding.stop()
    left = await settle([padding.task], conversation.deadlines.grace_s)
    for task in left:
        task.cancel()
    for _ in await settle(left, 0.0):
        log.warning("%s: padding did not end within its grace and is abandoned", conversation.name)
    return padding.failure()


async def join_acks(conversation: Conversation, acks: asyncio.Task[None] | None) -> BaseException | None:
    """Cancel the ack task and wait for it and its write, at most the grace.

    A cancelled child looks like a normal return, so a CancelledError out of here is an outer cancellation (R10). What
    still runs swallowed its cancellation: it is abandoned and recorded (R6). Returns: the task's own failure.
    """
    if acks is None:
        return None
    conversation.record.enter("ack_join")
    writes = conversation.connection.writing("playback.ack")
    acks.cancel()
    left = await settle([acks, *writes], conversation.deadlines.grace_s)
    if left:
        late = DeadlineExceeded("periodic playback ack", conversation.deadlines.grace_s, "abandoned")
        conversation.record.missed(late)
        record_ack_timeout(conversation, late)
    return acks.exception() if acks.done() and not acks.cancelled() else None


async def final_ack(conversation: Conversation) -> None:
    """The closing ack: its own task, abandoned at its deadline without a grace; advisory (R1 to R5)."""
    if conversation.session.ended is not None or not conversation.session.acks():
        return
    conversation.record.enter("final_ack")
    try:
        await send_acks(conversation, within_s=conversation.deadlines.ack_s, grace_s=0.0)
    except ConnectionLost as lost:
        record_close_error(conversation, lost)
    except TimeoutError as late:
        record_ack_timeout(conversation, late)


async def end_session(conversation: Conversation) -> None:
    """Close what can be closed: the session by its event, the connection by its handshake; else force it."""
    conversation.record.enter("closing")
    if conversation.connection.lost is not None:
        record_close_error(conversation, conversation.connection.lost)
    elif await close_session(conversation):
        await leave(conversation)
    else:
        await force(conversation)


async def close_session(conversation: Conversation) -> bool:
    """Send `session.close` and wait for `session.closed`: one deadline over both, longer than the inner one (R11).

    Returns: whether the connection may now end by its own handshake. A session that is over already, or never was
    opened, needs no event.
    """
    session = conversation.session
    if session.ended is not None or session.refused or not session.asked:
        return True
    deadlines = conversation.deadlines
    try:
        await bounded(
            "session close", say_goodbye(conversation), deadlines.close_outer_s, grace_s=deadlines.grace_s
        )
    except ConnectionLost as lost:
        record_close_error(conversation, lost)
    except TimeoutError as late:
        record_close_timeout(conversation, late)
        return False
    return True


async def say_goodbye(conversation: Conversation) -> None:
    """Write `session.close`, then wait for `session.closed`.

    Raises:
        DeadlineExceeded: `session.closed` did not come within the inner deadline.
        ConnectionLost: the connection ended first.
    """
    session, close_s = conversation.session, conversation.deadlines.close_s
    session.close_sent()
    await conversation.send(wire.session_close(), within_s=conversation.deadlines.close_outer_s)
    loop = asyncio.get_running_loop()
    until_s = loop.time() + close_s
    while not session.closed:
        if conversation.connection.lost is not None:
            raise conversation.connection.lost
        if loop.time() >= until_s:
            raise DeadlineExceeded("session.closed", close_s, "unwound")
        await conversation.changed.wait_until(until_s)


async def leave(conversation: Conversation) -> None:
    """The WebSocket closing handshake. A clean close is never touched; one that is stuck is forced (R6, R15)."""
    try:
        await conversation.connection.close(conversation.deadlines.handshake_s)
    except DeadlineExceeded as late:
        conversation.record.missed(late)
        await force(conversation)


async def force(conversation: Conversation) -> None:
    """Abort the transport, then close the socket within the grace; no second wait on the dead handshake (R13)."""
    conversation.record.enter("forcing")
    conversation.connection.look("before the abort")
    conversation.connection.abort()
    try:
        await conversation.connection.close(conversation.deadlines.grace_s)
    except DeadlineExceeded as late:
        conversation.record.missed(late)
        log.warning("%s: the forced socket did not close: %s", conversation.name, late)


async def join_reader(conversation: Conversation, reader: asyncio.Task[None] | None) -> BaseException | None:
    """Let the reader see the end of the connection within the grace; cancel one that does not. Returns its failure."""
    if reader is None:
        return None
    left = await settle([reader], conversation.deadlines.grace_s)
    for task in left:
        task.cancel()
    for _ in await settle(left, 0.0):
        log.warning("%s: the reader did not end within its grace and is abandoned", conversation.name)
    return reader.exception() if reader.done() and not reader.cancelled() else None


async def abandon(conversation: Conversation, running: Running) -> None:
    """After an outer cancellation: stop the tasks, abort, bounded close. Sends nothing any more (R10)."""
    padding = running.padding.task if running.padding is not None else None
    tasks = [task for task in (padding, running.acks) if task is not None]
    if running.padding is not None:
        running.padding.stop()
    for task in tasks:
        task.cancel()
    await settle(tasks, conversation.deadlines.grace_s)
    if conversation.connection.lost is None:
        await force(conversation)
    await join_reader(conversation, running.reader)


def record_close_timeout(conversation: Conversation, late: TimeoutError) -> None:
    """Note a close that ran past its deadline: an error only while no reply is complete (R18, R19)."""
    conversation.timeouts.close = str(late) or "session close timed out"
    if isinstance(late, DeadlineExceeded):
        conversation.record.missed(late)
    log.warning("%s: %s", conversation.name, conversation.timeouts.close)


def record_close_error(conversation: Conversation, lost: ConnectionLost) -> None:
    """Note that the connection was gone before it could be closed; advisory after a completed reply."""
    if not conversation.session.closed:
        conversation.timeouts.close_error = f"{type(lost).__name__}: {lost}"
        log.warning("%s: closing: %s", conversation.name, lost)
