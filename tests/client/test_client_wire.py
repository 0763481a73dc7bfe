"""Client events as they go out, server events as they are read (protocol.md 0 to 11)."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from client import wire


def sent(event: wire.Event) -> dict[str, Any]:
    """The event as the peer sees it."""
    parsed: dict[str, Any] = json.loads(wire.encode(event))
    return parsed


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        (
            "http://h:1/v1/realtime",
            "ws://h:1/v1/realtime?duplex=1&model=a%2Fb&minicpmo45_native_duplex=1&autostart=0",
        ),
        ("https://h", "wss://h/v1/realtime?duplex=1&model=a%2Fb&minicpmo45_native_duplex=1&autostart=0"),
        (
            "ws://h/v1/realtime?duplex=0&session_id=x&native_duplex=1&lab=7",
            "ws://h/v1/realtime?lab=7&duplex=1&model=a%2Fb&minicpmo45_native_duplex=1&autostart=0",
        ),
    ],
)
def test_url_gets_the_duplex_query(url: str, wanted: str) -> None:
    assert wire.realtime_url(url, "a/b") == wanted


@pytest.mark.parametrize("url", ["h:1/x", "ftp://h", "ws:///x", ""])
def test_url_without_scheme_or_host_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="url: wanted"):
        wire.realtime_url(url, "m")


def test_session_update_has_every_field_and_ours_win_over_the_callers() -> None:
    event = sent(
        wire.session_update(
            model="m",
            ref_audio="data:x",
            instructions="i",
            extra_body={"temperature": 0, "auto_response": False},
        )
    )

    assert event["type"] == "session.update"
    assert event["session"] == {
        "model": "m",
        "modalities": ["audio", "text"],
        "input_audio_format": "pcm16",
        "output_audio_format": "pcm16",
        "turn_detection": None,
        "overlap_policy": "listen_only",
        "playback_commit_policy": "ack_only",
        "ref_audio": "data:x",
        "instructions": "i",
        "extra_body": {
            "temperature": 0,
            "auto_response": True,
            "minicpmo45_native_duplex": True,
            "force_listen_count": 0,
        },
    }


def test_append_carries_bare_base64_and_no_speech_flag() -> None:
    event = sent(wire.append(b"\x01\x02" * 16, duration_ms=1, audio_end_ms=7, jpegs=[b"\xff\xd8x"]))

    assert base64.b64decode(event.pop("audio"), validate=True) == b"\x01\x02" * 16
    assert base64.b64decode(event.pop("video_frames")[0], validate=True) == b"\xff\xd8x"
    assert event == {
        "type": "input_audio_buffer.append",
        "input_audio_format": "pcm16",
        "sample_rate_hz": 16_000,
        "duration_ms": 1,
        "audio_end_ms": 7,
    }


def test_silence_is_zeros_of_one_period_and_no_speech() -> None:
    event = sent(wire.silence_append(1000, audio_end_ms=5000))

    assert base64.b64decode(event["audio"]) == bytes(32_000)
    assert event["is_speech"] is False
    assert (event["duration_ms"], event["audio_end_ms"]) == (1000, 5000)
    assert "video_frames" not in event


def test_small_events() -> None:
    assert sent(wire.commit()) == {"type": "input_audio_buffer.commit", "final": True}
    assert sent(wire.session_close()) == {"type": "session.close"}
    assert sent(wire.playback_ack("r", 1920)) == {
        "type": "playback.ack",
        "response_id": "r",
        "item_id": "item_r",
        "played_ms": 1920,
        "committed_ms": 1920,
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1]",
        '"x"',
        "null",
        "{}",
        '{"type": 3}',
        '{"type": "x", "a": NaN}',
        '{"type": "x", "a": NaN, "b": "\\ud83d"}',
        '{"type": "x", "a": -Infinity, "b": "\\ud83d"}',
        '{"type": "x", "a": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"type": "x", "b": "\\ud83d", "a": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"type": "x", "b": "\\ud83d", "a": 1' + "0" * 10_000 + "}",
        "\\ud83d",
    ],
    ids=lambda text: text[:40],
)
def test_what_is_no_event_is_read_as_none(text: str) -> None:
    assert wire.read_event(text) is None


def test_an_id_with_half_a_character_goes_back_as_it_came() -> None:
    event = wire.read_event('{"type": "response.created", "response_id": "r\\ud83d"}')
    assert event is not None

    ack = wire.encode(wire.playback_ack(wire.response_id_of(event) or "", 5))

    assert json.loads(ack)["response_id"] == "r\ud83d"
    assert b'"r\\ud83d"' in ack


def test_lone_surrogate_escape_is_read() -> None:
    event = wire.read_event('{"type": "x", "delta": "ok \\uD83D"}')

    assert event == {"type": "x", "delta": "ok \ud83d"}


@pytest.mark.parametrize(
    ("event", "wanted"),
    [
        ({"error": {"code": "c", "message": "m"}}, ("c", "m")),
        ({"error": {"code": None, "message": "busy"}}, ("error", "busy")),
        ({"error": "text", "code": "unsupported"}, ("unsupported", "text")),
        ({"code": "c", "message": "m"}, ("c", "m")),
        ({"error": []}, ("error", "")),
        ({"error": {"code": 500, "message": 7}}, ("500", "7")),
        ({"error": {"code": True, "message": {"deep": []}}}, ("error", "")),
        ({"error": {"code": "c\ud83d", "message": "\ud83d\udc4d \udc4d"}}, ("c\ufffd", "👍 \ufffd")),
        ({"error": {"code": "c", "message": "m" * 5000}}, ("c", "m" * 3997 + "...")),
        ({}, ("error", "")),
    ],
)
def test_errors_nested_and_flat(event: wire.Event, wanted: tuple[str, str]) -> None:
    assert wire.error_of(event) == wanted


@pytest.mark.parametrize(
    ("period", "wanted"),
    [
        (1000, 1000),
        (40, 40),
        (60_000, 60_000),
        (60_001, None),
        (10**30, None),
        (0, None),
        (-1, None),
        (True, None),
        ("1", None),
        (1.5, None),
    ],
)
def test_chunk_period_must_be_a_positive_integer(period: Any, wanted: int | None) -> None:
    assert wire.chunk_period_of({"session": {"capabilities": {"chunk_period_ms": period}}}) == wanted


@pytest.mark.parametrize(
    ("metadata", "wanted"),
    [
        ({"model_listen": True}, True),
        ({"model_listen": False}, False),
        ({"reason": "silence_or_noise"}, True),
        ({"model_listen": True, "buffering": True}, False),
        ({"buffering": True}, False),
        (None, True),
    ],
)
def test_which_listens_are_decisions(metadata: Any, wanted: bool) -> None:
    assert wire.is_own_decision({"response": {"metadata": metadata}}) is wanted


@pytest.mark.parametrize(
    ("event", "wanted"),
    [
        ({"response_id": "a", "response": {"id": "b"}}, "a"),
        ({"response": {"id": "b"}}, "b"),
        ({"response_id": 3, "response": {"id": None}}, None),
        ({"response": []}, None),
        ({"response_id": ""}, None),
        ({"response": {"id": ""}}, None),
    ],
)
def test_response_id(event: wire.Event, wanted: str | None) -> None:
    assert wire.response_id_of(event) == wanted


def test_status_absent_means_completed() -> None:
    assert wire.response_status_of({"response": {"id": "r"}}) == ("completed", "")
    details = {"response": {"status": "incomplete", "status_details": {"reason": "max_output_tokens"}}}
    assert wire.response_status_of(details) == ("incomplete", "max_output_tokens")


@pytest.mark.parametrize(
    ("event", "wanted"),
    [({"event": {"reason": "timeout"}}, "timeout"), ({"reason": "client_close"}, "client_close"), ({}, "")],
)
def test_end_reason(event: wire.Event, wanted: str) -> None:
    assert wire.end_reason_of(event) == wanted
