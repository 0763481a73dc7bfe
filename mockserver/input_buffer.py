"""Appended audio and frames on their way to units (protocol.md 6.1-6.3, 5.3). Counts samples; their sound
does not matter here."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Literal

UNIT_SAMPLES = 16_000
"""Samples of one unit: 1000 ms at 16 kHz."""
MAX_PENDING_BYTES = 16 * 1024 * 1024
"""Pending input, measured as float32 (protocol.md 12.1)."""


@dataclass(slots=True, eq=False)
class Submission:
    """What is handed to the model as one unit."""

    cause: Literal["append", "commit", "silence"]
    samples: int
    """Real samples in it; a commit's are padded with zeros to whole units."""
    frame: str | None
    """Digest of the attached frame."""
    forced_listen: bool
    epoch: int = 0
    padded: bool = False
    """Appended after a commit, without speech since."""


class InputBuffer:
    """A FIFO of samples and a FIFO of frames."""

    def __init__(self) -> None:
        self.samples = 0
        """Samples waiting; more than none blocks silence continuation."""
        self._frames: deque[str] = deque()
        self._forced: deque[tuple[int, int]] = deque()
        """[from, to) of samples that force their unit to listen, counted from the front of the FIFO."""

    @property
    def frames(self) -> int:
        """Frames waiting."""
        return len(self._frames)

    def takes(self, samples: int) -> bool:
        """Whether that many more samples fit the limit of pending input."""
        return (self.samples + samples) * 4 <= MAX_PENDING_BYTES

    def append(self, samples: int, frames: list[str], *, force_listen: bool = False) -> Submission | None:
        """Take an append; at most one unit is cut from the front.

        Args:
            samples: at 16 kHz.
            frames: digests in order of arrival.
            force_listen: the unit holding this audio must listen.
        """
        if force_listen and samples:
            self._forced.append((self.samples, self.samples + samples))
        self.samples += samples
        self._frames.extend(frames)
        if self.samples < UNIT_SAMPLES:
            return None
        return self._cut("append", UNIT_SAMPLES)

    def flush(self) -> Submission | None:
        """What a commit after speech submits: all of it as one submission with at most one frame; None if nothing."""
        return self._cut("commit", self.samples) if self.samples else None

    def clear(self) -> None:
        """Drop samples and frames."""
        self.samples = 0
        self._frames.clear()
        self._forced.clear()

    def _cut(self, cause: Literal["append", "commit"], samples: int) -> Submission:
        forced = bool(self._forced) and self._forced[0][0] < samples
        self.samples -= samples
        if self._forced:
            moved = ((start - samples, end - samples) for start, end in self._forced)
            self._forced = deque((max(0, start), end) for start, end in moved if end > 0)
        frame = self._frames.popleft() if self._frames else None
        return Submission(cause, samples, frame, forced)
