"""What a fault answers with. The connection carries actions out, in order; no fault waits or touches a socket."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mockserver.wire import End, Event, Send


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing behind this goes out before `seconds` have passed, or before the fault is over.

    Attributes:
        withheld: what the client does not get meanwhile; its end is then the fault's proof, with the seconds it took.
        already_s: for so long it was withheld before.
    """

    seconds: float
    withheld: str = ""
    already_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Observed:
    """The fault has bitten."""

    evidence: Mapping[str, Any]


# -- reading


@dataclass(frozen=True, slots=True)
class PauseReading:
    """The connection's socket is not read any more.

    Attributes:
        look: prove it from here: bytes lay unread in the socket for over a second.
    """

    look: bool


@dataclass(frozen=True, slots=True)
class SlowReading:
    """The connection's socket is read at a rate; proven by bytes that lay unread for over a second."""

    bytes_per_s: int


@dataclass(frozen=True, slots=True)
class ResumeReading:
    """The connection's socket is read again.

    Attributes:
        all: as far as any fault is concerned, which is observed; otherwise as far as this one is.
    """

    all: bool = False


# -- events that go out in another way than the session's own


@dataclass(frozen=True, slots=True)
class Number:
    """An event takes its id and its place in the sequence now; it is not written.

    Attributes:
        kept: it will be, later.
    """

    send: Send
    kept: bool = False


@dataclass(frozen=True, slots=True)
class Encoded:
    """An event is written in a way of the fault's own.

    Attributes:
        encode: makes the frame's payload; None: as ever.
        times: how often it is written, each time the same.
        numbered: `Number` has given it its id and sequence number already.
    """

    send: Send
    encode: Callable[[Event], bytes] | None = None
    times: int = 1
    numbered: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    """A text frame with this payload, whatever it is."""

    payload: bytes


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes on the TCP stream, whatever they are."""

    data: bytes


# -- the wire's own answers, which faults may change


@dataclass(frozen=True, slots=True)
class Pong:
    """A ping is answered."""

    payload: bytes


@dataclass(frozen=True, slots=True)
class CloseReply:
    """The client's close frame is answered.

    Attributes:
        code: that of the client; 1005: it had none.
    """

    code: int


@dataclass(frozen=True, slots=True)
class CloseTcp:
    """The TCP connection ends behind everything written."""


Control = Pong | CloseReply | CloseTcp
"""What goes out beside the events."""


# -- ends


@dataclass(frozen=True, slots=True)
class CloseFrame:
    """The server begins the closing handshake."""

    code: int
    reason: str


@dataclass(frozen=True, slots=True)
class HalfClose:
    """The server's direction ends (FIN); reading goes on."""


@dataclass(frozen=True, slots=True)
class Reset:
    """The TCP connection is reset (RST)."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """The upgrade request is answered with an HTTP status."""

    status: int
    body: str


@dataclass(frozen=True, slots=True)
class KeepWaiting:
    """The upgrade request is not answered until the faults are released."""


# -- the way to the client


@dataclass(frozen=True, slots=True)
class Delay:
    """Each write is held back for `seconds`, `jitter_s` more or less."""

    seconds: float
    jitter_s: float
    chance: random.Random


@dataclass(frozen=True, slots=True)
class RateLimit:
    """So many bytes pass a second."""

    bytes_per_s: int


@dataclass(frozen=True, slots=True)
class Slice:
    """Writes go out in pieces, `delay_s` apart."""

    average_bytes: int
    variation_bytes: int
    delay_s: float
    chance: random.Random


@dataclass(frozen=True, slots=True)
class Limit:
    """After so many bytes the TCP connection ends."""

    limit_bytes: int


Shape = Delay | RateLimit | Slice | Limit
"""What the way to the client does to the bytes. It holds from the action on, until `Unshape`."""


@dataclass(frozen=True, slots=True)
class Unshape:
    """What this fault did to the way is over; what it held back goes out at once."""


# -- the script of the session


@dataclass(frozen=True, slots=True)
class Ignore:
    """Client events of these names are read and dropped, or heeded again."""

    names: frozenset[str]
    heed: bool = False


@dataclass(frozen=True, slots=True)
class Silence:
    """The server's own silence (protocol.md 6.5) is switched off, or is again what the profile says."""

    off: bool


@dataclass(frozen=True, slots=True)
class Speak:
    """The model begins a reply on the first unit, counted from 0, on which no other speaks."""

    from_unit: int
    text: str
    units: int
    audio_ms: int


@dataclass(frozen=True, slots=True)
class Unnumbered:
    """No event takes a sequence number from here on (protocol.md 12.5)."""


@dataclass(frozen=True, slots=True)
class Expire:
    """The session is over on the server, and its slot is free (protocol.md 10.2); nothing goes out for it."""


Script = Ignore | Silence | Speak | Unnumbered | Expire
"""What the session is told to do."""

Action = (
    Send
    | End
    | Wait
    | Observed
    | PauseReading
    | SlowReading
    | ResumeReading
    | Number
    | Encoded
    | Text
    | Raw
    | Control
    | CloseFrame
    | HalfClose
    | Reset
    | Refuse
    | KeepWaiting
    | Shape
    | Unshape
    | Script
)

IN_ORDER = (Send, End, Wait, Number, Encoded, Text, Raw)
"""What has its place among the events: a fault that waits in front keeps it back."""
