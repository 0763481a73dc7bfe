"""`listen_per_padded_unit`."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.actions import Action, Observed
from mockserver.faults.mechanism import Fault
from mockserver.responses import listen
from mockserver.wire import Received, Send, Unit, Withheld
from scenarios.faults_response import ListenPerPaddedUnit as Spec


class ListenPerPaddedUnit(Fault):
    """Each padded unit is told with a `response.listen`, also while a reply is open.

    Wire: for each unit that was decided from an append after the commit and leaves a reply open, a
        `response.listen` without a response id goes out before what else the decision gives. (With nothing open the
        server sends one of its own.) It ends nothing (protocol.md 7.1).
    Parameters: none.
    Survive: it is no answer and no sign of life: the drain's window is not extended by what padding itself causes,
        and the open reply is still awaited.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        self._told = 0

    def noted(self, output: Received | Unit | Withheld, now_s: float) -> list[Action]:
        session = self.session
        # Asked of the session: a fault that the commit itself begins was not there to see it.
        if not session.input.commits or not isinstance(output, Unit) or output.data["cause"] != "append":
            return []
        if session.response is None:
            return []
        self._told += 1
        event = listen(session.id, session.epoch, "model_listen", turn_id=session.turn_id, by_model=True)
        return [Send(event), Observed({"sent": "response.listen", "unit": output.index, "at_s": now_s})]
