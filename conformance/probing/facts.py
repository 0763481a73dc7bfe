"""The reading of each fact of scenarios.probing.FACTS off what a client saw (docs/probes.md).

A reading is a number, a text, a truth value, or None where the probe did not come to the point that the fact is about,
such as the reply of a model that had nothing to say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from statistics import median

from client import wire
from conformance.probing.transcript import Seen, Transcript

Value = float | int | str | bool | None
Reading = Callable[[Transcript], Value]

_DELTAS = ("audio.delta", "transcript.delta", "response.output_text.delta")


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def _between(begin: Sequence[Seen], end: Sequence[Seen]) -> float | None:
    """Seconds from the first of one to the first after it of the other."""
    if not begin:
        return None
    after = [seen for seen in end if seen.t_s >= begin[0].t_s]
    return _rounded(after[0].t_s - begin[0].t_s) if after else None


def _capability(transcript: Transcript, name: str) -> Value:
    created = transcript.first("session.created")
    found = wire.capabilities_of(dict(created.event)) if created is not None else None
    value = found.get(name) if isinstance(found, dict) else None
    return value if isinstance(value, int | float | str | bool) else None


def _updated_follows(transcript: Transcript) -> Value:
    created = transcript.first("session.created")
    return None if created is None else bool(transcript.received("session.updated"))


def _answer(transcript: Transcript, step: str) -> Value:
    """Code and shape of the first error from a step on; `no error` when none came."""
    codes = [seen for seen in transcript.after(step) if seen.kind == "received" and seen.name == "error"]
    if not codes:
        return "no error"
    shape = "nested" if isinstance(codes[0].event.get("error"), dict) else "flat"
    return f"{wire.error_of(dict(codes[0].event))[0]} ({shape})"


def _refusal_ends(transcript: Transcript) -> Value:
    return transcript.connection_end if transcript.received("error") else None


def _closed_reason(transcript: Transcript) -> Value:
    closed = transcript.first("session.closed")
    return None if closed is None else wire.end_reason_of(dict(closed.event)) or "none given"


def _closed_after(transcript: Transcript) -> Value:
    return _between(transcript.sent("session.close"), transcript.received("session.closed"))


def _connection_end(transcript: Transcript) -> Value:
    return transcript.connection_end if transcript.received("session.closed") else None


def _decisions(seen: Sequence[Seen]) -> list[Seen]:
    """The model's own listen decisions among these."""
    return [
        s
        for s in seen
        if s.kind == "received" and s.name == "response.listen" and wire.is_own_decision(dict(s.event))
    ]


def _input_per_decision(transcript: Transcript) -> Value:
    steps = [after.input_ms - before.input_ms for before, after in pairwise(_decisions(transcript.seen))]
    return round(median(steps)) if steps else None


def _residual_decision(transcript: Transcript) -> Value:
    """The first decision after `committed`, as long as no silence was sent."""
    seen = transcript.after("commit")
    at = next((i for i, s in enumerate(seen) if s.name == "input_audio_buffer.committed"), None)
    if at is None:
        return None
    for s in seen[at:]:
        if s.kind == "step" and s.name == "silence":
            break
        if s.kind == "received" and s.name == "response.listen":
            return f"listen ({_listen_reason(s)})"
        if s.kind == "received" and s.name == "response.created":
            return "speak"
    return "nothing"


def _listen_reason(seen: Seen) -> str:
    response = seen.event.get("response")
    metadata = response.get("metadata") if isinstance(response, dict) else None
    reason = metadata.get("reason") if isinstance(metadata, dict) else None
    return wire.printable(reason, 60) or "no reason"


def _listens_per_padded_unit(transcript: Transcript) -> Value:
    if not transcript.padded:
        return None
    return round(len(_decisions(_from_silence(transcript))) / transcript.padded, 2)


def _from_silence(transcript: Transcript) -> list[Seen]:
    """From the first unit of silence to the goodbye."""
    seen = transcript.after("silence")
    end = next((i for i, s in enumerate(seen) if s.kind == "step" and s.name == "close"), len(seen))
    return seen[:end]


def _opened_in_padding(transcript: Transcript) -> list[Seen]:
    return [s for s in _from_silence(transcript) if s.kind == "received" and s.name == "response.created"]


def _replies_in_padding(transcript: Transcript) -> Value:
    return len(_opened_in_padding(transcript)) if transcript.padded else None


def _reply_in_padding_ends(transcript: Transcript) -> Value:
    opened = _opened_in_padding(transcript)
    if not opened:
        return None
    for s in _from_silence(transcript):
        if s.kind == "received" and s.name == "response.done" and s.response_id == opened[0].response_id:
            return _done_text(s)
    return "still open"


def _done_text(seen: Seen) -> str:
    status, reason = wire.response_status_of(dict(seen.event))
    return f"{status} ({reason})" if reason else status


def _audio_per_padded_unit(transcript: Transcript) -> Value:
    """Reply audio in a unit of silence: from the reply's first delta to its end."""
    opened = _opened_in_padding(transcript)
    if not opened:
        return None
    seen = [s for s in _from_silence(transcript) if s.response_id == opened[0].response_id]
    audio = [s for s in seen if s.name == "audio.delta"]
    units = {s.input_ms for s in audio}
    return round(sum(s.audio_ms for s in audio) / 1000 / len(units), 2) if units else None


def _open_at(transcript: Transcript, step: str) -> list[str]:
    return transcript.open_replies(lambda s: s.kind == "step" and s.name == step)


def _deltas_in_wait(transcript: Transcript) -> list[Seen] | None:
    """Deltas while nothing is sent; None when no reply was open by then."""
    if not _open_at(transcript, "wait"):
        return None
    return [s for s in transcript.during("wait") if s.kind == "received" and s.name in _DELTAS]


def _continues(transcript: Transcript) -> Value:
    deltas = _deltas_in_wait(transcript)
    return None if deltas is None else len({round(s.t_s, 3) for s in deltas}) > 1


def _done_without_input(transcript: Transcript) -> Value:
    if not _open_at(transcript, "wait"):
        return None
    return any(s.name == "response.done" for s in transcript.during("wait") if s.kind == "received")


def _gaps(transcript: Transcript) -> list[float]:
    times = sorted({round(s.t_s, 3) for s in _deltas_in_wait(transcript) or ()})
    return [after - before for before, after in pairwise(times)]


def _cadence(transcript: Transcript) -> Value:
    gaps = _gaps(transcript)
    return _rounded(median(gaps)) if gaps else None


def _longest_pause(transcript: Transcript) -> Value:
    """Until the reply is done, or until the wait is over."""
    wait = transcript.during("wait")
    if not wait or not _open_at(transcript, "wait"):
        return None
    begin = next(s.t_s for s in transcript.seen if s.kind == "step" and s.name == "wait")
    done = [s.t_s for s in wait if s.kind == "received" and s.name == "response.done"]
    moved = [s.t_s for s in wait if s.kind == "received" and s.name in _DELTAS]
    after = next((s.t_s for s in transcript.seen if s.t_s > wait[-1].t_s and s.kind == "step"), wait[-1].t_s)
    marks = [begin, *moved, done[0] if done else after]
    return _rounded(max(later - earlier for earlier, later in pairwise(sorted(marks))))


def _moves_again(transcript: Transcript) -> Value:
    """Of a reply that is still open when the silence begins."""
    open_then = _open_at(transcript, "silence")
    if not open_then:
        return None
    return any(s.name in _DELTAS and s.response_id in open_then for s in _from_silence(transcript))


def _listens_in_reply(transcript: Transcript) -> Value:
    open_now: set[str] = set()
    count = 0
    for s in transcript.seen:
        reply = s.response_id or ""
        if s.kind == "received" and s.name == "response.created":
            open_now.add(reply)
        elif s.kind == "received" and s.name == "response.done":
            open_now.discard(reply)
        elif s.kind == "received" and s.name == "response.listen" and open_now:
            count += 1
    return count if transcript.received("response.created") else None


def _ack_after_commit(transcript: Transcript) -> Value:
    seen = transcript.after("ack")
    if not any(s.kind == "sent" and s.name == "playback.ack" for s in seen):
        return None
    for s in seen:
        if s.kind == "received" and s.name == "playback.acknowledged":
            return "acknowledged"
        if s.kind == "received" and s.name == "error":
            return wire.error_of(dict(s.event))[0]
    return "not answered"


def _acknowledged(transcript: Transcript) -> list[Mapping[str, object]]:
    events = [s.event.get("event") for s in transcript.after("ack") if s.name == "playback.acknowledged"]
    return [event for event in events if isinstance(event, dict)]


def _history_committed(transcript: Transcript) -> Value:
    told = _acknowledged(transcript)
    return bool(told[0].get("history_committed")) if told else None


def _generated_after_full_ack(transcript: Transcript) -> Value:
    told = _acknowledged(transcript)
    playback = told[-1].get("playback") if len(told) > 1 else None
    value = playback.get("generated_ms") if isinstance(playback, dict) else None
    return value if isinstance(value, int) else None


def _open_reply_at_close(transcript: Transcript) -> Value:
    open_then = _open_at(transcript, "close")
    if not open_then:
        return None
    for s in transcript.after("close"):
        if s.kind == "received" and s.name == "response.done" and s.response_id in open_then:
            return _done_text(s)
    return "no event"


def _event_family(transcript: Transcript) -> Value:
    spelt = {s.spelling for s in transcript.received("audio.delta", "transcript.delta")}
    families = {wire.DELTAS[name][1] for name in spelt if name in wire.DELTAS}
    return " and ".join(sorted(families)) or None


def _first_audio_after_speech(transcript: Transcript) -> Value:
    return _between(transcript.sent("input_audio_buffer.append"), transcript.received("audio.delta"))


def _first_audio(transcript: Transcript) -> Value:
    first = transcript.first("audio.delta")
    return None if first is None else first.audio_ms


def _audio_per_delta(transcript: Transcript) -> Value:
    middle = transcript.received("audio.delta")[1:-1]
    return round(median(s.audio_ms for s in middle)) if middle else None


def _done_repeats_audio(transcript: Transcript) -> Value:
    done = transcript.first("response.done")
    response = done.event.get("response") if done is not None else None
    metadata = response.get("metadata") if isinstance(response, dict) else None
    return None if done is None else bool(isinstance(metadata, dict) and metadata.get("audio"))


READINGS: Mapping[str, Reading] = {
    "created_after_s": lambda t: _between(t.sent("session.update"), t.received("session.created")),
    "implementation_level": lambda t: _capability(t, "implementation_level"),
    "chunk_period_ms": lambda t: _capability(t, "chunk_period_ms"),
    "updated_follows": _updated_follows,
    "refusal": lambda t: _answer(t, "open"),
    "refusal_ends": _refusal_ends,
    "unknown_event": lambda t: _answer(t, "send"),
    "closed_reason": _closed_reason,
    "closed_after_s": _closed_after,
    "connection_end": _connection_end,
    "input_ms_per_decision": _input_per_decision,
    "residual_decision": _residual_decision,
    "committed_after_s": lambda t: _between(
        t.sent("input_audio_buffer.commit"), t.received("input_audio_buffer.committed")
    ),
    "listens_per_padded_unit": _listens_per_padded_unit,
    "replies_in_padding": _replies_in_padding,
    "reply_in_padding_ends": _reply_in_padding_ends,
    "audio_s_per_padded_unit": _audio_per_padded_unit,
    "continues_without_input": _continues,
    "done_without_input": _done_without_input,
    "cadence_s": _cadence,
    "longest_pause_s": _longest_pause,
    "moves_again_on_padding": _moves_again,
    "listens_in_reply": _listens_in_reply,
    "ack_after_commit": _ack_after_commit,
    "history_committed": _history_committed,
    "generated_after_full_ack_ms": _generated_after_full_ack,
    "open_reply_at_close": _open_reply_at_close,
    "event_family": _event_family,
    "first_audio_after_speech_s": _first_audio_after_speech,
    "first_audio_ms": _first_audio,
    "audio_ms_per_delta": _audio_per_delta,
    "done_repeats_audio": _done_repeats_audio,
}
"""By the names of scenarios.probing.FACTS; a test keeps the two in step."""


def read_facts(transcript: Transcript, names: Sequence[str]) -> dict[str, Value]:
    """The readings of the facts named, in their order."""
    return {name: READINGS[name](transcript) for name in names}
