"""How a session ends: asked to, by the clock, with its server (protocol.md 10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from mockserver import turns
from mockserver.wire import Event

if TYPE_CHECKING:
    from mockserver.session import ServerSession

GOING_AWAY = 1001
"""Close code of a server that shuts down (RFC 6455 7.4.1)."""


def close(
    session: ServerSession, reason: str, *, told_reason: str | None = None, code: int | None = None
) -> None:
    """The session ends: an open response first, then `session.closed`, then the connection (10.1).

    Args:
        reason: why.
        told_reason: what the client is told, where that is not a normal close, or the client's own word.
        code: of the close frame; None: as the profile has it.
    """
    session.steps.stop()
    dialect = session.dialect
    if session.response is not None and dialect.cancels_on_close:
        turns.cancel(session, "session_close" if told_reason is None else reason)
    if session.clock is not None:
        session.emit_all(session.clock.torn_down())
    inner: Event = {"type": "session.closed", "session_id": session.id}
    told = told_reason or dialect.closed_reason
    if told is not None:
        inner["reason"] = told
    event: Event = {"type": "session.closed"} if dialect.closed_reason is None else dict(inner)
    if dialect.closed_event:
        event["event"] = inner
    session.emit(event)
    session.end(told_reason or reason, code=code)


def by_the_clock(session: ServerSession, why: Literal["idle", "expired"] | None) -> None:
    """Nothing came from the client, or nothing reached the engine, for too long (10.2)."""
    if why == "expired":
        event: Event = {"type": "session.expired", "session_id": session.id}
        if session.dialect.incarnation:
            event["incarnation"] = 0
        session.emit({**event, "reason": "idle_ttl_expired"}, sequenced=False)
        session.end("idle_ttl_expired", code=1000)
    elif why == "idle" and session.dialect.tells_idle:
        close(session, "timeout", told_reason="timeout")
    elif why == "idle":
        session.drop("timeout")  # as if the client had gone


def with_the_server(session: ServerSession) -> None:
    """The server shuts down (10.2): the connection ends with 1001, after `session.closed` where the dialect says so."""
    if session.state == "open" and session.dialect.tells_shutdown:
        close(session, "shutdown", told_reason="shutdown", code=GOING_AWAY)
    elif session.state != "closed":
        session.end("shutdown", code=GOING_AWAY)
