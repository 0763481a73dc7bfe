"""What another server was seen to do on one relayed connection, before any fault of ours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mockserver.answered import ACK_TOO_LATE, Answered
from mockserver.profiles import LOGICAL_NAMES, logical
from mockserver.wire import Event

MAX_ERRORS = 100
MAX_DELTAS = 10_000
MAX_TEXT_CHARS = 200_000
NO_SLOT = frozenset({"resource_exhausted", "duplex_session_busy"})
"""Codes with which a server refuses a session for want of a free slot (protocol.md 11.2)."""


@dataclass(slots=True)
class SeenResponse:
    """One reply of the server."""

    id: str
    created_s: float
    first_audio_s: float | None = None
    done_s: float | None = None
    status: str | None = None
    text: str = ""
    """What its transcript said so far."""
    audio_ms: int = 0
    """Cumulative, as the server says; where it does not, what its bytes amount to."""
    audio_bytes: int = 0
    audio_at: list[tuple[float, int]] = field(default_factory=list)
    """Time of each delta, and the audio so far."""


@dataclass
class Seen:
    """Times are loop times; None: it did not happen."""

    opened_s: float
    reached: bool = False
    """The server upgraded the connection."""
    asked: bool = False
    """A session was asked for by `session.update`."""
    created_s: float | None = None
    session_id: str = ""
    capabilities: Mapping[str, Any] | None = None
    incarnation: bool = False
    """`session.created` had one (dialects J and I)."""
    family: str | None = None
    """`response.audio` or `response.output_audio`: the spelling of its deltas (protocol.md 0)."""
    families: set[str] = field(default_factory=set)
    appends: int = 0
    """Appends that went to it."""
    first_append_s: float | None = None
    last_append_s: float | None = None
    commit_s: float | None = None
    committed_s: float | None = None
    close_s: float | None = None
    """`session.close` went to it, from the client or, once that had gone, from here."""
    closed_by_us: bool = False
    closed_s: float | None = None
    closed_event: bool = False
    """`session.closed` had its data under `event`."""
    closed_reason: str | None = None
    close_code: int | None = None
    """Of its close frame."""
    ended_s: float | None = None
    ended_how: str | None = None
    """fin or rst."""
    rate_hz: int = 24_000
    """Of its audio, as last said (protocol.md 14)."""
    responses: dict[str, SeenResponse] = field(default_factory=dict)
    listens: list[float] = field(default_factory=list)
    errors: list[tuple[float, str, str]] = field(default_factory=list)
    """Time, code and message."""
    events: Counter[str] = field(default_factory=Counter)
    answers: Answered = field(default_factory=Answered)

    @property
    def open_response(self) -> SeenResponse | None:
        """The last reply, while it is not done."""
        for response in reversed(self.responses.values()):
            return response if response.done_s is None else None
        return None

    @property
    def holds_slot(self) -> bool:
        """A session was asked for and its end was not confirmed: the server may still count it."""
        return self.created_s is not None and self.closed_s is None

    @property
    def no_slot(self) -> str:
        """In what words the server refused the session for want of a slot; empty: it did not."""
        if self.created_s is not None or not self.errors or self.errors[0][1] not in NO_SLOT:
            return ""
        return f"{self.errors[0][1]}: {self.errors[0][2]}"

    def take(self, event: Event, now_s: float) -> None:
        """An event of the server, in wire order."""
        name = event["type"]
        self.events[name] += 1
        self.answers.hear(name, now_s)
        handler = _HANDLERS.get(logical(name))
        if handler is not None:
            handler(self, event, now_s)
        if name in LOGICAL_NAMES:
            family = name.split("audio")[0] + "audio"
            self.families.add(family)
            self.family = self.family or family


def _created(seen: Seen, event: Event, now_s: float) -> None:
    seen.created_s = seen.created_s or now_s
    seen.incarnation = "incarnation" in event
    session = event.get("session")
    if isinstance(session, dict):
        seen.session_id = str(session.get("id", ""))
        capabilities = session.get("capabilities")
        seen.capabilities = capabilities if isinstance(capabilities, dict) else None


def response_id(event: Event) -> str | None:
    """Of an event about a reply."""
    found = event.get("response_id")
    if not isinstance(found, str):
        response = event.get("response")
        found = response.get("id") if isinstance(response, dict) else None
    return found if isinstance(found, str) else None


def _response_created(seen: Seen, event: Event, now_s: float) -> None:
    found = response_id(event)
    if found is not None:
        seen.responses.setdefault(found, SeenResponse(found, now_s))


def _audio_delta(seen: Seen, event: Event, now_s: float) -> None:
    response = seen.responses.get(response_id(event) or "")
    if response is None:
        return
    if response.first_audio_s is None:
        response.first_audio_s = now_s
    metadata = event.get("metadata")
    played = metadata.get("audio_duration_ms") if isinstance(metadata, dict) else None
    rate_hz = event.get("sample_rate_hz")
    if isinstance(rate_hz, int) and rate_hz > 0:
        seen.rate_hz = rate_hz
    response.audio_bytes += _decoded_bytes(event)
    if not isinstance(played, int):
        played = response.audio_bytes * 1000 // (seen.rate_hz * 2)
    response.audio_ms = max(response.audio_ms, played)
    if len(response.audio_at) < MAX_DELTAS:
        response.audio_at.append((now_s, response.audio_ms))


def _decoded_bytes(event: Event) -> int:
    """Bytes of the audio of a delta, read off its length: nothing is decoded on the way."""
    encoded = next((event[n] for n in ("delta", "audio") if isinstance(event.get(n), str)), "")
    return len(encoded) * 3 // 4 - encoded[-2:].count("=")


def _text_delta(seen: Seen, event: Event, now_s: float) -> None:
    response = seen.responses.get(response_id(event) or "")
    delta = event.get("delta")
    if response is not None and isinstance(delta, str) and len(response.text) < MAX_TEXT_CHARS:
        response.text += delta


def _response_done(seen: Seen, event: Event, now_s: float) -> None:
    response = seen.responses.get(response_id(event) or "")
    if response is None or response.done_s is not None:
        return
    response.done_s = now_s
    inner = event.get("response")
    status = inner.get("status") if isinstance(inner, dict) else None
    response.status = status if isinstance(status, str) else "completed"


def _error(seen: Seen, event: Event, now_s: float) -> None:
    error = event.get("error")
    nested = error if isinstance(error, dict) else {}
    code = nested.get("code", event.get("code"))
    message = nested.get("message", error if isinstance(error, str) else "")
    if code == ACK_TOO_LATE:
        seen.answers.hear("playback.acknowledged", now_s)
    if len(seen.errors) < MAX_ERRORS:
        seen.errors.append((now_s, str(code), str(message)[:500]))


def _closed(seen: Seen, event: Event, now_s: float) -> None:
    seen.closed_s = now_s
    inner = event.get("event")
    seen.closed_event = isinstance(inner, dict)
    reason = event.get("reason", inner.get("reason") if isinstance(inner, dict) else None)
    seen.closed_reason = None if reason is None else str(reason)


def _committed(seen: Seen, event: Event, now_s: float) -> None:
    seen.committed_s = now_s


def _listen(seen: Seen, event: Event, now_s: float) -> None:
    seen.listens.append(now_s)


_HANDLERS = {
    "session.created": _created,
    "response.created": _response_created,
    "audio.delta": _audio_delta,
    "transcript.delta": _text_delta,
    "response.output_text.delta": _text_delta,
    "response.done": _response_done,
    "response.listen": _listen,
    "input_audio_buffer.committed": _committed,
    "error": _error,
    "session.closed": _closed,
    "session.expired": _closed,
}
