"""`duplicate_event`."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.actions import Action, Encoded, Observed
from mockserver.faults.mechanism import Fault
from mockserver.faults.moments import Nth, is_event
from mockserver.wire import End, Send
from scenarios.faults_session import DuplicateEvent as Spec


class DuplicateEvent(Fault):
    """An event is sent again.

    Wire: the same frame `times` times in a row, `event_id` and `server_event_seq` included.
    Parameters: `event` (logical name), `nth` (count from 1; none: every one), `times` (count).
    Survive: an event id that was seen is not counted twice: no text, audio or reply doubles.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._count = Nth(spec.nth)

    def outgoing(self, output: Send | End, now_s: float) -> list[Action] | None:
        if not is_event(output, self._spec.event) or not self._count.hit():
            return None
        assert isinstance(output, Send)
        times = self._spec.times
        evidence = {"duplicated": output.event["type"], "times": times, "at_s": now_s}
        return [Encoded(output, times=times), Observed(evidence)]
