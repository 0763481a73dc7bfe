"""How the journal tells of sent events: scalars, and of media their length and hash."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import pybase64

from mockserver.audio import digest
from mockserver.profiles import logical
from mockserver.wire import Event

_SKIPPED = frozenset(
    {"type", "event_id", "previous_item_id", "output_index", "content_index", "format", "sample_rate_hz"}
)


@lru_cache(maxsize=64)
def _audio(delta: str) -> tuple[int, str]:
    data = pybase64.b64decode(delta)
    return len(data), digest(data)


def told(event: Event) -> Mapping[str, Any]:
    """The journal's line for a sent event."""
    name = event["type"]
    line = {key: value for key, value in event.items() if type(value) in (str, int) and key not in _SKIPPED}
    if logical(name) == "audio.delta":
        del line["delta"]
        # reply audio is a handful of tones: each is hashed once
        line["audio_bytes"], line["audio_sha"] = _audio(event["delta"])
        line["audio_duration_ms"] = event["metadata"]["audio_duration_ms"]
    elif name == "error":
        line["error"] = event["error"]
    elif name == "response.done":
        line["status"] = event["response"]["status"]
        line["details"] = event["response"]["status_details"]
    elif name == "response.listen":
        line["reason"] = event["response"]["metadata"]["reason"]
    elif name == "playback.acknowledged":
        inner = event["event"]
        line |= {
            "item_id": inner["item_id"],
            "played_ms": inner["played_ms"],
            "history_committed": inner["history_committed"],
        }
    elif name == "session.closed" and "event" in event:
        line["reason"] = event["event"].get("reason")
    elif name in ("session.created", "session.updated"):
        line["session_id"] = event["session"]["id"]
    return line
