"""An append whose media are lifted is the append that JSON says it is; anything else is left alone."""

from __future__ import annotations

import json
from typing import Any

import pybase64
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mockserver.lifting import Media, lift
from mockserver.wire import MAX_EVENT_BYTES, decode

HEAD = b'{"type":"input_audio_buffer.append",'
PLAIN = HEAD + b'"audio":"AAAAAA==","duration_ms":1000,"video_frames":["/9j/","iVBORw=="],"is_speech":true}'
EVENT = {"type": "input_audio_buffer.append", "audio": "AAAAAA==", "duration_ms": 1000}


def same(lifted: Any, read: Any) -> bool:
    """Whether a value is what JSON has there, strings of base64 by what they hold."""
    if isinstance(lifted, Media):
        decoded = pybase64.b64decode(read, validate=True)
        return (decoded, len(read)) == (lifted.data, lifted.characters)
    if isinstance(lifted, dict):
        return lifted.keys() == read.keys() and all(same(lifted[key], read[key]) for key in lifted)
    if isinstance(lifted, list):
        return len(lifted) == len(read) and all(map(same, lifted, read))
    return bool(lifted == read)


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        HEAD + b'"audio":"AAAA"}',
        HEAD + b'"audio":"AAAA","video_frames":null}',
        HEAD + b'"audio":"AAAA","video_frames":[]}',
        json.dumps({**EVENT, "video_frames": ["/9j/", "/9j/"]}).encode(),
        json.dumps({**EVENT, "text": "é"}, ensure_ascii=False).encode(),
    ],
)
def test_media_are_lifted(text: bytes) -> None:
    event = lift(text)
    assert event is not None
    assert isinstance(event["audio"], Media)
    frames = event.get("video_frames") or []
    assert all(isinstance(frame, Media) for frame in frames)
    assert same(event, decode(text))


@pytest.mark.parametrize(
    "text",
    [
        HEAD + b'"audio":"AAA","duration_ms":1}',  # no base64
        HEAD + b'"audio":"A\\u0041AA"}',
        HEAD + b'"audio":"AA\\/A"}',
        HEAD + b'"audio":"AAAA","audio":""}',
        HEAD + b'"audio":"AAAA","\\u0061udio":""}',
        HEAD + b'"x":{"audio":"AAAA"},"audio":""}',
        HEAD + b'"x":{"audio":"AAAA"}}',
        HEAD + b'"text":"\\"audio":"AAAA"}',
        HEAD + b'"text":"{,"audio":"AAAA"}',
        HEAD + b'"audio":""}',
        HEAD + b'"audio":["AAAA"]}',
        HEAD + b'"audio":"AAAA"',
        HEAD + b'"audio":"AAAA',
        HEAD + b'"audio":"AAAA"}}',
        HEAD + b'"audio":"AAAA","text":"\xff"}',
        HEAD + b'"audio":"AAAA","video_frames":["/9j/"],"video_frames":[""]}',
        HEAD + b'"audio":"AAAA","x":{"video_frames":["/9j/"]}}',
        HEAD + b'"audio":"AAAA","x":{"video_frames":["/9j/"]},"video_frames":[""]}',
        HEAD + b'"audio":"AAAA","video_frames":["/9j/","A"]}',
        HEAD + b'"audio":"AAAA","video_frames":["/9j/",""]}',
        HEAD + b'"audio":"AAAA","video_frames":["/9j/",null]}',
        HEAD + b'"audio":"AAAA","text":"' + b"x" * 5_000 + b'"}',
        b'{"type":"playback.ack","audio":"AAAA"}',
        b'["audio":"AAAA"]',
        b'{"audio":"AAAA"}',
        HEAD + b'"audio":"' + b"A" * MAX_EVENT_BYTES + b'"}',
    ],
)
def test_what_could_mean_something_else_is_never_wrong(text: bytes) -> None:
    """Left alone, or with the frames as JSON has them: what does not fit into a list of frames stays a text."""
    event = lift(text)
    if event is not None:
        assert not any(isinstance(frame, Media) for frame in event.get("video_frames") or [])
        assert same(event, decode(text))
    else:
        assert lift(PLAIN) is not None


FRAGMENTS = [
    b'"audio":',
    b'"audio":"AAAA"',
    b'"audio":""',
    b'"\\u0061udio":""',
    b'"video_frames":["/9j/"]',
    b'"video_frames":[""]',
    b'"video_frames": ["/9j/", "iVBORw=="]',
    b'"x":{',
    *(bytes([c]) for c in b'{}[],:" \\A=?\xff\x00'),
    b"null",
    b'""',
    b'\\"',
]


@given(
    st.lists(
        st.tuples(st.integers(0, len(PLAIN)), st.integers(0, 12), st.sampled_from(FRAGMENTS)), max_size=4
    )
)
@settings(max_examples=1_000)
def test_a_damaged_append_is_read_as_json_reads_it(changes: list[tuple[int, int, bytes]]) -> None:
    text = PLAIN
    for at, length, fragment in changes:
        text = text[:at] + fragment + text[at + length :]
    event = lift(text)
    if event is not None:
        assert same(event, decode(text))
