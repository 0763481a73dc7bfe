"""A small dataset in the layout of Omni-DuplexEval, made from a seed: for trying the client where there is none."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from conformance.clients import builtin
from conformance.clients.job import voice_bytes, write_video
from conformance.datasets import rows_of, write_splits
from conformance.errors import ConfigurationError
from conformance.options import RunOptions
from scenarios.model import Clip, Expect, SampleSpec, Scenario

SPLITS = ("RTD_Omni", "RTD_OCR", "PR_correction", "PR_event_reminder", "PR_post_event_reminder")
CLIP = Clip(seconds=4.4, speech=[0.2, 1.8])
VOICE = "reference_voice.wav"


def make_dataset(folder: Path, *, per_split: int, seed: int) -> list[str]:
    """Write questions of noise and videos of one grey picture, and a reference voice beside them.

    Args:
        folder: made here; `data/<SPLIT>-00000-of-00001.parquet` and `reference_voice.wav` stand in it.
        per_split: samples of each split.
    Returns: `split/id` of the samples.
    Raises ConfigurationError: the folder has something in it, or what writes parquet and video is not installed.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigurationError(f"{folder} is there already: name a folder that is new or empty")
    splits = [split for split in SPLITS for _ in range(per_split)]
    samples = [_sample(split, str(number)) for number, split in enumerate(splits)]
    scenario = Scenario(
        id="dataset",
        title="A dataset",
        about="Made from a seed.",
        requires=[],
        samples=samples,
        expect=Expect(finishes_within_s=1),
    )
    options = RunOptions(seed=seed)
    prepared = builtin.prepare(scenario, options)
    rows = rows_of(scenario.specs, prepared)
    with tempfile.TemporaryDirectory() as scratch:
        film = Path(scratch) / "clip.mp4"
        for row, one in zip(rows, prepared, strict=True):
            if not write_video(film, one.frames):
                raise ConfigurationError("PyAV is not installed: pip install 'duplex-conformance[dataset]'")
            row["video"] = {"bytes": film.read_bytes(), "path": film.name}
    try:
        _write(rows, voice_bytes(builtin.reference_voice(options)), folder)
    except ImportError as error:
        raise ConfigurationError(f"{error}: pip install 'duplex-conformance[dataset]'") from error
    except OSError as error:
        raise ConfigurationError(f"{folder}: cannot be written: {error.strerror or error}") from error
    return [f"{sample.split}/{sample.id}" for sample in samples]


def _write(rows: Sequence[Mapping[str, Any]], voice: bytes, folder: Path) -> None:
    """Beside its place first: a folder with half of it would be refused the next time."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name[:64]}.") as half:
        whole = Path(half) / "made"
        whole.mkdir()
        write_splits(rows, whole)
        (whole / VOICE).write_bytes(voice)
        folder.mkdir(exist_ok=True)
        for made in whole.iterdir():
            made.rename(folder / made.name)


def _sample(split: str, sample_id: str) -> SampleSpec:
    reminders = {"PR_event_reminder": (1.5, None), "PR_post_event_reminder": (1.5, 3.0)}
    first, second = reminders.get(split, (None, None))
    return SampleSpec(
        id=sample_id, split=split, clip=CLIP, answer1="A cyclist passes.", reminder1=first, reminder2=second
    )
