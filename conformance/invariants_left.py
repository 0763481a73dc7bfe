"""Invariants of what a client leaves behind: files, sockets, secrets; and whose clock it went by."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from conformance.abilities import Need
from conformance.canary import forms
from conformance.invariants_base import invariant
from conformance.observation import Observation
from conformance.outcome import Finding
from conformance.wiring import session_name


def torn_artifact(observation: Observation) -> Iterator[Finding]:
    """Every file that the client has left is whole: JSON parses, lines end, nothing half-written lies about."""
    broken = {
        name.partition(":")[0] for facts in observation.samples for name in facts.torn.split("; ") if name
    }
    for facts in observation.samples:
        if facts.torn:
            yield Finding("torn-artifact", ("R20",), "every artifact parses", facts.torn, facts.name)
    for path, data in observation.files().items():
        told = _torn(path, data)
        if told and path.name not in broken:
            actual = f"{path.relative_to(observation.out)}: {told}"
            yield Finding("torn-artifact", ("R20",), "every artifact parses", actual)


def _torn(path: Path, data: bytes) -> str:
    """What is wrong with a file, in words; empty: nothing."""
    if path.suffix in (".part", ".tmp"):
        return "a file that was being written was left behind"
    if path.suffix not in (".json", ".jsonl"):
        return ""
    if path.suffix == ".jsonl" and data and not data.endswith(b"\n"):
        return "the last line has no end"
    try:
        for text in [data] if path.suffix == ".json" else data.splitlines():
            _parse(text)
    except ValueError as error:
        return str(error)
    return ""


def _parse(text: bytes) -> None:
    """Raises ValueError: it is no JSON. The strict reader is the faster one; what it refuses may be JSON to others."""
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        json.loads(text)


def socket_leak(observation: Observation) -> Iterator[Finding]:
    """No socket of the client is open 5 s after it returned and every seam was released.

    One may be that nobody could close (`sessions_without_end`).
    """
    unending = sessions_without_end(observation)
    left = [session for session in observation.open_sockets if session not in unending]
    if left:
        yield Finding(
            "socket-leak",
            ("R9", "R14"),
            "no socket of the client is open 5 s after it returned",
            f"open: {', '.join(left)}",
        )


def sessions_without_end(observation: Observation) -> set[str]:
    """Sessions that their client could not end: `split/id#attempt`.

    Its abort found no socket or no transport, and its close frame came to the server, which a fault kept from
    answering. That is all that R16 and R17 leave it: the socket is open until the library, or the peer, gives it up.
    """
    seen = [report for report in observation.faults if report.state == "observed"]
    not_aborted = {name for report in seen for name in report.evidence.get("sessions", ())}
    unanswered = {report.connection for report in seen if report.name == "no_close_reply"}
    return not_aborted & {
        session_name((*connection.sample, connection.attempt))
        for connection in observation.connections
        if connection.sample is not None and connection.number in unanswered
    }


def path_escape(observation: Observation) -> Iterator[Finding]:
    """The client writes below the folder it was given and nowhere else."""
    if observation.escaped:
        told = ", ".join(observation.escaped[:5])
        more = f" and {len(observation.escaped) - 5} more" if len(observation.escaped) > 5 else ""
        yield Finding("path-escape", (), f"nothing is written outside {observation.out}", told + more)


def secret_in_artifact(observation: Observation) -> Iterator[Finding]:
    """The API key that the client was given stands in no file, no log message, no event and no address."""
    wanted = [form for secret in observation.secrets for form in forms(secret)]
    for where, text in _texts(observation):
        for form in wanted:
            if form in text:
                told = "the API key that was given appears nowhere"
                yield Finding("secret-in-artifact", (), told, f"in {where}")
                break


def _texts(observation: Observation) -> Iterator[tuple[str, str]]:
    """Every text that the client has a part in, each with its place."""
    before = len(str(observation.out)) + 1
    for path, data in observation.files().items():
        below = str(path)[before:]
        yield f"the name of {path.name[:40]}", below
        yield below, data.decode("utf-8", "replace")
    for said in sorted(observation.out.parent.glob("client.std*")):
        yield said.name, said.read_bytes().decode("utf-8", "replace")
    for record in observation.logs:
        yield f"a log message of {record.name}", record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            yield f"a traceback logged by {record.name}", _chain(record.exc_info[1])
    for connection in observation.connections:
        yield f"the query of connection {connection.number}", " ".join(connection.query.values())
    for entry in observation.entries:
        if entry.kind == "received" and entry.name in ("session.update", "session.close"):
            for text in _strings(entry.data):
                yield f"{entry.name} of connection {entry.connection}", text
    if observation.client_error is not None:
        yield "the client's own exception", _chain(observation.client_error)
    assert observation.recorder is not None
    seen: set[int] = set()
    for line in observation.recorder.records:
        if line.side != "client" or line.what == "received":
            continue  # a server may say what it likes
        if id(line.data) not in seen:  # most records of a run share what they tell
            seen.add(id(line.data))
            for text in _strings(line.data):
                yield f"what the client told of `{line.what}` at {line.t_s:.3f} s", text


def _chain(error: BaseException | None) -> str:
    told: list[str] = []
    while error is not None and len(told) < 10:
        told.append(str(error))
        error = error.__cause__ or error.__context__
    return "\n".join(told)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for entry in value.values():
            yield from _strings(entry)
    elif isinstance(value, list | tuple):
        for entry in value:
            yield from _strings(entry)


def wall_clock_used(observation: Observation) -> Iterator[Finding]:
    """The client takes time from its loop, or its durations mean nothing where time jumps (a warning, no failure)."""
    for where, times in observation.clock_reads.items():
        told = f"{where}, {times} time(s)"
        yield Finding("wall-clock-used", (), "time is taken from the running loop (design.md 4)", told)
    for facts in observation.samples:
        mine = [c for c in observation.connections if c.sample == (facts.split, facts.id)]
        if facts.latency_s is None or not mine or mine[-1].ended_s is None:
            continue
        session_s = mine[-1].ended_s - mine[-1].opened_s
        if session_s >= 1.0 and facts.latency_s < session_s / 2:
            expected = f"a latency of at least the last session's {session_s:.3f} s of loop time"
            yield Finding("wall-clock-used", (), expected, f"{facts.latency_s:.3f} s", facts.name)


LEFT_INVARIANTS = (
    invariant(torn_artifact, Need.FILES),
    invariant(socket_leak, Need.LOOP),
    invariant(path_escape, Need.FILES),
    invariant(secret_in_artifact, Need.FILES),
)
"""In the order their findings are told."""
WARNINGS = (invariant(wall_clock_used, Need.WIRE, Need.FILES),)
"""What is told and fails nothing."""
