"""Preparation of audio and frames (evaluation.md 2), on media made here."""

from __future__ import annotations

import base64
import io
import json
import logging
import struct
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from client.frames import extract_stills
from client.media import (
    Frame,
    MediaError,
    MediaSource,
    frames_for_units,
    load_reference_voice,
    materialise,
    prepare,
    suffix_of,
)
from client.wav import read_pcm16

av = pytest.importorskip("av", reason="the extra `dataset` is not installed")


def wav(samples: Any, rate_hz: int = 16_000, subtype: str = "PCM_16", kind: str = "WAV") -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, rate_hz, subtype=subtype, format=kind)
    return file.getvalue()


def tone(seconds: float, rate_hz: int = 16_000, peak: float = 0.5, hz: float = 440.0) -> Any:
    return peak * np.sin(2 * np.pi * hz * np.arange(round(seconds * rate_hz)) / rate_hz)


def mp4(
    pictures: int,
    rate_hz: int = 10,
    codec: str = "libx264",
    size: tuple[int, int] = (64, 48),
    options: dict[str, str] | None = None,
    index_first_in: Path | None = None,
) -> bytes:
    """A clip whose n-th picture has brightness 20 + 10 * n (mod 200)."""
    file: Any = index_first_in or io.BytesIO()
    movflags = {"movflags": "faststart"} if index_first_in else {}
    with av.open(file, "w", format="mp4", options=movflags) as container:
        stream = container.add_stream(codec, rate=rate_hz, options={"crf": "10", **(options or {})})
        stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
        for number in range(pictures):
            grey = np.full((size[1], size[0], 3), brightness(number), np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(grey, format="rgb24")))
        container.mux(stream.encode(None))
    return index_first_in.read_bytes() if index_first_in else file.getvalue()


def brightness(number: int) -> int:
    return 20 + 10 * number % 200


def pixels(jpeg: bytes) -> Any:
    with av.open(io.BytesIO(jpeg)) as container:
        return next(container.decode(video=0)).to_ndarray(format="rgb24")


def samples_of(pcm: bytes) -> Any:
    return np.frombuffer(pcm, "<i2")


def source(content: bytes | Path, name: str = "clip") -> MediaSource:
    return MediaSource(name, content if isinstance(content, Path) else lambda: content, ".bin")


SUBTYPES = ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "ALAW"]


@pytest.mark.parametrize("subtype", SUBTYPES)
@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 22_050, 44_100, 48_000])
@pytest.mark.parametrize("channels", [1, 2])
def test_any_usual_wav_becomes_16_khz_mono_of_the_same_length(
    subtype: str, rate_hz: int, channels: int
) -> None:
    sound = np.repeat(tone(0.25, rate_hz)[:, None], channels, axis=1)

    pcm = samples_of(read_pcm16(wav(sound, rate_hz, subtype), "q.wav"))

    assert abs(len(pcm) - 4000) <= 1
    middle = pcm[500:3500]
    assert np.abs(middle - 32768 * tone(0.25)[500:3500]).max() < 0.03 * 32768


def test_extensible_and_rf64_containers_are_read() -> None:
    for kind in ("WAVEX", "RF64"):
        assert len(read_pcm16(wav(np.zeros((480, 2)), 48_000, kind=kind), kind)) == 320


def test_a_ready_wav_is_passed_through_bit_for_bit() -> None:
    sound = np.arange(-3000, 3000, dtype=np.int16)

    assert read_pcm16(wav(sound), "q.wav") == sound.astype("<i2").tobytes()


def test_other_chunks_around_the_samples_are_not_audio() -> None:
    body = struct.pack("<HHIIHH", 1, 1, 16_000, 32_000, 2, 16)
    junk = b"LIST" + struct.pack("<I", 3) + b"abc\0"
    data = b"data" + struct.pack("<I", 4) + b"\x01\x00\x02\x00"
    riff = b"WAVEfmt " + struct.pack("<I", 16) + body + junk + data + junk
    file = b"RIFF" + struct.pack("<I", len(riff)) + riff

    assert read_pcm16(file, "q.wav") == b"\x01\x00\x02\x00"


def test_the_tail_of_the_resampler_is_flushed() -> None:
    sound = np.zeros(44_100)
    sound[-200:] = 0.5

    pcm = samples_of(read_pcm16(wav(sound, 44_100), "q.wav"))

    assert abs(len(pcm) - 16_000) <= 1
    assert pcm[-40:-10].min() > 8_000


@pytest.mark.parametrize("rate_hz", [16_000, 44_100])
def test_peaks_beyond_full_scale_are_clipped_and_never_change_sign(rate_hz: int) -> None:
    sound = tone(0.1, rate_hz, peak=1.5, hz=100)

    pcm = samples_of(read_pcm16(wav(sound, rate_hz, "FLOAT"), "q.wav")).astype(int)

    wanted = tone(0.1, peak=1.5, hz=100)[: len(pcm)]
    loud = np.abs(wanted[: len(pcm)]) > 0.9
    assert (np.sign(pcm)[loud] == np.sign(wanted)[loud]).all()
    assert (pcm.min(), pcm.max()) == (-32768, 32767)


def test_stereo_is_averaged() -> None:
    sound = np.stack([np.full(160, 0.5), np.full(160, -0.25)], axis=1)

    assert set(samples_of(read_pcm16(wav(sound, subtype="FLOAT"), "q.wav"))) == {4096}


def test_a_length_left_open_by_a_pipe_means_to_the_end() -> None:
    whole = wav(np.ones(100, np.int16))
    piped = whole[:40] + b"\xff\xff\xff\xff" + whole[44:]

    assert len(read_pcm16(piped, "q.wav")) == 200


BAD_WAVS: list[tuple[str, bytes, str]] = [
    ("zero length", b"", "empty (0 bytes)"),
    ("text", b"hello, this is not audio", "not a WAV file"),
    ("another container", wav(np.zeros(100), kind="FLAC"), "not a WAV file"),
    ("samples cut short", wav(np.zeros(1000, np.int16))[:1000], "956 of the 2000 bytes"),
    ("float samples cut short", wav(np.zeros(1000), 44_100, "FLOAT")[:1000], "truncated WAV"),
    ("header cut short", wav(np.zeros(10, np.int16))[:30], "truncated WAV"),
    ("nothing but a magic", b"RIFF\x04\x00\x00\x00WAVE", "no fmt chunk"),
    ("no samples", wav(np.zeros(0, np.int16)), "without samples"),
    ("a second a sample", wav(np.zeros(10, np.int16), 1), "1 channels at 1 Hz"),
    ("not numbers", wav(np.full(100, np.nan), subtype="FLOAT"), "not finite"),
]


@pytest.mark.parametrize(
    ("content", "found"), [(c, f) for _, c, f in BAD_WAVS], ids=[n for n, _, _ in BAD_WAVS]
)
def test_a_wav_that_cannot_be_used_is_refused_by_name_with_what_was_found(content: bytes, found: str) -> None:
    with pytest.raises(MediaError, match=r"^sub/q\.wav: ") as caught:
        read_pcm16(content, "sub/q.wav")

    assert found in str(caught.value)
    assert "allowed: a WAV file" in str(caught.value)


def test_a_missing_file_and_a_folder_are_refused_by_name(tmp_path: Path) -> None:
    for path in (tmp_path / "gone.wav", tmp_path):
        with pytest.raises(MediaError, match=str(path)):
            read_pcm16(path, str(path))


@pytest.mark.parametrize("codec", ["libx264", "libx265", "mpeg4"])
def test_stills_are_the_first_picture_at_or_after_each_whole_second(codec: str) -> None:
    if codec not in av.codecs_available:
        pytest.skip(f"this PyAV has no encoder {codec}")
    quiet = {"x265-params": "log-level=none"} if codec == "libx265" else {}
    clip = mp4(35, codec=codec, options=quiet)

    stills = extract_stills(clip, "c.mp4", fps=1.0, duration_s=None)

    assert [t for t, _ in stills.frames] == [0.0, 1.0, 2.0, 3.0]
    assert stills.duration_s == pytest.approx(3.5)
    for t_s, jpeg in stills.frames:
        assert abs(pixels(jpeg).mean() - brightness(round(t_s * 10))) < 4


def test_timestamps_stay_strictly_below_the_duration() -> None:
    clip = mp4(40)

    assert len(extract_stills(clip, "c.mp4", fps=1.0, duration_s=3.0).frames) == 3
    assert len(extract_stills(clip, "c.mp4", fps=1.0, duration_s=3.05).frames) == 4
    assert len(extract_stills(clip, "c.mp4", fps=1.0, duration_s=60.0).frames) == 4
    assert [t for t, _ in extract_stills(clip, "c.mp4", fps=0.5, duration_s=None).frames] == [0.0, 2.0]


def test_one_picture_serves_all_timestamps_up_to_it() -> None:
    stills = extract_stills(mp4(3, rate_hz=1), "c.mp4", fps=2.0, duration_s=None)

    assert [t for t, _ in stills.frames] == [0.0, 0.5, 1.0, 1.5, 2.0]
    assert stills.frames[1][1] == stills.frames[2][1] != stills.frames[0][1]


def test_a_picture_beyond_the_duration_serves_only_timestamps_below_it() -> None:
    stills = extract_stills(mp4(3, rate_hz=1), "c.mp4", fps=2.0, duration_s=2.0)

    assert [t for t, _ in stills.frames] == [0.0, 0.5, 1.0, 1.5]


def test_broadcast_rates_do_not_drift() -> None:
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream("mpeg4", rate=Fraction(30_000, 1001))
        stream.width, stream.height, stream.pix_fmt = 32, 32, "yuv420p"
        for _ in range(121):
            container.mux(stream.encode(av.VideoFrame(32, 32, "yuv420p")))
        container.mux(stream.encode(None))

    stills = extract_stills(file.getvalue(), "c.mp4", fps=1.0, duration_s=4.004)

    assert [t for t, _ in stills.frames] == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_stills_are_full_range_jpegs_at_the_scale_of_the_reference() -> None:
    _, jpeg = extract_stills(mp4(1), "c.mp4", fps=1.0, duration_s=None).frames[0]

    table = jpeg[jpeg.index(b"\xff\xdb") + 5 :]
    assert jpeg[:2] == b"\xff\xd8"
    assert list(table[:4]) == [8, 6, 6, 7]  # MPEG's intra matrix (8, 16, 16, 19) times 3 / 8


def test_a_clip_stored_on_its_side_is_turned_upright() -> None:
    clip = mp4(1, size=(64, 32), codec="mpeg4")
    one, none = 0x10000, 0
    upright = struct.pack(">9i", one, none, none, none, one, none, none, none, 0x40000000)
    quarter = struct.pack(">9i", none, one, none, -one, none, none, none, none, 0x40000000)
    track = clip.index(b"tkhd")
    at = clip.index(upright, track)
    turned = clip[:at] + quarter + clip[at + 36 :]

    _, jpeg = extract_stills(turned, "c.mp4", fps=1.0, duration_s=None).frames[0]

    assert pixels(jpeg).shape == (64, 32, 3)


def test_frames_before_damage_are_kept_and_the_loss_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    clip = mp4(40, codec="mpeg4", options={"g": "1"})
    with av.open(io.BytesIO(clip)) as container:
        packets = [p for p in container.demux(video=0) if p.pos is not None and p.size]
    at, size = packets[25].pos, packets[25].size
    damaged = clip[:at] + b"\x00" * size + clip[at + size :]

    with caplog.at_level(logging.WARNING, "client.frames"):
        stills = extract_stills(damaged, "c.mp4", fps=1.0, duration_s=None)

    assert [t for t, _ in stills.frames] == [0.0, 1.0, 2.0]
    assert "c.mp4: decoding failed after 3 frames" in caplog.text


def test_a_clip_cut_off_in_its_samples_keeps_what_is_there(tmp_path: Path) -> None:
    file = mp4(40, codec="mpeg4", options={"g": "1"}, index_first_in=tmp_path / "c.mp4")
    with av.open(io.BytesIO(file)) as container:
        packets = [p for p in container.demux(video=0) if p.pos is not None and p.size]

    stills = extract_stills(file[: packets[25].pos], "c.mp4", fps=1.0, duration_s=None)

    assert [t for t, _ in stills.frames] == [0.0, 1.0, 2.0]


def sound_only_mp4() -> bytes:
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream("aac", rate=16_000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        frame.sample_rate = 16_000
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return file.getvalue()


BAD_CLIPS: list[tuple[str, Callable[[], bytes], str]] = [
    ("zero length", lambda: b"", "cannot be opened as video"),
    ("text", lambda: b"not a clip" * 100, "cannot be opened as video"),
    ("index cut off", lambda: mp4(5)[:200], "cannot be opened as video"),
    ("no pictures", lambda: mp4(0), "cannot be opened|zero duration|no video"),
    ("sound alone", sound_only_mp4, "no video stream"),
]


@pytest.mark.parametrize(
    ("make", "found"), [(m, f) for _, m, f in BAD_CLIPS], ids=[n for n, _, _ in BAD_CLIPS]
)
def test_a_clip_that_cannot_be_used_is_refused_by_name_with_what_was_found(
    make: Callable[[], bytes], found: str
) -> None:
    with pytest.raises(MediaError, match=rf"^c\.mp4: .*({found}).*allowed: a video file"):
        extract_stills(make(), "c.mp4", fps=1.0, duration_s=None)


@pytest.mark.parametrize("fps", [0.0, -1.0, float("nan"), float("inf")])
def test_a_frame_rate_that_is_no_rate_is_refused(fps: float) -> None:
    with pytest.raises(ValueError, match="fps"):
        extract_stills(b"", "c.mp4", fps=fps, duration_s=None)


def riding(stamps_s: list[float], units: int, unit_ms: int = 1000) -> list[float | None]:
    frames = [Frame(t_s, b"") for t_s in stamps_s]
    return [None if f is None else f.t_s for f in frames_for_units(frames, units, unit_ms)]


FRAME_RULES: list[tuple[str, list[float], int, int, list[float | None]]] = [
    ("frame k rides unit k", [0, 1, 2], 3, 1000, [0, 1, 2]),
    ("frames beyond the audio are not sent", [0, 1, 2], 2, 1000, [0, 1]),
    ("audio beyond the frames goes alone", [0], 3, 1000, [0, None, None]),
    ("more frames than units lag", [0, 0.5, 1, 1.5], 4, 1000, [0, 0.5, 1, 1.5]),
    ("a frame stamped at the unit's end rides it", [0, 2, 4], 5, 1000, [0, 2, None, 4, None]),
    ("no frames", [], 2, 1000, [None, None]),
    ("stamps that floats cannot hold", [k / 10 for k in range(6)], 6, 100, [k / 10 for k in range(6)]),
    ("short units wait for their frame", [0, 1], 5, 250, [0, None, None, 1, None]),
]


@pytest.mark.parametrize(
    ("stamps", "units", "unit_ms", "wanted"),
    [rule[1:] for rule in FRAME_RULES],
    ids=[r[0] for r in FRAME_RULES],
)
def test_at_most_one_frame_rides_a_unit(
    stamps: list[float], units: int, unit_ms: int, wanted: list[float | None]
) -> None:
    assert riding(stamps, units, unit_ms) == wanted


def test_prepare_puts_question_and_clip_together(tmp_path: Path) -> None:
    question = tmp_path / "q.wav"
    question.write_bytes(wav(tone(2.5, 44_100), 44_100))

    prepared = prepare("RTD_OCR", "7", question_audio=source(question), video=source(mp4(25)), fps=2.0)

    assert (prepared.split, prepared.id, len(prepared.pcm)) == ("RTD_OCR", "7", 80_000)
    assert [f.t_s for f in prepared.frames] == [0.0, 0.5, 1.0, 1.5, 2.0]
    assert prepared.video_duration_s == pytest.approx(2.5)


def test_a_clip_without_question_is_sent_with_silence_of_its_length() -> None:
    prepared = prepare("RTD_OCR", "7", question_audio=None, video=source(mp4(20)))

    assert prepared.pcm == bytes(64_000)


def test_a_question_without_clip_has_no_frames_and_its_own_duration() -> None:
    prepared = prepare("RTD_OCR", "7", question_audio=source(wav(tone(1.5))), video=None)

    assert (prepared.frames, prepared.video_duration_s) == ((), 1.5)


def test_nothing_to_prepare_is_an_error_that_names_the_sample() -> None:
    with pytest.raises(MediaError, match="RTD_OCR/7: no media"):
        prepare("RTD_OCR", "7", question_audio=None, video=None)


def test_materialising_writes_whole_files_once(tmp_path: Path) -> None:
    media = MediaSource("610 video", lambda: b"clip", ".mp4")

    first = materialise(media, tmp_path / "m", "610")
    stamp = first.stat().st_mtime_ns
    again = materialise(media, tmp_path / "m", "610")

    assert (first, first.read_bytes()) == (tmp_path / "m" / "610.mp4", b"clip")
    assert (again, again.stat().st_mtime_ns) == (first, stamp)
    assert [p.name for p in (tmp_path / "m").iterdir()] == ["610.mp4"]


def test_materialising_replaces_other_bytes_and_uses_a_file_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "610.mp4").write_bytes(b"old")

    written = materialise(MediaSource("610", lambda: b"new", ".mp4"), tmp_path, "610")
    used = materialise(source(tmp_path / "local.mp4"), tmp_path, "610")

    assert written.read_bytes() == b"new"
    assert used == tmp_path / "local.mp4"


@pytest.mark.parametrize(
    ("name", "suffix"),
    [
        ("a.webm", ".webm"),
        (None, ".mp4"),
        ("", ".mp4"),
        ("a.b/c", ".mp4"),
        ("x.averylongsuffix", ".mp4"),
        ("x.m p", ".mp4"),
    ],
)
def test_a_suffix_is_taken_over_when_short_and_plain(name: str | None, suffix: str) -> None:
    assert suffix_of(name, ".mp4") == suffix


def test_the_reference_voice_is_the_files_own_bytes(tmp_path: Path) -> None:
    file = tmp_path / "voice.wav"
    file.write_bytes(wav(tone(0.1, 44_100), 44_100))

    voice = load_reference_voice(file)

    head, data = voice.data_url.split(",")
    assert head == "data:audio/wav;base64"
    assert base64.b64decode(data) == file.read_bytes()
    assert len(voice.sha256) == 64


@pytest.mark.parametrize("content", [None, b"", b"text", wav(np.zeros(99, np.int16))[:100]])
def test_a_reference_voice_that_is_no_whole_wav_is_refused(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "voice.wav"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(MediaError, match=r"voice\.wav"):
        load_reference_voice(file)


def reported(shared_data: Path, case_id: str) -> Any:
    cases = shared_data.parent / "cases" / "field_reports.json"
    if not cases.is_file():
        pytest.skip("the field reports are not here")
    return next(case for case in json.loads(cases.read_text()) if case["id"] == case_id)


@pytest.mark.shared_data
@pytest.mark.parametrize("case_id", ["fr30-wav-extensible", "fr31-wav-float-stereo"])
def test_reported_wavs_give_the_length_they_should(shared_data: Path, case_id: str) -> None:
    case = reported(shared_data, case_id)

    pcm = read_pcm16(base64.b64decode(case["input"]["bytes_base64"]), case["input"]["filename"])

    assert abs(len(pcm) // 2 - case["checks"]["pcm16_samples_16k"]) <= 1


@pytest.mark.shared_data
def test_reported_float_stereo_keeps_the_sign_of_its_peaks(shared_data: Path) -> None:
    content = base64.b64decode(reported(shared_data, "fr31-wav-float-stereo")["input"]["bytes_base64"])
    sound, rate_hz = soundfile.read(io.BytesIO(content))
    mono = np.clip(sound.mean(axis=1), -1, 1)

    pcm = samples_of(read_pcm16(content, "q.wav")) / 32768

    at = (np.arange(len(pcm)) * rate_hz / 16_000).round().astype(int).clip(max=len(mono) - 1)
    loud = np.abs(mono[at]) > 0.7
    assert (np.sign(pcm[loud]) == np.sign(mono[at][loud])).all()


@pytest.mark.shared_data
def test_reported_clips_without_sound_and_without_frames(shared_data: Path) -> None:
    silent = base64.b64decode(reported(shared_data, "fr32-mp4-no-audio")["input"]["bytes_base64"])
    empty = base64.b64decode(reported(shared_data, "fr33-mp4-zero-frames")["input"]["bytes_base64"])

    prepared = prepare("RTD_OCR", "32", question_audio=None, video=source(silent))
    assert [f.t_s for f in prepared.frames] == [0.0, 1.0, 2.0]
    assert not any(prepared.pcm)
    with pytest.raises(MediaError, match="no video frames"):
        prepare("RTD_OCR", "33", question_audio=None, video=source(empty))
    with pytest.raises(MediaError, match="no video frames"):
        prepare("RTD_OCR", "33", question_audio=None, video=source(empty), video_duration_s=5.0)
