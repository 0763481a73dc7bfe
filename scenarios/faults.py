"""Every fault the testbed can script: its name, layer, parameters and units.

This module, with `faults_*.py` beside it, is the schema's only source: `mockserver/faults/` (what a fault does
on the wire) and `conformance/seams/` (faults that act on the client) each hold one file for a name listed here,
and a test keeps the three in step.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from scenarios.errors import Broken, impossible
from scenarios.faults_base import LOGICAL_EVENTS, FaultBase, Layer, On, unknown_event
from scenarios.faults_judge import JUDGE_FAULTS
from scenarios.faults_response import RESPONSE_FAULTS
from scenarios.faults_seam import FailingWrite, FullDisk, KillClient, NoSocket, SlowDisk, SlowWrite
from scenarios.faults_session import SESSION_FAULTS
from scenarios.faults_transport import TRANSPORT_FAULTS, Buffered
from scenarios.names import CLIENT_EVENTS

__all__ = ["FAULTS", "LOGICAL_EVENTS", "FaultBase", "Layer", "On"]


class StopReading(Buffered):
    """The peer stops reading its socket and keeps writing to it; without a trigger from the upgrade on."""

    name: ClassVar[str] = "stop_reading"
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
            raise impossible([Broken(("write",), *unknown_event(self.write, CLIENT_EVENTS))])
        return self


class NoTransport(FaultBase):
    """The client's socket hides its transport, as after a library upgrade that moved the attribute."""

    name: ClassVar[str] = "no_transport"
    layer: ClassVar[Layer] = Layer.SEAM
    takes_trigger: ClassVar[bool] = False


_ALL: tuple[type[FaultBase], ...] = (
    StopReading,
    ResetPeer,
    NoSessionCreated,
    LateSessionClosed,
    NoSessionClosed,
    ErrorEvent,
    NeverDone,
    SwallowCancellation,
    NoTransport,
    FailingWrite,
    SlowWrite,
    NoSocket,
    *TRANSPORT_FAULTS,
    *SESSION_FAULTS,
    *RESPONSE_FAULTS,
    SlowDisk,
    FullDisk,
    KillClient,
    *JUDGE_FAULTS,
)
FAULTS: dict[str, type[FaultBase]] = {fault.name: fault for fault in _ALL}
"""All faults by the name a scenario uses."""
