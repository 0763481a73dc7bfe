"""Reading one `input_audio_buffer.append` (protocol.md 5.1 to 5.3). Each payload is decoded once and hashed once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mockserver.audio import INPUT_FORMATS, RATES_HZ, SAMPLE_BYTES, digest, loudness, model_samples
from mockserver.capabilities import Config, format_name, given
from mockserver.lifting import Media
from mockserver.wire import Event, Refusal, decode_base64, told_value

MAX_FRAMES = 2
MAX_FRAME_CHARS = 4_000_000


@dataclass(slots=True)
class Append:
    """What an append holds, well-formed or not."""

    fmt: str
    """Plain format name."""
    rate_hz: int
    audio: bytes = b""
    """Whole samples; empty when there is a problem."""
    audio_problem: Refusal | None = None
    strict_base64: bool = True
    frames: list[str] = field(default_factory=list)
    """Digests of the frames that are not null."""
    frames_problem: Refusal | None = None
    told: Event = field(default_factory=dict)
    """For the journal."""
    samples: int = 0
    """Of the audio, at the model's rate."""

    def speech(self, event: Event, silence_rms: float) -> bool:
        """Whether it counts as speech (protocol.md 5.2): said by the client, else heard; undecodable audio counts."""
        for key in ("is_speech", "speech"):
            if isinstance(event.get(key), bool):
                return bool(event[key])
        vad = event.get("vad")
        if isinstance(vad, dict):
            if isinstance(vad.get("is_speech"), bool):
                return bool(vad["is_speech"])
            for key in ("speech_probability", "probability"):
                if _is_number(vad.get(key)):
                    return bool(vad[key] >= 0.5)
            if _is_number(vad.get("silence_rms")):
                silence_rms = vad["silence_rms"]
        if _is_number(event.get("speech_probability")):
            return bool(event["speech_probability"] >= 0.5)
        if self.audio_problem is not None:
            return self.audio_problem.code == "bad_audio"
        return loudness(self.audio, self.fmt) >= silence_rms


_NUMBER = (int, float)
"""No union: one would be built anew for every question."""
_PICTURE_STARTS = (b"\xff\xd8", b"\x89PNG")


def _is_number(value: Any) -> bool:
    return isinstance(value, _NUMBER) and not isinstance(value, bool)


def read_append(event: Event, config: Config) -> Append:
    """Decode an append.

    Problems of audio and frames are noted, not raised: speech detection comes before them.

    Raises Refusal: `unsupported_audio_format` or `bad_event` for the rate; such an append leaves no trace.
    """
    asked = event.get("format") or event.get("input_audio_format")
    fmt = INPUT_FORMATS.get((format_name(asked) or "(none)") if asked else config.input_format)
    if fmt is None:
        raise Refusal(
            "unsupported_audio_format",
            f"Unsupported input_audio_format: {told_value(asked)}",
            section="5.1",
            echoes=True,
        )
    rate = given(event.get("sample_rate_hz"), event.get("sample_rate"), config.input_rate_hz)
    if not _is_number(rate) or int(rate) not in RATES_HZ:
        raise Refusal(
            "bad_event",
            f"sample_rate_hz must be 8000 to 192000: {told_value(rate)}",
            section="5.1",
            param="sample_rate_hz",
            echoes=True,
        )
    append = Append(fmt, int(rate))
    _read_audio(append, event.get("audio") or event.get("delta"))
    told = append.told
    told["audio_bytes"] = len(append.audio)
    if append.audio:
        told["audio_sha"] = digest(append.audio)
    for key in ("audio_end_ms", "duration_ms", "is_speech"):
        value = event.get(key)
        if isinstance(value, _NUMBER):
            told[key] = value
    frames = event.get("video_frames")
    if frames is not None:
        _read_frames(append, frames, event.get("max_slice_nums"))
    return append


def _read_audio(append: Append, audio: Any) -> None:
    if isinstance(audio, Media):
        data = audio.data
    elif not isinstance(audio, str) or not audio:
        append.audio_problem = Refusal("bad_event", "input_audio_buffer.append requires audio", section="5.1")
        return
    else:
        try:
            data, append.strict_base64 = decode_base64(audio)
        except ValueError as error:
            append.audio_problem = Refusal("bad_audio", f"audio cannot be decoded: {error}", section="5.1")
            return
    if not data:
        append.audio_problem = Refusal("bad_event", "input_audio_buffer.append requires audio", section="5.1")
    elif len(data) % SAMPLE_BYTES[append.fmt]:
        append.audio_problem = Refusal("bad_audio", f"{len(data)} bytes end inside a sample", section="5.1")
    else:
        append.audio = data
        append.samples = model_samples(len(data) // SAMPLE_BYTES[append.fmt], append.rate_hz)


def _read_frames(append: Append, frames: Any, max_slice_nums: Any) -> None:
    problem = None
    if max_slice_nums not in (None, 1) or isinstance(max_slice_nums, bool):
        problem = f"max_slice_nums must be null or 1: {told_value(max_slice_nums)}"
    elif not isinstance(frames, list):
        problem = f"video_frames must be a list: {type(frames).__name__}"
    elif len(frames) > MAX_FRAMES and sum(frame is not None for frame in frames) > MAX_FRAMES:
        problem = f"at most {MAX_FRAMES} frames an append: {len(frames)}"
    else:
        told = []
        for frame in frames:
            if frame is None:
                continue
            problem, data = _read_frame(frame)
            if problem is not None:
                break
            append.frames.append(digest(data))
            told.append({"bytes": len(data), "sha": append.frames[-1]})
        append.told["frames"] = told
    if problem is not None:
        append.frames = []
        append.frames_problem = Refusal(
            "invalid_video_frames", problem, section="5.3", param="video_frames", echoes=True
        )


def _read_frame(frame: Any) -> tuple[str | None, bytes]:
    lifted = isinstance(frame, Media)
    if not lifted and (not isinstance(frame, str) or not frame):
        return "a frame must be a non-empty string", b""
    size = frame.characters if lifted else len(frame)
    if size > MAX_FRAME_CHARS:
        return f"a frame has {size} characters; at most {MAX_FRAME_CHARS}", b""
    if lifted:
        data = frame.data
    else:
        try:
            data, strict = decode_base64(frame)
        except ValueError as error:
            return f"a frame is not base64: {error}", b""
        if not strict:
            return "a frame is not bare base64", b""
    if not data.startswith(_PICTURE_STARTS):
        return "a frame is neither JPEG nor PNG", b""
    return None, data
