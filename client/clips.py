"""Frames of a clip at any time, for the judge, from a store that sessions fill too (evaluation.md 2, 16.2)."""

from __future__ import annotations

import asyncio
import bisect
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from client.frames import extract_at, probe_duration_s
from client.media import Frame, MediaSource, materialise

STORE_BYTES: Final = 64 * 1024 * 1024

Key = tuple[str, str]
"""(split, id)."""


class Clip(Protocol):
    """What the judge is shown of a sample. All calls but `held` may be slow: for a worker thread."""

    def held(self, times_s: Sequence[float]) -> dict[float, bytes] | None:
        """The same as `frames` where nothing has to be decoded for it; None: something has."""

    def frames(self, times_s: Sequence[float]) -> dict[float, bytes]:
        """JPEGs by time; times that cannot be decoded are left out. Raises MediaError."""

    def uri(self) -> str:
        """`file://` address of the clip. Raises MediaError, OSError."""

    def seconds(self) -> float:
        """Duration by the file itself. Raises MediaError."""


class FrameStore:
    """JPEGs by sample and time, bounded in bytes; the samples used longest ago go first. For several threads."""

    def __init__(self, largest_bytes: int = STORE_BYTES) -> None:
        self.largest_bytes = largest_bytes
        self.bytes = 0
        self._clips: OrderedDict[Key, dict[int, bytes]] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, key: Key, frames: Iterable[tuple[float, bytes]]) -> None:
        """Keep frames, (seconds, JPEG) each."""
        with self._lock:
            held = self._clips.setdefault(key, {})
            self._clips.move_to_end(key)
            for t_s, jpeg in frames:
                if _us(t_s) not in held:
                    held[_us(t_s)] = jpeg
                    self.bytes += len(jpeg)
            while self.bytes > self.largest_bytes and len(self._clips) > 1:
                self._forget(next(iter(self._clips)))

    def get(self, key: Key, times_s: Iterable[float]) -> dict[float, bytes]:
        """What is held of these times."""
        with self._lock:
            held = self._clips.get(key, {})
            if held:
                self._clips.move_to_end(key)
            return {t_s: held[_us(t_s)] for t_s in times_s if _us(t_s) in held}

    def drop(self, key: Key) -> None:
        """Let the frames of a sample go."""
        with self._lock:
            if key in self._clips:
                self._forget(key)

    def _forget(self, key: Key) -> None:
        self.bytes -= sum(len(jpeg) for jpeg in self._clips.pop(key).values())


@dataclass
class VideoClip:
    """A clip that is a video file, or bytes inside a dataset."""

    split: str
    id: str
    video: MediaSource
    folder: Path
    """Where bytes are materialised when a path is needed: `<split>/.media/<id>/` of the response root."""
    store: FrameStore = field(default_factory=FrameStore)

    def held(self, times_s: Sequence[float]) -> dict[float, bytes] | None:
        found = self.store.get((self.split, self.id), times_s)
        return found if len(found) == len(set(times_s)) else None

    def frames(self, times_s: Sequence[float]) -> dict[float, bytes]:
        """One pass over the file for all times that the store does not hold."""
        key = (self.split, self.id)
        found = self.store.get(key, times_s)
        missing = sorted(set(times_s) - set(found))
        if missing:
            decoded = extract_at(self.video.read(), self.video.name, missing)
            self.store.put(key, decoded.items())
            found.update(decoded)
        return found

    def uri(self) -> str:
        return materialise(self.video, self.folder, self.id).resolve().as_uri()

    def seconds(self) -> float:
        return probe_duration_s(self.video.read(), self.video.name)


@dataclass(frozen=True)
class StillClip:
    """A clip known by its frames alone: prepared input without a video behind it."""

    stills: Sequence[Frame]
    """In order of time."""
    where: str = "file:///clip.mp4"

    def held(self, times_s: Sequence[float]) -> dict[float, bytes]:
        """The first frame at or after each time, the last one beyond it."""
        moments = [frame.t_s for frame in self.stills]
        last = len(moments) - 1
        return {
            t_s: self.stills[min(bisect.bisect_left(moments, t_s), last)].jpeg for t_s in times_s if moments
        }

    def frames(self, times_s: Sequence[float]) -> dict[float, bytes]:
        return self.held(times_s)

    def uri(self) -> str:
        return self.where

    def seconds(self) -> float:
        """One frame a second is what such clips have."""
        return self.stills[-1].t_s + 1.0 if self.stills else 0.0


async def frames_of(clip: Clip, times_s: Sequence[float]) -> dict[float, bytes]:
    """Frames by time: at once where they are in memory, else decoded in a thread. Raises MediaError."""
    held = clip.held(times_s)
    return held if held is not None else await asyncio.to_thread(clip.frames, times_s)


def window_times(start_s: float, end_s: float, fps: float) -> list[float]:
    """When the frames of a temporal window are taken, in seconds of the clip.

    As many as fit at `fps`, at least one; one is the middle, else they are evenly spaced and both ends count. None is
    later than a hundredth of a second before the end.

    Source: evaluation.md 16.2.
    """
    count = max(1, int((end_s - start_s) * fps))
    if count == 1:
        times = [(start_s + end_s) / 2]
    else:
        times = [start_s + k * (end_s - start_s) / (count - 1) for k in range(count)]
    return [max(start_s, min(t_s, end_s - 0.01)) for t_s in times]


def content_times(duration_s: float, limit: int) -> list[float]:
    """When the frames of a content judgement are taken: every 3 s below the duration, at most `limit`, evenly spaced.

    Source: evaluation.md 16.2.
    """
    times = [min(3.0 * k, max(0.0, duration_s - 0.01)) for k in range(max(1, -int(-duration_s // 3)))]
    return evenly(times, limit)


def evenly(times_s: Sequence[float], limit: int) -> list[float]:
    """At most `limit` of these, evenly spaced by index, both ends included; halves round to even."""
    if len(times_s) <= limit:
        return list(times_s)
    if limit == 1:
        return [times_s[0]]
    return [times_s[round(k * (len(times_s) - 1) / (limit - 1))] for k in range(limit)]


def _us(t_s: float) -> int:
    return round(t_s * 1e6)
