"""`<id>.judge.jsonl`: exactly one line for each judge request, whatever came of it (evaluation.md 16.8)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson

from client.artifacts import append_line
from client.judge.parsing import Kind

log = logging.getLogger(__name__)

Mode = Literal["video_url", "frames", "text"]


@dataclass(frozen=True)
class TraceLine:
    """One request. No images and no keys in it."""

    kind: Kind
    index: int
    """Sentence or event judged, from 0; 0 for a whole answer."""
    mode: Mode
    judge_retry: bool
    """This request is the re-ask of its judgement."""
    transport_retry: bool
    """This request repeats one that got HTTP 429, 5xx or no whole answer."""
    status: int | None
    """HTTP status; None: no answer."""
    finish_reason: str | None
    raw: str | None
    """The judge's text; None when none came."""
    error: str | None
    """None: the reply gave the score."""
    late: bool = False
    """Of the judgement that counts late sentences in, beside the score (design.md 7)."""

    def to_json(self) -> dict[str, Any]:
        """The line's content; `late` only where it is true."""
        told = {name: value for name, value in vars(self).items() if name != "late"}
        return {**told, "late": True} if self.late else told


class Trace:
    """The trace of one sample. Lines are flushed one by one; earlier ones stay when an evaluation is resumed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def keep(self, line: TraceLine) -> None:
        """Write one line. Raises OSError: the message names the path; no half line is left."""
        append_line(self.path, orjson.dumps(_mended(line.to_json())))


def read_trace(path: Path) -> list[dict[str, Any]]:
    """The lines of a trace, in order; none where there is no file.

    Lines end at a line feed alone: U+0085, U+2028 and their kind are text inside a line. What is torn is passed over.

    Raises OSError.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    lines: list[dict[str, Any]] = []
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            parsed = orjson.loads(line)
        except orjson.JSONDecodeError:
            log.warning("%s line %d: torn, passed over", path, number)
            continue
        if isinstance(parsed, dict):
            lines.append(parsed)
    return lines


def _mended(line: Mapping[str, Any]) -> dict[str, Any]:
    """Without halves of surrogate pairs, which no UTF-8 file can hold."""
    return {
        name: value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
        for name, value in line.items()
    }
