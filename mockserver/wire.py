"""The server's own view of the wire: what a session gives out, aliases, decoding, errors (protocol.md 3, 5.7, 11)."""

from __future__ import annotations

import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
import pybase64

Event = dict[str, Any]

MAX_EVENT_BYTES = 15 * 1024 * 1024
"""Larger events are refused with `event_too_large` (protocol.md 1.3)."""
MAX_FRAME_BYTES = 16 * 1024 * 1024
"""Larger frames end the connection with 1009 (protocol.md 1.3)."""

ALIASES: Mapping[str, str] = {
    "signal_turn": "turn.signal",
    "close_session": "session.close",
    "close": "session.close",
    "audio.playback_ack": "playback.ack",
    "input_text.append": "input.text.append",
    "push_text": "input.text.append",
}
"""Spellings that every dialect accepts, normalised before processing (protocol.md 5.7)."""

_SERVER_ERRORS = frozenset(
    {
        "runtime_open_failed",
        "runtime_open_unsupported",
        "server_vad_unavailable",
        "server_vad_inference_failed",
        "runtime_append_failed",
        "runtime_append_task_failed",
        "runtime_data_plane_stream_failed",
        "runtime_data_plane_text_without_audio",
        "runtime_signal_failed",
        "runtime_abort_failed",
        "runtime_close_failed",
        "runtime_touch_failed",
        "chat_error",
        "response_error",
        "commit_aborted",
        "engine_error",
        "realtime_input_failed",
        "internal_error",
    }
)
"""Codes of class S (protocol.md 11.2)."""
_RATE_ERRORS = frozenset({"resource_exhausted", "duplex_session_busy"})


@dataclass(slots=True)
class Send:
    """An event to send. `ServerSession.stamp` gives it its id and sequence number just before it is written."""

    event: Event
    sequenced: bool = True
    """It takes a `server_event_seq` (protocol.md 3.1)."""
    payload: bytes | None = None
    """The frame as another server wrote it; None: written here."""


@dataclass(slots=True)
class End:
    """The connection ends after everything sent before.

    Attributes:
        code: close frame; None: the TCP connection ends without one (protocol.md 1.4).
        told: the close frame carries the reason.
    """

    code: int | None
    reason: str
    told: bool = False


@dataclass(slots=True)
class Unit:
    """A unit was decided. Not on the wire; for the journal."""

    index: int
    """Decided units of the session before this one, silence included."""
    data: Mapping[str, Any]


@dataclass(slots=True)
class Violation:
    """The client did what protocol.md forbids. Not on the wire; for the journal."""

    section: str
    """Of protocol.md, unless it names another document."""
    rule: str
    detail: str


@dataclass(slots=True)
class Received:
    """What was read, media told by hash and length. Not on the wire; for the journal."""

    name: str
    data: Any
    tell: Callable[[Any], Mapping[str, Any]] | None = None
    """Makes the journal's line of `data` once somebody reads it; None: it is the line."""

    @property
    def line(self) -> Mapping[str, Any]:
        """The journal's line."""
        line: Mapping[str, Any] = self.data if self.tell is None else self.tell(self.data)
        return line


@dataclass(slots=True)
class Withheld:
    """The server's own silence was due and is switched off. Not on the wire; for faults."""

    response_id: str
    """Of the reply that stands still."""


Output = Send | End | Unit | Violation | Received | Withheld


class Refusal(Exception):
    """A client event the server answers with an `error`.

    Attributes:
        code: of protocol.md 11.2.
        section: the part of protocol.md that the client broke.
        param: the field at fault, where the server names it.
        echoes: the error carries the client's `event_id` (protocol.md 3.1).
        fatal: the connection ends after the error, where it comes in the handshake.
        harmless: protocol.md allows the client what is refused; it is no violation.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        section: str,
        param: str | None = None,
        echoes: bool = False,
        fatal: bool = False,
        harmless: bool = False,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.section = section
        self.param = param
        self.echoes = echoes
        self.fatal = fatal
        self.harmless = harmless


def told_value(value: Any) -> str:
    """A client's value in a message, shortened."""
    text = (
        value
        if type(value) is str
        else repr(value)
        if isinstance(value, int | float)
        else type(value).__name__
    )
    return text if len(text) <= 100 else f"{text[:100]}..."


def must_echo(value: Any) -> int:
    """Check that the server can send back what the client sent.

    Returns: bytes of its JSON.
    Raises Refusal: it is nested deeper than the server's own writer goes.
    """
    try:
        return len(orjson.dumps([[[[value]]]]))  # as deep as it may stand in an event
    except TypeError:
        raise Refusal("bad_event", "nested too deeply", section="3.1", fatal=True) from None


def error_event(
    code: str | None, message: str, *, param: str | None = None, event_id: str | None = None
) -> Event:
    """An `error` event of the nested form (protocol.md 11.1), without its own `event_id`."""
    kind = "server_error" if code in _SERVER_ERRORS else "rate_limit_error" if code in _RATE_ERRORS else None
    error: Event = {"type": kind or "invalid_request_error", "code": code, "message": message}
    if event_id is not None:
        error["event_id"] = event_id
    if param is not None:
        error["param"] = param
    return {"type": "error", "error": error}


def flat_error(code: str | None, message: str) -> Event:
    """An `error` event of the flat form (protocol.md 11.1)."""
    return {"type": "error", "error": message, "code": code}


def decode(text: str | bytes) -> Event:
    """A client event with its type normalised.

    Raises Refusal: `event_too_large`, `invalid_json` or `bad_event` (protocol.md 11.2).
    Raises UnicodeDecodeError: it is not UTF-8.
    """
    size = len(text) if isinstance(text, bytes) or text.isascii() else len(text.encode())
    if size > MAX_EVENT_BYTES:
        raise Refusal("event_too_large", f"Duplex event too large: {size} bytes", section="1.3")
    try:
        event = orjson.loads(text)
    except orjson.JSONDecodeError:
        if isinstance(text, bytes):
            text.decode()
        raise Refusal("invalid_json", "Invalid JSON event", section="1.3") from None
    if type(event) is not dict:
        raise Refusal("bad_event", "Duplex event must be a JSON object", section="1.3")
    kind = event.get("type")
    if type(kind) is not str:
        raise Refusal("bad_event", "Duplex event missing string type", section="3.1")
    if kind in ALIASES:
        event["type"] = ALIASES[kind]
    return event


def close_reason(reason: str) -> bytes:
    """A reason as it fits into a close frame: at most 123 bytes of whole characters (RFC 6455 5.5)."""
    return reason.encode()[:123].decode(errors="ignore").encode()


def encode(event: Event) -> bytes:
    """Compact JSON, non-ASCII characters unescaped (protocol.md 1.3)."""
    return orjson.dumps(event)


def decode_base64(text: str) -> tuple[bytes, bool]:
    """The bytes of standard base64, read as leniently as dialect J reads it (protocol.md 5.1).

    Returns: the bytes, and whether the text was strictly standard base64.
    Raises ValueError: what is left after skipping foreign characters is wrongly padded.
    """
    try:
        return pybase64.b64decode(text, validate=True), True
    except (binascii.Error, ValueError):
        return binascii.a2b_base64(text.encode("ascii", "ignore")), False
