"""The samples of a dataset: what to run, and which rows cannot be (evaluation.md 1)."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from client.artifacts import folded
from client.dataset_identity import Family, Identity, RowError, Task, field, identify
from client.dataset_rows import Row, rows_of
from client.input_errors import DatasetError
from client.media import MediaSource, Prepared, prepare

__all__ = ["Dataset", "DatasetError", "Refused", "Sample", "load_dataset"]

_LONGEST_CLIP_S = 86_400.0
_LONGEST_NAME_BYTES = 200
"""File systems take 255; suffixes such as `.judge.jsonl` and temporary names need room."""


@dataclass(frozen=True)
class Sample:
    """One clip with its question. (split, id) identifies it everywhere.

    Source: evaluation.md 1.
    """

    split: str
    id: str
    family: Family
    task: Task | None
    """None for the family rtd."""
    question_text: str
    answer1: str
    answer2: str
    reminders_s: tuple[float, ...]
    """Event times in seconds of the clip, as far as they can be read (evaluation.md 18)."""
    video_type: str
    video_duration_s: float | None
    """Seconds; None: to be probed."""
    video: MediaSource | None
    question_audio: MediaSource | None
    where: str
    """File and row, for messages."""

    def prepare(self, *, fps: float = 1.0) -> Prepared:
        """Decode the media; slow and blocking, so for a worker thread.

        Raises MediaError: a file that cannot be used. Source: evaluation.md 2.
        """
        return prepare(
            self.split,
            self.id,
            question_audio=self.question_audio,
            video=self.video,
            video_duration_s=self.video_duration_s,
            fps=fps,
        )


@dataclass(frozen=True)
class Refused:
    """A row that cannot be used, and why. Split and id as far as they are known."""

    split: str | None
    id: str | None
    where: str
    reason: str


@dataclass(frozen=True)
class Dataset:
    """What was selected from a source."""

    source: str
    samples: tuple[Sample, ...]
    refused: tuple[Refused, ...]
    """Rows that would have been selected and cannot be used."""
    rows: int
    """Rows of the source, before any filter."""
    splits: tuple[str, ...]
    """Split names seen, sorted."""
    notes: tuple[str, ...] = ()
    """What was read with a reservation, one line each."""


@dataclass(frozen=True)
class _Selection:
    split: str | None
    family: str | None
    ids: frozenset[str] | None
    exclude_ids: frozenset[str]

    def takes(self, split: str | None, family: str | None, sample_id: str | None) -> bool:
        """Filters in their order: split, family, ids, then the exclude list. What is unknown passes."""
        if self.split is not None and split is not None and split != self.split:
            return False
        if self.family is not None and family is not None and family != self.family:
            return False
        names = {sample_id, f"{split}/{sample_id}"}
        if self.ids is not None and sample_id is not None and not names & self.ids:
            return False
        return not names & self.exclude_ids


def load_dataset(
    source: Path | str | Iterable[Mapping[str, Any]],
    *,
    split: str | None = None,
    family: str | None = None,
    ids: Collection[str] | None = None,
    exclude_ids: Collection[str] = (),
    limit: int | None = None,
    media_root: Path | str | None = None,
    require_media: bool = True,
) -> Dataset:
    """Samples of a folder in the hub's layout, a parquet file, a manifest, or rows in memory.

    Filters work in this order: split, family, ids, exclude list, limit. No media is read here. A row that
    cannot be used is listed in `refused` with its reason, never dropped in silence.

    Args:
        split: None or `all`: every split.
        family: None, `all`, `rtd` or `pr`.
        ids: bare ids or `split/id`; None: all.
        exclude_ids: bare ids or `split/id`.
        limit: most samples taken; None: all. Rows behind the last of them were not asked for, and none is refused.
        media_root: folder of relative media paths; None: beside the manifest or in the dataset's folder.
        require_media: refuse files without a column (manifests: a key) for question_audio or for video, and rows in
            which both are null. One that is null is noted. A file of sound alone says so by a column of nulls.
    Raises DatasetError: a source that cannot be read, a missing column, an option out of range, a split or
        an id that
        no row has, two samples of one (split, id), an id or split that is no plain file name.
    Source: evaluation.md 1.3 to 1.6, 12.4.
    """
    family = _check_options(family, limit)
    wanted = _Selection(
        None if split == "all" else split,
        family,
        None if ids is None else frozenset(ids),
        frozenset(exclude_ids),
    )
    root = None if media_root is None else Path(media_root)
    name, rows = rows_of(source, root, require_media=require_media)
    reader = _Reader(name, wanted, require_media)
    for row in rows:
        reader.read(row)
    return reader.dataset(limit)


def _check_options(family: str | None, limit: int | None) -> str | None:
    if family not in (None, "all", "rtd", "pr"):
        raise DatasetError(f"family: found {family!r}; allowed: all, rtd, pr")
    if limit is not None and limit < 1:
        raise DatasetError(f"limit: found {limit}; allowed: 1 or more")
    return None if family == "all" else family


class _Reader:
    """Goes through the rows of one source once."""

    def __init__(self, source: str, wanted: _Selection, require_media: bool) -> None:
        self._source, self._wanted, self._require_media = source, wanted, require_media
        self._rows = 0
        self._splits: set[str] = set()
        self._names: set[str] = set()
        self._samples: list[Sample] = []
        self._refused: list[tuple[int, Refused]] = []
        """Each with how many samples were taken before it."""
        self._notes: list[str] = []
        self._without: dict[str, list[str]] = {"question_audio": [], "video": []}
        """Media field to the rows taken in which it is null."""

    def read(self, row: Row) -> None:
        self._rows += 1
        split, sample_id = row.physical, None
        try:
            sample_id = _sample_id(row)
            requested = self._wanted.split if row.physical is None else None
            identity = identify(row.values, requested=requested, physical=row.physical)
            split = identity.split
            self._splits.add(split)
            self._names |= {sample_id, f"{split}/{sample_id}"}
            if self._wanted.takes(split, identity.family, sample_id):
                self._samples.append(self._sample(row, identity, sample_id))
        except RowError as error:
            if split is not None:
                self._splits.add(split)
            if sample_id is not None:
                self._names |= {sample_id, f"{split}/{sample_id}"}
            if self._wanted.takes(split, None, sample_id):
                refused = Refused(split, sample_id, row.where, str(error))
                self._refused.append((len(self._samples), refused))

    def _sample(self, row: Row, identity: Identity, sample_id: str) -> Sample:
        label = f"{identity.split}/{sample_id}"
        video, audio = row.media("video"), row.media("question_audio")
        if self._require_media and video is None and audio is None:
            raise RowError("no media: question_audio and video are both empty; allowed: at least one of them")
        for name, media in (("question_audio", audio), ("video", video)):
            if self._require_media and media is None:
                self._without[name].append(label)
        return Sample(
            split=identity.split,
            id=sample_id,
            family=identity.family,
            task=identity.task,
            question_text=_string(row, "question_text"),
            answer1=_string(row, "answer1"),
            answer2=_string(row, "answer2"),
            reminders_s=self._reminders(row, label),
            video_type=_string(row, "video_type"),
            video_duration_s=_duration_s(row),
            video=video,
            question_audio=audio,
            where=row.where,
        )

    def _reminders(self, row: Row, label: str) -> tuple[float, ...]:
        times: list[float] = []
        for name in ("reminder1", "reminder2"):
            value = field(row.values, name)
            if isinstance(value, Mapping):
                value = value.get("start", value.get("time"))
            if value is None or value == "":
                continue
            seconds = _number(value)
            if seconds is None:
                self._notes.append(f"{label}: {name}: found {value!r}; allowed: seconds; passed over")
            else:
                times.append(seconds)
        return tuple(times)

    def dataset(self, limit: int | None) -> Dataset:
        self._check_selection()
        samples = self._samples[:limit]
        _check_names(samples)
        return Dataset(
            self._source,
            tuple(samples),
            tuple(refused for before, refused in self._refused if limit is None or before < limit),
            self._rows,
            tuple(sorted(self._splits)),
            (*_null_notes(self._without), *self._notes),
        )

    def _check_selection(self) -> None:
        if self._rows == 0:
            raise DatasetError(f"{self._source}: no rows; expected at least one")
        split, ids = self._wanted.split, self._wanted.ids
        if split is not None and split not in self._splits:
            seen = ", ".join(sorted(self._splits)) or "none"
            raise DatasetError(f"{self._source}: no row of split {split!r}; splits seen: {seen}")
        unknown = sorted((ids or frozenset()) - self._names)
        if unknown:
            first = ", ".join(unknown[:10])
            raise DatasetError(f"{self._source}: {self._rows} rows, and none has the id {first}")


def _null_notes(without: Mapping[str, list[str]]) -> list[str]:
    """What is done about rows whose media is null: a line a field, with how many there are and which."""
    instead = {
        "question_audio": "silence of the clip's length is sent instead",
        "video": "sound is sent without frames",
    }
    return [
        f"{name} is null in {len(labels)} row(s) ({', '.join(labels[:5])}{', ...' if len(labels) > 5 else ''}): "
        f"{instead[name]}"
        for name, labels in without.items()
        if labels
    ]


def _check_names(samples: list[Sample]) -> None:
    """Names become paths, so they are refused before any folder is made (evaluation.md 12.4)."""
    seen: dict[str, Sample] = {}
    for sample in samples:
        for what, name in (("split", sample.split), ("id", sample.id)):
            if not _plain(name):
                raise DatasetError(
                    f"{sample.where}: {what} {name!r} cannot be a file name; allowed: text without "
                    f"separators or control characters, at most {_LONGEST_NAME_BYTES} bytes, not . or .."
                )
        name = f"{sample.split}/{sample.id}"
        other = seen.setdefault(folded(name), sample)
        if other is sample:
            continue
        if (other.split, other.id) == (sample.split, sample.id):
            raise DatasetError(
                f"{sample.where}: {name} is there twice, also at {other.where}; allowed: one row a (split, id)"
            )
        raise DatasetError(
            f"{sample.where}: {name} and {other.split}/{other.id} at {other.where} name the same file on some file "
            "systems; allowed: names that differ in more than case or Unicode form"
        )


def _plain(name: str) -> bool:
    if name in ("", ".", "..") or any(mark in name for mark in "/\\") or not name.isprintable():
        return False
    return len(name.encode("utf-8", "surrogatepass")) <= _LONGEST_NAME_BYTES


def _sample_id(row: Row) -> str:
    value = field(row.values, "id")
    if value is None or value == "":
        raise RowError("no id; allowed: text or a whole number")
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise RowError(f"id: found {value!r}; allowed: text or a whole number")
    return str(value)


def _string(row: Row, name: str) -> str:
    value = field(row.values, name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise RowError(f"{name}: found {value!r}; allowed: text")
    return value


def _duration_s(row: Row) -> float | None:
    value = field(row.values, "video_duration")
    if value is None or value == "":
        return None
    seconds = _number(value)
    if seconds is None or not 0 < seconds <= _LONGEST_CLIP_S:
        raise RowError(
            f"video_duration: found {value!r}; allowed: seconds above 0 (a day at most), or nothing (probed then)"
        )
    return seconds


def _number(value: Any) -> float | None:
    """A finite number, also one written as text."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
