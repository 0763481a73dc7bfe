"""What the session answers to client events that it refuses (protocol.md 11)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mockserver.wire import Event, Received, Refusal, Violation, error_event

if TYPE_CHECKING:
    from mockserver.session import ServerSession


def refuse(session: ServerSession, refusal: Refusal, event: Event) -> None:
    """A client event is answered with an `error` (11); in the handshake some of them end the connection."""
    if not event:
        session.note(Received("(unreadable)", {"code": refusal.code}))
    in_handshake = session.state == "opening"
    if not refusal.harmless:
        session.note(Violation(refusal.section, refusal.code, refusal.message))
    event_id = event.get("event_id") if refusal.echoes or session.dialect.echoes_ids else None
    error = error_event(
        refusal.code,
        refusal.message,
        param=refusal.param,
        event_id=event_id if isinstance(event_id, str) else None,
    )
    if session.dialect.tells_limits:
        inner = error["error"]
        if refusal.code == "input_backpressure":
            inner["type"] = "rate_limit_error"
        inner["retryable"] = inner["type"] == "rate_limit_error"
    session.emit(error, sequenced=not in_handshake)
    if in_handshake and (refusal.fatal or refusal.code in ("invalid_json", "bad_event")):
        session.end(refusal.code)
