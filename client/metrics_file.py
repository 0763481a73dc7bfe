"""`duplex_metrics.json`, and the journal that lets it survive a kill (evaluation.md 12.1, 20).

A line is added as a sample's answer is written, so a resumed run knows the figures of what was finished before.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from client.artifacts import append_line, write_whole
from client.metrics import SampleMetrics, run_metrics

log = logging.getLogger(__name__)

METRICS: Final = "duplex_metrics.json"
JOURNAL: Final = ".metrics.jsonl"

Key = tuple[str, str]
"""(split, id)."""


def keep_metrics(root: Path, split: str, sample_id: str, metrics: SampleMetrics) -> None:
    """Add a sample to the journal. Raises OSError."""
    append_line(root / JOURNAL, orjson.dumps({"split": split, "id": sample_id, **metrics.to_json()}))


def kept_metrics(root: Path) -> dict[Key, SampleMetrics]:
    """What the journal holds, the latest line of a sample counting; torn lines are passed over. Raises OSError."""
    try:
        content = (root / JOURNAL).read_bytes()
    except FileNotFoundError:
        return {}
    kept: dict[Key, SampleMetrics] = {}
    for line in content.split(b"\n"):
        try:
            told = orjson.loads(line) if line else None
        except orjson.JSONDecodeError:
            log.warning("%s: a torn line, passed over", root / JOURNAL)
            continue
        if isinstance(told, dict) and isinstance(told.get("split"), str) and isinstance(told.get("id"), str):
            kept[told["split"], told["id"]] = SampleMetrics.from_json(told)
    return kept


def write_metrics(root: Path, samples: Mapping[Key, SampleMetrics], failed: Collection[Key] = ()) -> None:
    """Write `duplex_metrics.json`: these samples, and from an earlier one those that are not among them.

    Args: failed: samples whose earlier figures do not hold any more.
    Raises OSError.
    """
    path = root / METRICS
    earlier = [sample for key, sample in _read(path).items() if key not in samples and key not in failed]
    write_whole(path, run_metrics([*earlier, *samples.values()]))


def _read(path: Path) -> dict[Key, SampleMetrics]:
    """Samples of an earlier file; none where it is missing or torn."""
    try:
        told = orjson.loads(path.read_bytes())
    except (FileNotFoundError, orjson.JSONDecodeError):
        return {}
    samples: dict[Key, SampleMetrics] = {}
    for name, add in (("duplex_request_metrics", _add_row), ("duplex_session_metrics", _add_session)):
        for row in told.get(name) or [] if isinstance(told, dict) else []:
            if not isinstance(row, dict):
                continue
            key = (str(row.get("split")), str(row.get("sample_id")))
            samples[key] = add(samples.get(key, SampleMetrics()), row)
    return samples


def _add_row(sample: SampleMetrics, row: dict[str, Any]) -> SampleMetrics:
    return SampleMetrics([*sample.rows, row], sample.session)


def _add_session(sample: SampleMetrics, row: dict[str, Any]) -> SampleMetrics:
    return SampleMetrics(sample.rows, row)
