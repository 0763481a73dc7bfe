"""What each fault of `scenarios.faults` does on the wire, one a file."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mockserver.faults.error_event import ErrorEvent
from mockserver.faults.late_session_closed import LateSessionClosed
from mockserver.faults.mechanism import Fault, FaultReport, FaultRun, FaultSet
from mockserver.faults.never_done import NeverDone
from mockserver.faults.no_session_closed import NoSessionClosed
from mockserver.faults.no_session_created import NoSessionCreated
from mockserver.faults.reset_peer import ResetPeer
from mockserver.faults.stop_reading import StopReading
from scenarios.faults import FaultBase

if TYPE_CHECKING:
    from mockserver.session import ServerSession

FAULTS: Mapping[str, Callable[[Any], Fault]] = {
    fault.name: fault
    for fault in (
        StopReading,
        ResetPeer,
        NoSessionCreated,
        LateSessionClosed,
        NoSessionClosed,
        ErrorEvent,
        NeverDone,
    )
}
"""Faults the server plays, by name; each is made from its spec."""


def make_fault(spec: FaultBase, session: ServerSession, chance: random.Random) -> Fault:
    """A fresh fault for one connection.

    Args:
        session: that of the connection.
        chance: all randomness of the fault.
    Raises ValueError: the server does not play such a fault.
    """
    check_played(spec)
    fault = FAULTS[spec.name](spec)
    fault.session, fault.chance = session, chance
    return fault


def check_played(spec: FaultBase) -> None:
    """Raises ValueError: the server does not play such a fault."""
    if spec.name not in FAULTS:
        raise ValueError(f"the server does not play {spec.name!r}; it plays: {', '.join(sorted(FAULTS))}")


__all__ = ["FAULTS", "Fault", "FaultReport", "FaultRun", "FaultSet", "check_played", "make_fault"]
