"""What the server saw, did and injected, in order, one entry a thing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

EntryKind = Literal["open", "received", "sent", "unit", "fault", "violation", "end"]
"""open: an upgrade was accepted. received, sent: an event, in wire order. unit: a decision of the scripted model.
fault: a fault changed its state. violation: the client did what protocol.md forbids. end: the connection is over."""


@dataclass(slots=True)
class Entry:
    """One line of the journal. Media are told by hash and length, never kept."""

    t_s: float
    """Loop time."""
    connection: int
    """Number of the connection, from 1 in order of acceptance."""
    seq: int
    """Position within the connection, from 1."""
    kind: EntryKind
    name: str
    """Event type as on the wire, name of the fault, or rule of the violation."""
    data: Mapping[str, Any]


@dataclass
class Journal:
    """Entries of all connections of a server in the order they happened.

    Attributes:
        sink: called with each entry as it is made, for whoever merges or writes time lines.
        keep: whether entries stay in memory; a server that runs for days hands them to its sink and forgets them.
    """

    sink: Callable[[Entry], None] | None = None
    keep: bool = True
    entries: list[Entry] = field(default_factory=list)
    _seq: dict[int, int] = field(default_factory=dict)

    def add(self, t_s: float, connection: int, kind: EntryKind, name: str, data: Mapping[str, Any]) -> None:
        """Append an entry; its sequence number follows the connection's last."""
        seq = self._seq.get(connection, 0) + 1
        self._seq[connection] = seq
        entry = Entry(t_s, connection, seq, kind, name, data)
        if self.keep:
            self.entries.append(entry)
        if self.sink is not None:
            self.sink(entry)

    def of(self, kind: EntryKind, name: str | None = None, connection: int | None = None) -> list[Entry]:
        """Entries of a kind, by name and connection where those are given."""
        return [
            e
            for e in self.entries
            if e.kind == kind
            and (name is None or e.name == name)
            and (connection is None or e.connection == connection)
        ]
