"""What the server knows of a connection, for whoever judges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

How = Literal["close_frame", "fin", "rst", "tcp_end", "reset", "refused"]


@dataclass
class ConnectionInfo:
    """What the server knows of a connection."""

    number: int
    """From 1 in order of acceptance."""
    sample: tuple[str, str] | None
    """(split, id), where somebody could tell."""
    attempt: int
    """Of its sample, from 1; the connection's number where nobody could tell."""
    query: Mapping[str, str]
    opened_s: float
    ended_s: float | None = None
    ended_by: Literal["client", "server"] | None = None
    """Who ended it first; None while it is open."""
    how: How | None = None
    """close_frame: of the one who ended it. fin, rst: the client's TCP end or reset. tcp_end: ours, without a close
    frame. reset: our RST. refused: the upgrade was answered with an HTTP status."""
    client_close_code: int | None = None
    """Code of the client's close frame, also when it answers ours; 1005 when it had none."""
    session_id: str = ""
    received: Counter[str] = field(default_factory=Counter)
    """Client events by type."""
    sent: Counter[str] = field(default_factory=Counter)
    """Server events by type."""
    units: int = 0
    """Decided units."""
