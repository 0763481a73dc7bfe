"""What each fault of `scenarios.faults` does on the wire, one a file."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mockserver.faults.bad_frame import BadFrame
from mockserver.faults.bandwidth import Bandwidth
from mockserver.faults.close_code import CloseCode
from mockserver.faults.damaged_audio import DamagedAudio
from mockserver.faults.drop_event import DropEvent
from mockserver.faults.duplicate_event import DuplicateEvent
from mockserver.faults.error_event import ErrorEvent
from mockserver.faults.extra_reply_in_padding import ExtraReplyInPadding
from mockserver.faults.freeze_tail import FreezeTail
from mockserver.faults.garbage_event import GarbageEvent
from mockserver.faults.half_close import Half
from mockserver.faults.ignore_cancel import IgnoreCancel
from mockserver.faults.ignore_close import IgnoreClose
from mockserver.faults.invalid_utf8 import InvalidUtf8
from mockserver.faults.journal_overflow import JournalOverflow
from mockserver.faults.late_deltas import LateDeltas
from mockserver.faults.late_session_closed import LateSessionClosed
from mockserver.faults.late_session_created import LateSessionCreated
from mockserver.faults.latency import Latency
from mockserver.faults.limit_data import LimitData
from mockserver.faults.listen_per_padded_unit import ListenPerPaddedUnit
from mockserver.faults.mechanism import Fault, FaultReport, FaultRun, FaultSet
from mockserver.faults.never_done import NeverDone
from mockserver.faults.never_upgrade import NeverUpgrade
from mockserver.faults.no_close_reply import NoCloseReply
from mockserver.faults.no_pong import NoPong
from mockserver.faults.no_session_closed import NoSessionClosed
from mockserver.faults.no_session_created import NoSessionCreated
from mockserver.faults.oversize_frame import OversizeFrame
from mockserver.faults.refuse_upgrade import RefuseUpgrade
from mockserver.faults.reorder import Reorder
from mockserver.faults.reset_peer import ResetPeer
from mockserver.faults.resume_reading import Resume
from mockserver.faults.session_expired import SessionExpired
from mockserver.faults.session_replaced import SessionReplaced
from mockserver.faults.slicer import Slicer
from mockserver.faults.slow_close import SlowClose
from mockserver.faults.slow_reading import Slow
from mockserver.faults.split_text import SplitText
from mockserver.faults.status import Status
from mockserver.faults.stop_reading import StopReading
from mockserver.faults.unknown_event import UnknownEvent
from mockserver.faults.wrong_response_id import WrongResponseId
from scenarios.faults import FaultBase

if TYPE_CHECKING:
    from mockserver.session import ServerSession

FAULTS: Mapping[str, Callable[[Any], Fault]] = {
    fault.name: fault
    for fault in (
        StopReading,
        Resume,
        Slow,
        Latency,
        Bandwidth,
        Slicer,
        LimitData,
        ResetPeer,
        Half,
        SlowClose,
        NoCloseReply,
        NoPong,
        RefuseUpgrade,
        NeverUpgrade,
        OversizeFrame,
        InvalidUtf8,
        BadFrame,
        CloseCode,
        NoSessionCreated,
        LateSessionCreated,
        LateSessionClosed,
        NoSessionClosed,
        IgnoreClose,
        IgnoreCancel,
        ErrorEvent,
        SessionExpired,
        SessionReplaced,
        JournalOverflow,
        DuplicateEvent,
        Reorder,
        DropEvent,
        GarbageEvent,
        UnknownEvent,
        FreezeTail,
        NeverDone,
        Status,
        LateDeltas,
        ExtraReplyInPadding,
        ListenPerPaddedUnit,
        WrongResponseId,
        DamagedAudio,
        SplitText,
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


def acts_on_upgrade(spec: FaultBase) -> bool:
    """Whether all that a fault does is done before the connection is open."""
    fault: Any = FAULTS[spec.name]
    return fault.asked is not Fault.asked


NOT_OVER_TLS: Mapping[str, str] = {
    "slow_reading": "TLS reads the socket in steps of its own",
    "half_close": "TLS ends both directions or none",
}
"""Faults that need a plain connection, and why."""


def check_played(spec: FaultBase, *, tls: bool = False) -> None:
    """Raises ValueError: the server does not play such a fault, or not over TLS."""
    if spec.name not in FAULTS:
        raise ValueError(f"the server does not play {spec.name!r}; it plays: {', '.join(sorted(FAULTS))}")
    if tls and spec.name in NOT_OVER_TLS:
        raise ValueError(f"{spec.name} cannot be played over TLS: {NOT_OVER_TLS[spec.name]}")


__all__ = [
    "FAULTS",
    "Fault",
    "FaultReport",
    "FaultRun",
    "FaultSet",
    "acts_on_upgrade",
    "check_played",
    "make_fault",
]
