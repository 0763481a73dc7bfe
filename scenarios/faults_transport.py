"""Faults of the connection: its bytes, frames and ends (`mockserver/faults/`, layer transport).

Names are Toxiproxy's where the meaning is the same; units stand at the end of a parameter's name.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from scenarios.errors import Broken, impossible
from scenarios.faults_base import FaultBase, Layer

CLIENT_LIMIT_BYTES = 64 * 1024 * 1024
"""The largest frame a client takes (protocol.md 1.3)."""


class Buffered(FaultBase):
    """A fault of reading: it bites only where the kernel's buffers are small."""

    layer: ClassVar[Layer] = Layer.TRANSPORT
    buffer_bytes: Annotated[int, Field(ge=1024, le=2**30)] | None = 4096
    """SO_RCVBUF here and SO_SNDBUF at the client; None: the system's, which hold megabytes."""


class ResumeReading(FaultBase):
    """The peer reads its socket again: ends `stop_reading` and `slow_reading` at an event or a time."""

    name: ClassVar[str] = "resume_reading"
    layer: ClassVar[Layer] = Layer.TRANSPORT

    @model_validator(mode="after")
    def _has_a_trigger(self) -> Self:
        if self.on is None and self.at_s is None:
            raise impossible([Broken((), "no trigger", "give `on` or `at_s`: when reading goes on")])
        return self


class SlowReading(Buffered):
    """The peer reads its socket slowly; without a trigger from the upgrade on."""

    name: ClassVar[str] = "slow_reading"
    buffer_bytes: Annotated[int, Field(ge=1024, le=2**30)] | None = 65_536
    """As for `stop_reading`, and larger: a buffer of one read fills again when the kernel pleases, in its own time."""
    bytes_per_s: Annotated[int, Field(ge=64)]
    """Bytes taken from the socket a second, on average."""


class Latency(FaultBase):
    """What the server writes arrives late; order and content stay. Without a trigger from the upgrade on."""

    name: ClassVar[str] = "latency"
    layer: ClassVar[Layer] = Layer.TRANSPORT
    latency_s: Annotated[float, Field(gt=0)]
    """Seconds each write is held back."""
    jitter_s: Annotated[float, Field(ge=0)] = 0.0
    """Seconds more or less, evenly spread, from the seed; not more than `latency_s`."""

    @model_validator(mode="after")
    def _never_early(self) -> Self:
        if self.jitter_s > self.latency_s:
            raise impossible(
                [Broken(("jitter_s",), f"{self.jitter_s:g}", f"at most latency_s, {self.latency_s:g}")]
            )
        return self


class Bandwidth(FaultBase):
    """The way to the client is narrow; without a trigger from the upgrade on."""

    name: ClassVar[str] = "bandwidth"
    layer: ClassVar[Layer] = Layer.TRANSPORT
    bytes_per_s: Annotated[int, Field(ge=64)]
    """Bytes that pass a second."""


class Slicer(FaultBase):
    """What the server writes arrives in small pieces, cut anywhere; without a trigger from the upgrade on."""

    name: ClassVar[str] = "slicer"
    layer: ClassVar[Layer] = Layer.TRANSPORT
    average_size_bytes: Annotated[int, Field(ge=1)] = 64
    """Average size of a piece."""
    size_variation_bytes: Annotated[int, Field(ge=0)] = 0
    """Bytes more or less, evenly spread, from the seed; less than `average_size_bytes`."""
    delay_s: Annotated[float, Field(gt=0)] = 0.001
    """Seconds between two pieces."""

    @model_validator(mode="after")
    def _never_empty(self) -> Self:
        if self.size_variation_bytes >= self.average_size_bytes:
            allowed = f"less than average_size_bytes, {self.average_size_bytes}"
            raise impossible([Broken(("size_variation_bytes",), f"{self.size_variation_bytes}", allowed)])
        return self


class LimitData(FaultBase):
    """The connection ends once so many bytes have passed, in the middle of a frame or not."""

    name: ClassVar[str] = "limit_data"
    layer: ClassVar[Layer] = Layer.TRANSPORT
    limit_bytes: Annotated[int, Field(ge=0)]
    """Bytes to the client, counted from the trigger, or from the upgrade without one."""


class HalfClose(FaultBase):
    """The server ends its direction (FIN) and goes on reading; without a trigger right after the upgrade."""

    name: ClassVar[str] = "half_close"
    layer: ClassVar[Layer] = Layer.TRANSPORT


class SlowClose(FaultBase):
    """The TCP connection ends late, whoever ends the WebSocket."""

    name: ClassVar[str] = "slow_close"
    layer: ClassVar[Layer] = Layer.TRANSPORT
    takes_trigger: ClassVar[bool] = False
    delay_s: Annotated[float, Field(gt=0)]
    """Seconds between the last frame and the end of the TCP connection."""


class NoCloseReply(FaultBase):
    """The client's close frame is not answered, and the TCP connection stays open."""

    name: ClassVar[str] = "no_close_reply"
    layer: ClassVar[Layer] = Layer.TRANSPORT


class NoPong(FaultBase):
    """Pings are read and not answered; everything else goes on. Without a trigger from the upgrade on."""

    name: ClassVar[str] = "no_pong"
    layer: ClassVar[Layer] = Layer.TRANSPORT


class RefuseUpgrade(FaultBase):
    """The upgrade is answered with an HTTP status."""

    name: ClassVar[str] = "refuse_upgrade"
    layer: ClassVar[Layer] = Layer.TRANSPORT
    takes_trigger: ClassVar[bool] = False
    status: Annotated[int, Field(ge=400, le=599)] = 503
    """HTTP status."""
    body: str = "scripted refusal"
    """Text of the answer."""


class NeverUpgrade(FaultBase):
    """The upgrade request is read and not answered."""

    name: ClassVar[str] = "never_upgrade"
    layer: ClassVar[Layer] = Layer.TRANSPORT
    takes_trigger: ClassVar[bool] = False


class OversizeFrame(FaultBase):
    """A text frame larger than the client takes; without a trigger right after `session.updated`."""

    name: ClassVar[str] = "oversize_frame"
    layer: ClassVar[Layer] = Layer.TRANSPORT
    size_bytes: Annotated[int, Field(ge=126, le=2**40)] = CLIENT_LIMIT_BYTES + 1
    """Length the frame's header announces."""
    sent_bytes: Annotated[int, Field(ge=0, le=CLIENT_LIMIT_BYTES)] = 65_536
    """How much of that follows; what is sent after it counts as the rest."""


class InvalidUtf8(FaultBase):
    """A transcript delta is no UTF-8: the first one after the trigger, or of the session."""

    name: ClassVar[str] = "invalid_utf8"
    layer: ClassVar[Layer] = Layer.TRANSPORT
    where: Literal["inside", "cut_at_end"] = "inside"
    """Bytes FF FE in the middle of the text, or a frame that ends inside a character."""


class BadFrame(FaultBase):
    """A frame that RFC 6455 forbids; without a trigger right after `session.updated`."""

    name: ClassVar[str] = "bad_frame"
    layer: ClassVar[Layer] = Layer.TRANSPORT
    kind: Literal[
        "masked",
        "reserved_bit",
        "unknown_opcode",
        "long_control",
        "fragmented_control",
        "orphan_continuation",
        "interrupted_message",
        "short_close",
    ] = "masked"
    """What is wrong with it."""


class CloseCode(FaultBase):
    """The server closes with this code; without a trigger it is the code of the session's own end."""

    name: ClassVar[str] = "close_code"
    layer: ClassVar[Layer] = Layer.TRANSPORT
    code: Annotated[int, Field(ge=0, le=65_535)] = 1011
    """Code of the close frame; codes that RFC 6455 forbids on the wire are sent as well."""
    reason: str = ""
    """Text of the close frame, at most 123 bytes of UTF-8."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if len(self.reason.encode()) > 123:
            raise impossible([Broken(("reason",), f"{len(self.reason.encode())} bytes", "at most 123")])
        return self


TRANSPORT_FAULTS: tuple[type[FaultBase], ...] = (
    ResumeReading,
    SlowReading,
    Latency,
    Bandwidth,
    Slicer,
    LimitData,
    HalfClose,
    SlowClose,
    NoCloseReply,
    NoPong,
    RefuseUpgrade,
    NeverUpgrade,
    OversizeFrame,
    InvalidUtf8,
    BadFrame,
    CloseCode,
)
