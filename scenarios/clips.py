"""Input made from a seed: speech-like audio, and JPEG frames of an exact size (evaluation.md 2)."""

from __future__ import annotations

import base64
import hashlib
import math
from functools import lru_cache

import numpy as np

from scenarios.model import Clip

RATE_HZ = 16_000
SPEECH_PEAK = 9_000
"""Largest sample of made speech, of 32767."""
KEPT_BYTES = 1_000_000
"""Sound or stills of a clip that are not more are kept: a matrix of defects plays each scenario a hundred times."""
_KEPT_CLIPS = 64
MAX_COMMENT_BYTES = 65_533
"""Payload of one COM segment: its 16-bit length counts itself."""
_COMMENT_HEAD_BYTES = 4

# A 16x16 baseline JPEG, encoded once with PyAV (mjpeg, optimal Huffman tables); its own comment taken out.
_JPEG = base64.b64decode(
    "/9j/2wBDAAgEBAQEBAUFBQUFBQYGBgYGBgYGBgYGBgYHBwcICAgHBwcGBgcHCAgICAkJCQgICAgJCQoKCgwMCwsODg4RERT/"
    "xABaAAEBAAAAAAAAAAAAAAAAAAAGBwEBAQAAAAAAAAAAAAAAAAAAAQMQAAIDAQAAAAAAAAAAAAAAAAAGBSKhMhEAAQMFAQAA"
    "AAAAAAAAAAAAAAYjBQcyoVFBM//AABEIABAAEAMBIgACEQADEQD/2gAMAwEAAhEDEQA/AJ9EqnNME8Sq80wSxKpzTBNEqnNM"
    "KTCwucyFNl54u66f/9k="
)


def make_pcm(clip: Clip, seed: int, sample_id: str = "") -> bytes:
    """The question audio of a made clip.

    Args:
        clip: with `seconds`; `speech` says where there is sound, all else is exact zeros.
        seed: of the run; the same seed, sample and clip give the same bytes.
        sample_id: makes samples of one scenario differ.
    Returns: 16 kHz mono PCM16 little-endian, `round(seconds * 16000)` samples. A second that holds 20 ms of
        the sound is above RMS 0.003, so its append is speech (protocol.md 5.2).
    Raises ValueError: the clip is taken from a dataset.
    """
    if clip.seconds is None:
        raise ValueError(f"clip {clip.split}/{clip.id} of dataset {clip.dataset!r} is not made from a seed")
    speech = None if clip.speech is None else tuple(clip.speech)
    make = _pcm if clip.seconds * RATE_HZ * 2 <= KEPT_BYTES else _pcm.__wrapped__
    return make(clip.seconds, speech, seed, sample_id)


def make_frames(clip: Clip, seed: int, sample_id: str = "") -> list[bytes]:
    """The stills of a made clip, one a second from 0 on, strictly before its end.

    Args:
        clip: with `seconds`, `frames` and `frame_bytes`.
        seed: of the run.
        sample_id: makes samples of one scenario differ.
    Returns: JPEG files of exactly `frame_bytes` bytes, all different; empty without `frames`. The picture is
        the same small one; seeded comment segments (FF FE) bring it to its size.
    Raises ValueError: the clip is taken from a dataset.
    """
    if clip.seconds is None:
        raise ValueError(f"clip {clip.split}/{clip.id} of dataset {clip.dataset!r} is not made from a seed")
    if not clip.frames:
        return []
    make = _frames if clip.seconds * clip.frame_bytes <= KEPT_BYTES else _frames.__wrapped__
    return list(make(clip.seconds, clip.frame_bytes, seed, sample_id))


@lru_cache(_KEPT_CLIPS)
def _pcm(seconds: float, speech: tuple[float, ...] | None, seed: int, sample_id: str) -> bytes:
    samples = np.zeros(round(seconds * RATE_HZ), dtype="<i2")
    from_s, to_s = (0.0, seconds) if speech is None else (speech or (0.0, 0.0))
    first, last = round(from_s * RATE_HZ), round(to_s * RATE_HZ)
    if last > first:
        samples[first:last] = _speech(last - first, _random("pcm", seed, sample_id))
    return samples.tobytes()


@lru_cache(_KEPT_CLIPS)
def _frames(seconds: float, frame_bytes: int, seed: int, sample_id: str) -> tuple[bytes, ...]:
    random = _random("frames", seed, sample_id)
    sizes = _comment_sizes(frame_bytes - len(_JPEG))
    frames = []
    for _ in range(math.ceil(seconds)):
        comments = b"".join(
            b"\xff\xfe" + (size + 2).to_bytes(2, "big") + random.bytes(size) for size in sizes
        )
        frames.append(_JPEG[:2] + comments + _JPEG[2:])
    return tuple(frames)


def _comment_sizes(total_bytes: int) -> list[int]:
    """Payload sizes of comment segments that take exactly this much room, heads included."""
    count = math.ceil(total_bytes / (MAX_COMMENT_BYTES + _COMMENT_HEAD_BYTES))
    payload = total_bytes - count * _COMMENT_HEAD_BYTES
    return [payload // count + (1 if index < payload % count else 0) for index in range(count)]


def _speech(length: int, random: np.random.Generator) -> np.ndarray[tuple[int], np.dtype[np.int16]]:
    """Noise and a voiced tone under a syllable envelope that never falls to silence."""
    pitch_hz, syllables_hz = random.uniform(100, 220), random.uniform(3, 5)
    time_s = np.arange(length, dtype=np.float32) / RATE_HZ
    envelope = 0.6 + 0.4 * np.sin(2 * np.pi * syllables_hz * time_s)
    voice = 0.6 * np.sin(2 * np.pi * pitch_hz * time_s) + 0.4 * random.uniform(-1, 1, length)
    return (SPEECH_PEAK * envelope * voice).astype("<i2")


def _entropy(*words: object) -> int:
    return int.from_bytes(hashlib.sha256(repr(words).encode()).digest()[:8], "big")


def _random(what: str, seed: int, sample_id: str) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(_entropy(what, seed, sample_id)))
