"""The media of an append, taken out of its JSON before that is read.

Nearly all bytes of a session are base64 within strings. A reader of JSON looks at each of them and copies it into a
text, which is made into bytes at once. Here these strings are found by their quotes and decoded where they lie; what is
left of the event, some two hundred bytes, is read as JSON. Whatever is not quite as expected is left to
`mockserver.wire.decode`, which says what is wrong with it.
"""

from __future__ import annotations

from dataclasses import dataclass

import orjson
import pybase64

from mockserver.wire import MAX_EVENT_BYTES, Event

APPEND = "input_audio_buffer.append"
_AUDIO = b'"audio":'
_FRAMES = b'"video_frames":'
_NEAR_BYTES = 1_000
"""A key is looked for so far behind the beginning, or the end of the audio: base64 is slow to search."""
_REST_BYTES = 4_000
"""What may be left of the event."""
_MANY_FRAMES = 8
"""More than any append may hold: none of its frames is lifted."""


@dataclass(slots=True)
class Media:
    """Stands in an event for a string that was strictly base64."""

    data: bytes
    characters: int
    """Of the string."""


def lift(text: bytes) -> Event | None:
    """An `input_audio_buffer.append` with `Media` in place of its audio and its frames; None: ask `decode`.

    A string in base64 holds no backslash, so its first quote is its end. What is left must hold none either, and each
    key once: then no other spelling of a key, no second value and no inner object can be meant. The audio is in front
    of the frames, as most clients write it.
    """
    key = text.find(_AUDIO, 0, _NEAR_BYTES)
    if key < 0 or len(text) > MAX_EVENT_BYTES:
        return None
    start, end = _string(text, key + len(_AUDIO))
    if end < 0:
        return None
    view = memoryview(text)
    pieces, frames = [view[:start]], _frames(text, end)
    at = end
    for first, last in frames:
        pieces.append(view[at:first])
        at = last
    pieces.append(view[at:])
    rest = b"".join(pieces)
    if (
        len(rest) > _REST_BYTES
        or b"\\" in rest
        or rest.count(b'"audio"') != 1
        or rest.count(b'"video_frames"') > 1
    ):
        return None
    try:
        event = orjson.loads(rest)
        if type(event) is not dict or event.get("type") != APPEND or event.get("audio") != "":
            return None
        event["audio"] = Media(pybase64.b64decode(view[start:end], validate=True), end - start)
        if frames:
            if event.get("video_frames") != [""] * len(frames):
                return None
            event["video_frames"] = [
                Media(pybase64.b64decode(view[first:last], validate=True), last - first)
                for first, last in frames
            ]
    except ValueError:  # no JSON, or no base64
        return None
    return event


def _frames(text: bytes, after: int) -> list[tuple[int, int]]:
    """Where the strings of the list of frames are; none where there is anything else in it."""
    key = text.find(_FRAMES, after, after + _NEAR_BYTES)
    if key < 0:
        return []
    at = key + len(_FRAMES)
    at += text[at : at + 1] == b" "
    found: list[tuple[int, int]] = []
    begins = b"["
    while text[at : at + 1] == begins and len(found) < _MANY_FRAMES:
        first, last = _string(text, at + 1)
        if last < 0:
            return []
        found.append((first, last))
        at, begins = last + 1, b","
    return found


def _string(text: bytes, at: int) -> tuple[int, int]:
    """From the first character of a string to its closing quote, -1 where there is no such string, or nothing in it.

    Many writers leave one space in front of it.
    """
    at += text[at : at + 1] == b" "
    if text[at : at + 1] != b'"':
        return at, -1
    end = text.find(b'"', at + 1)
    return at + 1, end if end > at + 1 else -1
