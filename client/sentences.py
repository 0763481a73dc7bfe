"""Timed sentences from text deltas (evaluation.md 11, protocol.md 14.1)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

_SENTENCE_END = re.compile(r"[.!?。！？]+(?=\s|\Z)")


@dataclass(frozen=True)
class TextDelta:
    """A text or transcript delta as it arrived."""

    clock_ms: Any
    """Its timestamp in ms: a number, or whatever the server wrote there."""
    text: str


def clock_of(event: dict[str, Any], media_clock_ms: float) -> Any:
    """The timestamp of a delta in ms, first present of `audio_end_ms`, the media clock, `current_time_ms`, 0.

    Args:
        media_clock_ms: ms of input sent when the event came; an event that carries `_media_clock_ms` keeps its own.
    Returns: the value as found, which may be unusable.
    """
    clocks = (
        event.get("audio_end_ms"),
        event.get("_media_clock_ms", media_clock_ms),
        event.get("current_time_ms"),
    )
    return next((clock for clock in clocks if clock is not None), 0)


def timed_sentences(deltas: Iterable[TextDelta]) -> list[dict[str, Any]]:
    """Split text into sentences with start and end in seconds of the input media clock.

    A sentence ends after a run of `. ! ? 。 ！ ？` that is followed by white space or by the end of what came so far;
    what is left restarts at the clock of the delta that brought it.

    Args:
        deltas: of one answer, in arrival order, over all its responses.
    Returns: `{"sentence", "start", "end"}` items, times rounded to 3 decimals, in order.
    """
    sentences: list[dict[str, Any]] = []
    pending, start_s, now_s = "", 0.0, 0.0
    for delta in deltas:
        if not delta.text:
            continue
        if delta.text.isspace():
            pending += delta.text if pending else ""
            continue
        now_s = seconds_of(delta.clock_ms, otherwise_s=now_s)
        if not pending:
            start_s = now_s
        pending += delta.text
        if _SENTENCE_END.search(delta.text) is None:  # what was pending held no end, so only this text can
            continue
        pieces, rest = split_sentences(pending)
        for piece in pieces:
            sentences.append(sentence(piece, start_s, max(start_s, now_s)))
        if pieces:
            pending, start_s = rest, now_s
    if pending.strip():
        sentences.append(sentence(pending, start_s, max(start_s, now_s)))
    return sentences


def split_sentences(text: str) -> tuple[list[str], str]:
    """Complete sentences of `text`, and the rest, cut exactly where the last of them ends.

    White space inside and behind the rest stays: the next delta continues it.
    """
    pieces: list[str] = []
    at = 0
    for end in _SENTENCE_END.finditer(text):
        pieces.append(text[at : end.end()])
        at = end.end()
    return pieces, text[at:].lstrip()


def sentence(text: str, start_s: float, end_s: float) -> dict[str, Any]:
    """One item of the answer file."""
    return {"sentence": mended(text.strip()), "start": round(start_s, 3), "end": round(end_s, 3)}


def mended(text: str) -> str:
    """Join surrogate halves that came in different deltas; a half without its other becomes U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def seconds_of(clock_ms: Any, *, otherwise_s: float) -> float:
    """Milliseconds as seconds; what is no finite number gives the previous timestamp."""
    if isinstance(clock_ms, bool):
        return otherwise_s
    try:
        value = float(clock_ms)
    except (TypeError, ValueError, OverflowError):
        return otherwise_s
    return value / 1000.0 if math.isfinite(value) else otherwise_s
