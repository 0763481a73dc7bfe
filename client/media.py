"""Prepared input of a sample: audio, frames and the reference voice (evaluation.md 2).

Preparing is synchronous and slow: it belongs before a run, or in a worker thread so that live sessions keep
acking.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pybase64

from client.frames import extract_stills
from client.input_errors import MediaError
from client.wav import RATE_HZ, check_wav, read_pcm16

__all__ = [
    "Frame",
    "MediaError",
    "MediaSource",
    "Prepared",
    "ReferenceVoice",
    "frames_for_units",
    "load_reference_voice",
    "materialise",
    "prepare",
    "suffix_of",
]

_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,8}")


@dataclass(frozen=True)
class Frame:
    """One JPEG still of a clip.

    Source: evaluation.md 2.
    """

    t_s: float
    """Capture timestamp in seconds of the clip: 0, 1/fps, 2/fps, ..."""
    jpeg: bytes = field(repr=False)
    """A whole JPEG file."""


@dataclass(frozen=True)
class Prepared:
    """What is sent for one sample: immutable, shared by all its attempts.

    Source: evaluation.md 2.
    """

    split: str
    id: str
    pcm: bytes = field(repr=False)
    """16 kHz mono PCM16 little-endian, no header."""
    frames: tuple[Frame, ...] = field(repr=False)
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


@dataclass(frozen=True)
class MediaSource:
    """Where the bytes of one audio or video file are; nothing is read before it is needed."""

    name: str
    """How messages call it: the file's path, or sample and column."""
    origin: Path | Callable[[], bytes]
    """A file, or what gives a whole file's bytes (and may raise MediaError)."""
    suffix: str
    """File name suffix with its dot, for materialising."""

    def read(self) -> Path | bytes:
        """The file's path, or its bytes.

        Raises MediaError: the bytes cannot be got.
        """
        return self.origin if isinstance(self.origin, Path) else self.origin()


def load_reference_voice(path: Path | str) -> ReferenceVoice:
    """Read a WAV file as reference voice.

    Raises MediaError: the file is missing, empty, truncated or no WAV.
    Source: evaluation.md 2.
    """
    file = Path(path)
    try:
        data = file.read_bytes()
    except OSError as error:
        raise MediaError(
            f"{file}: cannot be read ({error.strerror or error}); allowed: a WAV file"
        ) from error
    check_wav(data, str(file))
    return ReferenceVoice(
        data_url="data:audio/wav;base64," + pybase64.b64encode(data).decode("ascii"),
        sha256=hashlib.sha256(data).hexdigest(),
    )


def frames_for_units(
    frames: Sequence[Frame], unit_count: int, unit_ms: int = 1000
) -> tuple[Frame | None, ...]:
    """Which frame rides the append of which unit.

    At most one frame a unit, in capture order: the next unused frame rides unit k if its timestamp is at or
    before the unit's end. Frames beyond the audio are never sent; with more frames than units the frames lag.

    Args:
        frames: in capture order.
        unit_count: ceil(len(pcm) / unit bytes).
        unit_ms: length of a unit in milliseconds of audio.
    Returns: one entry a unit; None where the unit is audio alone.
    Source: evaluation.md 2, "Frame to unit".
    """
    waiting = iter(frames)
    upcoming = next(waiting, None)
    riding: list[Frame | None] = []
    for unit in range(unit_count):
        # Whole microseconds: k/fps is seldom exact, and a frame stamped at the unit's very end rides it.
        if upcoming is not None and round(upcoming.t_s * 1e6) <= (unit + 1) * unit_ms * 1000:
            riding.append(upcoming)
            upcoming = next(waiting, None)
        else:
            riding.append(None)
    return tuple(riding)


def prepare(
    split: str,
    sample_id: str,
    *,
    question_audio: MediaSource | None,
    video: MediaSource | None,
    video_duration_s: float | None = None,
    fps: float = 1.0,
) -> Prepared:
    """Decode a sample's media into what is sent.

    A clip without any question audio is sent with silence of its own length (its own sound is never sent).
    Without a video there are no frames, and the duration is the audio's.

    Args:
        question_audio: a WAV of any usual kind.
        video: a clip of any container and codec PyAV reads.
        video_duration_s: the dataset's duration in seconds; None: probed.
        fps: stills a second.
    Raises MediaError: nothing to prepare, or a file that cannot be used. ValueError: fps <= 0.
    Source: evaluation.md 2.
    """
    if question_audio is None and video is None:
        raise MediaError(f"{split}/{sample_id}: no media; allowed: question_audio (a WAV), video, or both")
    pcm = b"" if question_audio is None else read_pcm16(question_audio.read(), question_audio.name)
    frames: tuple[Frame, ...] = ()
    duration_s = video_duration_s
    if video is not None:
        stills = extract_stills(video.read(), video.name, fps=fps, duration_s=video_duration_s)
        frames = tuple(Frame(t_s, jpeg) for t_s, jpeg in stills.frames)
        duration_s = stills.duration_s
    if duration_s is None:
        duration_s = len(pcm) / (2 * RATE_HZ)
    if question_audio is None:
        pcm = bytes(2 * math.ceil(duration_s * RATE_HZ))
    return Prepared(split, sample_id, pcm, frames, duration_s)


def materialise(media: MediaSource, folder: Path, stem: str) -> Path:
    """A file with the media's bytes, for programs that want a path.

    A source that is a file already is used as is. Otherwise `<folder>/<stem><suffix>` is written through a
    temporary file and an atomic rename; if the identical bytes are there already, they are left alone.

    Raises MediaError: the bytes cannot be got. OSError: the folder cannot be written.
    Source: evaluation.md 1.6.
    """
    content = media.read()
    if isinstance(content, Path):
        return content
    target = folder / (stem + media.suffix)
    if target.is_file() and target.stat().st_size == len(content) and target.read_bytes() == content:
        return target
    folder.mkdir(parents=True, exist_ok=True)
    # Not from tempfile: that makes files only their owner can read, and a judge elsewhere has to.
    part = folder / f".{stem}.{os.getpid()}.{threading.get_ident()}.part"
    try:
        part.write_bytes(content)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return target


def suffix_of(name: str | None, fallback: str) -> str:
    """File name suffix of a media struct's `path` if it is short and alphanumeric, else the fallback.

    Source: evaluation.md 1.6.
    """
    suffix = Path(name).suffix if name else ""
    return suffix if _SUFFIX.fullmatch(suffix) else fallback
