"""Everything a scenario left behind, gathered before anything is judged."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance.abilities import ALL, Abilities
from conformance.canary import SECRET
from conformance.clock.tasks import SIDE
from conformance.lateness import Lateness
from conformance.outcome import FaultReport, Finding
from conformance.trace import Recorder
from scenarios.model import Scenario

if TYPE_CHECKING:
    from client.deadlines import Deadlines
    from client.media import Prepared
    from client.run import RunResult
    from conformance.datasets import LoadedFacts
    from conformance.judging import Judged
    from conformance.killing import KilledRun
    from conformance.live.premises import Conversation
    from mockserver.app import ConnectionInfo
    from mockserver.journal import Entry


_END_OF_A_SLEEP = "_set_result_unless_cancelled"
"""What `asyncio.sleep` has a timer call."""
DEFAULT_PERIOD_MS = 1000


@dataclass(frozen=True)
class PendingTask:
    """A task that should have ended."""

    name: str
    stack: tuple[str, ...]
    keeps_alive: str = ""
    """`split/id#attempt` whose connection the WebSocket library keeps alive in it; empty: a task of the client's."""


@dataclass(frozen=True)
class SampleFacts:
    """What became of one sample, from the files and the run result."""

    split: str
    id: str
    outcome: str
    attempts: int
    retry_count: int | None
    error: str
    latency_s: float | None
    metadata: Mapping[str, Any] | None
    """`<id>.meta.json`; None when there is none."""
    sentences: list[dict[str, Any]] | None
    """`<id>.json`; None when there is none."""
    close: str | None
    diagnostics: tuple[Mapping[str, Any], ...] = ()
    """`attempts/<split>/<id>/<N>.json`, in the order of N."""
    torn: str = ""
    """Which file does not parse, and why."""

    @property
    def name(self) -> str:
        """`split/id`."""
        return f"{self.split}/{self.id}"

    @property
    def text(self) -> str:
        """All sentences joined by spaces."""
        return " ".join(str(s.get("sentence", "")) for s in self.sentences or [])


@dataclass
class Observation:
    """The raw material of the verdict."""

    scenario: Scenario
    deadlines: Deadlines
    prepared: list[Prepared]
    out: Path
    """The response root."""
    watchdog_s: float
    client_s: float = 0.0
    """Loop time the client took."""
    result: RunResult | None = None
    client_error: BaseException | None = None
    watchdog_fired: bool = False
    phase: str = ""
    """The phase the client was in when the watchdog fired, as it said itself."""
    livelock: str = ""
    pending: list[PendingTask] = field(default_factory=list)
    """Tasks of the client that were pending when the watchdog fired or the timers ran out."""
    leaked: list[PendingTask] = field(default_factory=list)
    """Tasks of the client pending 5 s after it returned and all seams were released."""
    open_sockets: list[str] = field(default_factory=list)
    """Whose sockets of the client were open 5 s after it returned and all seams were released."""
    escaped: list[str] = field(default_factory=list)
    """Paths outside the client's folder that it wrote, made, moved or removed."""
    wall_clock: bool = False
    """Whether it was played on the real clock, where every step takes some milliseconds more than it should."""
    lateness: Lateness = field(default_factory=Lateness)
    """Of the loop, on the real clock."""
    clock_reads: Mapping[str, int] = field(default_factory=dict)
    """Readings of a clock that is not the loop's, by function and line of the client."""
    secrets: tuple[str, ...] = field(default=(SECRET,), repr=False)
    """What the client was given as API key, and must show nowhere."""
    logs: list[logging.LogRecord] = field(default_factory=list)
    loop_errors: list[str] = field(default_factory=list)
    """What the loop's exception handler was told, tasks never retrieved among it."""
    entries: list[Entry] = field(default_factory=list)
    connections: list[ConnectionInfo] = field(default_factory=list)
    faults: list[FaultReport] = field(default_factory=list)
    recorder: Recorder | None = None
    samples: list[SampleFacts] = field(default_factory=list)
    judged: Judged | None = None
    """What was judged; None: the scenario has no judge."""
    killed: list[KilledRun] = field(default_factory=list)
    """Runs that were killed before this one began, or one that ended well, in their order."""
    refused: str | None = None
    """Why the client would not run or judge in the folder as it is, in its own words; None: it did."""
    dataset: LoadedFacts | None = None
    """What the client's loader made of the dataset of the scenario; None: there is none."""
    harness_errors: list[str] = field(default_factory=list)
    output: tuple[str, ...] = ()
    """Last lines that a program printed."""
    outside: bool = False
    """The client is not the one of this project."""
    document: Mapping[str, Any] | None = None
    """The run result of a client of others, where it wrote one."""
    unsaid: Mapping[tuple[str, str | None], str] = field(default_factory=dict)
    """What the files of a client of others do not answer: (check or first parts of its id, sample) to the reason."""
    doubts: list[str] = field(default_factory=list)
    """Why the clock of this performance cannot be trusted: every verdict on it could be another."""
    abilities: Abilities = ALL
    """What could be seen; what happened in this scenario may take more away, with its reason."""
    conversation: Conversation | None = None
    """What a live server did, against what is scripted; None: the server is ours."""
    periods_ms: Mapping[int, int] = field(default_factory=dict)
    """Chunk periods that a live server declared, by connection."""
    left_open: list[Finding] = field(default_factory=list)
    """Sessions whose end a live server never confirmed."""
    away: list[str] = field(default_factory=list)
    """Why a live server could not be reached."""
    near_misses: int = 0
    """Waits of the client that ended less than a millisecond before their deadline (virtual clock)."""
    cut_sleeps: int = 0
    """Sleeps of the client that were cancelled less than a millisecond before they were over: between two rounds of
    acks, two pings of a library. A beat and no deadline: nobody was waited for."""

    _files: dict[Path, bytes] | None = field(default=None, init=False, repr=False)
    _in_time: tuple[tuple[int, int], list[Entry]] = field(default=((0, -1), []), init=False, repr=False)

    unsent_s: list[float] = field(default_factory=list)
    """When the server gave up what it would have done less than a millisecond later (virtual clock; from the start)."""

    def period_ms(self, connection: int) -> int:
        """The chunk period of a session: as declared, else the one of every dialect (protocol.md 4.4)."""
        return self.periods_ms.get(connection, DEFAULT_PERIOD_MS)

    def near_miss(self, timer: asyncio.TimerHandle) -> None:
        """Called by the virtual loop; a timer of the client counts, one of server or harness does not."""
        side = timer._context.get(SIDE)  # type: ignore[attr-defined]
        if side == "client":
            slept = getattr(timer._callback, "__name__", "") == _END_OF_A_SLEEP  # type: ignore[attr-defined]
            self.cut_sleeps += slept
            self.near_misses += not slept
        elif side == "server" and self.recorder is not None:
            self.unsent_s.append(round(self.recorder.clock() - self.recorder.start_s, 6))

    def files(self) -> dict[Path, bytes]:
        """Every file below `out` with what it holds, in order; read once, when first asked for: nobody writes any more.

        Links are left out, and what is behind them.
        """
        if self._files is None:
            self._files = {path: path.read_bytes() for path in sorted(map(Path, _regular_files(self.out)))}
        return self._files

    @property
    def all_known(self) -> bool:
        """Whether of every connection it is known whose it was.

        A session of a client of others that ends before its first audio does not say.
        """
        return all(connection.sample is not None for connection in self.connections)

    @property
    def entries_in_time(self) -> list[Entry]:
        """Without the backlog of a held socket, which the server read only after the faults were released.

        Kept until `entries` is another list or has grown; entries themselves do not change.
        """
        known = (id(self.entries), len(self.entries))
        if self._in_time[0] != known:  # asked for by every invariant, of thousands of entries
            self._in_time = known, [e for e in self.entries if not e.data.get("after_release")]
        return self._in_time[1]


def _regular_files(folder: str | Path) -> Iterator[str]:
    """Every file below a folder, links and what is behind them left out; none where there is no folder."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _regular_files(entry.path)
            elif entry.is_file(follow_symlinks=False):
                yield entry.path


def stack_of(task: asyncio.Task[Any]) -> tuple[str, ...]:
    """The frames a task waits in, outermost first."""
    lines: list[str] = []
    awaitable: Any = task.get_coro()
    while awaitable is not None and len(lines) < 40:
        frame = getattr(awaitable, "cr_frame", None) or getattr(awaitable, "gi_frame", None)
        if frame is None:
            break
        code = frame.f_code
        lines.append(f"  {code.co_qualname} ({Path(code.co_filename).name}:{frame.f_lineno})")
        awaitable = getattr(awaitable, "cr_await", None) or getattr(awaitable, "gi_yieldfrom", None)
    return tuple(lines)


def read_json(path: Path) -> tuple[Any, str]:
    """A JSON file's value and, when it is there but cannot be read, why."""
    if not os.path.exists(path):
        return None, ""
    try:
        return json.loads(path.read_bytes().decode("utf-8")), ""
    except (ValueError, OSError) as error:
        return None, f"{path.name}: {error}"


def sample_facts(observation: Observation) -> list[SampleFacts]:
    """Facts of every requested sample; files first, the run result for what no file says."""
    result = observation.result
    records = {(r.split, r.id): r for r in result.samples} if result else {}
    facts: list[SampleFacts] = []
    for prepared in observation.prepared:
        key = (prepared.split, prepared.id)
        record = records.get(key)
        base = observation.out / prepared.split
        sentences, torn_answer = read_json(base / f"{prepared.id}.json")
        metadata, torn_meta = read_json(base / f"{prepared.id}.meta.json")
        diagnostics, torn_attempts = diagnostics_of(observation.out, prepared.split, prepared.id)
        unrecorded = "published" if sentences is not None else "unaccounted"
        facts.append(
            SampleFacts(
                split=prepared.split,
                id=prepared.id,
                outcome=record.outcome if record is not None else unrecorded,
                attempts=_attempts(observation, key),
                retry_count=record.retry_count if record else None,
                error=record.error if record else "",
                latency_s=record.latency_s if record else None,
                metadata=metadata if metadata is not None else (record.metadata if record else None),
                sentences=sentences,
                close=record.close if record else None,
                diagnostics=diagnostics,
                torn="; ".join(t for t in (torn_answer, torn_meta, *torn_attempts) if t),
            )
        )
    return facts


def diagnostics_of(out: Path, split: str, sample_id: str) -> tuple[tuple[Mapping[str, Any], ...], list[str]]:
    """What the failed attempts of a sample left behind, in their order, and which files do not parse."""
    files = sorted((out / "attempts" / split / sample_id).glob("*.json"), key=lambda path: int(path.stem))
    read = [read_json(path) for path in files]
    return tuple(value for value, _ in read if isinstance(value, dict)), [torn for _, torn in read]


def _attempts(observation: Observation, key: tuple[str, str]) -> int:
    """Attempts as the server saw them: connections of this sample."""
    return sum(1 for c in observation.connections if c.sample == key) if observation.connections else 0
