"""Prepared input of a sample: audio, frames and the reference voice (evaluation.md 2)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import pybase64


class MediaError(ValueError):
    """A media file cannot be used. The message names the file, what was found and what is allowed."""


@dataclass(frozen=True)
class Frame:
    """One JPEG still of a clip.

    Source: evaluation.md 2.
    """

    t_s: float
    """Capture timestamp in seconds of the clip: 0, 1/fps, 2/fps, ..."""
    jpeg: bytes
    """A whole JPEG file."""


@dataclass(frozen=True)
class Prepared:
    """What is sent for one sample: immutable, shared by all its attempts.

    Source: evaluation.md 2.
    """

    split: str
    id: str
    pcm: bytes
    """16 kHz mono PCM16 little-endian, no header."""
    frames: tuple[Frame, ...]
    """In capture order, timestamps strictly increasing; may be empty."""
    video_duration_s: float
    """Duration of the clip in seconds; the drain window builds on it (evaluation.md 9)."""


@dataclass(frozen=True)
class ReferenceVoice:
    """The voice the model is to speak with, sent in `session.update`.

    Source: evaluation.md 2.
    """

    data_url: str
    """`data:audio/wav;base64,...` with the file's own bytes."""
    sha256: str
    """Hex SHA-256 of the file's bytes; goes in the metadata of every sample."""


def load_reference_voice(path: Path | str) -> ReferenceVoice:
    """Read a WAV file as reference voice.

    Raises MediaError: the file is missing, empty or no WAV.
    Source: evaluation.md 2.
    """
    file = Path(path)
    try:
        data = file.read_bytes()
    except OSError as error:
        raise MediaError(f"{file}: cannot be read ({error.strerror or error}); expected a WAV file") from error
    if data[:4] not in (b"RIFF", b"RF64", b"RIFX") or data[8:12] != b"WAVE":
        raise MediaError(f"{file}: {len(data)} bytes that are no WAV; expected a WAV file")
    return ReferenceVoice(
        data_url="data:audio/wav;base64," + pybase64.b64encode(data).decode("ascii"),
        sha256=hashlib.sha256(data).hexdigest(),
    )
