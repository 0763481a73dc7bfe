"""The shipped client's loader, given the dataset of a scenario as `duplex-eval run` gives it one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from client.clips import FrameStore
from client.input_errors import DatasetError
from client.planned import PlannedSample
from conformance.datasets import DATASET, LoadedFacts, dataset_path

if TYPE_CHECKING:
    from client.dataset import Refused, Sample
    from client.judge.subject import Subject
    from conformance.clients.scene import Scene


@dataclass(frozen=True)
class Loaded:
    """What the client got."""

    samples: Sequence[Sample]
    refused: Sequence[Refused]
    planned: Sequence[PlannedSample]
    subjects: Sequence[Subject]


def load_in(scene: Scene) -> Loaded:
    """Load the dataset; what became of it goes into the observation, whose samples are from then on those loaded."""
    from client.dataset import load_dataset
    from client.judge.subject import subject_of

    observation = scene.observation
    spec = observation.scenario.dataset
    assert spec is not None, "asked only where a scenario has one"
    try:
        dataset = load_dataset(dataset_path(spec, scene.folder / DATASET))
    except DatasetError as error:
        observation.dataset, observation.prepared = LoadedFacts(error=str(error)), []
        return Loaded((), (), (), ())
    observation.dataset = LoadedFacts(
        names=tuple(f"{sample.split}/{sample.id}" for sample in dataset.samples),
        refused=tuple((row.id, row.reason) for row in dataset.refused),
        rows=dataset.rows,
    )
    made = {(p.split, p.id): p for p in observation.prepared}
    observation.prepared = [made[s.split, s.id] for s in dataset.samples if (s.split, s.id) in made]
    return Loaded(
        dataset.samples,
        dataset.refused,
        [PlannedSample(sample, 1.0) for sample in dataset.samples],
        [subject_of(sample, observation.out, FrameStore()) for sample in dataset.samples],
    )
