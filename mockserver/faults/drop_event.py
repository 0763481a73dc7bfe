"""`drop_event`."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.actions import Action, Number, Observed
from mockserver.faults.mechanism import Fault
from mockserver.faults.moments import Nth, is_event
from mockserver.wire import End, Send
from scenarios.faults_session import DropEvent as Spec


class DropEvent(Fault):
    """An event is lost.

    Wire: it takes its sequence number and is not written, so that the numbers have a gap.
    Parameters: `event` (logical name), `nth` (count from 1; none: every one).
    Survive: what the event would have said is missing and nothing else: a lost delta leaves the rest of its reply,
        a lost `response.done` an open reply that the drain gives up at its window.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._count = Nth(spec.nth)

    def outgoing(self, output: Send | End, now_s: float) -> list[Action] | None:
        if not is_event(output, self._spec.event) or not self._count.hit():
            return None
        assert isinstance(output, Send)
        return [Number(output), Observed({"dropped": output.event["type"], "at_s": now_s})]
