"""Every fault the testbed can script: its name, layer, parameters and units.

This module is the schema's only source: `mockserver/faults/` (what a fault does on the wire) and
`conformance/seams/` (faults that act on the client) each hold one file for a name listed here, and a test
keeps the three in step.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from scenarios.errors import Broken, impossible, known
from scenarios.names import CLIENT_EVENTS, DIALECT_SPELLINGS, SERVER_EVENTS

LOGICAL_EVENTS: frozenset[str] = frozenset(
    {
        "audio.delta",
        "audio.done",
        "transcript.delta",
        "transcript.done",
    }
)
"""Event names that stand for both dialects' spellings (protocol.md 0)."""


class Layer(StrEnum):
    """Where a fault acts."""

    TRANSPORT = "transport"
    SESSION = "session"
    RESPONSE = "response"
    JUDGE = "judge"
    SEAM = "client seam"


class On(BaseModel):
    """An event on the wire, seen from the server; exactly one of `received` and `sent` is set."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    received: str | None = None
    """A client event, by wire or logical name."""
    sent: str | None = None
    """A server event, by wire or logical name."""
    nth: Annotated[int, Field(ge=1)] = 1
    """Which occurrence on this connection, counted from 1."""

    @model_validator(mode="after")
    def _one_known_event(self) -> Self:
        if (self.received is None) == (self.sent is None):
            which = "neither `received` nor `sent`" if self.received is None else "both `received` and `sent`"
            raise impossible([Broken((), which, "give exactly one of received, sent")])
        if self.received is not None and self.received not in CLIENT_EVENTS:
            raise impossible([Broken(("received",), *_unknown_event(self.received, CLIENT_EVENTS))])
        if self.sent is not None and self.sent not in SERVER_EVENTS:
            raise impossible([Broken(("sent",), *_unknown_event(self.sent, SERVER_EVENTS))])
        return self


def _unknown_event(name: str, events: frozenset[str]) -> tuple[str, str]:
    if name in DIALECT_SPELLINGS and DIALECT_SPELLINGS[name] in events:
        return f"{name!r} is one dialect's spelling", f"use the logical name {DIALECT_SPELLINGS[name]!r}"
    other = SERVER_EVENTS if events is CLIENT_EVENTS else CLIENT_EVENTS
    if name in other:
        side = "sent" if events is CLIENT_EVENTS else "received"
        return f"{name!r} goes the other way", f"it is an event the server has {side}; use `{side}`"
    return f"unknown event {name!r}", known(name, events)


class FaultBase(BaseModel):
    """What every fault has: when it triggers, for how long, and on which connection it is armed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: ClassVar[str]
    layer: ClassVar[Layer]
    takes_trigger: ClassVar[bool] = True
    """Whether `on` or `at_s` may be given; a fault that has only its own moment takes none."""
    on: On | None = None
    """Trigger: this event. Without `on` and `at_s` the fault acts whenever its own moment comes."""
    at_s: Annotated[float, Field(ge=0)] | None = None
    """Trigger: seconds after the connection was accepted."""
    for_s: Annotated[float, Field(gt=0)] | None = None
    """Seconds until the fault ends; None: until the end of the scenario."""
    attempt: Annotated[int, Field(ge=1)] | None = None
    """Only on this attempt of its sample, counted from 1."""
    sample: str | None = None
    """Only for the sample with this id."""
    connection: Annotated[int, Field(ge=1)] | None = None
    """Only on this connection of the server, counted from 1 in order of acceptance."""

    @model_validator(mode="after")
    def _one_trigger(self) -> Self:
        if self.on is not None and self.at_s is not None:
            raise impossible([Broken(("at_s",), "both `on` and `at_s`", "a fault has one trigger")])
        return self


class StopReading(FaultBase):
    """The peer stops reading its socket and keeps writing to it; without a trigger from the upgrade on."""

    name: ClassVar[str] = "stop_reading"
    layer: ClassVar[Layer] = Layer.TRANSPORT
    buffer_bytes: Annotated[int, Field(ge=1024)] | None = 4096
    """SO_RCVBUF here and SO_SNDBUF at the client; None: the system's, which hold megabytes."""
    proof: Literal["write_blocked", "unread"] = "write_blocked"
    """What counts as having bitten: a write of the client pending, or bytes left unread, for over 1 s."""


class ResetPeer(FaultBase):
    """The peer resets the TCP connection (RST); without a trigger right after the upgrade."""

    name: ClassVar[str] = "reset_peer"
    layer: ClassVar[Layer] = Layer.TRANSPORT


class NoSessionCreated(FaultBase):
    """The opening `session.update` is read and never answered."""

    name: ClassVar[str] = "no_session_created"
    layer: ClassVar[Layer] = Layer.SESSION
    takes_trigger: ClassVar[bool] = False


class LateSessionClosed(FaultBase):
    """`session.closed` comes late."""

    name: ClassVar[str] = "late_session_closed"
    layer: ClassVar[Layer] = Layer.SESSION
    takes_trigger: ClassVar[bool] = False
    delay_s: Annotated[float, Field(gt=0)]
    """Seconds between reading `session.close` and sending `session.closed`."""


class NoSessionClosed(FaultBase):
    """`session.close` is read and never answered; the socket stays open and pings are answered."""

    name: ClassVar[str] = "no_session_closed"
    layer: ClassVar[Layer] = Layer.SESSION
    takes_trigger: ClassVar[bool] = False


class ErrorEvent(FaultBase):
    """The server sends an `error` event; the session goes on. Without a trigger right after `session.updated`."""

    name: ClassVar[str] = "error_event"
    layer: ClassVar[Layer] = Layer.SESSION
    code: str | None = "runtime_append_failed"
    """The error's code (protocol.md 11.2); None sends null."""
    message: str = "scripted error"
    """The error's text; expectations can look for it."""
    shape: Literal["nested", "flat"] = "nested"
    """The form of protocol.md 11.1."""


class NeverDone(FaultBase):
    """A reply's done group, `response.done` included, is never sent; with a trigger of replies that end after it."""

    name: ClassVar[str] = "never_done"
    layer: ClassVar[Layer] = Layer.RESPONSE


class SwallowCancellation(FaultBase):
    """A write of the client suppresses its first cancellations and blocks again.

    It ends when the connection is lost or the runner releases the seam.
    """

    name: ClassVar[str] = "swallow_cancellation"
    layer: ClassVar[Layer] = Layer.SEAM
    takes_trigger: ClassVar[bool] = False
    write: str = "playback.ack"
    """The client event whose write is stubborn."""
    nth: Annotated[int, Field(ge=1)] = 1
    """Which write of that event on a connection, counted from 1 (later ones are stubborn as well)."""
    cancellations: Annotated[int, Field(ge=1)] = 1
    """How many cancellations are suppressed."""

    @model_validator(mode="after")
    def _known_write(self) -> Self:
        if self.write not in CLIENT_EVENTS:
            raise impossible([Broken(("write",), *_unknown_event(self.write, CLIENT_EVENTS))])
        return self


class NoTransport(FaultBase):
    """The client's socket hides its transport, as after a library upgrade that moved the attribute."""

    name: ClassVar[str] = "no_transport"
    layer: ClassVar[Layer] = Layer.SEAM
    takes_trigger: ClassVar[bool] = False


FAULTS: dict[str, type[FaultBase]] = {
    fault.name: fault
    for fault in (
        StopReading,
        ResetPeer,
        NoSessionCreated,
        LateSessionClosed,
        NoSessionClosed,
        ErrorEvent,
        NeverDone,
        SwallowCancellation,
        NoTransport,
    )
}
"""All faults by the name a scenario uses."""
