"""`conformance drift`: a cassette against another, against the mock in a profile, or against a live server."""

from __future__ import annotations

import asyncio
import json
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from conformance.live.cassette import Cassette, read_cassette
from conformance.live.drift import Drift, drift
from conformance.live.heard import answers_in, silence
from conformance.live.mirror import mirrored
from conformance.live.replaying import record_against
from conformance.live.server import LiveServer
from conformance.options import ConfigurationError
from mockserver.answered import ANSWERS
from mockserver.profiles import PROFILES

MOCK = "mock:"


@dataclass(frozen=True)
class Compared:
    """What was compared, and what came of it."""

    one: str
    other: str
    drift: Drift
    silences: tuple[str, ...] = ()
    """Of each side whose server answered nothing from some moment on, when; and what it never sent."""


def compare(one: Path, other: str, server: LiveServer | None, keep: Path | None) -> Compared:
    """Compare a cassette with something.

    Args:
        other: path of a cassette, or `mock:PROFILE`.
        server: in its place, a server to which the cassette's client side is played.
        keep: folder for what it answered; None: it is not kept.
    Raises ConfigurationError: one of them cannot be used, or `keep` not be written. Problem, NoSlot: the server gave no
        session.
    """
    first = read_cassette(one)
    if server is not None:
        with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
            place = keep or Path(folder)
            try:
                second = asyncio.run(record_against(first, server, place))
            except OSError as error:
                raise ConfigurationError(
                    f"{error.filename or place}: cannot be written: {error.strerror or error}"
                ) from None
        name = str(server.told()["url"])
    elif other.startswith(MOCK):
        profile = other.removeprefix(MOCK)
        if profile not in PROFILES:
            raise ConfigurationError(f"{other}: unknown profile; known: {', '.join(sorted(PROFILES))}")
        second, name = mirrored(first, profile), other
    else:
        second, name = read_cassette(Path(other)), other
    return Compared(str(one), name, drift(first, second), _silences(first, second))


def _silences(first: Cassette, second: Cassette) -> tuple[str, ...]:
    """A server that reads no more sends other events in the same order for a while: what it owes is told first."""
    told = []
    for side, mine, other in (("A", first, second), ("B", second, first)):
        words = silence(mine)
        if words is None or silence(other) is not None:
            continue
        here, there = answers_in(mine), answers_in(other)
        owed = [
            f"{answer} ({here.answered[asked]} of {here.sent[asked]}; the other {there.answered[asked]})"
            for answer, asked in ANSWERS.items()
            if answer != "pong" and here.answered[asked] < here.sent[asked]
        ]
        told.append(f"{side}: {words}" + (f"; missing: {', '.join(owed)}" if owed else ""))
    return tuple(told)


def drift_lines(found: Compared) -> list[str]:
    """For a reader."""
    result = found.drift
    lines = [f"{found.one} and {found.other}: {result.compared} event(s) agree"]
    lines += [f"unanswered  {words}" for words in found.silences]
    if result.difference is not None:
        lines += result.difference.told("A", "B")
    elif not found.silences:
        lines.append("no difference that matters")
    return lines + [f"  note: {note}" for note in result.notes]


def drift_json(found: Compared) -> str:
    """The same for programs."""
    return json.dumps(
        {"a": found.one, "b": found.other, "unanswered": list(found.silences), **asdict(found.drift)},
        indent=2,
    )
