"""Playback acks: every 0.25 s while the session lives, and once at its end (evaluation.md 5, 10)."""

from __future__ import annotations

import asyncio
import logging

from client import wire
from client.connection import ConnectionLost
from client.conversation import Conversation
from client.deadlines import DeadlineExceeded

log = logging.getLogger("client.acks")


async def keep_acking(conversation: Conversation) -> None:
    """Ack every known response each period, until cancelled.

    A round that cannot be written in time is recorded and tried again with the next, unless its write cannot even be
    cancelled. A lost connection ends the task quietly, for the reader reports it. Any other failure ends the task and
    surfaces when it is joined (R8).
    """
    deadlines = conversation.deadlines
    loop = asyncio.get_running_loop()
    while True:
        due_s = loop.time() + deadlines.ack_period_s
        await asyncio.sleep(deadlines.ack_period_s)
        conversation.connection.note_late(loop.time() - due_s)
        try:
            await send_acks(conversation, within_s=deadlines.write_s)
        except DeadlineExceeded as late:
            record_ack_timeout(conversation, late)
            if late.state == "abandoned":
                return
        except ConnectionLost:
            return


async def send_acks(conversation: Conversation, *, within_s: float, grace_s: float | None = None) -> None:
    """Write one round of acks; nothing when no response is known. Errors as `Connection.send()`."""
    events = [
        wire.playback_ack(response_id, played_ms) for response_id, played_ms in conversation.session.acks()
    ]
    if events:
        await conversation.send_all(events, within_s=within_s, grace_s=grace_s)


def record_ack_timeout(conversation: Conversation, late: TimeoutError) -> None:
    """Note an ack that ran past its deadline: advisory (R2, R4)."""
    conversation.timeouts.ack = ack_timeout_text(late)
    log.warning("%s: playback ack: %s", conversation.name, conversation.timeouts.ack)


def ack_timeout_text(late: TimeoutError) -> str:
    """The recorded text: never empty, for a bare TimeoutError prints as nothing (R3)."""
    return str(late) or "playback ack timed out"
