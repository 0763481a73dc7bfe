"""What the server saw, did and injected, in order, one entry a thing."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

EntryKind = Literal["open", "received", "sent", "unit", "fault", "violation", "end", "control"]
"""open: an upgrade was accepted. received, sent: an event, in wire order; what a fault on the way to the client holds
back (`latency`, `bandwidth`, `slicer`) stands where it was sent, not where it came. unit: a decision of the model.
fault: a fault changed its state. violation: the client did what protocol.md forbids. end: the connection is over.
control: somebody armed or disarmed a fault, or reset the server."""
Tell = Callable[[Any], Mapping[str, Any]]
"""Makes an entry's data of what the entry was noted with."""
Note = tuple[float, int, EntryKind, str, Any, Tell | None]
"""What `Journal.add` is given."""

_ENDED_KEPT = 1_000
"""Connections that are over and whose entries can still be numbered on: a fault may tell of one after its end."""


@dataclass(slots=True)
class Entry:
    """One line of the journal. Media are told by hash and length, never kept."""

    t_s: float
    """Loop time."""
    connection: int
    """Number of the connection, from 1 in order of acceptance; 0: of the server."""
    seq: int
    """Position within the connection, from 1."""
    kind: EntryKind
    name: str
    """Event type as on the wire, name of the fault, or rule of the violation."""
    data: Mapping[str, Any]


class Journal:
    """Entries of all connections of a server in the order they happened.

    Args:
        sink: called with each entry as it is made, for whoever merges or writes time lines.
        keep: whether entries stay in memory; a server that runs for days hands them to its sink and forgets them.
    """

    def __init__(self, sink: Callable[[Entry], None] | None = None, *, keep: bool = True) -> None:
        self.sink = sink
        self.keep = keep
        self._entries: list[Entry] = []
        self._noted: list[Any] = []
        """What nobody has looked at yet, six values a note: most journals are never read, an entry costs more than a
        note of it, and values in no container of their own cost the garbage collector nothing."""
        self._seq: dict[int, int] = {}
        self._ended: deque[int] = deque()

    @property
    def entries(self) -> list[Entry]:
        """All that is kept, oldest first."""
        if self._noted:
            self._entries += [self._entry(*note) for note in self._notes()]
            self._noted.clear()
        return self._entries

    @property
    def later(self) -> Callable[[Note], None] | None:
        """As `add`, for who adds much; None where each entry is read at once or nothing is kept."""
        return self._noted.extend if self.sink is None and self.keep else None

    def add(
        self,
        t_s: float,
        connection: int,
        kind: EntryKind,
        name: str,
        data: Any,
        tell: Tell | None = None,
    ) -> None:
        """Append an entry; its sequence number follows the connection's last.

        Args:
            data: the entry's, or, where `tell` is given, what that will make it of; it must not change any more.
        """
        if self.sink is None:
            if self.keep:
                self._noted += (t_s, connection, kind, name, data, tell)
            return
        entry = self._entry(t_s, connection, kind, name, data, tell)
        if self.keep:
            self.entries.append(entry)
        self.sink(entry)

    def forget(self) -> None:
        """Drop all that is kept; numbers go on."""
        for _, connection, *_ in self._notes():
            self._seq[connection] = self._seq.get(connection, 0) + 1
        self._noted.clear()
        self._entries.clear()

    def renumber(self) -> None:
        """Connections are numbered anew from here; all that is kept is dropped."""
        self._noted.clear()
        self._entries.clear()
        self._seq.clear()
        self._ended.clear()

    def of(self, kind: EntryKind, name: str | None = None, connection: int | None = None) -> list[Entry]:
        """Entries of a kind, by name and connection where those are given."""
        return [
            e
            for e in self.entries
            if e.kind == kind
            and (name is None or e.name == name)
            and (connection is None or e.connection == connection)
        ]

    def _notes(self) -> Iterator[Any]:
        values = iter(self._noted)
        return zip(values, values, values, values, values, values, strict=True)

    def _entry(
        self, t_s: float, connection: int, kind: EntryKind, name: str, data: Any, tell: Tell | None
    ) -> Entry:
        seq = self._seq.get(connection, 0) + 1
        self._seq[connection] = seq
        if kind == "end":
            self._ended.append(connection)
            if len(self._ended) > _ENDED_KEPT:
                self._seq.pop(self._ended.popleft(), None)
        return Entry(t_s, connection, seq, kind, name, data if tell is None else tell(data))
