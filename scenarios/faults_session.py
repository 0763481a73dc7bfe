"""Faults of the session: events that are late, missing, doubled, foreign (`mockserver/faults/`, layer session)."""

from __future__ import annotations

import json
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from scenarios.errors import Broken, impossible
from scenarios.faults_base import FaultBase, Layer, unknown_event
from scenarios.names import DIALECT_SPELLINGS, SERVER_EVENTS


def known_server_event(event: str) -> None:
    """Refuse what is no event a server sends, by logical name."""
    if event not in SERVER_EVENTS:
        raise impossible([Broken(("event",), *unknown_event(event, SERVER_EVENTS))])


MAX_DEPTH = 100
"""Of JSON that a fault sends: whoever writes it gives up at some 250 levels."""
MAX_SENT_BYTES = 64 * 1024 * 1024
"""Of one fault's frames in all."""


def _can_be_sent(key: str, value: Any, times: int) -> None:
    """Refuse what would cost the server its memory, or its writer of JSON."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise impossible(
                [Broken((key,), f"nested deeper than {MAX_DEPTH} levels", f"at most {MAX_DEPTH} levels")]
            )
        inner = [v.values() if isinstance(v, dict) else v for v in level if isinstance(v, dict | list)]
        level = [item for items in inner for item in items]
    size_bytes = len(json.dumps(value, default=str)) * times
    if size_bytes > MAX_SENT_BYTES:
        found = f"{times} frames of {size_bytes // times} bytes"
        raise impossible([Broken((key,), found, f"at most {MAX_SENT_BYTES} bytes in all")])


class LateSessionCreated(FaultBase):
    """`session.created` comes late."""

    name: ClassVar[str] = "late_session_created"
    layer: ClassVar[Layer] = Layer.SESSION
    takes_trigger: ClassVar[bool] = False
    delay_s: Annotated[float, Field(gt=0)]
    """Seconds between reading `session.update` and sending `session.created`."""


class IgnoreClose(FaultBase):
    """`session.close` is dropped: the session goes on as if it had not come, and goes on talking."""

    name: ClassVar[str] = "ignore_close"
    layer: ClassVar[Layer] = Layer.SESSION


class IgnoreCancel(FaultBase):
    """Cancellations of a reply are dropped: the server goes on talking."""

    name: ClassVar[str] = "ignore_cancel"
    layer: ClassVar[Layer] = Layer.SESSION


class SessionExpired(FaultBase):
    """The session expires: `session.expired` and a close frame 1000; without a trigger after `session.updated`."""

    name: ClassVar[str] = "session_expired"
    layer: ClassVar[Layer] = Layer.SESSION
    reason: str = "idle_ttl_expired"
    """The event's reason (protocol.md 10.2)."""


class SessionReplaced(FaultBase):
    """Another socket resumes the session: `session.replaced` and a close frame 1000; without a trigger after
    `session.updated`."""

    name: ClassVar[str] = "session_replaced"
    layer: ClassVar[Layer] = Layer.SESSION


class JournalOverflow(FaultBase):
    """The replay journal overflows: `session.resync_required`, and no event has a sequence number from there on;
    without a trigger after `session.updated`."""

    name: ClassVar[str] = "journal_overflow"
    layer: ClassVar[Layer] = Layer.SESSION


class OneEvent(FaultBase):
    """A fault of one event of the server, told by its name and its number."""

    layer: ClassVar[Layer] = Layer.SESSION
    event: str
    """A server event, by logical name."""
    nth: Annotated[int, Field(ge=1)] | None = 1
    """Which one after the trigger, or of the connection, counted from 1; None: every one."""

    @model_validator(mode="after")
    def _known_event(self) -> Self:
        known_server_event(self.event)
        return self


class DuplicateEvent(OneEvent):
    """An event is sent again, with its `event_id` and sequence number."""

    name: ClassVar[str] = "duplicate_event"
    times: Annotated[int, Field(ge=2, le=1000)] = 2
    """How often it is sent in all."""


class Reorder(OneEvent):
    """An event is overtaken by those that follow it; it keeps its sequence number."""

    name: ClassVar[str] = "reorder"
    by: Annotated[int, Field(ge=1)] = 1
    """How many events overtake it."""


class DropEvent(OneEvent):
    """An event is lost; its sequence number is missing."""

    name: ClassVar[str] = "drop_event"


class GarbageEvent(FaultBase):
    """A text frame that is no event of the protocol; without a trigger right after `session.updated`.

    In its strings `$session_id`, `$response_id` and `$item_id` stand for those of the last reply.
    """

    name: ClassVar[str] = "garbage_event"
    layer: ClassVar[Layer] = Layer.SESSION
    text: str | None = None
    """The frame's text, whatever it is; exactly one of `text` and `event` is given."""
    event: Any = None
    """A JSON value sent as it is: no object, or one with wrong types. (For null use the text `null`.)"""
    times: Annotated[int, Field(ge=1, le=10_000)] = 1
    """How many such frames."""

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.text is None) == (self.event is None):
            found = "neither `text` nor `event`" if self.text is None else "both `text` and `event`"
            raise impossible([Broken((), found, "give exactly one of text, event")])
        _can_be_sent("text" if self.event is None else "event", self.text or self.event, self.times)
        return self


class UnknownEvent(FaultBase):
    """An event of a type that protocol.md does not know; without a trigger right after `session.updated`."""

    name: ClassVar[str] = "unknown_event"
    layer: ClassVar[Layer] = Layer.SESSION
    type: str = "response.thought.delta"
    """The event's type."""
    fields: Annotated[dict[str, Any], Field(default_factory=dict)]
    """Further fields; in their strings `$session_id`, `$response_id`, `$item_id` stand for those of the last reply."""
    times: Annotated[int, Field(ge=1, le=10_000)] = 1
    """How many such events."""

    @model_validator(mode="after")
    def _is_unknown(self) -> Self:
        if self.type in SERVER_EVENTS or self.type in DIALECT_SPELLINGS:
            raise impossible(
                [Broken(("type",), f"{self.type!r} is an event of the protocol", "use garbage_event")]
            )
        _can_be_sent("fields", self.fields, self.times)
        return self


SESSION_FAULTS: tuple[type[FaultBase], ...] = (
    LateSessionCreated,
    IgnoreClose,
    IgnoreCancel,
    SessionExpired,
    SessionReplaced,
    JournalOverflow,
    DuplicateEvent,
    Reorder,
    DropEvent,
    GarbageEvent,
    UnknownEvent,
)
