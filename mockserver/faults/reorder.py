"""`reorder`."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.actions import Action, Encoded, Number, Observed
from mockserver.faults.mechanism import Fault
from mockserver.faults.moments import Nth, is_event
from mockserver.wire import End, Send
from scenarios.faults_session import Reorder as Spec


class Reorder(Fault):
    """An event is overtaken by those that follow it.

    Wire: the event takes its `event_id` and sequence number and is written behind the next `by` events. One is
        kept at a time. If fewer follow before the connection ends it goes out before the end, and nothing was
        overtaken, so nothing is observed.
    Parameters: `event` (logical name), `nth` (count from 1; none: every one that comes while none is kept), `by`
        (count of events).
    Survive: an order that protocol.md 3.3 excludes loses no text and ends no wait that it should not; a delta
        behind its `response.done` does not count.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._count = Nth(spec.nth)
        self._kept: Send | None = None
        self._overtaken_by = 0

    def outgoing(self, output: Send | End, now_s: float) -> list[Action] | None:
        kept = self._kept
        if kept is None:
            if not is_event(output, self._spec.event) or not self._count.hit():
                return None
            assert isinstance(output, Send)
            self._kept, self._overtaken_by = output, 0
            return [Number(output, kept=True)]
        if isinstance(output, End):
            self._kept = None
            return [Encoded(kept, numbered=True), output]
        self._overtaken_by += 1
        if self._overtaken_by < self._spec.by:
            return None
        self._kept = None
        evidence = {"overtaken": kept.event["type"], "by": self._spec.by, "at_s": now_s}
        return [output, Encoded(kept, numbered=True), Observed(evidence)]

    def finish(self, now_s: float) -> list[Action]:
        kept, self._kept = self._kept, None
        return [] if kept is None else [Encoded(kept, numbered=True)]
