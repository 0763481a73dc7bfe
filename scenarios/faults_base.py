"""What all faults share: the layer they act in, their triggers and their scope."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar, Self

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
            raise impossible([Broken(("received",), *unknown_event(self.received, CLIENT_EVENTS))])
        if self.sent is not None and self.sent not in SERVER_EVENTS:
            raise impossible([Broken(("sent",), *unknown_event(self.sent, SERVER_EVENTS))])
        return self


def unknown_event(name: str, events: frozenset[str]) -> tuple[str, str]:
    """What is wrong with the name of an event, and what is allowed."""
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
