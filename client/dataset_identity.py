"""Which sample a row is: its fields under any of their names, its split, family and task (evaluation.md
1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Family = Literal["rtd", "pr"]
Task = Literal["correction", "proactive_reminder", "post_event_reminder"]

ALIASES: Mapping[str, tuple[str, ...]] = {
    "split": ("split", "subset", "config"),
    "id": ("id", "sample_id", "uid", "name"),
    "task_type": ("task_type", "task", "type"),
    "family": ("family",),
    "video": ("video", "video_path", "video_file"),
    "question_audio": ("question_audio", "audio", "question_wav"),
    "question_text": ("question_text", "question", "instruction"),
    "answer1": ("answer1", "answer", "ground_answer"),
    "answer2": ("answer2",),
    "reminder1": ("reminder1", "reminder_1"),
    "reminder2": ("reminder2", "reminder_2"),
    "video_type": ("video_type",),
    "video_duration": ("video_duration", "duration"),
}
"""Field to the column names it may have; the first that is not null wins (evaluation.md 1.3)."""

SPLITS: Mapping[str, tuple[Family, Task | None]] = {
    "PR_correction": ("pr", "correction"),
    "PR_event_reminder": ("pr", "proactive_reminder"),
    "PR_post_event_reminder": ("pr", "post_event_reminder"),
    "RTD_world_knowledge": ("rtd", None),
    "RTD_counting": ("rtd", None),
    "RTD_fine_grained_movement": ("rtd", None),
    "RTD_interaction_relation": ("rtd", None),
    "RTD_OCR": ("rtd", None),
    "RTD_Omni": ("rtd", None),
}
"""The nine splits of the dataset (evaluation.md 1.1)."""

_TASKS: Mapping[str, Task] = {
    "correction": "correction",
    "pr_correction": "correction",
    "event_reminder": "proactive_reminder",
    "pr_event_reminder": "proactive_reminder",
    "proactive_reminder": "proactive_reminder",
    "post_event_reminder": "post_event_reminder",
    "pr_post_event_reminder": "post_event_reminder",
}
_SPLIT_OF_TASK: Mapping[Task, str] = {task: split for split, (_, task) in SPLITS.items() if task is not None}
LAYOUT = (
    "a split named "
    + ", ".join(SPLITS)
    + " (or beginning with RTD or PR), or a task_type of "
    + ", ".join(_TASKS)
)
"""What identifies a row, for messages."""


class RowError(ValueError):
    """A row cannot be used; the text is the reason."""


@dataclass(frozen=True)
class Identity:
    """Split, family and task of a sample. `task` is None for the family rtd alone."""

    split: str
    family: Family
    task: Task | None


def field(row: Mapping[str, Any], name: str) -> Any:
    """A field's value under the first of its names that is not null; None where there is none.

    Source: evaluation.md 1.3.
    """
    return next((row[alias] for alias in ALIASES[name] if row.get(alias) is not None), None)


def family_of_split(split: str) -> Family | None:
    """Family a split's name tells, ignoring case; None for a name such as `train`."""
    lowered = split.lower()
    if lowered.startswith("rtd"):
        return "rtd"
    return "pr" if lowered.startswith("pr") else None


def task_of_split(split: str) -> Task | None:
    """Task a split's name of the family pr tells (evaluation.md 1.4)."""
    lowered = split.lower()
    if "correction" in lowered:
        return "correction"
    if "post_event" in lowered:
        return "post_event_reminder"
    return "proactive_reminder" if lowered.startswith("pr") else None


def identify(row: Mapping[str, Any], *, requested: str | None, physical: str | None) -> Identity:
    """Split, family and task of a row.

    The split is, first one wins: the row's own; the physical one if its name tells a family; the requested
    one if it does not contradict the row's own family and task; the one that belongs to the row's task; the
    physical one.

    Args:
        row: columns of the row.
        requested: the split asked for, where rows without a split take it (manifests, iterables); else None.
        physical: name of the split the file stands for; `train` for a lone file; None without a file.
    Raises RowError: nothing tells what the row is.
    Source: evaluation.md 1.4, 1.5.
    """
    raw_task, raw_family = _text(row, "task_type"), _text(row, "family")
    explicit_task = _TASKS.get(raw_task.lower().replace("-", "_").replace(" ", "_"))
    family = _explicit_family(raw_family) or None
    own = _text(row, "split")
    split = own or _split_without_own(explicit_task, family, raw_task, requested, physical)
    family = family or family_of_split(split) or _family_of_task(explicit_task, raw_task)
    if family is None:
        seen = f"split {split!r}" if split else "no split"
        raise RowError(
            f"cannot tell what the sample is: {seen}, task {raw_task or None!r}; expected {LAYOUT}"
        )
    task = (explicit_task or task_of_split(split)) if family == "pr" else None
    if family == "pr" and task is None:
        raise RowError(f"no task: split {split!r}, task {raw_task or None!r}; expected {LAYOUT}")
    return Identity(split or family.upper(), family, task)


def _split_without_own(
    task: Task | None, family: Family | None, raw_task: str, requested: str | None, physical: str | None
) -> str:
    if physical and family_of_split(physical):
        return physical
    known = family or _family_of_task(task, raw_task)
    if requested and _compatible(requested, known, task):
        return requested
    if task is not None:
        return _SPLIT_OF_TASK[task]
    return physical or ""


def _compatible(split: str, family: Family | None, task: Task | None) -> bool:
    told = family_of_split(split)
    same_family = family is None or told is None or told == family
    return same_family and (task is None or task_of_split(split) in (None, task))


def _explicit_family(value: str) -> Family | None:
    match value.lower():
        case "":
            return None
        case "rtd":
            return "rtd"
        case "pr":
            return "pr"
    raise RowError(f"family: found {value!r}; allowed: rtd, pr")


def _family_of_task(task: Task | None, raw_task: str) -> Family | None:
    """Only a known task, or one that says RTD: `type` may well be a column of quite another meaning."""
    if task is not None:
        return "pr"
    return "rtd" if raw_task.lower().startswith("rtd") else None


def _text(row: Mapping[str, Any], name: str) -> str:
    value = field(row, name)
    return "" if value is None else str(value).strip()
