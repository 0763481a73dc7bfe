"""Sound as the server counts, measures and makes it: mono samples, 16 kHz in, 24 kHz out (protocol.md 5.1, 7.4)."""

from __future__ import annotations

import hashlib
import io
import wave
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pybase64

MODEL_RATE_HZ = 16_000
OUTPUT_RATE_HZ = 24_000

INPUT_FORMATS: Mapping[str, str] = {
    **dict.fromkeys(("pcm16", "pcm_s16le", "s16le", "audio/pcm", "audio/pcm16", "audio/pcm_s16le"), "pcm16"),
    **dict.fromkeys(("pcm_f32le", "audio/pcm_f32le"), "pcm_f32le"),
    **dict.fromkeys(("g711_ulaw", "audio/g711_ulaw", "audio/pcmu"), "g711_ulaw"),
    **dict.fromkeys(("g711_alaw", "audio/g711_alaw", "audio/pcma"), "g711_alaw"),
}
"""Accepted spellings of input formats, each with its plain name (protocol.md 4.1)."""
OUTPUT_FORMATS = frozenset(
    {"pcm", "pcm16", "pcm_s16le", "s16le", "audio/pcm", "audio/pcm16", "audio/pcm_s16le"}
)
"""Output formats this server makes. It refuses `wav` and G.711 output, which the real one accepts."""
SAMPLE_BYTES: Mapping[str, int] = {"pcm16": 2, "pcm_f32le": 4, "g711_ulaw": 1, "g711_alaw": 1}
RATES_HZ = range(8_000, 192_001)


def _ulaw_table() -> npt.NDArray[np.float32]:
    code = ~np.arange(256, dtype=np.int32) & 0xFF
    magnitude = (((code & 0x0F) << 3) + 0x84 << ((code >> 4) & 0x07)) - 0x84
    return (np.where(code & 0x80, -magnitude, magnitude) / 32768).astype(np.float32)


def _alaw_table() -> npt.NDArray[np.float32]:
    code = np.arange(256, dtype=np.int32) ^ 0x55
    exponent = (code >> 4) & 0x07
    mantissa = ((code & 0x0F) << 4) + 8
    magnitude = np.where(exponent == 0, mantissa, (mantissa + 0x100) << np.maximum(exponent - 1, 0))
    return (np.where(code & 0x80, magnitude, -magnitude) / 32768).astype(np.float32)


_G711: Mapping[str, npt.NDArray[np.float32]] = {"g711_ulaw": _ulaw_table(), "g711_alaw": _alaw_table()}


def model_samples(count: int, rate_hz: int) -> int:
    """Samples at the model's rate that `count` samples at `rate_hz` become; each append is resampled on its own."""
    return count if rate_hz == MODEL_RATE_HZ else round(count * MODEL_RATE_HZ / rate_hz)


def read_wav(data: bytes) -> tuple[bytes, int]:
    """The samples of a WAV file of PCM16, channels averaged.

    Returns: mono PCM16LE, and its rate in Hz.
    Raises ValueError: it is no such file.
    """
    try:
        with wave.open(io.BytesIO(data)) as file:
            if file.getsampwidth() != 2:
                raise ValueError(f"a WAV of {8 * file.getsampwidth()} bits a sample")
            channels, rate_hz = file.getnchannels(), file.getframerate()
            samples = np.frombuffer(file.readframes(file.getnframes()), dtype="<i2")
    except (wave.Error, EOFError) as error:
        raise ValueError(f"no WAV file: {error}") from None
    whole = samples[: len(samples) // channels * channels].reshape(-1, channels)
    return whole.mean(axis=1).astype("<i2").tobytes(), rate_hz


def loudness(data: bytes, fmt: str) -> float:
    """Root mean square of mono samples, full scale 1.0 (protocol.md 5.2).

    Args:
        data: whole samples of the plain format `fmt`, at least one.
    """
    if fmt == "pcm16":
        samples = np.frombuffer(data, dtype="<i2").astype(np.float32) / np.float32(32768)
    elif fmt == "pcm_f32le":
        # Any float may come: the square of a large one is none in 32 bits, and numpy would warn of it.
        wide = np.frombuffer(data, dtype="<f4").astype(np.float64)
        return float(np.sqrt(np.dot(wide, wide) / len(wide)))
    else:
        samples = _G711[fmt][np.frombuffer(data, dtype=np.uint8)]
    return float(np.sqrt(np.dot(samples, samples) / len(samples)))


def digest(data: bytes) -> str:
    """The first 16 hexadecimal digits of the SHA-256: how the journal tells media apart."""
    return hashlib.sha256(data).hexdigest()[:16]


@dataclass(frozen=True)
class Tone:
    """A piece of reply audio, made once and sent often."""

    text: str
    """Standard base64 of mono PCM16LE."""
    bytes_: int
    digest: str


@lru_cache(maxsize=64)
def tone(audio_ms: int, rate_hz: int = OUTPUT_RATE_HZ) -> Tone:
    """A quiet 440 Hz tone.

    Args:
        audio_ms: its length, 1 or more.
        rate_hz: samples a second.
    """
    at_s = np.arange(audio_ms * rate_hz // 1000) / rate_hz
    pcm = (np.sin(2 * np.pi * 440 * at_s) * 6000).astype("<i2").tobytes()
    return Tone(pybase64.b64encode(pcm).decode("ascii"), len(pcm), digest(pcm))
