"""Client events about the output, the session's life and the conversation (protocol.md 5.7, 8, 9, 10, 12)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mockserver.inbound import Handler, input_cancel
from mockserver.wire import Event, Refusal

if TYPE_CHECKING:
    from mockserver.session import ServerSession


def _integer(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def playback_ack(session: ServerSession, event: Event, now_s: float) -> None:
    """`playback.ack` (8): maxima are kept, one `playback.acknowledged` for each."""
    for violation in session.strict.ack(event, session.ledger):
        session.note(violation)
    response_id = _acknowledged(session, event)
    item_id = f"item_{response_id}"
    played_ms = _integer(event.get("played_ms", event.get("audio_ms")))
    if session.dialect.checks_acks:
        _check_ack(session, event, response_id, played_ms)
    played_ms = played_ms or 0
    committed_ms = _integer(event.get("committed_ms"))
    committed_ms = played_ms if committed_ms is None else committed_ms
    active = session.response is not None and session.response.id == response_id
    playback = session.ledger.acknowledge(response_id, played_ms, committed_ms, active=active)
    told = event.get("item_id")
    session.emit(
        {
            "type": "playback.acknowledged",
            "event": {
                "type": "playback.acknowledged",
                "session_id": session.id,
                "epoch": session.epoch,
                "item_id": told if isinstance(told, str) else item_id,
                "played_ms": played_ms,
                "committed_ms": committed_ms,
                "truncate": event.get("truncate") is True,
                "playback": playback,
                "history_committed": session.ledger.knows(response_id),
            },
        }
    )


def _acknowledged(session: ServerSession, event: Event) -> str:
    """Which response an ack is for: named, else by its item, else the single pending one, else the active one."""
    named, item_id = event.get("response_id"), event.get("item_id")
    if isinstance(named, str) and named:
        return named
    if isinstance(item_id, str) and item_id.startswith("item_"):
        return item_id.removeprefix("item_")
    pending = session.ledger.pending
    if len(pending) == 1:
        return pending[0]
    return session.response.id if session.response is not None else session.last_response_id or ""


def _check_ack(session: ServerSession, event: Event, response_id: str, played_ms: int | None) -> None:
    if played_ms is None:
        raise Refusal("bad_event", "playback.ack requires played_ms", section="8.1", param="played_ms")
    item_id = event.get("item_id")
    if isinstance(item_id, str) and item_id != f"item_{response_id}":
        raise Refusal("playback_item_mismatch", f"{item_id} is not the item of {response_id}", section="8.3")
    if not session.ledger.knows(response_id):
        raise Refusal("playback_item_not_found", f"no response {response_id}", section="8.3")


def response_cancel(session: ServerSession, event: Event, now_s: float) -> None:
    """`response.cancel` (9.1)."""
    named = event.get("response_id")
    active = session.response
    if isinstance(named, str) and named:
        if active is None and named not in session.finished:
            return  # J ignores an unknown id while nothing is active
        if active is None or named != active.id:
            raise Refusal("response_not_active", f"{named} is not active", section="9.1", echoes=True)
    elif active is None:
        raise Refusal("response_not_active", "no response is active", section="9.1", echoes=True)
    session.cancel_response(session.dialect.cancel_reason)


def output_clear(session: ServerSession, event: Event, now_s: float) -> None:
    """`output_audio_buffer.clear` (9.2)."""
    named = event.get("response_id")
    active = session.response
    wanted = named if isinstance(named, str) and named else active.id if active else session.last_response_id
    known = wanted is not None and session.ledger.knows(wanted)
    session.emit({"type": "output_audio_buffer.cleared", "response_id": wanted if known else None})
    if active is not None and wanted == active.id:
        session.cancel_response("output_audio_buffer_clear")


def response_create(session: ServerSession, event: Event, now_s: float) -> None:
    """`response.create`, refused in an auto-response session (5.7)."""
    if session.response is not None:
        raise Refusal("response_already_active", f"{session.response.id} is active", section="5.7")
    raise Refusal("response_create_without_input", "nothing was retained", section="5.7")


def barge_in(session: ServerSession, event: Event, now_s: float) -> None:
    """`barge_in` (9.3): J cannot."""
    if session.dialect.letter == "J":
        raise Refusal("barge_in_unsupported", "supports_barge_in is false", section="9.3")
    session.input.buffer.clear()
    session.input.forget()
    if session.response is not None:
        session.cancel_response("barge_in")


def turn_signal(session: ServerSession, event: Event, now_s: float) -> None:
    """`turn.signal` (9.3): another spelling of three events; any other signal is told back."""
    signal = event.get("event")
    handlers = {"barge_in": barge_in, "input.cancel": input_cancel, "response.cancel": response_cancel}
    if isinstance(signal, str) and signal in handlers:
        payload = event.get("payload")
        handlers[signal](session, {**(payload if isinstance(payload, dict) else {}), **event}, now_s)
        return
    told = {"session_id": session.id, "event": signal, "turn_state": "idle", "epoch": session.epoch}
    if session.dialect.letter == "J":
        session.emit({"type": "duplex.turn.event", "event": {"type": "turn.event", **told}})
    else:
        session.emit({"type": "turn.event", **told})


def item_retrieve(session: ServerSession, event: Event, now_s: float) -> None:
    """`conversation.item.retrieve` (5.7)."""
    session.emit({"type": "conversation.item.retrieved", "item": _item(session, event)})


def item_delete(session: ServerSession, event: Event, now_s: float) -> None:
    """`conversation.item.delete` (5.7)."""
    item_id = _item(session, event)["id"]
    session.conversation.remove(item_id)
    inner = {"type": "conversation.item.deleted", "item_id": item_id, "deleted": True}
    session.emit({"type": "conversation.item.deleted", "item_id": item_id, "event": inner})


def item_truncate(session: ServerSession, event: Event, now_s: float) -> None:
    """`conversation.item.truncate` (9.5)."""
    item = _item(session, event)
    end_ms = _integer(event.get("audio_end_ms"))
    duration_ms = next((part.get("audio_duration_ms") for part in item["content"]), None)
    if (
        end_ms is None
        or end_ms < 0
        or item["role"] != "assistant"
        or (duration_ms is not None and end_ms > duration_ms)
    ):
        raise Refusal(
            "bad_event", f"cannot truncate at {event.get('audio_end_ms')!r}", section="9.5", echoes=True
        )
    told = {"item_id": item["id"], "content_index": 0, "audio_end_ms": end_ms}
    session.emit(
        {
            "type": "conversation.item.truncated",
            **told,
            "event": {"type": "conversation.item.truncated", **told},
        }
    )
    response_id = item["id"].removeprefix("item_")
    playback_ack(session, {"response_id": response_id, "played_ms": end_ms, "truncate": True}, now_s)


def _item(session: ServerSession, event: Event) -> Event:
    item_id = event.get("item_id")
    if not isinstance(item_id, str) or not item_id:
        raise Refusal("missing_item_id", f"{event['type']} requires item_id", section="5.7", echoes=True)
    item = session.conversation.get(item_id)
    if item is None:
        raise Refusal("item_not_found", f"no item {item_id}", section="5.7", echoes=True)
    return item


def item_create(session: ServerSession, event: Event, now_s: float) -> None:
    """`conversation.item.create` (5.7): a text item enters the history and starts no reply. Audio parts are
    not modelled."""
    item = event.get("item")
    if not isinstance(item, dict):
        raise Refusal("bad_event", "conversation.item.create requires item", section="5.7")
    content = item.get("content")
    entered: Event = {
        "id": item.get("id") or session.new_item_id(),
        "object": "realtime.item",
        "type": "message",
        "role": item.get("role", "user"),
        "status": "completed",
        "content": content if isinstance(content, list) else [],
    }
    session.emit_all([*session.conversation.added(entered), session.conversation.done(entered)])


def heartbeat(session: ServerSession, event: Event, now_s: float) -> None:
    """`session.heartbeat` (12.3)."""
    session.emit({"type": "session.heartbeat_ack", "session_id": session.id})


def event_ack(session: ServerSession, event: Event, now_s: float) -> None:
    """`session.event_ack` (12.4): no reply to a good one."""
    seq = event.get("server_event_seq")
    if type(seq) is not int or not 0 <= seq <= session.last_seq:
        raise Refusal(
            "invalid_event_ack", f"server_event_seq {seq!r}; last sent {session.last_seq}", section="12.4"
        )


def session_close(session: ServerSession, event: Event, now_s: float) -> None:
    """`session.close` (10.1)."""
    session.close("client_close")


OUTPUT_HANDLERS: Mapping[str, Handler] = {
    "playback.ack": playback_ack,
    "response.cancel": response_cancel,
    "output_audio_buffer.clear": output_clear,
    "response.create": response_create,
    "barge_in": barge_in,
    "turn.signal": turn_signal,
    "conversation.item.create": item_create,
    "conversation.item.retrieve": item_retrieve,
    "conversation.item.delete": item_delete,
    "conversation.item.truncate": item_truncate,
    "session.heartbeat": heartbeat,
    "session.event_ack": event_ack,
    "session.close": session_close,
}
