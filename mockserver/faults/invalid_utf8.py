"""`invalid_utf8`."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.actions import Action, Encoded, Observed
from mockserver.faults.mechanism import Fault
from mockserver.faults.moments import is_event
from mockserver.wire import End, Event, Send, encode
from scenarios.faults_transport import InvalidUtf8 as Spec


class InvalidUtf8(Fault):
    """A transcript delta is no UTF-8.

    Wire: the first transcript delta while the fault is active goes out in a text frame whose payload is broken.
    Parameters: `where`: `inside` puts the bytes FF FE into the text, `cut_at_end` ends the frame inside a
        character.
    Survive: fail the connection with 1007 (RFC 6455 8.1) and name it; never replace the bytes and go on.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        self._inside = spec.where == "inside"
        self._done = False

    def outgoing(self, output: Send | End, now_s: float) -> list[Action] | None:
        if self._done or not is_event(output, "transcript.delta"):
            return None
        assert isinstance(output, Send)
        self._done = True
        how = _broken_inside if self._inside else _cut_inside_a_character
        return [Encoded(output, how), Observed({"damaged": output.event["type"], "at_s": now_s})]


def _broken_inside(event: Event) -> bytes:
    return encode({**event, "delta": "\N{REPLACEMENT CHARACTER}" + event["delta"]}).replace(
        "\N{REPLACEMENT CHARACTER}".encode(), b"\xff\xfe", 1
    )


def _cut_inside_a_character(event: Event) -> bytes:
    text = {**event, "delta": event["delta"] + "\N{CAMERA}"}
    payload = encode(text)
    return payload[: payload.index("\N{CAMERA}".encode()) + 2]
