"""One conversation without I/O: what was sent, what came, and whether the drain is complete (evaluation.md 5 to 9).

Events go in with the loop's time; nothing here waits, reads a clock or touches a socket. Reply audio is counted, not
kept; events leave light records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

import pybase64

from client import wire
from client.bounds import ERROR_CHARGE, RESPONSE_CHARGE, TEXT_CHARGE
from client.responses import DEFAULT_OUTPUT_RATE_HZ, LISTENING, MAX_OUTPUT_RATE_HZ, ResponseRecord
from client.sentences import TextDelta, clock_of
from client.vocabulary import KNOWN, NOTHING, oddity

DEFAULT_CHUNK_PERIOD_MS: Final = 1000
MAX_TOLD_ODDITIES: Final = 20
"""Unknown events and fields that are named; all of them are counted."""
_REMEMBERED: Final = 8192
"""Events that a duplicate is looked for among, at least."""

__all__ = ["LISTENING", "ClientSession", "ResponseRecord"]


class ClientSession:
    """The client's view of one session.

    `receive()` takes server events in arrival order; `append_sent()`, `commit_sent()` and `close_sent()` are told just
    before the write they name.
    """

    def __init__(self, *, settle_s: float) -> None:
        """Args: settle_s: seconds of quiet that end a drain."""
        self.settle_s = settle_s
        self.chunk_period_ms = DEFAULT_CHUNK_PERIOD_MS
        self.media_clock_ms = 0
        self.padded_units = 0
        self.asked = False
        """`session.update` went out: only then is there a session that an event could close."""
        self.created = False
        self.refused = False
        """An `error` came before `session.created`."""
        self.unfit: str | None = None
        """Why the session that was opened is not full duplex."""
        self.closed = False
        """`session.closed` came: from here on any end of the connection is clean."""
        self.ended: str | None = None
        """Why the session is over, in words; None while it lives."""
        self.server_errors: list[str] = []
        self.responses: dict[str, ResponseRecord] = {}
        self.output_rate_hz = DEFAULT_OUTPUT_RATE_HZ
        self.orphan_audio_bytes = 0
        self.texts: list[tuple[TextDelta, bool]] = []
        """Text deltas in arrival order, each with whether it belongs to a late reply."""
        self.anomalies: Counter[str] = Counter()
        """What contradicts the protocol, by kind."""
        self.strange: dict[str, None] = {}
        """The first unknown events and fields, by name."""
        self.received = 0
        self.owed = 0
        """Charges of what was kept since they were last collected (bounds.py)."""
        self.closing = False
        self.commit_refused = False
        self.committed = False
        self.decided = False
        self.open_count = 0
        self._commit_from: int | None = None
        self._deferred: frozenset[str] = frozenset()
        self._last_activity_s = 0.0
        self._seen: set[int] = set()
        self._seen_before: set[int] = set()
        self._stray_families: dict[str, str] = {}

    # -- what we send ---------------------------------------------------------------------------------------------

    def append_sent(self, duration_ms: int) -> int:
        """An append of this many ms is about to be written. Returns: the media clock, its `audio_end_ms`."""
        self.media_clock_ms += duration_ms
        return self.media_clock_ms

    def commit_sent(self) -> None:
        """The commit is about to be written: completion counts what comes from here on."""
        self._commit_from = self.received

    def close_sent(self) -> None:
        """`session.close` is about to be written: a cancelled response is its answer from here on."""
        self.closing = True

    def acks(self) -> list[tuple[str, int]]:
        """(response id, played ms) of every known response, in order of creation (evaluation.md 5).

        A response without audio is acked at 0 while open and skipped once done.
        """
        return [(r.id, r.played_ms) for r in self.responses.values() if r.audio_bytes or r.status is None]

    # -- what the drain waits for ---------------------------------------------------------------------------------

    def awaited(self) -> str | None:
        """The first condition of evaluation.md 7 that does not hold yet (1 to 3), in words; None when all hold."""
        if not self.committed:
            return "input_audio_buffer.committed"
        if not self.decided:
            return "the decision on the residual unit"
        if self.open_count:
            return "response.done"
        return None

    def padding_wanted(self) -> bool:
        """Whether padded units still serve: committed, and not yet decided with all responses done (design.md 7)."""
        return self._commit_from is not None and self.ended is None and self.awaited() is not None

    def settles_at_s(self) -> float | None:
        """When the quiet will have lasted long enough, by the loop's clock; None while something is awaited."""
        return self._last_activity_s + self.settle_s if self.awaited() is None else None

    def open_responses(self) -> list[ResponseRecord]:
        """Responses created and not done, in order of creation."""
        return [r for r in self.responses.values() if r.status is None]

    def completed_replies(self) -> list[ResponseRecord]:
        """Replies of the input that ended completed; late ones are not among them."""
        return [r for r in self.responses.values() if r.status == "completed" and not r.late]

    def is_late(self) -> bool:
        """Whether a reply created now is late (design.md 7).

        The residual is decided, no reply of the input is open, and at least one of them was completed before.
        """
        replies = [r for r in self.responses.values() if not r.late]
        return (
            self.committed
            and self.decided
            and all(r.status is not None for r in replies)
            and any(r.status == "completed" for r in replies)
        )

    # -- what comes -----------------------------------------------------------------------------------------------

    def connection_ended(self, why: str) -> None:
        """The connection is gone; a session that was over already keeps its own reason."""
        if self.ended is None:
            self.ended = why

    def receive(self, event: wire.Event, now_s: float) -> bool:
        """Take one server event.

        Returns: whether a waiter may have something to do (deltas only move the quiet, so they wake nobody).
        Unknown types are ignored; what contradicts the protocol is counted in `anomalies`, never raised.
        """
        self.received += 1
        if self._is_duplicate(event):
            self.anomalies["duplicate_event"] += 1
            return False
        name: str = event["type"]
        if self.closed or not self.created or not (event.keys() <= KNOWN.get(name, NOTHING)):
            self._note_oddities(event, name)
        delta = wire.DELTAS.get(name)
        if delta is not None:
            self._take_delta(event, delta[0], delta[1], now_s)
            return False
        take = _TAKERS.get(name)
        if take is None:
            return False
        take(self, event, now_s)
        return True

    def _is_duplicate(self, event: wire.Event) -> bool:
        """The same message once more: journal position if it has one, else its id (protocol.md 3.1)."""
        seq, event_id = event.get("server_event_seq"), event.get("event_id")
        if isinstance(seq, int):
            key = seq
        elif isinstance(event_id, str) and event_id:
            key = hash((event["type"], event_id))  # an id may be long, and thousands are remembered
        else:
            return False
        if key in self._seen or key in self._seen_before:
            return True
        if len(self._seen) >= _REMEMBERED:
            self._seen_before, self._seen = self._seen, set()
        self._seen.add(key)
        return False

    def _note_oddities(self, event: wire.Event, name: str) -> None:
        """Count what the protocol does not know, and what comes where it has no place (protocol.md 0, 3.3)."""
        strange = oddity(event)
        if strange is not None:
            self.anomalies[strange[0]] += 1
            if len(self.strange) < MAX_TOLD_ODDITIES:
                self.strange[wire.printable(strange[1], 120)] = None
        if self.closed:
            self.anomalies["event_after_session_closed"] += 1
        elif not self.created and name not in ("session.created", "error"):
            self.anomalies["event_before_session_created"] += 1

    def _activity(self, now_s: float) -> None:
        if self._commit_from is not None:
            self._last_activity_s = now_s

    def _take_created(self, event: wire.Event, now_s: float) -> None:
        if self.created:
            self.anomalies["session_created_twice"] += 1
        else:
            self.unfit = wire.unfitness_of(event)
        self.created = True
        self._take_period(event, now_s)

    def _take_period(self, event: wire.Event, now_s: float) -> None:
        capabilities = wire.capabilities_of(event)
        period = wire.chunk_period_of(event)
        if period is not None:
            self.chunk_period_ms = period
        elif isinstance(capabilities, dict) and capabilities.get("chunk_period_ms") is not None:
            self.anomalies["unusable_chunk_period"] += 1

    def _take_committed(self, event: wire.Event, now_s: float) -> None:
        if self._commit_from is None:
            self.anomalies["unasked_commit"] += 1
            return
        if self.committed:
            self.anomalies["committed_twice"] += 1
            return
        self.committed = True
        self._last_activity_s = max(self._last_activity_s, now_s)
        if wire.is_deferred_commit(event):
            self._deferred = frozenset(r.id for r in self.open_responses())

    def _take_listen(self, event: wire.Event, now_s: float) -> None:
        self._activity(now_s)
        if self.committed and wire.is_own_decision(event):
            self.decided = True
        response = self.responses.get(wire.response_id_of(event) or "")
        if response is not None and response.status is None:
            self._finish(response, LISTENING, "")

    def _take_response_created(self, event: wire.Event, now_s: float) -> None:
        self._activity(now_s)
        response_id = wire.response_id_of(event)
        if response_id is None:
            self.anomalies["response_without_id"] += 1
        elif response_id in self.responses:
            self.anomalies["response_created_twice"] += 1
        else:
            record = ResponseRecord(response_id, now_s, self.is_late(), rate_hz=self.output_rate_hz)
            self.responses[response_id] = record
            self.owed += RESPONSE_CHARGE + TEXT_CHARGE * len(response_id)
            self.open_count += 1

    def _take_response_done(self, event: wire.Event, now_s: float) -> None:
        self._activity(now_s)
        status, reason = wire.response_status_of(event)
        response_id = wire.response_id_of(event)
        response = self.responses.get(response_id) if response_id is not None else None
        if response is None:
            unknown = "response_done_without_id" if response_id is None else "done_of_unknown_response"
            self.anomalies[unknown] += 1
            return
        if response.status == LISTENING:
            response.status, response.reason = status, reason
        elif response.status is not None:
            self.anomalies["response_done_twice"] += 1
            return
        else:
            self._finish(response, status, reason)
        if self.committed and status != "cancelled" and response.id not in self._deferred:
            self.decided = True

    def _finish(self, response: ResponseRecord, status: str, reason: str) -> None:
        response.status, response.reason = status, reason
        response.after_close = self.closing and status == "cancelled"
        self.open_count -= 1
        if response.half:  # the other half will not come
            self.texts.append((TextDelta(self.media_clock_ms, response.half), response.late))
            response.half = ""

    def _take_closed(self, event: wire.Event, now_s: float) -> None:
        self.closed = True
        reason = wire.end_reason_of(event)
        self.connection_ended(f"session.closed by the server{f' ({reason})' if reason else ''}")

    def _take_expired(self, event: wire.Event, now_s: float) -> None:
        self.connection_ended(f"session.expired ({wire.end_reason_of(event) or 'no reason given'})")

    def _take_replaced(self, event: wire.Event, now_s: float) -> None:
        self.connection_ended("session.replaced by another connection")

    def _take_error(self, event: wire.Event, now_s: float) -> None:
        code, message = wire.error_of(event)
        if code in wire.HARMLESS_ERRORS:
            self.anomalies[code] += 1
            return
        self.server_errors.append(f"{code}: {message}" if message else code)
        self.owed += ERROR_CHARGE * len(self.server_errors[-1])
        self.refused = self.refused or not self.created
        if code in wire.REFUSED_COMMIT_ERRORS and self._commit_from is not None and not self.committed:
            self.commit_refused = True

    def _take_delta(self, event: wire.Event, logical: str, family: str, now_s: float) -> None:
        self._activity(now_s)
        response_id = wire.response_id_of(event) or ""
        response = self.responses.get(response_id)
        group = wire.FAMILY_GROUPS[family]
        if response is None:
            self.anomalies["delta_of_unknown_response"] += 1
            first = self._stray_families.setdefault(group, family)
        elif response.status is not None:
            self.anomalies["delta_after_done"] += 1
            return
        else:
            first = response.families.setdefault(group, family)
        if first != family:
            self.anomalies["second_event_family"] += 1
        elif logical == "audio.delta":
            self._take_audio(event, response, now_s)
        else:
            self._take_text(event, response, now_s)

    def _take_text(self, event: wire.Event, response: ResponseRecord | None, now_s: float) -> None:
        text = event.get("delta")
        if not isinstance(text, str):
            self.anomalies["text_without_data"] += 1
            return
        if response is None:
            late = self.is_late()
        else:
            late = response.late
            if text and response.first_text_s is None:
                response.first_text_s = now_s
            if not text.isascii() or response.half:
                text = response.whole_text(text)
                if response.half:
                    self.anomalies["text_cut_in_character"] += 1
        if text:
            self.owed += TEXT_CHARGE * len(text)
            self.texts.append((TextDelta(clock_of(event, self.media_clock_ms), text), late))

    def _take_audio(self, event: wire.Event, response: ResponseRecord | None, now_s: float) -> None:
        self._take_rate(event, response)
        size = self._audio_size(event)
        if response is None:
            self.orphan_audio_bytes += size
            return
        response.audio_deltas += 1
        metadata = event.get("metadata")
        if isinstance(metadata, dict):
            response.take_metadata(metadata)
        if size:
            response.audio_bytes += size
            response.last_audio_s = now_s
            if response.first_audio_s is None:
                response.first_audio_s = now_s

    def _take_rate(self, event: wire.Event, response: ResponseRecord | None) -> None:
        """The last rate seen holds for the whole session, even from a delta without an id (protocol.md 14)."""
        rate = event.get("sample_rate_hz")
        if rate is None:
            return
        if not isinstance(rate, int) or isinstance(rate, bool) or not 0 < rate <= MAX_OUTPUT_RATE_HZ:
            self.anomalies["unusable_audio_rate"] += 1
            return
        if response is not None:
            if response.audio_bytes and rate != response.rate_hz:
                self.anomalies["audio_rate_changed"] += 1
            response.rate_hz = rate
        self.output_rate_hz = rate

    def _audio_size(self, event: wire.Event) -> int:
        """Bytes of PCM16 in an audio delta; damaged base64 counts nothing, an odd last byte is dropped."""
        encoded = event.get("delta")
        if not isinstance(encoded, str):
            encoded = event.get("audio")
        if not isinstance(encoded, str):
            self.anomalies["audio_without_data"] += 1
            return 0
        try:
            size = len(pybase64.b64decode(encoded, validate=True))
        except ValueError:
            self.anomalies["damaged_base64"] += 1
            return 0
        if size % 2:
            self.anomalies["odd_audio_bytes"] += 1
        return size - size % 2


_TAKERS: Final[dict[str, Callable[[ClientSession, wire.Event, float], None]]] = {
    "session.created": ClientSession._take_created,
    "session.updated": ClientSession._take_period,
    "input_audio_buffer.committed": ClientSession._take_committed,
    "response.listen": ClientSession._take_listen,
    "response.created": ClientSession._take_response_created,
    "response.done": ClientSession._take_response_done,
    "session.closed": ClientSession._take_closed,
    "session.expired": ClientSession._take_expired,
    "session.replaced": ClientSession._take_replaced,
    "error": ClientSession._take_error,
}
