"""`wrong_response_id`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from mockserver.faults.actions import Action, Observed
from mockserver.faults.mechanism import Fault
from mockserver.faults.moments import Nth
from mockserver.profiles import logical
from mockserver.wire import End, Send
from scenarios.faults_response import WrongResponseId as Spec

_EVENTS: Mapping[str, frozenset[str]] = {
    "audio.delta": frozenset({"audio.delta"}),
    "transcript.delta": frozenset({"transcript.delta"}),
    "both_deltas": frozenset({"audio.delta", "transcript.delta"}),
    "response.done": frozenset({"response.done"}),
}


class WrongResponseId(Fault):
    """Events of a reply carry the id of another one.

    Wire: `response_id` and `item_id` of the chosen events, and the `id` inside a `response.done`, are those of a
        reply that was never created, or of whichever is named.
    Parameters: `event`, `response_id`, `nth` (which of these events, count from 1; none: every one).
    Survive: what belongs to no reply is noted and counts for none; a `response.done` of another reply ends nothing,
        so the open one is awaited to the drain's window.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._count = Nth(spec.nth)

    def outgoing(self, output: Send | End, now_s: float) -> list[Action] | None:
        if isinstance(output, End) or logical(output.event["type"]) not in _EVENTS[self._spec.event]:
            return None
        if not self._count.hit():
            return None
        wrong = self._spec.response_id
        event = {**output.event, "response_id": wrong}
        if "item_id" in event:
            event["item_id"] = f"item_{wrong}"
        if "response" in event:
            event["response"] = {**event["response"], "id": wrong}
        evidence = {"changed": event["type"], "response_id": output.event["response_id"], "at_s": now_s}
        return [Send(event), Observed(evidence)]
