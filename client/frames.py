"""JPEG stills of a clip through PyAV (evaluation.md 2).

In this process on purpose: an external ffmpeg could hang for ever on some HEVC clips. One picture is held at
a time.
"""

from __future__ import annotations

import io
import logging
import math
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

from client.input_errors import MediaError

T = TypeVar("T")

log = logging.getLogger(__name__)

ALLOWED = "allowed: a video file with at least one decodable frame (MP4 with H.264 or HEVC, ...)"

_JPEG_SCALE = "3"
"""ffmpeg's quantiser scale, about quality 89 elsewhere."""
_MAX_THREADS = 4
"""Each decoding thread holds a picture, so memory is bounded whatever the machine."""


@dataclass(frozen=True)
class Stills:
    """Frames of one clip: (timestamp in seconds, whole JPEG) in capture order, and the clip's duration in
    seconds.
    """

    frames: tuple[tuple[float, bytes], ...]
    duration_s: float


def import_av() -> Any:
    """PyAV, or a MediaError that says how to install it."""
    try:
        import av
    except ImportError as error:
        raise MediaError(
            "reading video needs PyAV, which is not installed: pip install 'duplex-conformance[dataset]'"
        ) from error
    return av


def extract_stills(source: Path | bytes, name: str, *, fps: float, duration_s: float | None) -> Stills:
    """Stills at 0, 1/fps, 2/fps, ... strictly below the duration.

    Each is the first decodable frame at or after its timestamp; one picture may serve several timestamps.
    The first decode failure ends the extraction: frames before it are kept and a warning is logged.

    Args:
        source: a file, or a whole file's bytes.
        name: for messages.
        fps: stills a second, > 0.
        duration_s: the dataset's duration in seconds; None: what the file says.
    Returns: at least one frame.
    Raises MediaError: no video, no duration, no decodable frame, PyAV missing. ValueError: fps <= 0 or not
        finite.
    Source: evaluation.md 2.
    """
    if not (math.isfinite(fps) and fps > 0):
        raise ValueError(f"fps: found {fps!r}; allowed: a finite number above 0")
    return _opened(source, name, lambda av, container: _stills(av, container, name, fps, duration_s))


def extract_at(source: Path | bytes, name: str, times_s: Sequence[float]) -> dict[float, bytes]:
    """Stills at any times, in one pass: the first decodable frame at or after each, the last one beyond the end.

    Times after a decode failure are left out, with a warning.

    Args:
        times_s: seconds of the clip, in any order.
    Returns: time to a whole JPEG.
    Raises MediaError: no video, PyAV missing.
    Source: evaluation.md 16.2.
    """
    return _opened(source, name, lambda av, container: _at(av, container, name, sorted(set(times_s))))


def probe_duration_s(source: Path | bytes, name: str) -> float:
    """Seconds a video file says it lasts. Raises MediaError: it does not say, or is no video."""

    def probe(av: Any, container: Any) -> float | None:
        return _probed_duration_s(av, container, _video_stream(container, name))

    duration_s = _opened(source, name, probe)
    if duration_s is None:
        raise MediaError(f"{name}: unknown duration; {ALLOWED}, or give video_duration")
    return duration_s


def _opened(source: Path | bytes, name: str, read: Callable[[Any, Any], T]) -> T:
    """Open a clip and read from it. Raises MediaError: it cannot be."""
    av = import_av()
    try:
        # Opened by us: a path that is a directory or missing is an OSError with its own words.
        with (
            io.BytesIO(source) if isinstance(source, bytes) else source.open("rb") as file,
            av.open(file, mode="r", metadata_errors="replace") as container,
        ):
            return read(av, container)
    except av.error.FFmpegError as error:
        raise MediaError(f"{name}: cannot be opened as video ({_reason(error)}); {ALLOWED}") from error
    except OSError as error:
        raise MediaError(f"{name}: cannot be read ({error.strerror or error}); {ALLOWED}") from error


def _at(av: Any, container: Any, name: str, times_s: Sequence[float]) -> dict[float, bytes]:
    stream = _video_stream(container, name)
    waiting = deque(times_s)
    found: dict[float, bytes] = {}
    latest: Any = None
    try:
        for at, picture in _timed(container, stream):
            latest = picture
            due = [waiting.popleft() for _ in range(sum(t_s <= at for t_s in waiting))]
            if due:
                found.update(dict.fromkeys(due, _jpeg(av, picture)))
            if not waiting:
                return found
    except av.error.FFmpegError as error:
        log.warning("%s: decoding failed, %d frame(s) left out (%s)", name, len(waiting), _reason(error))
        return found
    if latest is not None:
        found.update(dict.fromkeys(waiting, _jpeg(av, latest)))
    return found


def _video_stream(container: Any, name: str) -> Any:
    if not container.streams.video:
        raise MediaError(f"{name}: no video stream; {ALLOWED}")
    stream = container.streams.video[0]
    stream.thread_type = "AUTO"
    stream.codec_context.thread_count = min(_MAX_THREADS, os.cpu_count() or 1)
    return stream


def _stills(av: Any, container: Any, name: str, fps: float, duration_s: float | None) -> Stills:
    stream = _video_stream(container, name)
    probed_s = _probed_duration_s(av, container, stream)
    if duration_s is None:
        duration_s = probed_s
    if duration_s is None:
        known = "no video frames" if stream.frames == 0 else f"{stream.frames} frames of unknown duration"
        raise MediaError(f"{name}: zero duration ({known}); {ALLOWED}, or give video_duration")
    frames: list[tuple[float, bytes]] = []
    latest: Any = None
    try:
        for t_s, picture in _sampled(_timed(container, stream), fps, duration_s):
            # The same picture twice in a row is encoded once.
            frames.append((t_s, frames[-1][1] if picture is latest else _jpeg(av, picture)))
            latest = picture
    except av.error.FFmpegError as error:
        log.warning("%s: decoding failed after %d frames (%s)", name, len(frames), _reason(error))
    if not frames:
        raise MediaError(f"{name}: no video frames could be decoded; {ALLOWED}")
    return Stills(tuple(frames), duration_s)


def _probed_duration_s(av: Any, container: Any, stream: Any) -> float | None:
    if container.duration:
        return float(container.duration / av.time_base)
    if stream.duration:
        return float(stream.duration * stream.time_base)
    return None


def _timed(container: Any, stream: Any) -> Iterator[tuple[Fraction, Any]]:
    """(seconds since the start of the file, picture) in display order; pictures without a time are passed
    over.
    """
    start = Fraction(container.start_time or 0, 1_000_000)
    for picture in container.decode(stream):
        if picture.pts is not None and picture.time_base is not None:
            yield picture.pts * picture.time_base - start, picture


def _sampled(
    pictures: Iterator[tuple[Fraction, Any]], fps: float, duration_s: float
) -> Iterator[tuple[float, Any]]:
    """For each timestamp below the duration, the first picture at or after it. Exact: 29.97 Hz does not
    drift.
    """
    rate, end = Fraction(fps).limit_denominator(1_000_000), Fraction(duration_s)
    index, due = 0, Fraction(0)
    for at, picture in pictures:
        while due <= at and due < end:
            yield float(due), picture
            index += 1
            due = index / rate
        if due >= end:
            return


def _jpeg(av: Any, picture: Any) -> bytes:
    """A whole JPEG at the scale of the reference, upright, in full range."""
    upright = _upright(av, picture)
    encoder = av.CodecContext.create("mjpeg", "w")
    encoder.width, encoder.height = upright.width, upright.height
    encoder.pix_fmt, encoder.time_base = "yuvj420p", Fraction(1, 1)
    # The quantiser is pinned by its limits: `global_quality` has no effect here, it is read from each frame.
    encoder.options = {"qmin": _JPEG_SCALE, "qmax": _JPEG_SCALE, "flags": "+bitexact"}
    still = upright.reformat(format="yuvj420p")
    still.pts, still.time_base = 0, Fraction(1, 1)
    still.pict_type = av.video.frame.PictureType.NONE
    packets = [*encoder.encode(still), *encoder.encode(None)]
    return b"".join(bytes(packet) for packet in packets)


def _upright(av: Any, picture: Any) -> Any:
    """Phones store a clip lying on its side with a note to turn it; players and ffmpeg follow that note."""
    turns = round(picture.rotation / 90) % 4
    if not turns:
        return picture
    import numpy as np

    turned = np.ascontiguousarray(np.rot90(picture.to_ndarray(format="rgb24"), turns))
    return av.VideoFrame.from_ndarray(turned, format="rgb24")


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
