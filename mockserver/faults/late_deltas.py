"""`late_deltas`."""

from __future__ import annotations

from typing import ClassVar

from mockserver.audio import OUTPUT_RATE_HZ
from mockserver.faults.actions import Action, Observed
from mockserver.faults.mechanism import Fault
from mockserver.faults.moments import Nth
from mockserver.responses import late_delta_pair
from mockserver.wire import End, Send
from scenarios.faults_response import LateDeltas as Spec


class LateDeltas(Fault):
    """Deltas of a reply come after its `response.done`.

    Wire: behind `response.done` and `rate_limits.updated` follow pairs of an audio and a transcript delta with the
        finished reply's id. They are more than the reply's text, so that none of it is missing without them.
    Parameters: `text`, `audio_ms` (milliseconds), `count` (pairs), `nth` (which reply, count from 1; none: every
        one).
    Survive: a finished reply is closed (protocol.md 3.3): note them, score nothing of them, and do not wait for a
        second `response.done`.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._count = Nth(spec.nth)
        self._done_id: str | None = None
        self._rate_hz = OUTPUT_RATE_HZ

    def outgoing(self, output: Send | End, now_s: float) -> list[Action] | None:
        if isinstance(output, End):
            return None
        self._rate_hz = output.event.get("sample_rate_hz", self._rate_hz)
        if output.event["type"] == "response.done" and self._count.hit():
            self._done_id = output.event["response_id"]
            return None
        if output.event["type"] != "rate_limits.updated" or self._done_id is None:
            return None
        response_id, self._done_id = self._done_id, None
        late: list[Action] = []
        for _ in range(self._spec.count):
            pair = late_delta_pair(
                self.session.dialect,
                response_id,
                self._spec.text,
                self._spec.audio_ms,
                self._rate_hz,
            )
            late += [Send(event) for event in pair]
        evidence = {"late": len(late), "response_id": response_id, "at_s": now_s}
        return [output, *late, Observed(evidence)]
