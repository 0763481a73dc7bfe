"""The dataset of a scenario, written for the client's own loader, and what that made of it (evaluation.md 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from conformance.clients.job import AUDIO_RATE_HZ, wav_of
from scenarios.datasets import WAV, DatasetSpec

if TYPE_CHECKING:
    from client.media import Prepared
    from scenarios.model import SampleSpec, Scenario

DATASET = "dataset"
"""Folder of the dataset beside the answers of a scenario."""
MEDIA = ("question_audio", "video")


@dataclass(frozen=True)
class LoadedFacts:
    """What the client's loader made of the dataset."""

    names: tuple[str, ...] = ()
    """`split/id` of the samples, in their order."""
    refused: tuple[tuple[str | None, str], ...] = ()
    """(id, reason) of the rows that cannot be used, in their order."""
    rows: int = 0
    error: str = ""
    """Why the whole dataset is refused; empty: it is not."""


def dataset_path(spec: DatasetSpec, folder: Path) -> Path:
    """What a loader is given: the file, or the folder itself."""
    return folder if spec.form == "folder" else folder / f"samples.{spec.form}"


def write_dataset(scenario: Scenario, prepared: Sequence[Prepared], folder: Path) -> None:
    """Write the samples of a scenario and its further rows in the form it asks for.

    Args:
        prepared: input of the samples, in the order of the scenario: their audio is what the rows hold.
        folder: made here.
    Raises ImportError: a parquet form without pyarrow.
    """
    spec = scenario.dataset
    assert spec is not None, "asked only where a scenario has one"
    folder.mkdir(parents=True)
    samples = rows_of(scenario.specs, prepared)
    silence = bytes(2 * AUDIO_RATE_HZ)
    others = [
        {**dict.fromkeys(MEDIA), **{key: silence if value == WAV else value for key, value in row.items()}}
        for row in spec.rows
    ]
    rows = [*others, *samples] if spec.first else [*samples, *others]
    if spec.form in ("jsonl", "json"):
        _write_manifest(rows, dataset_path(spec, folder))
    elif spec.form == "parquet":
        _write_parquet(rows, dataset_path(spec, folder))
    else:
        write_splits(rows, folder)


def rows_of(specs: Sequence[SampleSpec], prepared: Sequence[Prepared]) -> list[dict[str, Any]]:
    """The columns of samples (evaluation.md 1.2), the audio as PCM, without a video."""
    return [
        {
            "id": sample.id,
            "split": sample.split,
            "question_text": sample.question,
            "answer1": sample.answer1,
            "answer2": sample.answer2,
            "reminder1": None if sample.reminder1 is None else str(sample.reminder1),
            "reminder2": None if sample.reminder2 is None else str(sample.reminder2),
            "video_duration": one.video_duration_s,
            "question_audio": one.pcm,
            "video": None,
        }
        for sample, one in zip(specs, prepared, strict=True)
    ]


def _write_manifest(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    written: list[dict[str, Any]] = []
    for number, row in enumerate(rows):
        row = dict(row)
        for name in MEDIA:
            if isinstance(row[name], bytes):
                path.with_name(f"{number}.wav").write_bytes(wav_of(row[name]))
                row[name] = f"{number}.wav"
        written.append(row)
    if path.suffix == ".json":
        path.write_bytes(orjson.dumps(written))
    else:
        path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in written))


def write_splits(rows: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """As on the hub: one file a split, whose name says the split; rows carry none.

    Raises ImportError: pyarrow is not installed.
    """
    (folder / "data").mkdir()
    for split in dict.fromkeys(str(row["split"]) for row in rows):
        mine = [{k: v for k, v in row.items() if k != "split"} for row in rows if str(row["split"]) == split]
        _write_parquet(mine, folder / "data" / f"{split}-00000-of-00001.parquet")


def _write_parquet(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    media = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    types = {"video_duration": pa.float64(), **dict.fromkeys(MEDIA, media)}
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {
        name: pa.array([_cell(row.get(name), name) for row in rows], types.get(name, pa.string()))
        for name in names
    }
    pq.write_table(pa.table(columns), path)


def _cell(value: Any, name: str) -> Any:
    if name not in MEDIA:
        return value
    if isinstance(value, bytes):
        return {"bytes": wav_of(value), "path": "question.wav"}
    return value if value is None or isinstance(value, dict) else {"bytes": None, "path": value}
