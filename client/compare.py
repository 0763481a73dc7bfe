"""Two runs side by side: what became of each sample, what was said, how it was scored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from client.judge.score_files import NoScoreError, read_score, score_path
from client.judge.subject import AnswerError, read_answer
from client.response_root import run_folders
from client.run_result import RUN_RESULT

EVALUATION: Final = "evaluation"
"""Folder of the scores in a run's folder."""


class CompareError(ValueError):
    """A folder that holds no run. The message names it."""


@dataclass(frozen=True)
class Side:
    """One sample in one run."""

    outcome: str
    retry_count: int
    sentences: tuple[str, ...]
    scores: Mapping[str, float]
    """Name to value; empty: not scored."""


@dataclass(frozen=True)
class Difference:
    """One sample in both runs; None: that run did not have it."""

    split: str
    id: str
    a: Side | None
    b: Side | None
    appeared: list[str] = field(default_factory=list)
    """Sentences of B that A does not have."""
    vanished: list[str] = field(default_factory=list)
    scores: dict[str, tuple[float | None, float | None]] = field(default_factory=dict)
    """Scores that differ: (A's, B's)."""

    @property
    def is_any(self) -> bool:
        """Whether the two runs differ in this sample."""
        if self.a is None or self.b is None:
            return True
        facts = (self.a.outcome, self.a.retry_count) != (self.b.outcome, self.b.retry_count)
        return facts or bool(self.appeared or self.vanished or self.scores)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "split": self.split,
            "id": self.id,
            "a": _told(self.a),
            "b": _told(self.b),
            "appeared": self.appeared,
            "vanished": self.vanished,
            "scores": {name: list(pair) for name, pair in self.scores.items()},
        }


def compare_runs(a: Path, b: Path) -> list[Difference]:
    """Every sample of either run, in A's order, then those B alone has. Raises CompareError."""
    sides_a, sides_b = sides_of(a), sides_of(b)
    names = list(dict.fromkeys([*sides_a, *sides_b]))
    return [difference(*name, sides_a.get(name), sides_b.get(name)) for name in names]


def difference(split: str, sample_id: str, a: Side | None, b: Side | None) -> Difference:
    """What differs between the two sides of a sample."""
    said_a, said_b = (Counter(side.sentences if side else ()) for side in (a, b))
    scores_a, scores_b = ({} if side is None else side.scores for side in (a, b))
    return Difference(
        split,
        sample_id,
        a,
        b,
        appeared=list((said_b - said_a).elements()),
        vanished=list((said_a - said_b).elements()),
        scores={
            name: (scores_a.get(name), scores_b.get(name))
            for name in dict.fromkeys([*scores_a, *scores_b])
            if scores_a.get(name) != scores_b.get(name)
        },
    )


def sides_of(folder: Path) -> dict[tuple[str, str], Side]:
    """The samples of a run by (split, id). Raises CompareError: no whole run there, or a file of it is torn."""
    path = folder / RUN_RESULT
    try:
        records = orjson.loads(path.read_bytes())["samples"]
        return {(record["split"], record["id"]): _side(folder, record) for record in records}
    except FileNotFoundError as error:
        inside = ", ".join(run.name for run in run_folders(folder)) if folder.is_dir() else ""
        hint = f"; found in it: {inside}" if inside else ""
        raise CompareError(
            f"{folder}: no {RUN_RESULT}; allowed: the folder of a run that ended{hint}"
        ) from error
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise CompareError(f"{path}: no whole run result ({error})") from error
    except (AnswerError, NoScoreError, OSError) as error:
        raise CompareError(str(error)) from error


def _side(folder: Path, record: Mapping[str, Any]) -> Side:
    answer = read_answer(folder, record["split"], record["id"])
    score = read_score(score_path(folder / EVALUATION, record["split"], record["id"]))
    return Side(
        outcome="published" if record["outcome"] == "skipped_finished" else record["outcome"],
        retry_count=record["retry_count"],
        sentences=tuple(sentence.text for sentence in answer.sentences) if answer is not None else (),
        scores=scores_of(score) if score is not None else {},
    )


def scores_of(score: Mapping[str, Any]) -> dict[str, float]:
    """The scores of a score file by name."""
    if score["family"] == "pr":
        return {"all_success": float(score["pr"]["all_success"])}
    return {
        "content_score": float(score["content"]["content_score"]),
        "avg_temporal_score": float(score["temporal"]["summary"]["avg_temporal_score"]),
    }


def lines_of(found: Difference) -> list[str]:
    """A difference in lines for people."""
    lines = [f"{found.split}/{found.id}: {_facts(found.a)} -> {_facts(found.b)}"]
    for name, (before, after) in found.scores.items():
        change = f" ({after - before:+.4g})" if before is not None and after is not None else ""
        lines.append(f"  {name}: {_number(before)} -> {_number(after)}{change}")
    lines += [f"  - {text}" for text in found.vanished]
    return lines + [f"  + {text}" for text in found.appeared]


def _facts(side: Side | None) -> str:
    if side is None:
        return "not in this run"
    facts = [side.outcome]
    if side.retry_count:
        facts.append("retried")
    return ", ".join([*facts, "scored" if side.scores else "not scored"])


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:g}"


def _told(side: Side | None) -> dict[str, Any] | None:
    if side is None:
        return None
    return {
        "outcome": side.outcome,
        "retry_count": side.retry_count,
        "sentences": len(side.sentences),
        "scores": dict(side.scores),
    }
