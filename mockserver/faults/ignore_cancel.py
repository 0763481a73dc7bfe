"""`ignore_cancel`."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.actions import Action, Ignore, Observed
from mockserver.faults.mechanism import Fault
from mockserver.wire import Received, Unit, Withheld
from scenarios.faults_session import IgnoreCancel as Spec

NAMES = frozenset({"response.cancel", "output_audio_buffer.clear", "input.cancel", "barge_in", "turn.signal"})
"""What cancels a reply (protocol.md 5.6, 9)."""


class IgnoreCancel(Fault):
    """Cancellations of a reply are dropped: the server goes on talking.

    Wire: `response.cancel`, `output_audio_buffer.clear`, `input.cancel`, `barge_in` and `turn.signal` are read and
        not answered; the reply goes on to its end. Observed when one came while a reply was open.
    Parameters: none.
    Survive: do not wait for the cancelled `response.done` without a bound; what the reply says after the cancel is
        not to be used.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        pass

    def begin(self, now_s: float) -> list[Action]:
        return [Ignore(NAMES)]

    def noted(self, output: Received | Unit | Withheld, now_s: float) -> list[Action]:
        response = self.session.response
        if not isinstance(output, Received) or output.name not in NAMES or response is None:
            return []
        return [Observed({"ignored": output.name, "response_id": response.id, "at_s": now_s})]

    def finish(self, now_s: float) -> list[Action]:
        return [Ignore(NAMES, heed=True)]
