"""What a fault answers with. The connection carries actions out, in order; no fault waits or touches a socket."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mockserver.wire import End, Send


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing behind this goes out before `seconds` have passed; releasing the faults ends it early."""

    seconds: float


@dataclass(frozen=True, slots=True)
class PauseReading:
    """The connection's socket is not read any more.

    Attributes:
        look: prove it from here: bytes lay unread in the socket for over a second.
    """

    look: bool


@dataclass(frozen=True, slots=True)
class ResumeReading:
    """The connection's socket is read again."""


@dataclass(frozen=True, slots=True)
class Reset:
    """The TCP connection is reset (RST)."""


@dataclass(frozen=True, slots=True)
class Observed:
    """The fault has bitten."""

    evidence: Mapping[str, Any]


Action = Send | End | Wait | PauseReading | ResumeReading | Reset | Observed
