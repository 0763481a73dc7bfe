"""Speech, commits, clears, frames (protocol.md 5)."""

from __future__ import annotations

from typing import Any

import pytest

from scenarios.model import Reply

FAN_OUT = [
    "conversation.item.added",
    "conversation.item.created",
    "input_audio_buffer.committed",
    "conversation.item.done",
]
STARTED = "input_audio_buffer.speech_started"
STOPPED = "input_audio_buffer.speech_stopped"


def test_speech_started_comes_once_an_input(talk: Any) -> None:
    t = talk().open().append().append().commit().append()

    assert t.names.count(STARTED) == 2
    assert t.of(STARTED)[0]["item_id"] != t.of(STARTED)[1]["item_id"]


def test_zeros_are_no_speech(talk: Any) -> None:
    assert STARTED not in talk().open().append(loud=False).names


@pytest.mark.parametrize(
    ("fields", "speech"),
    [
        ({"is_speech": False}, False),
        ({"speech": True}, True),
        ({"vad": {"is_speech": False}}, False),
        ({"vad": {"speech_probability": 0.4}}, False),
        ({"vad": {"probability": 0.5}}, True),
        ({"speech_probability": 0.49}, False),
        ({"vad": {"silence_rms": 0.9}}, False),
        ({"is_speech": True, "vad": {"is_speech": False}}, True),
        ({}, True),
    ],
)
def test_what_the_client_says_of_speech_comes_before_what_is_heard(
    talk: Any, fields: Any, speech: bool
) -> None:
    assert (STARTED in talk().open().append(loud=True, **fields).names) is speech


def test_commit_of_nothing_is_an_error_with_the_clients_event_id(talk: Any) -> None:
    t = talk().open().forget().send("input_audio_buffer.commit", event_id="evt_42")

    assert t.events[0]["error"]["code"] == "input_audio_buffer_empty"
    assert t.events[0]["error"]["event_id"] == "evt_42"


def test_commit_after_speech_on_a_boundary_submits_nothing(talk: Any) -> None:
    t = talk().open().append().until(1).forget().commit().until(9)

    assert t.names == [STOPPED, *FAN_OUT]
    assert t.units == []


def test_commit_after_speech_flushes_the_residual_as_one_more_unit(talk: Any) -> None:
    t = (
        talk(Reply(starts_at_unit=1, units=1, text="x"))
        .open()
        .append(1400)
        .until(1)
        .forget()
        .commit()
        .until(9)
    )

    assert t.names[:6] == [STOPPED, *FAN_OUT, "response.created"]
    assert t.units == ["commit speak"]


def test_commit_flushes_everything_as_one_submission(talk: Any) -> None:
    t = talk().open().append(3500).until(1).forget().commit().until(9)

    assert t.units == ["commit listen"]
    assert t.session.input.buffer.samples == 0


def test_commit_of_silence_drops_the_residual_and_listens(talk: Any) -> None:
    t = talk().open().append(400, loud=False, video_frames=["/9gx"]).forget().commit().until(9)

    assert t.names == [*FAN_OUT, "response.listen"]
    committed = t.of("input_audio_buffer.committed")[0]["event"]
    assert (committed["empty"], committed["is_speech"], committed["no_response"]) == (True, False, True)
    metadata = t.of("response.listen")[0]["response"]["metadata"]
    assert metadata["reason"] == "silence_or_noise"
    assert "model_listen" not in metadata
    assert t.of("conversation.item.done")[0]["item"]["content"] == [
        {"type": "input_audio", "transcript": "", "is_speech": False}
    ]
    assert (t.session.input.buffer.samples, t.session.input.buffer.frames) == (0, 0)


def test_commit_of_silence_takes_the_oldest_unused_item_of_a_normal_commit(talk: Any) -> None:
    t = talk().open().append().commit().append().commit().until(3)
    first, second = (e["item_id"] for e in t.of("input_audio_buffer.committed"))
    t.forget()

    for expected, fan_out in ((first, FAN_OUT[2:]), (second, FAN_OUT[2:]), (None, FAN_OUT)):
        t.forget().append(100, loud=False).commit()

        assert t.names == [*fan_out, "response.listen"]
        item_id = t.of("input_audio_buffer.committed")[0]["item_id"]
        assert item_id == expected or (expected is None and item_id not in (first, second))


def test_a_refused_append_with_speech_counts_as_input_for_the_commit(talk: Any) -> None:
    t = talk().open().send("input_audio_buffer.append", audio="AAAB").forget().commit()

    assert t.names == [STOPPED, *FAN_OUT]


def test_speech_started_can_precede_the_error_of_the_same_append(talk: Any) -> None:
    t = talk().open().forget().append(video_frames=["nope"])

    assert t.names == [STARTED, "error"]
    assert t.events[1]["error"]["param"] == "video_frames"
    assert t.session.input.buffer.samples == 0


def test_the_alias_input_commit_is_not_checked_for_an_empty_buffer(talk: Any) -> None:
    assert talk().open().forget().send("input.commit").names == FAN_OUT


def test_hints_are_joined_and_told_at_the_commit(talk: Any) -> None:
    t = talk().open().append(text="what is ").append(transcript="that").forget().commit()

    assert t.names[4] == "conversation.item.input_audio_transcription.completed"
    assert t.events[4]["transcript"] == "what is that"
    assert t.of("conversation.item.done")[0]["item"]["content"][0]["transcript"] == "what is that"


def test_the_item_of_speech_is_the_item_of_the_commit(talk: Any) -> None:
    t = talk().open().append().commit()

    ids = {t.of(STARTED)[0]["item_id"], t.of(STOPPED)[0]["item_id"], t.of(FAN_OUT[2])[0]["item_id"]}
    assert len(ids) == 1


def test_clear_forgets_the_input(talk: Any) -> None:
    t = talk().open().append(500).send("input_audio_buffer.clear").forget().commit()

    assert t.errors == ["input_audio_buffer_empty"]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"audio": None}, "bad_event"),
        ({"audio": ""}, "bad_event"),
        ({"audio": "----"}, "bad_event"),
        ({"audio": "AAA="}, None),
        ({"audio": "AAAA"}, "bad_audio"),
        ({"audio": "AAAAA"}, "bad_audio"),
        ({"input_audio_format": "opus"}, "unsupported_audio_format"),
        ({"format": {"type": "audio/pcm", "rate": 16000}}, None),
        ({"sample_rate_hz": 7999}, "bad_event"),
        ({"sample_rate_hz": "16000"}, "bad_event"),
        ({"video_frames": "x"}, "invalid_video_frames"),
        ({"video_frames": ["/9gx"] * 3}, "invalid_video_frames"),
        ({"video_frames": ["/9gx", None, "/9gx"]}, None),
        ({"video_frames": [""]}, "invalid_video_frames"),
        ({"video_frames": ["data:image/jpeg;base64,/9gx"]}, "invalid_video_frames"),
        ({"video_frames": ["AAAA"]}, "invalid_video_frames"),
        ({"video_frames": ["/9gx"], "max_slice_nums": 2}, "invalid_video_frames"),
    ],
)
def test_a_bad_append_is_refused_with_its_code_and_costs_only_itself(
    talk: Any, fields: Any, code: str | None
) -> None:
    t = talk().open().append(1000, **fields)

    assert t.errors == ([] if code is None else [code])
    assert t.ends == []


@pytest.mark.parametrize(
    ("fmt", "rate_hz", "seconds_bytes"),
    [
        ("pcm16", 24_000, 48_000),
        ("pcm16", 8_000, 16_000),
        ("pcm_f32le", 16_000, 64_000),
        ("g711_ulaw", 8_000, 8_000),
        ("audio/pcmu", 16_000, 16_000),
    ],
)
def test_a_second_of_any_format_is_a_unit(talk: Any, fmt: str, rate_hz: int, seconds_bytes: int) -> None:
    import base64

    audio = base64.b64encode(bytes(seconds_bytes)).decode()

    t = talk().open().append(audio=audio, format=fmt, sample_rate_hz=rate_hz).until(2)

    assert t.units == ["append listen"]


def _wav(seconds: float, *, rate_hz: int = 8_000, channels: int = 2) -> str:
    import base64
    import io
    import wave

    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(channels)
        out.setsampwidth(2)
        out.setframerate(rate_hz)
        out.writeframes(b"\x00\x10" * int(seconds * rate_hz) * channels)
    return base64.b64encode(file.getvalue()).decode()


@pytest.mark.parametrize("name", ["input.audio.append", "push_chunk"])
def test_the_older_aliases_of_append_take_a_wav_unless_they_name_a_format(talk: Any, name: str) -> None:
    t = talk().open().send(name, audio=_wav(1.0)).send(name, audio="AAA=" * 1, format="pcm16").until(1)

    assert t.names.count(STARTED) == 1
    assert t.units == ["append listen"]
    assert t.session.input.buffer.samples == 1
    assert t.errors == []


@pytest.mark.parametrize("audio", [None, "AAA=", "UklGRiQAAABXQVZF"])
def test_an_alias_without_a_wav_is_bad_audio(talk: Any, audio: Any) -> None:
    assert talk().open().send("push_chunk", audio=audio).errors == ["bad_audio"]
