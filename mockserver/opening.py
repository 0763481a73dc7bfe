"""How a session opens, and how later updates change it (protocol.md 1.1, 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mockserver.capabilities import capabilities, read_config, session_object
from mockserver.input_clock import InputClock
from mockserver.refusing import refuse
from mockserver.wire import MAX_EVENT_BYTES, Event, Refusal, Violation, flat_error, must_echo, told_value

if TYPE_CHECKING:
    from mockserver.session import ServerSession

_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")


def autostarts(query: Mapping[str, str]) -> bool:
    """The URL does not rule out a default session (1.1)."""
    return query.get("autostart", "").lower() not in _FALSE and query.get("resume", "").lower() not in _TRUE


def accept(session: ServerSession) -> None:
    """The connection was accepted: the URL may refuse the handler, or have a default session open at once (1.1)."""
    duplex = session.query.get("duplex", "").lower()
    if session.dialect.query_must_opt_in and duplex not in ("1", "true", "on"):
        _refuse_handler(session, "the query has no duplex=1")
    elif duplex in ("0", "false", "off"):
        _refuse_handler(session, f"the query has duplex={duplex}")
    elif autostarts(session.query) and session.query.get("model"):
        open_default(session)


def _refuse_handler(session: ServerSession, why: str) -> None:
    session.note(Violation("1.1", "duplex-missing", why))
    session.emit(flat_error("unsupported", "realtime duplex is not enabled for this URL"), sequenced=False)
    session.end("unsupported")


def open_by(session: ServerSession, event: Event) -> bool:
    """The first frame opens the session, or a default one first; false when the event is dealt with.

    Raises Refusal: the event is answered with an error.
    """
    name = event["type"]
    if name == "session.update":
        asked = event.get("session") if isinstance(event.get("session"), dict) else event
        assert isinstance(asked, dict)
        session.note_received(event)
        for violation in session.strict.session(asked):
            session.note(violation)
        _open(session, asked, native_default=False, by_update=True)
        return False
    if name == "session.resume":
        session.note_received(event)
        raise Refusal("unsupported_session_resume", "this server does not resume", section="12.6", fatal=True)
    if not autostarts(session.query):
        session.note_received(event)
        raise Refusal(
            "bad_event",
            f"the first event must be session.update, not {told_value(name)}",
            section="4.1",
            fatal=True,
        )
    open_default(session)
    return session.state == "open"


def open_default(session: ServerSession) -> None:
    """A session of the server's own, without `ref_audio`: native and refused at once, or generic (1.1)."""
    native = any(session.query.get(flag, "").lower() in _TRUE for flag in session.dialect.native_flags)
    asked: Event = {"id": session.query["session_id"]} if session.query.get("session_id") else {}
    try:
        _open(session, asked, native_default=native, by_update=False)
        session.opened_by_default = True
    except Refusal as refusal:
        refuse(session, refusal, {"type": "session.update"})


def update(session: ServerSession, asked: Event) -> None:
    """A later `session.update` is refused whole, or merged and told (4.5).

    Raises Refusal: nothing changed.
    """
    old = session.config
    assert old is not None
    if session.opened_by_default and session.query.get("model"):
        session.opened_by_default = False  # told once
        session.note(
            Violation(
                "1.1",
                "autostart-not-disabled",
                "a model in the query and an own session.update need autostart=0",
            )
        )
    merged = {**old.raw, **asked}
    if must_echo(merged) > MAX_EVENT_BYTES:
        raise Refusal("event_too_large", "the merged session is larger than an event may be", section="4.5")
    for violation in session.strict.session(asked):
        session.note(violation)
    new = read_config(merged, dialect=session.dialect, query_model=old.model, native_default=old.native)
    if new.model != old.model:
        raise Refusal("model_update_unsupported", "the model cannot be changed", section="4.1")
    if new.ref_audio != old.ref_audio:
        raise Refusal("ref_audio_update_unsupported", "the reference audio cannot be changed", section="4.1")
    if new.voice != old.voice and session.input.appends:
        raise Refusal("voice_update_after_audio_unsupported", "audio was appended", section="4.1")
    if session.dialect.input_clock and "clock" in new.extra and new.clock != old.clock:
        raise Refusal("input_clock_update_unsupported", "the clock cannot be changed", section="6.7")
    new.native, new.clock = old.native, old.clock
    session.config = new
    session.retimed = True
    session.emit({"type": "session.updated", "session": _told(session)})


def _open(session: ServerSession, asked: Event, *, native_default: bool, by_update: bool) -> None:
    must_echo(asked)
    config = read_config(
        asked,
        dialect=session.dialect,
        query_model=session.query.get("model"),
        native_default=native_default,
    )
    if "audio" in config.modalities and config.ref_audio is None and (config.native or by_update):
        raise Refusal("ref_audio_required", "audio output needs ref_audio", section="4.1", fatal=True)
    if config.session_id and session.slots.has(config.session_id, session.now_s):
        named = told_value(config.session_id)
        raise Refusal("internal_error", f"session {named} is in use", section="18", fatal=True)
    session_id = config.session_id or session.new_session_id()
    if not session.slots.take(session, session_id, session.now_s):
        limit = f" (limit={session.slots.limit})" if session.dialect.tells_limits else ""
        raise Refusal(
            "resource_exhausted",
            f"all session slots are in use{limit}",
            section="11.2",
            fatal=True,
            harmless=True,
        )
    session.config = config
    if config.clock is not None:
        session.clock = InputClock()
    if config.clock is not None or config.silence_off:
        session.steps.continuation = "none"
    session.id = session_id
    session.state = "open"
    told = _told(session)
    session.emit({"type": "session.created", "session": told}, sequenced=False)
    if by_update:
        session.emit({"type": "session.updated", "session": dict(told)})


def _told(session: ServerSession) -> Event:
    assert session.config is not None
    response = session.response
    told_capabilities = capabilities(
        session.dialect, native=session.config.native, several=session.slots.several
    )
    state: Event = {
        "id": session.id,
        "turn_state": "idle" if response is None else "assistant_generating",
        "epoch": session.epoch,
        "turn_id": session.turn_id,
        "active_request_id": None,
        "active_response_id": None if response is None else response.id,
        "active_response_turn_id": None if response is None else response.turn_id,
        "playback": session.ledger.of(session.last_response_id).told(),
    }
    return session_object(session.config, state, told_capabilities)
