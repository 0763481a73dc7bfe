"""Every server event that protocol.md names, with its fields: what else comes is ignored and counted.

A count of zero on hardware says that the server speaks the protocol this client was written for; one that rises says
that it has moved on (protocol.md 0, 18).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_ALWAYS: Final = [
    "type",
    "event_id",
    "server_event_seq",
    "session_id",
    "incarnation",
    "epoch",
    "metadata",
    "vllm_omni",
    "_media_clock_ms",
    "audio_end_ms",
    "current_time_ms",
]
"""Fields that may stand on any event: the envelope, clocks, metadata (protocol.md 3, 13, 14)."""

_ITEM: Final = "previous_item_id item"
_PART: Final = "response_id item_id output_index content_index"

_FIELDS: Final[Mapping[str, str]] = {
    "session.created": "session attachment_generation resume_token",
    "session.updated": "session attachment_generation resume_token",
    "session.resumed": "session attachment_generation resume_token",
    "session.replaced": "attachment_generation",
    "session.closed": "event reason",
    "session.expired": "event reason",
    "session.resync_required": "reason",
    "session.heartbeat_ack": "",
    "error": "error code message param retryable",
    "input_audio_buffer.speech_started": "audio_start_ms item_id",
    "input_audio_buffer.speech_stopped": "item_id",
    "input_audio_buffer.committed": "previous_item_id item_id event accepted_input_seq",
    "input_audio_buffer.cleared": "",
    "input_audio_buffer.processed": (
        "unit_end_ms input_index first_input_index trigger units processed_input_seq outcome response_id"
    ),
    "conversation.item.added": _ITEM,
    "conversation.item.created": _ITEM,
    "conversation.item.done": _ITEM,
    "conversation.item.retrieved": "item",
    "conversation.item.deleted": "item_id event",
    "conversation.item.truncated": "item_id content_index event",
    "conversation.item.input_audio_transcription.completed": "item_id content_index transcript",
    "response.created": "response_id response",
    "response.speak": _PART,
    "response.listen": f"{_PART} response reason",
    "response.done": "response_id response",
    "response.output_item.added": f"{_PART} item",
    "response.output_item.done": f"{_PART} item",
    "response.content_part.added": f"{_PART} part",
    "response.content_part.done": f"{_PART} part",
    **dict.fromkeys(
        ("response.audio.delta", "response.output_audio.delta"),
        f"{_PART} delta audio format sample_rate_hz",
    ),
    **dict.fromkeys(("response.audio.done", "response.output_audio.done"), _PART),
    **dict.fromkeys(
        (
            "response.audio_transcript.delta",
            "response.output_audio_transcript.delta",
            "response.output_text.delta",
            "response.text.delta",
        ),
        f"{_PART} delta",
    ),
    **dict.fromkeys(
        ("response.audio_transcript.done", "response.output_audio_transcript.done"), f"{_PART} transcript"
    ),
    **dict.fromkeys(("response.output_text.done", "response.text.done"), f"{_PART} text"),
    "rate_limits.updated": "rate_limits",
    "playback.acknowledged": "event",
    "output_audio_buffer.cleared": "response_id",
    "overlap.decision": "policy action reason",
    "duplex.turn.event": "event turn_state",
    "turn.event": "event turn_state",
    "duplex.runtime.control": "event",
    "runtime.control": "event",
    "debug.unit_tokens": "event",
}

KNOWN: Final[Mapping[str, frozenset[str]]] = {
    name: frozenset((*_ALWAYS, *fields.split())) for name, fields in _FIELDS.items()
}
"""Event type -> fields that mean something on it."""
NOTHING: Final[frozenset[str]] = frozenset()
"""What is known of an event that is not."""


def oddity(event: Mapping[str, Any]) -> tuple[str, str] | None:
    """What of an event the protocol does not know: ("unknown_event", its type), or ("unknown_field", type and field).

    One field an event is named, the first in order of the alphabet; None for an event that is known throughout.
    """
    name: str = event["type"]
    known = KNOWN.get(name)
    if known is None:
        return "unknown_event", name
    if event.keys() <= known:
        return None
    return "unknown_field", f"{name}: {min(event.keys() - known)}"
