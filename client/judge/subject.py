"""What is judged: one sample, its answer, and what the judge needs to know of it (evaluation.md 1.2, 11, 17, 18)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from client.clips import Clip, FrameStore, VideoClip
from client.dataset import Sample
from client.dataset_identity import Family, Task


@dataclass(frozen=True)
class Sentence:
    """One sentence of an answer, in seconds of the media clock; end >= start."""

    text: str
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Subject:
    """One sample to judge. (split, id) identifies it."""

    split: str
    id: str
    family: Family
    task: Task | None
    """None for the family rtd alone."""
    instruction: str
    """The question in words; never sent to the model, only to the judge."""
    references: tuple[str, ...]
    """answer1 and answer2, as the dataset has them."""
    events_s: tuple[float, ...]
    """Times of the reminders that could be read."""
    duration_s: float | None
    """Of the clip; None: to be probed."""
    clip: Clip | None

    @property
    def name(self) -> str:
        return f"{self.split}/{self.id}"

    @property
    def guidance(self) -> list[str]:
        """References without empty and repeated ones (evaluation.md 17)."""
        return list(dict.fromkeys(text for text in (r.strip() for r in self.references) if text))


def subject_of(sample: Sample, response_root: Path, store: FrameStore) -> Subject:
    """A sample of the dataset as the judge sees it; its clip is decoded when it is asked for.

    Args: response_root: the clip is materialised in `<split>/.media/<id>/` below it when a path is needed.
    """
    clip = None
    if sample.video is not None:
        folder = response_root / sample.split / ".media" / sample.id
        clip = VideoClip(sample.split, sample.id, sample.video, folder, store)
    return Subject(
        split=sample.split,
        id=sample.id,
        family=sample.family,
        task=sample.task,
        instruction=sample.question_text,
        references=(sample.answer1, sample.answer2),
        events_s=sample.reminders_s,
        duration_s=sample.video_duration_s,
        clip=clip,
    )


@dataclass(frozen=True)
class Answer:
    """What a session left of a sample."""

    sentences: tuple[Sentence, ...]
    late: tuple[Sentence, ...]
    """Of replies that began in padded silence: kept apart, not scored (design.md 7)."""
    metadata: Mapping[str, Any]
    sha256: str
    """Of the answer file: a score belongs to this very answer."""

    @property
    def clock(self) -> str:
        return str(self.metadata.get("clock", "media"))


class AnswerError(ValueError):
    """An answer file that cannot be judged. The message names it."""


def read_answer(root: Path, split: str, sample_id: str) -> Answer | None:
    """A sample's answer and metadata; None: it has none.

    Raises: AnswerError: the file holds something else. OSError.
    """
    path = root / split / f"{sample_id}.json"
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    metadata = _metadata(root / split / f"{sample_id}.meta.json")
    late = metadata.get("late_sentences")
    return Answer(
        sentences=sentences_of(_parsed(content, path), str(path)),
        late=sentences_of(late, str(path)) if isinstance(late, list) else (),
        metadata=metadata,
        sha256=hashlib.sha256(content).hexdigest(),
    )


def _metadata(path: Path) -> Mapping[str, Any]:
    try:
        metadata = _parsed(path.read_bytes(), path)
    except FileNotFoundError:
        return {}
    return metadata if isinstance(metadata, dict) else {}


def _parsed(content: bytes, path: Path) -> Any:
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise AnswerError(f"{path}: not JSON ({error})") from error


def sentences_of(content: Any, where: str) -> tuple[Sentence, ...]:
    """Sentences of an answer file in any of its forms; empty and malformed items are dropped (evaluation.md 11).

    Raises AnswerError: neither a list nor an object with one.
    """
    items = content
    if isinstance(content, dict):
        items = content.get("sentences", content.get("chunks"))
    if not isinstance(items, list):
        raise AnswerError(
            f"{where}: found {type(content).__name__}; allowed: a list of sentences, or an object with sentences "
            "or chunks"
        )
    return tuple(sentence for item in items if (sentence := _sentence(item)) is not None)


def _sentence(item: Any) -> Sentence | None:
    if not isinstance(item, dict):
        return None
    text = _first(item, ("sentence", "text", "content"))
    start_s = _seconds(_first(item, ("start", "current_time", "time")))
    end_s = _seconds(_first(item, ("end", "current_time", "time")))
    if not isinstance(text, str) or not text.strip() or start_s is None:
        return None
    return Sentence(text.strip(), start_s, max(start_s, start_s if end_s is None else end_s))


def _first(item: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((item[name] for name in names if item.get(name) is not None), None)


def _seconds(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) else None
