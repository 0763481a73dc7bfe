"""Client events built, server events read, in both dialects (protocol.md 0, 4 to 11).

Base64 never needs escaping, so media travel as rendered JSON fragments: each payload is encoded and copied once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import orjson
import pybase64

from client.masking import bare_url
from client.sentences import mended

Event = dict[str, Any]
"""One JSON object of the wire; values of media fields may be `orjson.Fragment`."""

INPUT_RATE_HZ: Final = 16_000
BYTES_PER_MS: Final = 32
"""16 kHz mono PCM16."""

LogicalName = Literal["audio.delta", "transcript.delta", "text.delta"]

DELTAS: Final[Mapping[str, tuple[LogicalName, str]]] = {
    "response.audio.delta": ("audio.delta", "july"),
    "response.audio_transcript.delta": ("transcript.delta", "july"),
    "response.output_audio.delta": ("audio.delta", "newer"),
    "response.output_audio_transcript.delta": ("transcript.delta", "newer"),
    "response.output_text.delta": ("text.delta", "output_text"),
    "response.text.delta": ("text.delta", "text"),
}
"""Wire name -> logical name and event family. Families of one group exclude each other within a response."""
FAMILY_GROUPS: Final[Mapping[str, str]] = {
    "july": "speech",
    "newer": "speech",
    "output_text": "text",
    "text": "text",
}
"""Event family -> its group: audio and transcript together are spelled in one dialect or the other (protocol.md 0)."""

HARMLESS_ERRORS: Final = frozenset({"playback_ack_too_late"})
"""Errors that fail no sample (R35)."""
REFUSED_COMMIT_ERRORS: Final = frozenset({"input_audio_buffer_empty", "commit_aborted"})
"""Errors after which `input_audio_buffer.committed` will not come (protocol.md 5.5, 11.2)."""

MAX_CHUNK_PERIOD_MS: Final = 60_000
"""A longer unit is no period to go by: one padded unit of it would fill the server's frame limit (protocol.md 1.3)."""
MAX_TOLD: Final = 4_000
"""Characters of a server's text that errors and metadata repeat."""
NATIVE: Final = "model_native_duplex"
"""The only `implementation_level` that is full duplex (protocol.md 1.1)."""

_DROPPED_QUERY: Final = frozenset(
    {"session_id", "native_duplex", "duplex", "model", "autostart", "minicpmo45_native_duplex"}
)


def realtime_url(url: str, model: str) -> str:
    """The session URL: http becomes ws, the path is kept, the duplex query is set (protocol.md 1.1, 17).

    Raises ValueError: the scheme is none of http, https, ws, wss, there is no host, or no usable port.
    """
    schemes = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
    wanted = (
        "url: wanted ws://, wss://, http:// or https:// and a host, no user without a password, "
        "with a port of 1 to 65535 or none"
    )
    try:
        parts = urlsplit(url)
        usable = parts.scheme in schemes and parts.hostname and parts.port != 0
        usable = usable and (parts.username is None) == (parts.password is None)
    except ValueError as error:
        raise ValueError(f"{wanted}, got {bare_url(url)!r} ({error})") from None
    if not usable:
        raise ValueError(f"{wanted}, got {bare_url(url)!r}")
    kept = [(k, v) for k, v in parse_qsl(parts.query, keep_blank_values=True) if k not in _DROPPED_QUERY]
    ours = [("duplex", "1"), ("model", model), ("minicpmo45_native_duplex", "1"), ("autostart", "0")]
    query = urlencode(kept + ours, quote_via=quote, safe="")
    return urlunsplit((schemes[parts.scheme], parts.netloc, parts.path or "/v1/realtime", query, ""))


def session_update(*, model: str, ref_audio: str, instructions: str, extra_body: Mapping[str, Any]) -> Event:
    """The opening `session.update` (evaluation.md 4.1); the caller's extras come first, ours win."""
    return {
        "type": "session.update",
        "session": {
            "model": model,
            "modalities": ["audio", "text"],
            "input_audio_format": "pcm16",
            "output_audio_format": "pcm16",
            "turn_detection": None,
            "overlap_policy": "listen_only",
            "playback_commit_policy": "ack_only",
            "instructions": instructions,
            "ref_audio": ref_audio,
            "extra_body": {
                **extra_body,
                "auto_response": True,
                "minicpmo45_native_duplex": True,
                "force_listen_count": 0,
            },
        },
    }


def append(
    pcm: bytes | memoryview,
    *,
    duration_ms: int,
    audio_end_ms: int,
    jpegs: Sequence[bytes] = (),
    is_speech: bool | None = None,
) -> Event:
    """One `input_audio_buffer.append` (protocol.md 5.1): 16 kHz mono PCM16LE and at most two JPEG files."""
    event: Event = {
        "type": "input_audio_buffer.append",
        "audio": base64_fragment(pcm),
        "input_audio_format": "pcm16",
        "sample_rate_hz": INPUT_RATE_HZ,
        "duration_ms": duration_ms,
        "audio_end_ms": audio_end_ms,
    }
    if jpegs:
        event["video_frames"] = [base64_fragment(jpeg) for jpeg in jpegs]
    if is_speech is not None:
        event["is_speech"] = is_speech
    return event


def silence_append(period_ms: int, *, audio_end_ms: int) -> Event:
    """One padded unit: zeros of exactly one chunk period, marked as no speech (evaluation.md 8, R39)."""
    return append(
        bytes(BYTES_PER_MS * period_ms), duration_ms=period_ms, audio_end_ms=audio_end_ms, is_speech=False
    )


def commit() -> Event:
    """The one commit, final."""
    return {"type": "input_audio_buffer.commit", "final": True}


def playback_ack(response_id: str, played_ms: int) -> Event:
    """How much of a response was received so far (protocol.md 8.1); cumulative."""
    return {
        "type": "playback.ack",
        "response_id": response_id,
        "item_id": "item_" + response_id,
        "played_ms": played_ms,
        "committed_ms": played_ms,
    }


def session_close() -> Event:
    """The end of the session from our side."""
    return {"type": "session.close"}


def base64_fragment(data: bytes | memoryview) -> orjson.Fragment:
    """A JSON string of base64 text, rendered once."""
    return orjson.Fragment(b'"' + pybase64.b64encode(data) + b'"')


def encode(event: Event) -> bytes:
    """The UTF-8 text of one frame.

    A server's id may hold half a surrogate pair, which orjson refuses; it goes back escaped, as it came.
    """
    try:
        return orjson.dumps(event)
    except orjson.JSONEncodeError:
        return json.dumps(event, separators=(",", ":")).encode()


def read_event(text: str) -> Event | None:
    """Parse one text frame; None when it is no JSON object with a string `type`.

    A lone surrogate escape (a character cut in two between deltas) is legal JSON that orjson refuses; the standard
    library reads it, and the halves are joined again in the sentences.
    """
    try:
        event = orjson.loads(text)
    except orjson.JSONDecodeError:
        if "\\ud" not in text.lower():
            return None
        try:
            event = json.loads(text, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            return None
    if isinstance(event, dict) and isinstance(event.get("type"), str):
        return event
    return None


def _refuse_constant(name: str) -> None:
    """NaN and the infinities are no JSON, whatever the standard library thinks."""
    raise ValueError(name)


def printable(value: Any, limit: int = MAX_TOLD) -> str:
    """A server's text as errors and metadata may hold it: a number as its digits, anything else that is no text empty.

    Surrogate pairs are joined, halves become U+FFFD; what is longer than `limit` characters is cut.
    """
    if not isinstance(value, str):
        if not isinstance(value, int | float) or isinstance(value, bool):
            return ""
        value = str(value)
    text = value if len(value) <= limit else value[: limit - 3] + "..."
    return text if text.isascii() else mended(text)


def response_id_of(event: Event) -> str | None:
    """`response_id` if a string, else `response.id` if a string, else None (protocol.md 14). An empty one is no id."""
    direct = event.get("response_id")
    if isinstance(direct, str):
        return direct or None
    nested = event.get("response")
    if isinstance(nested, dict) and isinstance(nested.get("id"), str):
        return str(nested["id"]) or None
    return None


def response_status_of(event: Event) -> tuple[str, str]:
    """Status and reason of a `response.done`; an absent status is completed (protocol.md 7.9)."""
    response = event.get("response")
    if not isinstance(response, dict):
        return "completed", ""
    status = response.get("status")
    details = response.get("status_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    return (printable(status) if isinstance(status, str) else "completed"), printable(reason)


def error_of(event: Event) -> tuple[str, str]:
    """Code and message of an `error`, nested or flat (protocol.md 11.1); a missing code is `error`."""
    body = event.get("error")
    if isinstance(body, dict):
        code, message = body.get("code"), body.get("message")
    else:
        code, message = event.get("code"), body if isinstance(body, str) else event.get("message")
    return printable(code) or "error", printable(message)


def capabilities_of(event: Event) -> Any:
    """`session.capabilities` as it came; None where there is none."""
    session = event.get("session")
    return session.get("capabilities") if isinstance(session, dict) else None


def chunk_period_of(event: Event) -> int | None:
    """`session.capabilities.chunk_period_ms` if it is a usable positive integer (protocol.md 4.4)."""
    capabilities = capabilities_of(event)
    period = capabilities.get("chunk_period_ms") if isinstance(capabilities, dict) else None
    usable = isinstance(period, int) and not isinstance(period, bool) and 0 < period <= MAX_CHUNK_PERIOD_MS
    return period if usable else None


def unfitness_of(event: Event) -> str | None:
    """Why the session that a `session.created` opens is not full duplex; None when it may be (protocol.md 1.1).

    A server that says nothing of its capabilities is taken at its word; public clients meet such servers.
    """
    capabilities = capabilities_of(event)
    if capabilities is None:
        return None
    if not isinstance(capabilities, dict):
        return "session.created: capabilities is no object, so this is no full-duplex session"
    level = capabilities.get("implementation_level")
    if level is None or level == NATIVE:
        return None
    return f"session.created: implementation_level is {printable(level, 100)!r}, wanted {NATIVE!r}"


def is_own_decision(event: Event) -> bool:
    """Whether a `response.listen` is the model's decision on a unit, not a buffering notice (evaluation.md 7).

    A listen without the `model_listen` key is the server's answer to a commit without speech: it counts.
    """
    response = event.get("response")
    metadata = response.get("metadata") if isinstance(response, dict) else None
    if not isinstance(metadata, dict):
        metadata = event.get("metadata")
    if not isinstance(metadata, dict):
        return True
    return metadata.get("buffering") is not True and metadata.get("model_listen", True) is True


def is_deferred_commit(event: Event) -> bool:
    """Whether an `input_audio_buffer.committed` was kept until the active response ends (protocol.md 5.5)."""
    inner = event.get("event")
    return isinstance(inner, dict) and inner.get("overlap_deferred") is True


def end_reason_of(event: Event) -> str:
    """Why a session ended, from `session.closed` or `session.expired`; empty when it does not say."""
    inner = event.get("event")
    for place in (event, inner if isinstance(inner, dict) else {}):
        reason = printable(place.get("reason"))
        if reason:
            return reason
    return ""
