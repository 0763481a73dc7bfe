"""`ignore_close`."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.actions import Action, Ignore, Observed
from mockserver.faults.mechanism import Fault
from mockserver.wire import Received, Unit, Withheld
from scenarios.faults_session import IgnoreClose as Spec

NAMES = frozenset({"session.close"})


class IgnoreClose(Fault):
    """`session.close` is dropped.

    Wire: the session goes on as if it had not come: an open reply is continued and not cancelled, acks and
        appends are answered. Pings are answered, the WebSocket's closing handshake as well.
    Parameters: none.
    Survive: give up after `Deadlines.close_s`, record `close_timeout`, force the connection, whatever still comes.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        pass

    def begin(self, now_s: float) -> list[Action]:
        return [Ignore(NAMES)]

    def noted(self, output: Received | Unit | Withheld, now_s: float) -> list[Action]:
        if isinstance(output, Received) and output.name in NAMES:
            return [Observed({"ignored": output.name, "at_s": now_s})]
        return []

    def finish(self, now_s: float) -> list[Action]:
        return [Ignore(NAMES, heed=True)]
