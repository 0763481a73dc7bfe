"""Acks that say again what was said before, answered from memory.

A client acknowledges every quarter of a second for as long as its session lasts, and once a reply was heard nothing
changes any more between one ack and the next: these are most events of most sessions. Whatever the answer depends on is
compared each time, and what is not exactly as before goes the ordinary way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import orjson

from mockserver.wire import Output, Received, Send

if TYPE_CHECKING:
    from mockserver.session import ServerSession

ACK = "playback.ack"
ACKNOWLEDGED = "playback.acknowledged"
MAX_ACK_BYTES = 400
"""Of an ack that is remembered: twice what one needs."""
MAX_REMEMBERED = 16
"""Acks that a client may take turns in: one for each reply that it still tells of."""


class RepeatedAcks:
    """What one session's acks were answered with."""

    def __init__(self) -> None:
        self._answers: dict[bytes, bytes] = {}
        """An ack as it was read -> its answer as written, up to the digits of its event id."""
        self._state: object = None
        """What these answers depend on."""

    def __len__(self) -> int:
        return len(self._answers)

    def answer(self, session: ServerSession, text: bytes) -> bytes | None:
        """The answer up to the digits of its event id; None: it is not known, or may be another by now."""
        head = self._answers.get(text)
        return head if head is not None and self._state == state_of(session) else None

    def learn(self, session: ServerSession, text: bytes, before: object, outputs: Sequence[Output]) -> None:
        """An ack was handled the ordinary way.

        Args:
            text: as it was read.
            before: `state_of` the session then; what changed something has another answer the next time.
            outputs: what came of it. Anything beside the answer is for the ordinary way alone, such as a violation.
        """
        if before != self._state:
            self._answers.clear()
            self._state = before
        if len(outputs) != 2 or len(text) > MAX_ACK_BYTES or state_of(session) != before:
            return
        noted, answer = outputs
        if type(noted) is Received and type(answer) is Send and answer.event["type"] == ACKNOWLEDGED:
            if len(self._answers) >= MAX_REMEMBERED:
                self._answers.clear()
            self._answers[text] = orjson.dumps(answer.event)[:-1] + b',"event_id":"event_'


def state_of(session: ServerSession) -> object:
    """All that an ack's answer depends on beside its own text."""
    return session.ledger.changes, session.epoch, session.response, session.conversation.committed
