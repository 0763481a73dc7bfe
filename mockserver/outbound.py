"""Client events about the output, the session's life and the conversation (protocol.md 5.7, 8, 9, 10, 12)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mockserver import endings, turns
from mockserver.inbound import Handler, append, commit, drop_input, input_cancel
from mockserver.wire import Event, Refusal, must_echo, told_value

if TYPE_CHECKING:
    from mockserver.session import ServerSession

MAX_POSITION_MS = 2**53
"""Positions beyond it are no times of any audio; they are cut to it."""
OPTIONS = frozenset(
    {
        "instructions",
        "voice",
        "temperature",
        "max_output_tokens",
        "max_response_output_tokens",
        "max_tokens",
        "tools",
        "tool_choice",
    }
)
"""Overrides that `response.create` must not carry in a native session (protocol.md 5.7)."""


def _integer(value: Any) -> int | None:
    """A position, cut to what is one; None: it is no number."""
    if type(value) is int and -MAX_POSITION_MS <= value <= MAX_POSITION_MS:
        return value
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return int(max(-MAX_POSITION_MS, min(MAX_POSITION_MS, value)))


def playback_ack(session: ServerSession, event: Event, now_s: float) -> None:
    """`playback.ack` (8): maxima are kept, one `playback.acknowledged` for each."""
    get = event.get
    response_id, item_id = get("response_id"), get("item_id")
    played_ms, committed_ms = get("played_ms"), get("committed_ms")
    checked = session.dialect.checks_acks
    # Nearly all events of a session are acks, and nearly all acks are plain.
    if not (
        type(response_id) is str
        and response_id in session.ledger.known
        and item_id == "item_" + response_id
        and type(played_ms) is int
        and type(committed_ms) is int
        and 0 <= played_ms <= MAX_POSITION_MS
        and 0 <= committed_ms <= MAX_POSITION_MS
    ):
        for violation in session.strict.ack(event, session.ledger):
            session.note(violation)
        if not response_id or type(response_id) is not str:
            response_id = _acknowledged(session, item_id)
        played_ms = _integer(get("played_ms", get("audio_ms")))
        committed_ms = _integer(committed_ms)
        if checked:
            _check_ack(session, event, response_id)
        if type(item_id) is not str:
            item_id = f"item_{response_id}"
        played_ms = played_ms or 0
        committed_ms = committed_ms if committed_ms is not None else played_ms
    elif checked:
        _check_ack(session, event, response_id)
    _acknowledge(
        session, response_id, item_id, played_ms, committed_ms, get("truncate") is True and not checked
    )


def _acknowledge(
    session: ServerSession, response_id: str, item_id: str, played_ms: int, committed_ms: int, truncate: bool
) -> None:
    active = session.response is not None and session.response.id == response_id
    playback = session.ledger.acknowledge(
        response_id,
        played_ms,
        committed_ms,
        truncate=truncate,
        forget=session.dialect.forgets_heard and not active,
    )
    session.emit(
        {
            "type": "playback.acknowledged",
            "event": {
                "type": "playback.acknowledged",
                "session_id": session.id,
                "epoch": session.epoch,
                "item_id": item_id,
                "played_ms": played_ms,
                "committed_ms": committed_ms,
                "truncate": truncate,
                "playback": playback,
                "history_committed": response_id in session.ledger.known,
            },
        }
    )


def _acknowledged(session: ServerSession, item_id: Any) -> str:
    """Which response an unnamed ack is for: by its item, else the single pending one, else the active one."""
    if isinstance(item_id, str) and item_id.startswith("item_"):
        return item_id.removeprefix("item_")
    pending = session.ledger.pending
    if len(pending) == 1:
        return pending[0]
    return session.response.id if session.response is not None else session.last_response_id or ""


def _check_ack(session: ServerSession, event: Event, response_id: str) -> None:
    if _integer(event.get("played_ms")) is None:
        raise Refusal("bad_event", "playback.ack requires played_ms", section="8.1", param="played_ms")
    item_id = event.get("item_id")
    if isinstance(item_id, str) and item_id != f"item_{response_id}":
        raise Refusal(
            "playback_item_mismatch", f"{told_value(item_id)} is another response's item", section="8.3"
        )
    if response_id not in session.ledger.known:
        raise Refusal("playback_item_not_found", f"no response {told_value(response_id)}", section="8.3")
    committed = session.finished.get(response_id)
    if committed is not None and session.conversation.committed > committed:
        raise Refusal(
            "playback_ack_too_late",
            f"an input was committed after {response_id}",
            section="8.3",
            harmless=True,
        )


def response_cancel(session: ServerSession, event: Event, now_s: float) -> None:
    """`response.cancel` (9.1)."""
    named = event.get("response_id")
    active = session.response
    if isinstance(named, str) and named:
        unknown = active is None and named not in session.ledger.known
        if unknown and session.dialect.cancels_unknown_silently:
            return
        if active is None or named != active.id:
            raise Refusal("response_not_active", f"{told_value(named)} is not active", section="9.1")
    elif active is None:
        raise Refusal("response_not_active", "no response is active", section="9.1")
    turns.cancel(session, session.dialect.cancel_reason)


def output_clear(session: ServerSession, event: Event, now_s: float) -> None:
    """`output_audio_buffer.clear` (9.2)."""
    named = event.get("response_id")
    active = session.response
    wanted = named if isinstance(named, str) and named else active.id if active else session.last_response_id
    known = wanted is not None and wanted in session.ledger.known
    session.emit({"type": "output_audio_buffer.cleared", "response_id": wanted if known else None})
    if active is not None and wanted == active.id:
        turns.cancel(session, "output_audio_buffer_clear")


def response_create(session: ServerSession, event: Event, now_s: float) -> None:
    """`response.create` (5.7): refused in an auto-response session. Turn mode, where it starts a reply, is not
    modelled."""
    options = event.get("response")
    if isinstance(options, dict) and any(options[key] is not None for key in OPTIONS & options.keys()):
        raise Refusal("unsupported_native_response_options", "overrides are not possible", section="5.7")
    if session.response is not None:
        raise Refusal("response_already_active", f"{session.response.id} is active", section="5.7")
    if session.dialect.checks_acks and session.conversation.text_waits:
        raise Refusal("text_only_turn_unsupported", "text alone starts no reply", section="5.7")
    raise Refusal("response_create_without_input", "nothing was retained", section="5.7")


def barge_in(session: ServerSession, event: Event, now_s: float) -> None:
    """`barge_in` (9.3)."""
    if not session.dialect.barges_in:
        raise Refusal("barge_in_unsupported", "supports_barge_in is false", section="9.3")
    drop_input(session)
    if session.response is not None:
        turns.cancel(session, "barge_in")
    else:
        turns.advance_epoch(session)


def turn_signal(session: ServerSession, event: Event, now_s: float) -> None:
    """`turn.signal` (9.3): another spelling of three events; any other signal is told back."""
    signal = event.get("event")
    handlers = {"barge_in": barge_in, "input.cancel": input_cancel, "response.cancel": response_cancel}
    if isinstance(signal, str) and signal in handlers:
        payload = event.get("payload")
        handlers[signal](session, {**(payload if isinstance(payload, dict) else {}), **event}, now_s)
        return
    if not isinstance(signal, str) or not signal:
        raise Refusal("bad_event", "turn.signal requires event", section="9.3", param="event")
    state = "idle" if session.response is None else "assistant_generating"
    told = {"session_id": session.id, "event": signal, "turn_state": state, "epoch": session.epoch}
    name = session.dialect.raw_turn_event
    if name == "turn.event":
        session.emit({"type": name, **told})
    else:
        session.emit({"type": name, "event": {"type": "turn.event", **told}})


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
    response_id = item["id"].removeprefix("item_")
    audio_ms = session.ledger.sent_in_all_ms(response_id)
    if end_ms is None or end_ms < 0 or item["role"] != "assistant" or not audio_ms or end_ms > audio_ms:
        raise Refusal("bad_event", "audio_end_ms is not within the item's audio", section="9.5", echoes=True)
    told = {"item_id": item["id"], "content_index": 0, "audio_end_ms": end_ms}
    inner = {"type": "conversation.item.truncated", "session_id": session.id, "epoch": session.epoch, **told}
    session.emit({"type": "conversation.item.truncated", **told, "event": inner})
    _acknowledge(session, response_id, item["id"], end_ms, end_ms, truncate=True)


def _item(session: ServerSession, event: Event) -> Event:
    item_id = event.get("item_id")
    if not isinstance(item_id, str) or not item_id:
        raise Refusal("missing_item_id", f"{event['type']} requires item_id", section="5.7", echoes=True)
    item = session.conversation.get(item_id)
    if item is None:
        raise Refusal("item_not_found", f"no item {told_value(item_id)}", section="5.7", echoes=True)
    return item


def item_create(session: ServerSession, event: Event, now_s: float) -> None:
    """`conversation.item.create` (5.7): audio of the user is appended and committed; anything else enters the
    history and starts no reply."""
    item = event.get("item")
    if not isinstance(item, dict):
        raise Refusal("bad_event", "conversation.item.create requires item", section="5.7", param="item")
    content = item.get("content")
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    role = item.get("role", "user")
    if role == "user" and any(part.get("type") == "input_audio" for part in parts):
        for part in parts:
            if part.get("type") == "input_audio":
                append(session, {"type": "input_audio_buffer.append", "audio": part.get("audio")}, now_s)
        commit(session, {"type": "input_audio_buffer.commit"}, now_s)
        return
    named = item.get("id")
    entered: Event = {
        "id": named if isinstance(named, str) and named else session.new_item_id(),
        "object": "realtime.item",
        "type": "message",
        "role": role,
        "status": "completed",
        "content": parts,
    }
    session.conversation.makes_room(must_echo(entered))
    previous = event.get("previous_item_id")
    session.emit_all(session.conversation.entered(entered, previous if isinstance(previous, str) else None))


def heartbeat(session: ServerSession, event: Event, now_s: float) -> None:
    """`session.heartbeat` (12.3)."""
    session.emit({"type": "session.heartbeat_ack", "session_id": session.id})


def event_ack(session: ServerSession, event: Event, now_s: float) -> None:
    """`session.event_ack` (12.4): no reply to a good one."""
    seq = event.get("server_event_seq")
    if type(seq) is not int or not 0 <= seq <= session.last_seq:
        raise Refusal(
            "invalid_event_ack",
            f"server_event_seq {told_value(seq)}; last sent {session.last_seq}",
            section="12.4",
        )


def session_close(session: ServerSession, event: Event, now_s: float) -> None:
    """`session.close` (10.1); where the reason of a close is told, the client may give one."""
    reason = event.get("reason")
    session.left = True
    own = isinstance(reason, str) and reason and session.dialect.closed_reason is not None
    endings.close(session, "client_close", told_reason=str(reason) if own else None)


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
