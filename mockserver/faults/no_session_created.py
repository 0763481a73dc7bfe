"""`no_session_created`."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.actions import Action, Observed
from mockserver.faults.mechanism import Fault
from mockserver.wire import End, Send
from scenarios.faults import NoSessionCreated as Spec


class NoSessionCreated(Fault):
    """The opening `session.update` is read and never answered.

    Wire: no event at all goes out and the connection is not ended; the socket is read and pings are answered.
    Parameters: none.
    Survive: give up after `Deadlines.created_s`, name the handshake as what timed out, close or abort within
        the teardown's bound.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        pass

    def outgoing(self, output: Send | End, now_s: float) -> list[Action]:
        if isinstance(output, Send) and output.event["type"] == "session.created":
            return [Observed({"withheld": "session.created", "at_s": now_s})]
        return []
