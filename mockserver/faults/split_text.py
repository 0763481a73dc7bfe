"""`split_text`."""

from __future__ import annotations

import json
import unicodedata
from typing import ClassVar

from mockserver.faults.actions import Action, Encoded, Observed
from mockserver.faults.mechanism import Fault
from mockserver.faults.moments import Nth, is_event
from mockserver.wire import End, Event, Send
from scenarios.faults_response import SplitText as Spec

_JOINER = "\N{ZERO WIDTH JOINER}"


class SplitText(Fault):
    """A character that people see as one is cut in two by the border between two transcript deltas.

    Wire: the first transcript delta that holds such a character goes out as two events. `surrogate_pair`: the first
        ends with the JSON escape of a high surrogate, the second begins with the low one; `grapheme`: the border
        lies between two code points of one grapheme. `transcript.done` has the whole text as ever. Observed when a
        delta was cut: a text without such a character cannot be.
    Parameters: `where`, `nth` (which such delta, count from 1; none: every one).
    Survive: join the deltas before anything is encoded or counted; the transcript is the text, its artifacts are
        valid UTF-8.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        self._where = spec.where
        self._count = Nth(spec.nth)

    def outgoing(self, output: Send | End, now_s: float) -> list[Action] | None:
        if not is_event(output, "transcript.delta"):
            return None
        assert isinstance(output, Send)
        text: str = output.event["delta"]
        halves = _inside_pair(text) if self._where == "surrogate_pair" else _inside_grapheme(text)
        if halves is None or not self._count.hit():
            return None
        evidence = {"cut": self._where, "response_id": output.event["response_id"], "at_s": now_s}
        sends = [Send({**output.event, "delta": half}) for half in halves]
        return [*[Encoded(send, _escaped) for send in sends], Observed(evidence)]


def _escaped(event: Event) -> bytes:
    """Half a pair has no UTF-8, but it has an escape."""
    return json.dumps(event, ensure_ascii=True, separators=(",", ":")).encode()


def _inside_pair(text: str) -> tuple[str, str] | None:
    for index, character in enumerate(text):
        code = ord(character) - 0x10000
        if code >= 0:
            high, low = chr(0xD800 + (code >> 10)), chr(0xDC00 + (code & 0x3FF))
            return text[:index] + high, low + text[index + 1 :]
    return None


def _inside_grapheme(text: str) -> tuple[str, str] | None:
    for index in range(1, len(text)):
        before, here = text[index - 1], text[index]
        if not before.isspace() and (_extends(here) or before == _JOINER or _flag(before, here)):
            return text[:index], text[index:]
    return None


def _extends(character: str) -> bool:
    """It belongs to the character before it: an accent, a variation selector, a skin tone, a joiner."""
    return (
        unicodedata.combining(character) != 0
        or unicodedata.category(character) in ("Mn", "Me")
        or character == _JOINER
        or 0x1F3FB <= ord(character) <= 0x1F3FF
    )


def _flag(before: str, here: str) -> bool:
    return all(0x1F1E6 <= ord(character) <= 0x1F1FF for character in (before, here))
