"""`freeze_tail`."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.actions import Action, Observed, Silence
from mockserver.faults.mechanism import Fault
from mockserver.wire import Received, Unit, Withheld
from scenarios.faults_response import FreezeTail as Spec


class FreezeTail(Fault):
    """The server makes no silence of its own.

    Wire: after the input has ended an open reply stands still in mid-word, as on a server without silence
        continuation (protocol.md 6.5, 16.5): no delta is dropped, the step loop has nothing to step on. Each unit
        the client sends moves it by one. Observed when, after the commit, silence was due for an open reply.
    Parameters: none. A profile without continuation has none to switch off.
    Survive: send silence, one unit a period, until the reply is done.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        self._still: str | None = None

    def begin(self, now_s: float) -> list[Action]:
        return [Silence(off=True)]

    def noted(self, output: Received | Unit | Withheld, now_s: float) -> list[Action]:
        if isinstance(output, Withheld):
            self._still = output.response_id
        session = self.session
        # While the clip streams its next unit would have come first, and a residual is still to be decided.
        waits = session.steps.next_s() is not None or not session.input.commits
        if waits or session.response is None or session.response.id != self._still:
            return []
        return [Observed({"withheld": "silence", "response_id": self._still, "at_s": now_s})]

    def finish(self, now_s: float) -> list[Action]:
        return [Silence(off=False)]
