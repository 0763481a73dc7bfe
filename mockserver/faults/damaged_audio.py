"""`damaged_audio`."""

from __future__ import annotations

from typing import ClassVar

import pybase64

from mockserver.faults.actions import Action, Observed
from mockserver.faults.mechanism import Fault
from mockserver.faults.moments import Nth, is_event
from mockserver.wire import End, Event, Send
from scenarios.faults_response import DamagedAudio as Spec


class DamagedAudio(Fault):
    """An audio delta is damaged.

    Wire: `bad_base64`: characters outside the alphabet stand in it; `bad_padding`: its last character is missing;
        `odd_bytes`: it decodes to an odd number of bytes; `rate_change`: `sample_rate_hz` of it and of all later
        deltas is another; `empty`: it holds no sound. Metadata and text stay as they were.
    Parameters: `kind`, `rate_hz` (Hz), `nth` (which audio delta, count from 1; none: every one; with `rate_change`
        the first one changed).
    Survive: keep the text and the other deltas, note the oddity, never write half a sample or crash.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._count = Nth(spec.nth)
        self._changed_rate = False

    def outgoing(self, output: Send | End, now_s: float) -> list[Action] | None:
        if not is_event(output, "audio.delta"):
            return None
        assert isinstance(output, Send)
        hit = self._count.hit()
        if self._spec.kind == "rate_change":
            self._changed_rate = hit = hit or self._changed_rate
        if not hit:
            return None
        damaged = self._damaged(output.event)
        if damaged == output.event:
            return None  # another fault has damaged it so before
        evidence = {"damaged": self._spec.kind, "response_id": output.event["response_id"], "at_s": now_s}
        return [Send(damaged), Observed(evidence)]

    def _damaged(self, event: Event) -> Event:
        text: str = event["delta"]
        if self._spec.kind == "rate_change":
            return {**event, "sample_rate_hz": self._spec.rate_hz}
        if self._spec.kind == "odd_bytes":
            return {**event, "delta": _odd(text)}
        if self._spec.kind == "bad_padding":
            return {**event, "delta": text.rstrip("=")[:-1]}
        if self._spec.kind == "bad_base64":
            return {**event, "delta": text[:8] + "!*%$" + text[12:]}
        return {**event, "delta": ""}


def _odd(text: str) -> str:
    """Base64 of an odd number of bytes; the text as it is where it has one already, or decodes to nothing at all."""
    try:
        data = pybase64.b64decode(text, validate=True)
    except ValueError:
        return text
    return pybase64.b64encode(data[:-1]).decode() if data and len(data) % 2 == 0 else text
