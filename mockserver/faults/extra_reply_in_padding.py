"""`extra_reply_in_padding`."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.actions import Action, Observed, Speak
from mockserver.faults.mechanism import Fault
from mockserver.wire import End, Received, Send, Unit, Withheld
from scenarios.faults_response import ExtraReplyInPadding as Spec


class ExtraReplyInPadding(Fault):
    """A reply that the clip did not cause begins in the silence after the commit.

    Wire: on the chosen padded unit, counted over those that came in after the commit with no reply open, the model
        begins to speak; the reply runs like any other. Observed at its `response.created`.
    Parameters: `after_units` (which padded unit, count from 1), `text`, `units` (decided units), `audio_ms`
        (milliseconds a unit).
    Survive: it is late, so its sentences are kept apart from the answer; the drain waits for its end all the same.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._committed = False
        self._padded = 0
        self._asked = False
        self._seen = False

    def noted(self, output: Received | Unit | Withheld, now_s: float) -> list[Action]:
        if not isinstance(output, Received):
            return []
        if output.name == "input_audio_buffer.commit":
            self._committed = True
        elif output.name == "input_audio_buffer.append" and self._committed and not self._asked:
            if self.session.response is not None:
                return []
            self._padded += 1
            if self._padded == self._spec.after_units:
                self._asked = True
                spec, unit = self._spec, self.session.steps.submissions - 1
                return [Speak(unit, spec.text, spec.units, spec.audio_ms)]
        return []

    def outgoing(self, output: Send | End, now_s: float) -> list[Action] | None:
        if not self._asked or self._seen or isinstance(output, End):
            return None
        if output.event["type"] != "response.created":
            return None
        self._seen = True
        response_id = output.event["response_id"]
        return [output, Observed({"began": response_id, "padded_units": self._padded, "at_s": now_s})]
