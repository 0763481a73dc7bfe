"""Means over score files, and what a CI job gates on: guard, floors, retries (evaluation.md 19)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

Score = Mapping[str, Any]

REFERENCE_FLOORS: Final[Mapping[str, float]] = {
    "rtd.mean_content_score": 1.8,
    "rtd.mean_avg_temporal_score": 1.4,
    "pr.mean_all_success": 0.28,
}
"""The floors of the reference run (evaluation.md 19.1). They belong to its judge: another one moves the scores."""


_ROUNDING = 1e-9
"""Scores are decimals: the mean of 1.7 and 1.9 is 1.8, though binary fractions make it 1.7999999999999998."""


class ScoreError(ValueError):
    """Score files that give no mean, or floors that are none. The message names file or floor."""


def summarize_scores(root: Path) -> dict[str, Any]:
    """Means over every `*.json` below a score root that is no summary itself.

    Raises ScoreError: no such folder, none in it, files that are torn or no score files (all of them named), scores
        made with different prompts or judges.
    """
    if not root.is_dir():
        raise ScoreError(f"{root}: no such folder; allowed: a score root")
    scores: list[Score] = []
    broken: list[str] = []
    for path in sorted(root.rglob("*.json")):
        try:
            if not _is_summary(path):
                scores.append(_read(path))
        except (OSError, ValueError) as error:
            broken.append(f"{path}: {error}")
    if broken:
        raise ScoreError(
            f"{len(broken)} file(s) are no whole score files: {'; '.join(broken)}; judge again, or take them away"
        )
    if not scores:
        raise ScoreError(
            f"{root}: no score file in it; allowed: a score root that `duplex-eval evaluate` or `run` wrote"
        )
    return summary_of(scores)


def _is_summary(path: Path) -> bool:
    """A name ending in `_summary.json` is no score, but for a sample whose id ends so. Raises OSError, ValueError."""
    if not path.name.endswith("_summary.json"):
        return False
    content = orjson.loads(path.read_bytes())
    return not (isinstance(content, dict) and content.get("id") == path.stem and "family" in content)


def _read(path: Path) -> Score:
    """Raises: OSError. ValueError: no score file."""
    score = orjson.loads(path.read_bytes())
    if not isinstance(score, dict) or score.get("family") not in ("rtd", "pr"):
        raise ValueError("no score file (no family)")
    score.setdefault("split", path.parent.name)
    try:
        _values(score)
    except KeyError as error:
        raise ValueError(f"no whole score file ({error} is missing)") from error
    except TypeError as error:
        raise ValueError(f"no whole score file ({error})") from error
    return score


def summary_of(scores: Sequence[Score]) -> dict[str, Any]:
    """The means. A family without a sample is absent. Raises ScoreError: scores that do not belong together."""
    summary: dict[str, Any] = {
        "protocol_pin": _one(scores, "protocol_pin"),
        "judge_model": _one(scores, "judge_model"),
        "samples": len(scores),
    }
    rtd = [score for score in scores if score["family"] == "rtd"]
    pr = [score for score in scores if score["family"] == "pr"]
    if rtd:
        by_split = {name: _rtd_means(part) for name, part in _grouped(rtd, "split").items()}
        summary["rtd"] = {"samples": len(rtd), **_rtd_means(rtd), "by_task": by_split}
    if pr:
        by_task = {
            name: mean([_values(s)["all_success"] for s in part])
            for name, part in _grouped(pr, "task_type").items()
        }
        successes = [_values(score)["all_success"] for score in pr]
        summary["pr"] = {"samples": len(pr), "mean_all_success": mean(successes), "by_task": by_task}
    late = _late(scores)
    return {**summary, "late_sentences": late} if late else summary


def _values(score: Score, *, late: bool = False) -> dict[str, float]:
    """The numbers of a score; with late sentences counted in where that was judged."""
    counted = score.get("with_late_sentences") if late else None
    if isinstance(counted, Mapping) and "error" not in counted:
        return {name: float(value) for name, value in counted.items() if name != "sentences"}
    if score["family"] == "pr":
        return {"all_success": float(bool(score["pr"]["all_success"]))}
    return {
        "content_score": float(score["content"]["content_score"]),
        "avg_temporal_score": float(score["temporal"]["summary"]["avg_temporal_score"]),
    }


def _rtd_means(scores: Sequence[Score], *, late: bool = False) -> dict[str, float]:
    values = [_values(score, late=late) for score in scores]
    return {
        "mean_content_score": mean([v["content_score"] for v in values]),
        "mean_avg_temporal_score": mean([v["avg_temporal_score"] for v in values]),
    }


def _late(scores: Sequence[Score]) -> dict[str, Any]:
    """How many late sentences there were, and the means with them (design.md 7); empty where there was none."""
    counts = [len(score.get("response_meta", {}).get("late_sentences") or ()) for score in scores]
    if not any(counts):
        return {}
    told: dict[str, Any] = {"samples": sum(map(bool, counts)), "sentences": sum(counts)}
    rtd = [score for score in scores if score["family"] == "rtd"]
    pr = [score for score in scores if score["family"] == "pr"]
    if rtd:
        told["rtd_with_late"] = _rtd_means(rtd, late=True)
    if pr:
        successes = [_values(score, late=True)["all_success"] for score in pr]
        told["pr_with_late"] = {"mean_all_success": mean(successes)}
    return told


def _grouped(scores: Sequence[Score], name: str) -> dict[str, list[Score]]:
    groups: dict[str, list[Score]] = {}
    for score in sorted(scores, key=lambda score: str(score[name])):
        groups.setdefault(str(score[name]), []).append(score)
    return groups


def _one(scores: Sequence[Score], name: str) -> Any:
    values = list(dict.fromkeys(score.get(name) for score in scores))
    if len(values) > 1:
        told = ", ".join(map(str, values))
        raise ScoreError(f"scores made with different values of {name} ({told}) give no mean; allowed: one")
    return values[0] if values else None


def mean(values: Sequence[float]) -> float:
    """A plain mean."""
    return math.fsum(values) / len(values)


@dataclass(frozen=True)
class Verdict:
    """One thing a run is gated on. `actual` and `expected` are told to people."""

    name: str
    passed: bool
    expected: str
    actual: str

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return vars(self).copy()


def read_floors(texts: Iterable[str]) -> dict[str, float]:
    """Floors from `NAME=NUMBER` pieces, `reference` or `none`, separated by commas.

    Raises ScoreError: another name, no number.
    """
    floors: dict[str, float] = {}
    for piece in (piece.strip() for text in texts for piece in text.split(",")):
        if piece in ("", "none"):
            continue
        if piece == "reference":
            floors.update(REFERENCE_FLOORS)
            continue
        name, equals, value = piece.partition("=")
        if name.strip() not in REFERENCE_FLOORS or not equals:
            known = ", ".join(f"{known}=NUMBER" for known in REFERENCE_FLOORS)
            raise ScoreError(f"floor: found {piece!r}; allowed: reference, none, or {known}")
        floors[name.strip()] = _floor(name, value)
    return floors


def _floor(name: str, text: str) -> float:
    try:
        floor = float(text)
    except ValueError:
        floor = math.nan
    if not math.isfinite(floor):
        raise ScoreError(f"floor {name}: found {text!r}; allowed: a number")
    return floor


def floor_verdicts(accuracy: Mapping[str, Any], floors: Mapping[str, float]) -> list[Verdict]:
    """Each floor against its mean. One without a mean has failed: nothing shows that it holds."""
    verdicts = []
    for name, floor in floors.items():
        family, _, key = name.partition(".")
        value = (accuracy.get(family) or {}).get(key)
        passed = value is not None and value >= floor - _ROUNDING
        actual = "no sample was scored" if value is None else f"{value:.4f}"
        verdicts.append(Verdict(f"floor {name}", passed, f">= {floor:g}", actual))
    return verdicts


def guard_verdict(completed: int, num_prompt: int) -> Verdict:
    """The guard of evaluation.md 19.1: all requests were successful. It does not look at retries."""
    return Verdict("guard", completed == num_prompt, f"completed == {num_prompt}", f"completed {completed}")


def retries_verdict(retry_count: int, most: int) -> Verdict:
    """An optional maximum: bounding and retrying can hide a server that stopped reading (R63)."""
    return Verdict("retries", retry_count <= most, f"<= {most}", str(retry_count))


def strict_verdicts(
    *,
    selected: Sequence[str],
    excluded: Iterable[str],
    finished: int,
    artifact_errors: int,
    clocks: Iterable[str],
    accuracy: Mapping[str, Any] | None,
) -> list[Verdict]:
    """The stricter form of the guard: every sample generated, written, on the media clock, scored; none excluded.

    Args: selected: `split/id` of all samples asked for. accuracy: None: nothing was judged.
    """
    total = len(selected)
    kept_out = sorted(set(excluded))
    names = {name for pair in selected for name in (pair, pair.partition("/")[2])}
    taken = [name for name in kept_out if name in names]
    other = sorted({clock for clock in clocks if clock != "media"})
    verdicts = [
        Verdict("strict: generated", finished == total, f"{total} of {total}", f"{finished} of {total}"),
        Verdict("strict: artifact errors", artifact_errors == 0, "0", str(artifact_errors)),
        Verdict("strict: clock", not other, "media", ", ".join(other) or "media"),
        Verdict("strict: excluded ids", not taken, "none selected", ", ".join(taken) or "none selected"),
    ]
    if accuracy is not None:
        evaluated, samples = accuracy.get("evaluated"), accuracy.get("samples")
        both = evaluated == samples == total
        told = f"evaluated {evaluated}, in the summary {samples}"
        verdicts.append(Verdict("strict: scored", both, f"both {total}", told))
    return verdicts
