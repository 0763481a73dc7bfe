"""WAV files of any usual kind to 16 kHz mono PCM16 (evaluation.md 2).

Whole files come in as a path or as bytes, header-less little-endian samples go out. The header is read here,
not only by the decoding library, because that library takes a file that was cut short for a shorter
recording.
"""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from client.input_errors import MediaError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RATE_HZ = 16_000
"""Sample rate of everything that is sent."""
ALLOWED = "allowed: a WAV file (PCM of 8, 16, 24 or 32 bits, float, extensible; 1 kHz or more, any number of channels)"

_PCM, _EXTENSIBLE = 1, 0xFFFE
_OPEN_ENDED_BYTES = 0x7FFF_0000
"""Writers into a pipe cannot know the length and put 0x7FFF.... or 0xFFFFFFFF: from here on, "to the end"."""
_BLOCK_FRAMES = 65_536
_LOWEST_RATE_HZ = 1_000
"""A header that says 1 Hz would make gigabytes of a small file."""


@dataclass(frozen=True)
class WavHeader:
    """What the chunks of a WAV file say, with the place of the samples."""

    format_tag: int
    """1 PCM, 3 float, ...; for an extensible file the tag inside its sub-format."""
    channels: int
    rate_hz: int
    bits: int
    data_at_bytes: int
    data_bytes: int

    @property
    def is_ready(self) -> bool:
        """Whether the samples can be sent as they stand."""
        return (self.format_tag, self.channels, self.rate_hz, self.bits) == (_PCM, 1, RATE_HZ, 16)


def read_header(file: BinaryIO, size_bytes: int, name: str) -> WavHeader | None:
    """Chunks of a RIFF WAV up to its samples.

    Args:
        file: at its start; left anywhere.
        size_bytes: length of the whole file.
        name: for messages.
    Returns: the header, or None for the rarer containers (RF64, RIFX), which only the decoding library reads.
    Raises MediaError: empty, no WAV, no samples, cut short.
    """
    magic = file.read(12)
    if not magic:
        raise MediaError(f"{name}: empty (0 bytes); {ALLOWED}")
    if magic[8:12] == b"WAVE" and magic[:4] in (b"RF64", b"RIFX"):
        return None
    if magic[:4] != b"RIFF" or magic[8:12] != b"WAVE":
        raise MediaError(
            f"{name}: not a WAV file ({size_bytes} bytes that begin with {magic[:12]!r}); {ALLOWED}"
        )
    layout: tuple[int, int, int, int] | None = None
    at = 12
    while True:
        head = file.read(8)
        if len(head) < 8:
            what = "no data chunk" if layout else "no fmt chunk"
            raise MediaError(f"{name}: truncated WAV: {what} in its {size_bytes} bytes; {ALLOWED}")
        kind, length = head[:4], struct.unpack("<I", head[4:])[0]
        at += 8
        if kind == b"data":
            if layout is None:
                raise MediaError(f"{name}: damaged WAV: samples without a fmt chunk before them; {ALLOWED}")
            return WavHeader(*layout, at, _data_bytes(length, size_bytes - at, name))
        if kind == b"fmt ":
            layout = _read_layout(file.read(min(length, 40)), name)
        at += length + length % 2
        file.seek(at)


def _read_layout(body: bytes, name: str) -> tuple[int, int, int, int]:
    """(tag, channels, rate, bits) of a fmt chunk."""
    if len(body) < 16:
        raise MediaError(f"{name}: truncated WAV: fmt chunk of {len(body)} bytes, 16 needed; {ALLOWED}")
    tag, channels, rate_hz, _, _, bits = struct.unpack("<HHIIHH", body[:16])
    if tag == _EXTENSIBLE and len(body) >= 26:
        tag = struct.unpack("<H", body[24:26])[0]
    if channels == 0 or rate_hz < _LOWEST_RATE_HZ:
        raise MediaError(f"{name}: damaged WAV: {channels} channels at {rate_hz} Hz; {ALLOWED}")
    return tag, channels, rate_hz, bits


def _data_bytes(declared: int, present: int, name: str) -> int:
    if declared >= _OPEN_ENDED_BYTES and declared > present:
        declared = present
    if declared > present:
        raise MediaError(
            f"{name}: truncated WAV: {present} of the {declared} bytes of samples announced; {ALLOWED}"
        )
    if declared == 0:
        raise MediaError(f"{name}: WAV without samples (0 bytes of data); {ALLOWED}")
    return declared


def check_wav(source: Path | bytes, name: str) -> None:
    """Refuse what is no whole WAV file, without decoding it.

    Raises MediaError.
    """
    with _opened(source, name) as file:
        read_header(file, _size_bytes(source), name)


def read_pcm16(source: Path | bytes, name: str) -> bytes:
    """Audio as it is sent.

    A WAV that is 16 kHz mono PCM16 already is read directly; everything else is averaged over its channels,
    resampled with the resampler's tail flushed, and clipped: a peak beyond full scale stays at full scale.

    Args:
        source: a file, or a whole file's bytes.
        name: for messages.
    Returns: PCM16 little-endian, 16 kHz mono, no header; 32 000 bytes a second.
    Raises MediaError: empty, truncated or no WAV; an encoding that cannot be read; samples that are not
        numbers.
    Source: evaluation.md 2.
    """
    with _opened(source, name) as file:
        header = read_header(file, _size_bytes(source), name)
        if header is not None and header.is_ready:
            file.seek(header.data_at_bytes)
            pcm = file.read(header.data_bytes - header.data_bytes % 2)
        else:
            file.seek(0)
            pcm = _decode(file, name)
    if not pcm:
        raise MediaError(f"{name}: WAV without samples; {ALLOWED}")
    return pcm


def _decode(file: BinaryIO, name: str) -> bytes:
    import numpy as np
    import soundfile

    try:
        with soundfile.SoundFile(file) as sound:
            if sound.format not in ("WAV", "WAVEX", "RF64"):
                raise MediaError(f"{name}: found {sound.format}; {ALLOWED}")
            parts = [_to_pcm16(block, name) for block in _resampled(sound, np)]
    except soundfile.LibsndfileError as error:
        raise MediaError(f"{name}: a WAV that cannot be decoded ({error.error_string}); {ALLOWED}") from error
    return b"".join(parts)


def _resampled(sound: Any, np: Any) -> Any:
    """Mono float64 blocks at 16 kHz, the resampler's tail included."""
    mono = (block.mean(axis=1) for block in sound.blocks(_BLOCK_FRAMES, dtype="float64", always_2d=True))
    if sound.samplerate == RATE_HZ:
        yield from mono
        return
    import soxr

    stream = soxr.ResampleStream(sound.samplerate, RATE_HZ, 1, dtype="float64", quality="HQ")
    for block in mono:
        yield stream.resample_chunk(block)
    yield stream.resample_chunk(np.empty(0), last=True)


def _to_pcm16(samples: NDArray[np.float64], name: str) -> bytes:
    import numpy as np

    if not np.isfinite(samples).all():
        raise MediaError(f"{name}: samples that are not finite numbers; {ALLOWED}")
    # Clipped before the cast: an integer cast of 1.0 wraps a positive peak around to the most negative value.
    return np.clip(np.rint(samples * 32768.0), -32768, 32767).astype("<i2").tobytes()


def _opened(source: Path | bytes, name: str) -> BinaryIO:
    if isinstance(source, bytes):
        return io.BytesIO(source)
    try:
        return source.open("rb")
    except OSError as error:
        raise MediaError(f"{name}: cannot be read ({error.strerror or error}); {ALLOWED}") from error


def _size_bytes(source: Path | bytes) -> int:
    return len(source) if isinstance(source, bytes) else source.stat().st_size
