"""One session of the server without I/O: client events and time go in, what the server does comes out.

Sections in comments are of protocol.md.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal

from mockserver import directing, endings, opening, turns
from mockserver.admission import Slots
from mockserver.capabilities import Config
from mockserver.conversation import Conversation
from mockserver.faults.actions import Script
from mockserver.inbound import INPUT_HANDLERS, Handler, InputState, append, chunk
from mockserver.input_buffer import Submission
from mockserver.input_clock import CLOCKED, InputClock
from mockserver.lifetime import LEASE_EVENTS, Lifetime
from mockserver.lifting import lift
from mockserver.outbound import OUTPUT_HANDLERS
from mockserver.pace import UnitTimes
from mockserver.playback import Ledger
from mockserver.profiles import Profile
from mockserver.refusing import refuse
from mockserver.repeated_acks import ACK, RepeatedAcks, state_of
from mockserver.replies import ReplyScript, ReplySpec
from mockserver.responses import OpenResponse
from mockserver.steploop import Decided, StepLoop, silence
from mockserver.strict import StrictReader
from mockserver.telling import MAX_KEPT_BYTES, told, told_received, told_text
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
    told_value,
)

UNKNOWN = "(unknown)"
HANDLERS: Mapping[str, Handler] = {**INPUT_HANDLERS, **OUTPUT_HANDLERS}


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
        decision_s: model time a unit takes, unless the profile's pace has a real-time factor.
        chance: of the pace's jitter.
        slots: of the server; a session of its own where None.
    """

    told = staticmethod(told)
    """The journal's line for an event that goes out."""

    def __init__(
        self,
        profile: Profile,
        replies: Sequence[ReplySpec],
        *,
        query: Mapping[str, str],
        ids: random.Random,
        decision_s: float,
        slots: Slots | None = None,
        chance: random.Random | None = None,
    ) -> None:
        self.profile = profile
        self.dialect = profile.dialect
        self.query = query
        self.state: Literal["opening", "open", "deaf", "closed"] = "opening"
        self.opened_by_default = False
        self.left = False
        """The client has sent `session.close`; what it sends after the server's own end has crossed that on its way."""
        self.id = ""
        self.epoch = 0
        self.turn_id = 0
        self.config: Config | None = None
        self.response: OpenResponse | None = None
        self.last_response_id: str | None = None
        self.finished: dict[str, int] = {}
        """Finished responses, with how many inputs with speech had been committed when each was."""
        self.ledger = Ledger()
        self.conversation = Conversation()
        self.input = InputState()
        self.strict = StrictReader(self.dialect)
        self.acks = RepeatedAcks()
        self.script = ReplyScript(replies)
        self.steps = StepLoop(
            times=UnitTimes(profile.pace, decision_s, chance),
            continuation=profile.continuation,
            decide=partial(turns.decide, self),
            forward=self._forward,
            input_waits=lambda: self.input.buffer.samples > 0,
            new_silence=lambda: silence(self.epoch),
            withheld=lambda: turns.silence_withheld(self),
        )
        self.clock: InputClock | None = None
        """Only where the client asked for it and the dialect has it (6.7)."""
        self.slots = slots if slots is not None else Slots()
        self.now_s = 0.0
        """Loop time of what is being handled."""
        self.units_in_turn = 0
        self.padding_listened = False
        """A padded unit was told with a listen since the last commit or reply."""
        self.retimed = True
        """The time at which the session ends by itself may have come nearer; otherwise it only moves away."""
        self.numbered = True
        """Events take sequence numbers; not behind an overflow of the replay journal."""
        self.ignored: frozenset[str] = frozenset()
        """Client events that a fault has the session drop."""
        self.ignoring = directing.Ignoring()
        self.silences = 0
        """Faults that have switched the server's silence off."""
        self._ids = ids
        self._out: list[Output] = []
        self._seq = 0
        self._lifetime = Lifetime(profile)
        self._ends_s = 0.0
        """When it would have ended by itself, when that was asked last; it only moves away."""

    # -- what goes in

    def start(self, now_s: float) -> list[Output]:
        """The connection was accepted: a default session may open before anything is read (1.1)."""
        self.now_s = now_s
        self._lifetime.accepted(now_s)
        opening.accept(self)
        return self._taken()

    def receive(self, text: str | bytes, now_s: float) -> list[Output]:
        """A text frame was read."""
        if self.state in ("deaf", "closed"):
            self._ignore(text)
            return self._taken()
        self._lifetime.frame_s = self.now_s = now_s
        if self.steps.due_s <= now_s:
            self._step(now_s, before_input=True)
        event: Event = {}
        try:
            small = text if len(text) <= MAX_KEPT_BYTES else None
            if small is None and self.state == "open" and isinstance(text, bytes):
                event = lift(text) or decode(text)
            else:
                event = decode(text)
            if self.state == "opening" and not opening.open_by(self, event):
                return self._taken()
            self._handle(event, now_s, small)
        except Refusal as refusal:
            refuse(self, refusal, event)
        except UnicodeDecodeError as error:
            self._out.append(Violation("1.3", "invalid-utf8", str(error)))
            self.end("invalid_utf8", code=1007)
        if self.steps.due_s <= now_s:
            self._step(now_s)
        taken, self._out = self._out, []
        return taken

    def answer_again(self, text: bytes, now_s: float) -> bytes | None:
        """The event, as written, that answers an ack which was read before and would be answered in the same way;
        None: nothing has happened, `receive` it."""
        head = self.acks.answers.get(text)
        if (
            head is None
            or self.acks.state != state_of(self)
            or self.state != "open"
            or self.steps.due_s <= now_s
            or self.ignored
            or not self.numbered
        ):
            return None
        self._lifetime.frame_s = self._lifetime.lease_s = self.now_s = now_s
        self._seq += 1
        return b'%b%032x","server_event_seq":%d}' % (head, self._ids.getrandbits(128), self._seq)

    def receive_binary(self, length_bytes: int, now_s: float) -> list[Output]:
        """A binary frame was read: the end as the first frame, deafness later (1.3)."""
        self._lifetime.frame_s = now_s
        self._out.append(Received("(binary)", {"bytes": length_bytes}))
        self._out.append(Violation("1.3", "binary-frame", f"{length_bytes} bytes"))
        if self.state == "opening":
            self.emit(error_event("internal_error", "binary frame"), sequenced=False)
            self.end("internal_error")
        elif self.state == "open":
            self.state = "deaf"
        return self._taken()

    def lost(self, now_s: float) -> list[Output]:
        """The connection is over, whoever ended it; a session that was still open keeps its slot for the grace."""
        if self.state != "closed":
            self.state = "closed"
            self.steps.stop()
            self.slots.lost(self, now_s)
        return self._taken()

    def shut_down(self, now_s: float) -> list[Output]:
        """The server shuts down (10.2)."""
        self.now_s = now_s
        endings.with_the_server(self)
        return self._taken()

    def next_timer_s(self) -> float | None:
        """When `on_timer` must be called next; None: not before something was read."""
        if self.state == "closed":
            return None
        if self.state == "opening":
            return self._lifetime.opening_ends_s
        due_s = self.steps.due_s
        if -math.inf < due_s <= self._ends_s and not self.retimed and self.state == "open":
            return due_s  # the end only moves away
        self.retimed = False
        step_s = self.steps.next_s()
        if self.state == "deaf" or self.config is None:
            return step_s
        self._ends_s = ends_s = self._lifetime.ends_s(self.config.idle_timeout_s)
        return ends_s if step_s is None else min(ends_s, step_s)

    def nothing_before(self, at_s: float) -> bool:
        """Cheaper than `next_timer_s`: surely nothing is due before a time for which a timer was set."""
        return at_s <= self.steps.due_s and not self.retimed and self.state == "open"

    def on_timer(self, now_s: float) -> list[Output]:
        """Time has come for whatever `next_timer_s` named; nothing happens when it is early."""
        if self.state == "opening":
            if now_s >= self._lifetime.opening_ends_s:
                self.emit(error_event("config_timeout", "no opening frame within 10 s"), sequenced=False)
                self.end("config_timeout")
        elif self.state != "closed":
            self._step(now_s)
            if now_s >= self._ends_s and self.state == "open" and self.config:
                endings.by_the_clock(self, self._lifetime.over(now_s, self.config.idle_timeout_s))
        return self._taken()

    def stamp(self, send: Send) -> Event:
        """The event with its own `event_id` and, where it takes one, `server_event_seq` (3.1)."""
        send.event["event_id"] = f"event_{self._ids.getrandbits(128):032x}"
        if send.sequenced and self.numbered:
            self._seq += 1
            send.event["server_event_seq"] = self._seq
        return send.event

    @property
    def last_seq(self) -> int:
        """The last `server_event_seq` given out; 0 before the first."""
        return self._seq

    def direct(self, action: Script) -> None:
        """A fault tells the session what to do."""
        directing.direct(self, action)

    # -- for the handlers

    def emit(self, event: Event, *, sequenced: bool = True) -> None:
        """An event goes out."""
        self._out.append(Send(event, sequenced))

    def emit_all(self, events: list[Event]) -> None:
        """Events go out in order."""
        self._out.extend([Send(event) for event in events])

    def note(self, output: Received | Violation | Unit | Withheld) -> None:
        """Something for the journal."""
        self._out.append(output)

    def new_session_id(self) -> str:
        """An id for the session (0)."""
        return f"duplex-{self._ids.getrandbits(128):032x}"

    def new_item_id(self) -> str:
        """An id for a user item (3.2)."""
        return f"item_{self._ids.getrandbits(128):032x}"

    def new_response_id(self) -> str:
        """An id for a response (3.2)."""
        return f"resp-{self.id}-{self.epoch}-{self._ids.getrandbits(32):08x}"

    def submit(self, submission: Submission, now_s: float) -> None:
        """A unit goes to the model; without the native lane or in turn mode it never gets there."""
        if self.config is not None and self.config.decides:
            submission.epoch = self.epoch
            submission.padded = submission.cause == "append" and self.input.padded
            if self.clock is not None:
                self.clock.submitted(submission)
            self.steps.submit(submission, now_s)

    def end(self, reason: str, *, code: int | None = None) -> None:
        """The connection ends behind what was sent, and with it the session."""
        self.expire()
        self._out.append(End(code or self.profile.close_code, reason, told=self.profile.close_tells_reason))

    def expire(self) -> None:
        """The engine has let go of the session, whatever becomes of the connection."""
        self._stop()
        self.slots.free(self)

    def drop(self, reason: str) -> None:
        """The socket ends without an event, as if it had been lost: the slot is kept for the grace."""
        self._stop()
        self.slots.lost(self, self.now_s)
        self._out.append(End(None, reason))

    # -- inside

    def note_received(self, event: Event) -> None:
        """The journal's line for an event, without media. Names that the protocol does not know are kept by none."""
        name, data = _known(event["type"]), told_received(event)
        if name == UNKNOWN:
            data = {"type": told_value(event["type"]), **data}
        self._out.append(Received(name, data))

    def _handle(self, event: Event, now_s: float, small: str | bytes | None) -> None:
        name = event["type"]
        if name in self.ignored:
            self._out.append(Received(name, {"ignored": True}))
            return
        handler = HANDLERS.get(name)
        if handler is None:
            self.note_received(event)
            raise Refusal("unknown_event", f"Unknown event: {told_value(name)}", section="3.1")
        if name in LEASE_EVENTS:
            self._lifetime.lease_s = now_s
        if handler is not append and handler is not chunk:  # they tell their line themselves, media hashed
            if small is not None:
                self._out.append(Received(name, small, told_text))
            else:
                self.note_received(event)
        if name == ACK and isinstance(small, bytes):
            before = state_of(self)
            handler(self, event, now_s)
            self.acks.learn(self, small, before, self._out)
            return
        if self.clock is None or name not in CLOCKED:
            handler(self, event, now_s)
            return
        self.clock.began(name)
        try:
            handler(self, event, now_s)
        except Refusal as refusal:
            refuse(self, refusal, event)
            self.clock.refused(refusal.code)
        self.emit_all(self.clock.handled(self.input.received_samples))

    def _ignore(self, text: str | bytes) -> None:
        try:
            event = decode(text)
        except (Refusal, UnicodeDecodeError):
            event = {"type": "(unreadable)"}
        if self.state == "closed":
            self._out.append(Received(_known(event["type"]), {"after_close": True}))
            if self.left:
                detail = f"{told_value(event['type'])} after session.close"
                self._out.append(Violation("10.1", "after-close", detail))
        else:
            self._out.append(Received(_known(event["type"]), {"ignored": True}))

    def _stop(self) -> None:
        self.state = "closed"
        self.steps.stop()

    def _taken(self) -> list[Output]:
        taken, self._out = self._out, []
        return taken

    def _step(self, now_s: float, *, before_input: bool = False) -> None:
        self.now_s = now_s
        decided = self.steps.decided
        self.steps.advance(now_s, before_input=before_input)
        if self.steps.decided != decided:
            self._lifetime.lease_s = now_s

    def _forward(self, unit: Decided) -> bool:
        goes_on = turns.forward(self, unit)
        if self.clock is not None:
            stale = unit.submission.epoch != self.epoch
            self.emit_all(self.clock.settled(unit.submission, "cancelled" if stale else unit.decision.kind))
        return goes_on


def _known(name: str) -> str:
    """An event's name, for counting: a client may make up as many as it likes."""
    return name if name in HANDLERS or name in ("session.resume", "(unreadable)") else UNKNOWN
