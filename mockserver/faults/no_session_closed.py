"""`no_session_closed`."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.actions import Action, Observed
from mockserver.faults.mechanism import Fault
from mockserver.wire import End, Send
from scenarios.faults import NoSessionClosed as Spec


class NoSessionClosed(Fault):
    """`session.close` is read and never answered.

    Wire: neither `session.closed` nor the end of the connection; the cancelled done group of an open response
        still goes out. The socket is read and pings are answered.
    Parameters: none.
    Survive: give up after `Deadlines.close_s`, record `close_timeout`, abort the transport; a finished reply
        stays published.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        self._closing = False

    def outgoing(self, output: Send | End, now_s: float) -> list[Action] | None:
        if isinstance(output, Send) and output.event["type"] == "session.closed":
            self._closing = True
            return [Observed({"withheld": "session.closed", "at_s": now_s})]
        return [] if self._closing else None
