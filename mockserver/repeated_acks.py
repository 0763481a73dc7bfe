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
        self.answers: dict[bytes, bytes] = {}
        """An ack as it was read -> its answer as written, up to the digits of its event id."""
        self.state: object = None
        """`state_of` the session for which these answers hold."""

    def learn(self, session: ServerSession, text: bytes, before: object, outputs: Sequence[Output]) -> None:
        """An ack was handled the ordinary way.

        Args:
            text: as it was read.
            before: `state_of` the session then; what changed something has another answer the next time.
            outputs: what came of it. Anything beside the answer is for the ordinary way alone, such as a violation.
        """
        if before != self.state:
            self.answers.clear()
            self.state = before
        if len(outputs) != 2 or len(text) > MAX_ACK_BYTES or state_of(session) != before:
            return
        noted, answer = outputs
        if type(noted) is Received and type(answer) is Send and answer.event["type"] == ACKNOWLEDGED:
            if len(self.answers) >= MAX_REMEMBERED:
                self.answers.clear()
            self.answers[text] = orjson.dumps(answer.event)[:-1] + b',"event_id":"event_'


def state_of(session: ServerSession) -> object:
    """All that an ack's answer depends on beside its own text."""
    return session.ledger.changes, session.epoch, session.response, session.conversation.committed
