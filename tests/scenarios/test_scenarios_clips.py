"""Made input: exact, seeded, and speech where it is meant to be."""

from __future__ import annotations

import io

import numpy as np
import pytest

from scenarios.clips import RATE_HZ, make_frames, make_pcm
from scenarios.model import Clip

SPEECH_RMS = 0.003


def loudness(pcm: bytes) -> np.ndarray:
    samples = np.frombuffer(pcm, "<i2").astype(np.float64) / 32768
    units = [samples[at : at + RATE_HZ] for at in range(0, len(samples), RATE_HZ)]
    return np.array([np.sqrt(np.mean(unit**2)) for unit in units])


@pytest.mark.parametrize(("seconds", "size"), [(3.4, 108_800), (3.0, 96_000), (0.001, 32), (2.00001, 64_000)])
def test_audio_is_as_long_as_the_clip(seconds: float, size: int) -> None:
    assert len(make_pcm(Clip(seconds=seconds), 1)) == size


@pytest.mark.parametrize("seed", range(20))
def test_units_with_speech_are_speech_and_the_others_exact_zeros(seed: int) -> None:
    pcm = make_pcm(Clip(seconds=5, speech=[0.98, 3.02]), seed)
    samples = np.frombuffer(pcm, "<i2")

    assert not samples[: round(0.98 * RATE_HZ)].any()
    assert not samples[round(3.02 * RATE_HZ) :].any()
    assert (loudness(pcm) > SPEECH_RMS).tolist() == [True, True, True, True, False]
    assert np.abs(samples).max() < 20_000


def test_speech_is_everywhere_or_nowhere_when_told_so() -> None:
    assert (loudness(make_pcm(Clip(seconds=4), 1)) > 10 * SPEECH_RMS).all()
    assert make_pcm(Clip(seconds=1, speech=[]), 1) == bytes(32_000)


def test_the_same_seed_and_sample_give_the_same_bytes_and_others_differ() -> None:
    clip = Clip(seconds=2)
    made = {(seed, name): make_pcm(clip, seed, name) for seed in (1, 2) for name in ("", "a", "b")}

    assert len(set(made.values())) == 6
    assert make_pcm(clip, 1, "a") == made[1, "a"]
    assert make_frames(clip, 1, "a") == make_frames(clip, 1, "a") != make_frames(clip, 2, "a")


@pytest.mark.parametrize(
    "size", [400, 401, 24_000, 65_766, 65_767, 65_768, 65_769, 65_770, 131_304, 2_000_000]
)
def test_frames_are_jpegs_of_exactly_their_size(size: int) -> None:
    frames = make_frames(Clip(seconds=2.1, frame_bytes=size), 7)

    assert [len(frame) for frame in frames] == [size] * 3
    assert len(set(frames)) == 3
    assert all(frame[:2] == b"\xff\xd8" and frame[-2:] == b"\xff\xd9" for frame in frames)
    assert all(_segments(frame) for frame in frames)


def _segments(jpeg: bytes) -> list[int]:
    """Markers from the start to the scan; fails where a segment's length leads off the next marker."""
    at, markers = 2, []
    while True:
        assert jpeg[at] == 0xFF
        markers.append(jpeg[at + 1])
        if markers[-1] == 0xDA:
            return markers
        at += 2 + int.from_bytes(jpeg[at + 2 : at + 4], "big")


def test_one_frame_a_second_lies_strictly_before_the_end() -> None:
    counts = [len(make_frames(Clip(seconds=seconds), 1)) for seconds in (0.5, 1.0, 3.0, 3.4)]

    assert counts == [1, 1, 3, 4]
    assert make_frames(Clip(seconds=3, frames=False), 1) == []


@pytest.mark.parametrize("size", [400, 24_000, 140_000])
def test_a_decoder_reads_the_frames(size: int) -> None:
    av = pytest.importorskip("av", reason="PyAV is not installed (extra `dataset`)")
    for jpeg in make_frames(Clip(seconds=2, frame_bytes=size), 3):
        with av.open(io.BytesIO(jpeg), format="mjpeg") as container:
            picture = next(container.decode(video=0))
        assert (picture.width, picture.height) == (16, 16)


def test_a_clip_of_a_dataset_is_not_made() -> None:
    clip = Clip(dataset="mini", split="RTD_Omni", id="610")

    with pytest.raises(ValueError, match="RTD_Omni/610 of dataset 'mini'"):
        make_pcm(clip, 1)
    with pytest.raises(ValueError, match="not made from a seed"):
        make_frames(clip, 1)
