"""What seams share: who the current attempt is, and where evidence goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from conformance.outcome import FaultReport
from conformance.wiring import session_name
from scenarios.faults import FaultBase


@dataclass(frozen=True)
class SeamContext:
    """What a seam may ask of the runner."""

    attempt: Callable[[], tuple[str, str, int] | None]
    """(split, id, attempt) of the running task; None when the client does not say."""
    note: Callable[[str, str, dict[str, Any]], None]
    """Write (fault name, state, evidence) to the trace."""
    root: Path | None = None
    """Where the client writes; None: it writes nothing that a seam could meet."""
    spend: Callable[[float], None] | None = None
    """Let so many seconds of the loop's time pass while the code that runs goes on; None: no clock to do it with."""
    kill: int | None = None
    """Position of the fault that is to end this process; None: none is."""
    die: Callable[[dict[str, Any]], None] | None = None
    """End this process at once, leaving evidence behind."""


class Seam(Protocol):
    """Installed before the client starts, released when it has returned, then removed."""

    def install(self) -> None: ...

    def release(self) -> None:
        """Let everything go that the seam holds."""

    def remove(self) -> None: ...

    def report(self) -> FaultReport: ...


def in_scope(fault: FaultBase, attempt: tuple[str, str, int] | None, connection: int) -> bool:
    """Whether a fault is armed for this attempt; a client that names no attempts counts connections."""
    if fault.attempt is not None and fault.attempt != (attempt[2] if attempt else connection):
        return False
    if fault.sample is not None and attempt is not None and fault.sample != attempt[1]:
        return False
    return fault.connection is None or fault.connection == connection


class Opened:
    """Numbers connections from 1, in the order in which a seam first meets them: they are opened in that order.

    Each is kept, so that no later one takes its `id()` while the seam lives.
    """

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self.connections: list[Any] = []

    def number(self, connection: object) -> int:
        """Of a connection that may be a new one."""
        key = id(connection)
        if key not in self._numbers:
            self.connections.append(connection)
            self._numbers[key] = len(self.connections)
        return self._numbers[key]


@dataclass
class Proof:
    """armed, then triggered, then observed, with evidence; written to the trace as it happens."""

    fault: FaultBase
    index: int
    context: SeamContext
    state: str = "armed"
    connection: int | None = None
    evidence: dict[str, Any] = field(default_factory=dict)

    def triggered(self, connection: int) -> None:
        """The fault's moment came."""
        if self.state == "armed":
            self.state = "triggered"
            self.connection = connection
            self.context.note(self.fault.name, self.state, {"connection": connection})

    def observed(self, **evidence: Any) -> None:
        """The fault is proven to have bitten."""
        self.evidence.update(evidence)
        if self.state != "observed":
            self.state = "observed"
            self.context.note(self.fault.name, self.state, dict(self.evidence))

    def missed(self, hidden_from: str) -> None:
        """An abort of the running session did not find what the seam hides; each such session is evidence."""
        session = session_name(self.context.attempt())
        known = self.evidence.get("sessions", [])
        self.observed(hidden_from=hidden_from, sessions=known if session in known else [*known, session])

    def report(self) -> FaultReport:
        """The state as data."""
        return FaultReport(self.fault.name, self.index, self.connection, self.state, dict(self.evidence))
