"""`status`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from mockserver.faults.actions import Action, Observed
from mockserver.faults.mechanism import Fault
from mockserver.faults.moments import Nth
from mockserver.wire import End, Event, Send
from scenarios.faults_response import Status as Spec

REASONS: Mapping[str, str] = {
    "failed": "runtime_append_failed",
    "cancelled": "barge_in",
    "incomplete": "max_output_tokens",
}
"""The usual reason of each status (protocol.md 7.9)."""


class Status(Fault):
    """A reply ends with another status than completed.

    Wire: the items of its done group and its `response.done` carry the status; `status_details` the reason. Text
        and audio stay, and no `error` precedes a `failed` one (combine it with `error_event`).
    Parameters: `status`, `reason` (none: the usual one), `nth` (which reply, count from 1; none: every one).
    Survive: the reply is no completed one: the sample fails with status and reason, and is not retried.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._count = Nth(spec.nth)
        self._changing: str | None = None

    def outgoing(self, output: Send | End, now_s: float) -> list[Action] | None:
        if isinstance(output, End):
            return None
        event = output.event
        kind = event["type"]
        if kind == "response.output_item.done":
            self._changing = event["response_id"] if self._count.hit() else None
        if self._changing is None or kind not in (
            "response.output_item.done",
            "conversation.item.done",
            "response.done",
        ):
            return None
        if kind != "response.done":
            return [Send({**event, "item": self._item(event["item"])})]
        reason = self._spec.reason or REASONS[self._spec.status]
        response = {
            **event["response"],
            "status": self._spec.status,
            "status_details": {"type": self._spec.status, "reason": reason},
            "output": [self._item(item) for item in event["response"]["output"]],
        }
        evidence = {"status": self._spec.status, "response_id": self._changing, "at_s": now_s}
        self._changing = None
        return [Send({**event, "response": response}), Observed(evidence)]

    def _item(self, item: Event) -> Event:
        return {**item, "status": self._spec.status}
