"""`close_code`."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.actions import Action, CloseFrame, Observed
from mockserver.faults.mechanism import Fault
from mockserver.wire import End, Send
from scenarios.faults_transport import CloseCode as Spec


class CloseCode(Fault):
    """The server closes with a code and a reason.

    Wire: at the trigger a close frame; nothing follows it, and the TCP connection ends with the client's reply or
        10 s later. Without a trigger the session's own end carries it, with every profile.
    Parameters: `code` (0 to 65535; 1005, 1006 and 1015 may not be sent and are), `reason` (text).
    Survive: keep code and reason; before `session.closed` the connection is lost whatever the code, 1000
        included; after it nothing is wrong.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._triggered = spec.on is not None or spec.at_s is not None

    def begin(self, now_s: float) -> list[Action]:
        return self._close(now_s) if self._triggered else []

    def outgoing(self, output: Send | End, now_s: float) -> list[Action] | None:
        return self._close(now_s) if isinstance(output, End) and not self._triggered else None

    def _close(self, now_s: float) -> list[Action]:
        code, reason = self._spec.code, self._spec.reason
        return [
            Observed({"closed_with": code, "reason": reason, "at_s": now_s}),
            CloseFrame(code, reason),
        ]
