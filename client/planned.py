"""A sample of a dataset on its way into a run: prepared when its turn comes (evaluation.md 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from client.clips import FrameStore
    from client.dataset import Sample
    from client.media import Prepared


class PlannedSample:
    """A sample of the dataset, prepared when its turn comes; its frames are left for the judge."""

    def __init__(self, sample: Sample, fps: float, store: FrameStore | None = None) -> None:
        self.split, self.id = sample.split, sample.id
        self._sample, self._fps, self._store = sample, fps, store

    def __call__(self) -> Prepared:
        prepared = self._sample.prepare(fps=self._fps)
        if self._store is not None:
            self._store.put((self.split, self.id), ((frame.t_s, frame.jpeg) for frame in prepared.frames))
        return prepared
