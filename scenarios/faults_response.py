"""Faults of replies: frozen, foreign, late, damaged (`mockserver/faults/`, layer response)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from scenarios.errors import Broken, impossible
from scenarios.faults_base import FaultBase, Layer


class FreezeTail(FaultBase):
    """The server makes no silence of its own: a reply that outlives the input freezes in mid-word."""

    name: ClassVar[str] = "freeze_tail"
    layer: ClassVar[Layer] = Layer.RESPONSE


class Status(FaultBase):
    """A reply ends with another status than completed."""

    name: ClassVar[str] = "status"
    layer: ClassVar[Layer] = Layer.RESPONSE
    status: Literal["failed", "cancelled", "incomplete"]
    """Of `response.done` and of the item."""
    reason: str | None = None
    """`status_details.reason`; None: the usual one of the status (protocol.md 7.9)."""
    nth: Annotated[int, Field(ge=1)] | None = 1
    """Which reply that ends after the trigger, or of the connection, counted from 1; None: every one."""


class LateDeltas(FaultBase):
    """Deltas of a reply come after its `response.done`; they are no part of the finished reply, and are not scored."""

    name: ClassVar[str] = "late_deltas"
    layer: ClassVar[Layer] = Layer.RESPONSE
    text: str = " And this came too late."
    """Text of each late transcript delta."""
    audio_ms: Annotated[int, Field(ge=0, le=1000)] = 100
    """Milliseconds of sound of each late audio delta; 0: none is sent."""
    count: Annotated[int, Field(ge=1, le=1000)] = 1
    """How many pairs."""
    nth: Annotated[int, Field(ge=1)] | None = 1
    """Which reply that ends after the trigger, or of the connection, counted from 1; None: every one."""


class ExtraReplyInPadding(FaultBase):
    """A reply that the clip did not cause begins in the silence after the commit."""

    name: ClassVar[str] = "extra_reply_in_padding"
    layer: ClassVar[Layer] = Layer.RESPONSE
    takes_trigger: ClassVar[bool] = False
    after_units: Annotated[int, Field(ge=1)] = 1
    """It begins on this padded unit of those that came in with no reply open, counted from 1."""
    text: str = "Nobody asked for this."
    """Its transcript."""
    units: Annotated[int, Field(ge=1, le=3600)] = 1
    """How many decided units it lasts."""
    audio_ms: Annotated[int, Field(ge=0, le=1000)] = 960
    """Milliseconds of sound a unit."""


class ListenPerPaddedUnit(FaultBase):
    """Each padded unit is told with a `response.listen`, also while a reply is open."""

    name: ClassVar[str] = "listen_per_padded_unit"
    layer: ClassVar[Layer] = Layer.RESPONSE


class WrongResponseId(FaultBase):
    """Events of a reply carry the id of another one."""

    name: ClassVar[str] = "wrong_response_id"
    layer: ClassVar[Layer] = Layer.RESPONSE
    event: Literal["audio.delta", "transcript.delta", "both_deltas", "response.done"] = "both_deltas"
    """Which events."""
    response_id: str = "resp-of-nobody"
    """The id they carry."""
    nth: Annotated[int, Field(ge=1)] | None = None
    """Which of them after the trigger, or of the connection, counted from 1; None: every one."""


class DamagedAudio(FaultBase):
    """An audio delta is damaged."""

    name: ClassVar[str] = "damaged_audio"
    layer: ClassVar[Layer] = Layer.RESPONSE
    kind: Literal["bad_base64", "bad_padding", "odd_bytes", "rate_change", "empty"] = "bad_base64"
    """Characters outside the alphabet; a wrong length; an odd number of bytes; another rate from here on; no
    sound at all."""
    rate_hz: Annotated[int, Field(ge=1)] = 16_000
    """The new rate, with `rate_change`; the bytes stay those of 24000 Hz."""
    nth: Annotated[int, Field(ge=1)] | None = 1
    """Which audio delta after the trigger, or of the connection, counted from 1; None: every one."""

    @model_validator(mode="after")
    def _rate_belongs_to_its_kind(self) -> Self:
        if "rate_hz" in self.model_fields_set and self.kind != "rate_change":
            raise impossible(
                [Broken(("rate_hz",), f"given with kind {self.kind}", "only with kind: rate_change")]
            )
        return self


class SplitText(FaultBase):
    """A character that people see as one is cut in two by the border between two transcript deltas.

    The reply's text must hold such a character: the first delta with one is cut.
    """

    name: ClassVar[str] = "split_text"
    layer: ClassVar[Layer] = Layer.RESPONSE
    where: Literal["surrogate_pair", "grapheme"] = "surrogate_pair"
    """Inside the two halves that JSON escapes of one code point above U+FFFF make, or between the code points of
    one grapheme (accents, skin tones, joined emoji, flags)."""
    nth: Annotated[int, Field(ge=1)] | None = 1
    """Which delta with such a character, counted from 1; None: every one."""


RESPONSE_FAULTS: tuple[type[FaultBase], ...] = (
    FreezeTail,
    Status,
    LateDeltas,
    ExtraReplyInPadding,
    ListenPerPaddedUnit,
    WrongResponseId,
    DamagedAudio,
    SplitText,
)
