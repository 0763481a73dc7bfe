"""One time line of a scenario: what both sides saw and what the harness did.

Records are turned into NDJSON only when asked for. The order is virtual time, then session, then the
session's own sequence, so that the same seed gives the same trace (design.md section 4).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from conformance.errors import ConfigurationError

UNSTABLE_KEYS = frozenset(
    {
        "port",
        "fd",
        "wall",
        "bytes_acked",
        "unacked_bytes",
        "buffered_bytes",
        "unread_bytes",
        "taken_bytes",
        "traceback",
    }
)
"""Keys left out of a comparison: socket byte counts, ports, descriptors, wall-clock stamps."""


_OWN = frozenset({"t_s", "session", "seq", "side", "what"})
_DATA = "data."


class Record(NamedTuple):
    """One line of a trace; a run makes thousands, and a tuple is made fastest."""

    t_s: float
    """Loop time since the scenario began, microseconds kept."""
    session: str
    """`split/id#attempt`, `connection N` where the client does not say, or `` for the harness."""
    seq: int
    """Position within the session, over both sides."""
    side: str
    """client, server, fault, harness."""
    what: str
    data: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """A flat JSON object; a field of the data that is called as one of these five stands as `data.NAME`."""
        own: dict[str, Any] = {
            "t_s": self.t_s,
            "session": self.session,
            "seq": self.seq,
            "side": self.side,
            "what": self.what,
        }
        for key, value in self.data.items():
            own[f"{_DATA}{key}" if key in _OWN else key] = value
        return own

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> Record:
        """What `to_json` was made of. Raises KeyError: it is no line of a trace."""
        data = {key.removeprefix(_DATA): value for key, value in line.items() if key not in _OWN}
        return cls(line["t_s"], line["session"], line["seq"], line["side"], line["what"], data)

    def line(self) -> str:
        """A line for people."""
        told = " ".join(
            f"{key}={_short(value)}"
            for key, value in self.data.items()
            if value not in (None, "", {}) and key not in _SAID_ELSEWHERE
        )
        return f"{self.t_s:10.3f} {self.session or '-':<18} {self.side:<7} {self.what} {told}".rstrip()


_SAID_ELSEWHERE = frozenset({"item_id", "session_id", "server_event_seq", "audio_sha"})
"""Fields that a line for people leaves out; the trace file has them."""
_LONG_ID = re.compile(r"\bresp-[0-9A-Za-z-]*-(\d+-[0-9a-f]{8})\b")


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else orjson.dumps(value, default=str).decode()
    text = _LONG_ID.sub(r"resp-..\1", text)
    return text if len(text) <= 90 else text[:87] + "..."


@dataclass
class Recorder:
    """Collects records; time comes from the given clock."""

    clock: Callable[[], float]
    start_s: float
    records: list[Record] = field(default_factory=list)
    _seq: dict[str, int] = field(default_factory=dict)

    def add(self, session: str, side: str, what: str, data: Mapping[str, Any]) -> None:
        """Append a record stamped with the current loop time."""
        seq = self._seq.get(session, 0) + 1
        self._seq[session] = seq
        self.records.append(Record(round(self.clock() - self.start_s, 6), session, seq, side, what, data))

    def relative(self, evidence: Mapping[str, Any]) -> dict[str, Any]:
        """Evidence with loop times (`at_s`, `since_s`) counted from the beginning of the scenario."""
        return {
            key: round(value - self.start_s, 6) if key in ("at_s", "since_s") else value
            for key, value in evidence.items()
        }

    def ordered(self) -> list[Record]:
        """All records by time, session, sequence."""
        return sorted(self.records, key=lambda r: (r.t_s, r.session, r.seq))

    def last(self, count: int, *, side: str | None = None) -> list[Record]:
        """The last records, of one side if asked."""
        chosen = [r for r in self.ordered() if side is None or r.side == side]
        return chosen[-count:]


def last_of_both_sides(recorder: Recorder, count: int = 10) -> tuple[str, ...]:
    """The last `count` records of the client and of the server, with what the faults did, on one time line."""
    keep = {
        id(r) for side in ("client", "server", "fault", "harness") for r in recorder.last(count, side=side)
    }
    return tuple(r.line() for r in recorder.ordered() if id(r) in keep)


def write_ndjson(path: Path, records: Iterable[Record]) -> None:
    """Write a trace, one JSON object a line. Raises ConfigurationError: it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            for record in records:
                file.write(orjson.dumps(record.to_json(), default=str))
                file.write(b"\n")
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be written: {error.strerror or error}") from None


def comparable(records: Iterable[Record]) -> list[str]:
    """Lines that must be the same for the same seed."""
    return [
        orjson.dumps(
            {key: value for key, value in record.to_json().items() if key not in UNSTABLE_KEYS},
            default=str,
            option=orjson.OPT_SORT_KEYS,
        ).decode()
        for record in records
    ]
