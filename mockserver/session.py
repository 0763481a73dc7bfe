"""One session of the server without I/O: client events and time go in, what the server does comes out.

Sections in comments are of protocol.md.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from mockserver import opening
from mockserver.capabilities import Config
from mockserver.conversation import Conversation
from mockserver.inbound import INPUT_HANDLERS, InputState
from mockserver.input_buffer import Submission
from mockserver.outbound import OUTPUT_HANDLERS
from mockserver.playback import Ledger
from mockserver.profiles import Profile
from mockserver.replies import Decision, ReplyScript, ReplySpec
from mockserver.responses import OpenResponse, listen
from mockserver.steploop import Decided, StepLoop, silence
from mockserver.strict import StrictReader
from mockserver.telling import told_received
from mockserver.wire import (
    End,
    Event,
    Output,
    Received,
    Refusal,
    Send,
    Unit,
    Violation,
    Withheld,
    decode,
    error_event,
    flat_error,
)

OPENING_FRAME_S = 10.0
"""The first frame must have come by then (12.1)."""
_STATUS_REASONS = {"completed": "stop", "failed": "runtime_append_failed", "incomplete": "max_output_tokens"}


class ServerSession:
    """A scripted session.

    Every method that takes `now_s` returns what the server does at that time, in order. Events still lack their
    `event_id` and `server_event_seq`: `stamp` adds them when they are written, so that an injected event takes its
    place in the sequence and a suppressed one leaves no gap.

    Args:
        profile: dialect and step loop.
        replies: what the scripted model says.
        query: of the URL (1.1).
        ids: source of every id.
        decision_s: model time a unit takes.
    """

    def __init__(
        self,
        profile: Profile,
        replies: Sequence[ReplySpec],
        *,
        query: Mapping[str, str],
        ids: random.Random,
        decision_s: float,
    ) -> None:
        self.profile = profile
        self.dialect = profile.dialect
        self.query = query
        self.state: Literal["opening", "open", "deaf", "closed"] = "opening"
        self.opened_by_default = False
        self.id = ""
        self.epoch = 0
        self.turn_id = 0
        self.config: Config | None = None
        self.response: OpenResponse | None = None
        self.last_response_id: str | None = None
        self.finished: set[str] = set()
        self.ledger = Ledger()
        self.conversation = Conversation()
        self.input = InputState()
        self.strict = StrictReader(self.dialect)
        self.script = ReplyScript(replies)
        self.steps = StepLoop(
            decision_s=decision_s,
            continues=profile.silence_continuation,
            decide=self._decide,
            forward=self._forward,
            input_waits=lambda: self.input.buffer.samples > 0,
            new_silence=lambda: silence(self.epoch),
            withheld=self._silence_withheld,
        )
        self.ignored: frozenset[str] = frozenset()
        """Client events that a fault has the session drop."""
        self._ids = ids
        self._out: list[Output] = []
        self._seq = 0
        self._opened_s = 0.0
        self._last_frame_s = 0.0
        self._units_in_turn = 0

    # -- what goes in

    def start(self, now_s: float) -> list[Output]:
        """The connection was accepted: a default session may open before anything is read (1.1)."""
        self._opened_s = self._last_frame_s = now_s
        if self.dialect.query_must_opt_in and self.query.get("duplex", "").lower() not in ("1", "true", "on"):
            self._out.append(Violation("1.1", "duplex-missing", "the query has no duplex=1"))
            self.emit(
                flat_error("unsupported", "realtime duplex is not enabled for this URL"), sequenced=False
            )
            self._end("unsupported")
        elif opening.autostarts(self.query) and self.query.get("model"):
            opening.open_default(self)
        return self._taken()

    def receive(self, text: str | bytes, now_s: float) -> list[Output]:
        """A text frame was read."""
        if self.state in ("deaf", "closed"):
            self._ignore(text)
            return self._taken()
        self._last_frame_s = now_s
        self.steps.advance(now_s)
        event: Event = {}
        try:
            event = decode(text)
            if self.state == "opening" and not opening.open_by(self, event):
                return self._taken()
            self._handle(event, now_s)
        except Refusal as refusal:
            self.refuse(refusal, event)
        except UnicodeDecodeError as error:
            self._out.append(Violation("1.3", "invalid-utf8", str(error)))
            self._end("invalid_utf8", code=1007)
        self.steps.advance(now_s)
        return self._taken()

    def receive_binary(self, length_bytes: int, now_s: float) -> list[Output]:
        """A binary frame was read: the end as the first frame, deafness later (1.3)."""
        self._last_frame_s = now_s
        self._out.append(Received("(binary)", {"bytes": length_bytes}))
        self._out.append(Violation("1.3", "binary-frame", f"{length_bytes} bytes"))
        if self.state == "opening":
            self.emit(error_event("internal_error", "binary frame"), sequenced=False)
            self._end("internal_error")
        elif self.state == "open":
            self.state = "deaf"
        return self._taken()

    def next_timer_s(self) -> float | None:
        """When `on_timer` must be called next; None: not before something was read."""
        if self.state == "closed":
            return None
        if self.state == "opening":
            return self._opened_s + OPENING_FRAME_S
        step_s = self.steps.next_s()
        if self.state == "deaf" or self.config is None:
            return step_s
        idle_s = self._last_frame_s + self.config.idle_timeout_s
        return idle_s if step_s is None else min(idle_s, step_s)

    def on_timer(self, now_s: float) -> list[Output]:
        """Time has come for whatever `next_timer_s` named; nothing happens when it is early."""
        if self.state == "opening":
            if now_s >= self._opened_s + OPENING_FRAME_S:
                self.emit(error_event("config_timeout", "no opening frame within 10 s"), sequenced=False)
                self._end("config_timeout")
        elif self.state != "closed":
            self.steps.advance(now_s)
            if (
                self.state == "open"
                and self.config
                and now_s >= self._last_frame_s + self.config.idle_timeout_s
            ):
                if self.dialect.tells_idle:
                    self.close("timeout", told_reason="timeout")
                else:
                    self._end("timeout")
        return self._taken()

    def stamp(self, send: Send) -> Event:
        """The event with its own `event_id` and, where it takes one, `server_event_seq` (3.1)."""
        send.event["event_id"] = f"event_{self._ids.getrandbits(128):032x}"
        if send.sequenced:
            self._seq += 1
            send.event["server_event_seq"] = self._seq
        return send.event

    @property
    def last_seq(self) -> int:
        """The last `server_event_seq` given out; 0 before the first."""
        return self._seq

    # -- for the handlers

    def emit(self, event: Event, *, sequenced: bool = True) -> None:
        """An event goes out."""
        self._out.append(Send(event, sequenced))

    def emit_all(self, events: list[Event]) -> None:
        """Events go out in order."""
        self._out.extend([Send(event) for event in events])

    def note(self, output: Received | Violation) -> None:
        """Something for the journal."""
        self._out.append(output)

    def new_session_id(self) -> str:
        """An id for the session (0)."""
        return f"duplex-{self._ids.getrandbits(128):032x}"

    def new_item_id(self) -> str:
        """An id for a user item (3.2)."""
        return f"item_{self._ids.getrandbits(128):032x}"

    def submit(self, submission: Submission, now_s: float) -> None:
        """A unit goes to the model; without the native lane or in turn mode it never gets there."""
        if self.config is not None and self.config.decides:
            submission.epoch = self.epoch
            self.steps.submit(submission, now_s)

    def listen(self, reason: str, *, by_model: bool = True) -> None:
        """`response.listen` goes out."""
        self.emit(listen(self.id, self.epoch, reason, turn_id=self.turn_id, by_model=by_model))

    def finish_response(self, status: str, reason: str | None, *, heard_ms: int | None = None) -> None:
        """The open response gets its done group."""
        response = self.response
        assert response is not None
        details = None if reason is None else {"type": status, "reason": reason}
        self.emit_all(response.done(status, details, heard_ms=heard_ms))
        self.finished.add(response.id)
        self.response = None

    def cancel_response(self, reason: str) -> None:
        """The open response is cancelled: epoch + 1, truncated where the dialect says so, done group (9.1)."""
        response = self.response
        assert response is not None
        self.advance_epoch()
        heard_ms = self.ledger.of(response.id).played_ms
        if self.dialect.truncated_on_cancel:
            told = {"item_id": response.item_id, "content_index": 0, "audio_end_ms": heard_ms}
            inner = {
                "type": "conversation.item.truncated",
                "session_id": self.id,
                "epoch": self.epoch,
                **told,
            }
            self.emit({"type": "conversation.item.truncated", **told, "event": inner})
        self.finish_response("cancelled", reason, heard_ms=heard_ms)

    def advance_epoch(self) -> None:
        """Output of what was submitted before is never sent (3.2)."""
        self.epoch += 1
        self.script.cancel()
        self.steps.release()

    def close(self, reason: str, *, told_reason: str | None = None) -> None:
        """The session ends: an open response first, then `session.closed`, then the connection (10.1)."""
        self.steps.stop()
        if self.response is not None and self.dialect.cancels_on_close:
            self.cancel_response("session_close" if told_reason is None else reason)
        event: Event = {"type": "session.closed", "session_id": self.id}
        if self.dialect.closed_flat:
            told: Event = {**event, "reason": told_reason or "client_close"}
            self.emit({**told, "event": dict(told)})
        else:
            if told_reason is not None:
                event["reason"] = told_reason
            self.emit({"type": "session.closed", "event": event})
        self._end(reason)

    # -- inside

    def note_received(self, event: Event) -> None:
        """The journal's line for an event, without media."""
        self._out.append(Received(event["type"], told_received(event)))

    def _handle(self, event: Event, now_s: float) -> None:
        name = event["type"]
        if name in self.ignored:
            self._out.append(Received(name, {"ignored": True}))
            return
        handler: Callable[[ServerSession, Event, float], None] | None = INPUT_HANDLERS.get(
            name
        ) or OUTPUT_HANDLERS.get(name)
        if handler is None:
            self.note_received(event)
            raise Refusal("unknown_event", f"Unknown event: {name}", section="3.1")
        if name != "input_audio_buffer.append":  # tells its own line, with its media hashed
            self.note_received(event)
        handler(self, event, now_s)

    def refuse(self, refusal: Refusal, event: Event) -> None:
        """A client event is answered with an `error` (11); in the handshake some of them end the connection."""
        if not event:
            self._out.append(Received("(unreadable)", {"code": refusal.code}))
        in_handshake = self.state == "opening"
        self._out.append(Violation(refusal.section, refusal.code, refusal.message))
        event_id = event.get("event_id") if refusal.echoes else None
        error = error_event(
            refusal.code,
            refusal.message,
            param=refusal.param,
            event_id=event_id if isinstance(event_id, str) else None,
        )
        self.emit(error, sequenced=not in_handshake)
        handshake_ends = in_handshake and (
            refusal.fatal or refusal.code in ("invalid_json", "bad_event", "event_too_large")
        )
        if handshake_ends:
            self._end(refusal.code)

    def _ignore(self, text: str | bytes) -> None:
        try:
            event = decode(text)
        except (Refusal, UnicodeDecodeError):
            event = {"type": "(unreadable)"}
        if self.state == "closed":
            self._out.append(Received(event["type"], {"after_close": True}))
            self._out.append(Violation("10.1", "after-close", f"{event['type']} after session.close"))
        else:
            self._out.append(Received(event["type"], {"ignored": True}))

    def _end(self, reason: str, *, code: int | None = None) -> None:
        self.state = "closed"
        self.steps.stop()
        self._out.append(End(code or self.profile.close_code, reason))

    def _taken(self) -> list[Output]:
        taken, self._out = self._out, []
        return taken

    def _decide(self, index: int, submission: Submission) -> Decision:
        assert self.config is not None
        stale = submission.epoch != self.epoch
        forced = submission.forced_listen or self._units_in_turn < self.config.force_listen_count
        self._units_in_turn += 1
        decision = self.script.decide(index, forced_listen=forced or stale)
        data: Event = {"decision": decision.kind, "cause": submission.cause, "samples": submission.samples}
        if submission.frame is not None:
            data["frame"] = submission.frame
        if decision.kind == "speak":
            data |= {"reply": decision.reply, "ends": decision.ends}
        self._out.append(Unit(index, data))
        return decision

    def _silence_withheld(self) -> None:
        """While the clip streams, its next unit would have come first; after the commit nothing else would."""
        if self.input.commits and self.response is not None:
            self._out.append(Withheld(self.response.id))

    def _forward(self, unit: Decided) -> bool:
        """The events of a decision (6.4); true when the turn goes on."""
        decision = unit.decision
        if unit.submission.epoch != self.epoch:
            return False
        if decision.kind == "listen":
            if self.response is not None:
                return True
            self.listen("model_listen")
            return False
        if decision.starts and self.response is not None:
            self.finish_response("completed", None)
        if decision.text or decision.audio_ms:
            if self.response is None:
                self._open_response()
            assert self.response is not None
            self.emit_all(self.response.deltas(decision.text, decision.audio_ms, end_of_turn=decision.ends))
        if not decision.ends:
            return True
        if self.response is None:
            self.listen("model_turn_completed_without_output")
        else:
            reason = _STATUS_REASONS.get(decision.status, self.dialect.cancel_reason)
            self.finish_response(decision.status, reason)
        self.turn_id += 1
        self._units_in_turn = 0
        return False

    def _open_response(self) -> None:
        assert self.config is not None
        response_id = f"resp-{self.id}-{self.epoch}-{self._ids.getrandbits(32):08x}"
        self.ledger.open(response_id)
        self.last_response_id = response_id
        self.response = OpenResponse(
            response_id,
            self.id,
            self.epoch,
            self.turn_id,
            self.config.modalities,
            self.dialect,
            self.conversation,
            self.ledger,
        )
        self.emit_all(self.response.created())
