"""`never_done`."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.actions import Action, Observed
from mockserver.faults.mechanism import Fault
from mockserver.wire import End, Send
from scenarios.faults import NeverDone as Spec

DONE_GROUP = frozenset(
    {
        "response.audio.done",
        "response.output_audio.done",
        "response.audio_transcript.done",
        "response.output_audio_transcript.done",
        "response.content_part.done",
        "response.output_text.done",
        "response.output_item.done",
        "response.done",
    }
)


class NeverDone(Fault):
    """A reply's done group, `response.done` included, is never sent.

    Wire: created group and deltas go out; of the done group nothing does (its `conversation.item.done` and
        `rate_limits.updated` neither), also when the reply is cancelled by `session.close`. The reply is over
        for the server: it listens on the units after it. Without a trigger every reply; with one the replies
        that end after it.
    Parameters: none.
    Survive: give up the drain at its window, record `drain_timeout` naming the open response, tear down in
        time.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        self._after_done = False

    def outgoing(self, output: Send | End, now_s: float) -> list[Action] | None:
        if isinstance(output, End):
            return None
        event = output.event
        name = event["type"]
        if name == "response.done":
            self._after_done = True
            return [Observed({"withheld": name, "response_id": event["response_id"], "at_s": now_s})]
        if name == "rate_limits.updated" and self._after_done:
            self._after_done = False
            return []
        if name in DONE_GROUP or (name == "conversation.item.done" and event["item"]["role"] == "assistant"):
            return []
        return None
