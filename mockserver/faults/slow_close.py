"""`slow_close`."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.actions import Action, CloseTcp, Control, Wait
from mockserver.faults.mechanism import Fault
from scenarios.faults_transport import SlowClose as Spec


class SlowClose(Fault):
    """The TCP connection ends late.

    Wire: the last event, the close frame or the reply to one goes out as ever; the FIN comes `delay_s` later.
        (Toxiproxy's `slow_close`.) Observed when the delay has passed, or when the client ended the connection
        itself after more than 1 s of it.
    Parameters: `delay_s` (seconds).
    Survive: do not wait for the TCP end without a bound; a session that said `session.closed` is over.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        self._delay_s = spec.delay_s
        self._due_s: float | None = None

    def control(self, output: Control, now_s: float) -> list[Action] | None:
        if not isinstance(output, CloseTcp):
            return None
        if self._due_s is None:
            self._due_s = now_s + self._delay_s
        # The end may be asked for again, after a close frame of the client: it is due when it was.
        left_s = self._due_s - now_s
        if left_s <= 0:
            return None
        return [Wait(left_s, "FIN", already_s=self._delay_s - left_s), output]
