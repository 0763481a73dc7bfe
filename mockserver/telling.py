"""How the journal tells of events: scalars, and of media their length and hash."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import orjson
import pybase64

from mockserver.audio import OUTPUT_RATE_HZ, digest
from mockserver.profiles import LOGICAL_NAMES
from mockserver.wire import Event

_SKIPPED = frozenset(
    {"type", "event_id", "previous_item_id", "output_index", "content_index", "format", "sample_rate_hz"}
)


_TOLD = frozenset({str, int})
_PLAIN = frozenset({int, float, bool, type(None)})
MAX_KEPT_BYTES = 2_000
"""An event that is not larger is kept as it is until somebody asks the journal for its line."""
MAX_TOLD_CHARS = 2_000
MAX_TOLD_ENTRIES = 100


@lru_cache(maxsize=64)
def _audio(delta: str) -> tuple[int | None, str]:
    try:
        data = pybase64.b64decode(delta, validate=True)
    except ValueError:  # a fault has damaged it
        return None, digest(delta.encode())
    return len(data), digest(data)


def told_received(event: Event) -> dict[str, Any]:
    """The journal's line for a client event other than an append: long texts by their length, deep values cut."""
    return {
        key: value
        if (kind := type(value)) in _PLAIN or (kind is str and len(value) <= MAX_TOLD_CHARS)
        else _shortened(value, 4)
        for key, value in event.items()
        if key != "type"
    }


def told_text(text: str | bytes) -> dict[str, Any]:
    """The same of one that was kept as it came."""
    return told_received(orjson.loads(text))


def _shortened(value: Any, levels: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= MAX_TOLD_CHARS else f"({len(value)} characters)"
    if not isinstance(value, dict | list):
        return value
    if levels == 0 or len(value) > MAX_TOLD_ENTRIES:
        return f"({len(value)} entries)"
    if isinstance(value, list):
        return [_shortened(inner, levels - 1) for inner in value]
    return {
        _shortened(key, 0): f"({len(inner)} characters)"
        if key == "ref_audio" and isinstance(inner, str)
        else _shortened(inner, levels - 1)
        for key, inner in value.items()
    }


def told(event: Event) -> Mapping[str, Any]:
    """The journal's line for a sent event."""
    line = {key: value for key, value in event.items() if type(value) in _TOLD and key not in _SKIPPED}
    more = _MORE.get(event["type"])
    if more is not None:
        more(event, line)
    return line


def told_relayed(event: Event) -> Mapping[str, Any]:
    """The same of an event that another server sent: it may lack what ours have, and hold what ours never do."""
    line: dict[str, Any] | None = None
    if event["type"] in _MORE:
        try:
            line = dict(told(event))
        except (KeyError, TypeError, AttributeError):
            pass  # told as it is, below
    line = line if line is not None else _as_it_is(event)
    if LOGICAL_NAMES.get(event["type"]) == "audio.delta":
        _relayed_audio(event, line)
    return line


def _relayed_audio(event: Event, line: dict[str, Any]) -> None:
    """Of reply audio how much and at what rate: another server need not say how long it is (protocol.md 7.4)."""
    name = next((n for n in ("delta", "audio") if isinstance(event.get(n), str)), None)
    if name is not None:
        line.pop(name, None)
        line["audio_bytes"], line["audio_sha"] = _audio(event[name])
    rate_hz = event.get("sample_rate_hz")
    if isinstance(rate_hz, int):
        line["sample_rate_hz"] = rate_hz


def _as_it_is(event: Event) -> dict[str, Any]:
    return {
        key: value
        if kind in _PLAIN or (kind is str and len(value) <= MAX_TOLD_CHARS)
        else _shortened(value, 3)
        for key, value in event.items()
        if key not in _SKIPPED and (kind := type(value)) is not None
    }


def told_frame(tell: Callable[[Event], Mapping[str, Any]], payload: bytes) -> Mapping[str, Any]:
    """The journal's line for a sent event, from what went over the wire."""
    return tell(orjson.loads(payload))


def _audio_delta(event: Event, line: dict[str, Any]) -> None:
    del line["delta"]
    # reply audio is a handful of tones: each is hashed once
    line["audio_bytes"], line["audio_sha"] = _audio(event["delta"])
    line["audio_duration_ms"] = event["metadata"]["audio_duration_ms"]
    if event["sample_rate_hz"] != OUTPUT_RATE_HZ:
        line["sample_rate_hz"] = event["sample_rate_hz"]


def _error(event: Event, line: dict[str, Any]) -> None:
    line["error"] = event["error"]


def _done(event: Event, line: dict[str, Any]) -> None:
    line["status"] = event["response"]["status"]
    line["details"] = event["response"]["status_details"]


def _listen(event: Event, line: dict[str, Any]) -> None:
    line["reason"] = event["response"]["metadata"]["reason"]


def _acknowledged(event: Event, line: dict[str, Any]) -> None:
    inner = event["event"]
    for key in ("item_id", "played_ms", "history_committed"):
        line[key] = inner[key]


def _closed(event: Event, line: dict[str, Any]) -> None:
    if "event" in event:
        line["reason"] = event["event"].get("reason")


def _session(event: Event, line: dict[str, Any]) -> None:
    line["session_id"] = event["session"]["id"]


_MORE: Mapping[str, Callable[[Event, dict[str, Any]], None]] = {
    **{name: _audio_delta for name, plain in LOGICAL_NAMES.items() if plain == "audio.delta"},
    "error": _error,
    "response.done": _done,
    "response.listen": _listen,
    "playback.acknowledged": _acknowledged,
    "session.closed": _closed,
    "session.created": _session,
    "session.updated": _session,
}


def escaped(line: Mapping[str, Any]) -> Mapping[str, Any]:
    """A line whose texts can be written as UTF-8: half a surrogate pair, a fault's, is told by its escape."""
    return {
        key: value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
        for key, value in line.items()
    }
