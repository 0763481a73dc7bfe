"""One hostile client against the mock server beside a session that behaves; the server's invariants are the oracle.

It answers or closes, its memory stays bounded, other sessions live, and its journal stays valid.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from conformance.clock import ClockError, VirtualLoop, run_virtual
from conformance.fuzz.case import CaseResult, Found
from conformance.fuzz.hostile import SESSION, Wire
from conformance.fuzz.hostile_form import broken_in
from conformance.outcome import Finding, Outcome
from mockserver.app import MockServer
from mockserver.journal import Entry
from scenarios.model import Reply

Data = dict[str, Any]

PATIENCE_S = 400.0
"""Loop time in which the server must have answered or closed; its longest wait of its own is shorter."""
JOURNAL_BYTES = 200_000
"""What a journal may take however little was sent."""
JOURNAL_FACTOR = 4
"""And so many bytes for each that was received."""
APPENDED = "input_audio_buffer.append"
KINDS = frozenset({"open", "received", "sent", "unit", "fault", "violation", "end"})


@dataclass
class Seen:
    """What a performance left."""

    hostile: Wire | None = None
    neighbour: list[str] = field(default_factory=list)
    """Types of the events that the session beside it got."""
    entries: list[Entry] = field(default_factory=list)
    logged: list[str] = field(default_factory=list)
    ended: bool = False
    error: str = ""
    virtual_s: float = 0.0


class ServerCasePlayer:
    """Plays hostile clients; the same looks as `conformance.fuzz.case.CasePlayer` has for scenarios."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def case(self, number: int, data: Data) -> CaseResult:
        """Play one hostile client."""
        seen = play_hostile(data)
        found = tuple(Found(finding, self.seed, number, data) for finding in judge_server(data, seen))
        outcome = Outcome.FAIL if found else Outcome.PASS
        return CaseResult(number, outcome, found, frozenset(_states(data, seen)), seen.virtual_s, 0)

    def valid(self, data: Data) -> bool:
        """Whether it is a hostile client at all."""
        return next(broken_in(data), None) is None

    def check(self, found: Found, data: Data) -> tuple[Found, ...]:
        """The same look at other data."""
        findings = judge_server(data, play_hostile(data))
        return tuple(Found(finding, self.seed, found.number, data) for finding in findings)


def _states(data: Data, seen: Seen) -> Iterator[str]:
    for step in data["steps"]:
        yield "hostile: " + next(name for name in step if name != "times")
    if seen.hostile is not None and seen.hostile.types:
        yield "server: answered"
    if seen.ended and data["reads"]:
        yield "server: closed it"
    if seen.hostile is not None and seen.hostile.status not in (0, 101):
        yield "server: refused the upgrade"
    if any(entry.kind == "violation" for entry in seen.entries):
        yield "server: noted a violation"
    yield f"hostile: ends by {data['end']}"


class _Logged(logging.Handler):
    def __init__(self, seen: Seen) -> None:
        super().__init__(logging.ERROR)
        self._seen = seen

    def emit(self, record: logging.LogRecord) -> None:
        cause = record.exc_info[1] if record.exc_info else None
        told = record.getMessage() + (f": {type(cause).__name__}: {cause}" if cause is not None else "")
        self._seen.logged.append(told)


def play_hostile(data: Data) -> Seen:
    """One hostile client and a neighbour against a fresh server in virtual time."""
    seen = Seen()
    handler = _Logged(seen)
    loggers = [logging.getLogger(name) for name in ("aiohttp", "mockserver", "asyncio")]
    before = [logger.propagate for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.propagate = False
    try:
        loop = VirtualLoop()
        began_s = loop.time()
        run_virtual(lambda: _play(data, seen), loop=loop, allow_leaks=True)
        seen.virtual_s = loop.time() - began_s
    except ClockError as error:
        seen.error = str(error)
    finally:
        for logger, propagate in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.propagate = propagate
    return seen


async def _play(data: Data, seen: Seen) -> None:
    reply = Reply(starts_at_unit=0, units=2, text="Still here.", audio_ms=40)
    server = MockServer(profile=data["profile"], replies=[reply], seed=1)
    await server.start()
    port = int(server.url.rpartition(":")[2].partition("/")[0])
    try:
        neighbour = asyncio.ensure_future(_behave(port, seen))
        hostile = seen.hostile = await Wire.open(port, data["query"])
        reading = asyncio.ensure_future(hostile.read()) if data["reads"] else None
        for step in data["steps"]:
            await _do(hostile, step)
        await _end(hostile, data["end"])
        seen.ended = await hostile.wait_ended(PATIENCE_S) if reading is not None else True
        await asyncio.wait({neighbour}, timeout=PATIENCE_S)
        neighbour.cancel()
        hostile.abort()
        if reading is not None:
            await asyncio.wait({reading}, timeout=1)
    finally:
        seen.entries = list(server.journal.entries)
        await server.stop()


async def _behave(port: int, seen: Seen) -> None:
    """A session that opens, speaks for two seconds, commits and closes."""
    wire = await Wire.open(port, "duplex=1&model=m&minicpmo45_native_duplex=1&native_duplex=1&autostart=0")
    reading = asyncio.ensure_future(wire.read())
    wire.event({"type": "session.update", "session": SESSION})
    await asyncio.sleep(0.1)
    for number in (1, 2):
        wire.event(append(1000, 1000 * number))
        await asyncio.sleep(1)
    wire.event(append(400, 2400))
    wire.event({"type": "input_audio_buffer.commit", "final": True})
    await asyncio.sleep(3)
    wire.event({"type": "session.close"})
    await wire.wait_ended(30)
    seen.neighbour = wire.types
    wire.abort()
    await asyncio.wait({reading}, timeout=1)


def append(duration_ms: int, end_ms: int) -> Data:
    """An append that is well formed."""
    audio = "AAAA" * ((duration_ms * 32 + 2) // 3)
    even = audio[: (duration_ms * 32 // 6) * 8]  # whole samples
    return {"type": APPENDED, "audio": even, "duration_ms": duration_ms, "audio_end_ms": end_ms}


async def _do(wire: Wire, step: Data) -> None:
    for _ in range(step.get("times", 1)):
        if "event" in step:
            wire.event(step["event"])
        elif "append_ms" in step:
            wire.event(append(step["append_ms"], step["append_ms"]))
        elif "raw" in step:
            wire.write(bytes.fromhex(step["raw"]))
        elif "text" in step:
            wire.frame(step["text"].encode())
        elif "binary_bytes" in step:
            wire.frame(bytes(step["binary_bytes"]), opcode=2)
        else:
            await asyncio.sleep(step["wait_s"])
    await asyncio.sleep(0.05)


async def _end(wire: Wire, how: str) -> None:
    if how == "close":
        wire.frame((1000).to_bytes(2, "big"), opcode=8)
    elif how == "abort":
        wire.abort()
    elif how == "fin":
        wire.fin()


def judge_server(data: Data, seen: Seen) -> Iterator[Finding]:
    """What the server did wrong."""
    if seen.error:
        yield Finding("server-hangs", (), "the server comes to rest", seen.error)
        return
    for line in dict.fromkeys(seen.logged):
        yield Finding("server-error", (), "no error in the server's log, whatever a client sends", line)
    hostile = seen.hostile
    if (
        hostile is not None
        and data["reads"]
        and data["end"] != "abort"
        and not hostile.types
        and not seen.ended
    ):
        told = f"nothing came in {PATIENCE_S:g} s, and the connection is open (HTTP {hostile.status})"
        yield Finding("server-mute", (), "the server answers or closes", told)
    if "session.closed" not in seen.neighbour or "response.done" not in seen.neighbour:
        told = ", ".join(seen.neighbour) or "nothing"
        yield Finding("neighbour-lost", (), "a session beside it gets its reply and its close", told)
    yield from _journal(seen)


def _journal(seen: Seen) -> Iterator[Finding]:
    numbers: dict[int, int] = {}
    at_s, size = 0.0, 0
    for entry in seen.entries:
        wrong = ""
        if entry.kind not in KINDS:
            wrong = f"kind {entry.kind!r}"
        elif entry.seq != numbers.get(entry.connection, 0) + 1:
            wrong = f"seq {entry.seq} after {numbers.get(entry.connection, 0)}"
        elif entry.t_s < at_s:
            wrong = f"time goes back to {entry.t_s}"
        numbers[entry.connection], at_s = entry.seq, max(at_s, entry.t_s)
        try:
            size += len(orjson.dumps(dict(entry.data), default=str))
        except (TypeError, ValueError) as error:
            wrong = wrong or f"{entry.name} cannot be written: {error}"
        if wrong:
            yield Finding(
                "journal-invalid", (), "entries in order, each of a known kind, each writable", wrong
            )
            return
    allowed = JOURNAL_BYTES + JOURNAL_FACTOR * (seen.hostile.sent_bytes if seen.hostile else 0)
    if size > allowed:
        yield Finding("server-memory", (), f"a journal of at most {allowed} bytes", f"{size} bytes")
