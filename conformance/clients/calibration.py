"""How many bytes a program's socket takes before a peer that has stopped reading is felt (design.md 4, 6).

Where a program has no network of its own, its send buffer is the system's and grows as it likes; only a trial tells. A
stall is then played with pictures so large that one unit fills it, or, where that is not possible, not at all: it is
`not-observable`, with the figure.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from conformance.abilities import Abilities, Need
from conformance.options import RunOptions
from scenarios.faults import StopReading
from scenarios.faults_base import On
from scenarios.model import Clip, Expect, Scenario

TRIAL_S = 20.0
"""Real seconds that the trial may take."""
SPARE = 1.25
"""A unit is made this much larger than what was measured."""
AUDIO_BYTES = 43_000
"""One second of sound in an append, as text."""
MAX_PICTURE_BYTES = 2_000_000
"""Well below the 4,000,000 characters of protocol.md 5.3."""
TRIAL = Scenario(
    id="trial",
    title="How much a stopped peer is sent",
    about="The server stops reading at the first unit; the client goes on until its socket takes no more.",
    requires=[],
    clip=Clip(seconds=TRIAL_S, frames=True, frame_bytes=600_000),
    faults=[StopReading(on=On(received="input_audio_buffer.append"))],
    expect=Expect(socket_evidence="write_blocked"),
)


@dataclass(frozen=True)
class Figure:
    """What a trial showed."""

    takes_bytes: int | None
    """What the sockets of both ends took after the server had stopped reading; None: no write ever waited."""
    pictures: bool
    """Whether the client sends pictures, which can be made large."""
    told: str
    """In words."""


def measure(options: RunOptions) -> Figure:
    """Run the program once against a server that stops reading. Raises OSError: it cannot be run."""
    from conformance.clients import builtin
    from conformance.runner import perform

    trial = replace(options, client_deadline_s=min(TRIAL_S, options.client_deadline_s or TRIAL_S), out=None)
    with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
        observation = perform(TRIAL, trial, Path(folder), builtin.prepare(TRIAL, trial))
    appends = [
        entry
        for entry in observation.entries
        if (entry.kind, entry.name) == ("received", "input_audio_buffer.append")
    ]
    pictures = any(entry.data.get("frames") for entry in appends)
    seen = [report.evidence for report in observation.faults if report.state == "observed"]
    if seen:
        takes = int(seen[0]["taken_bytes"])
        return Figure(takes, pictures, f"it took {takes} bytes before a write waited")
    if not appends:
        return Figure(None, False, "the trial saw no unit of it")
    return Figure(None, pictures, f"no write of it waited within {trial.client_deadline_s:g} s")


def abilities_after(figure: Figure, abilities: Abilities) -> Abilities:
    """What can be seen of a program once its socket was measured."""
    if figure.takes_bytes is not None:
        return Abilities(abilities.have | {Need.TRANSPORT}, abilities.why_not)
    why = {**abilities.why_not, Need.TRANSPORT: f"the client's socket cannot be filled: {figure.told}"}
    return Abilities(abilities.have - {Need.TRANSPORT}, why)


def stalls(scenario: Scenario) -> list[StopReading]:
    """The faults that bite only when the client's socket is full."""
    return [f for f in scenario.faults if isinstance(f, StopReading) and f.proof == "write_blocked"]


def filled(scenario: Scenario, figure: Figure) -> Scenario | str:
    """The scenario with pictures large enough that a stall is felt at its first unit, or why that cannot be."""
    waiting = stalls(scenario)
    if not waiting or figure.takes_bytes is None:
        return scenario
    clips = [spec.clip for spec in scenario.specs]
    left = min(_units_after(fault, clip) for fault in waiting for clip in clips)
    if left * AUDIO_BYTES > figure.takes_bytes * SPARE:
        return scenario
    why = f"the client's socket takes {figure.takes_bytes} bytes"
    if left < 1:
        return f"{why}, more than it sends after the clip"
    if not figure.pictures or not all(clip.frames for clip in clips):
        return f"{why}, more than {left} unit(s) of sound"
    picture = max(int(figure.takes_bytes * SPARE * 3 / 4), max(clip.frame_bytes for clip in clips))
    if picture > MAX_PICTURE_BYTES:
        return f"{why}, more than a unit can hold"
    large = {"frame_bytes": picture}
    if scenario.clip is not None:
        return scenario.model_copy(update={"clip": scenario.clip.model_copy(update=large)})
    samples = [s.model_copy(update={"clip": s.clip.model_copy(update=large)}) for s in scenario.samples]
    return scenario.model_copy(update={"samples": samples})


def _units_after(fault: StopReading, clip: Clip) -> int:
    """Units of the clip that the client still has to send, after the one at which the peer stops reading."""
    units = -(-int((clip.seconds or 0.0) * 1000) // 1000)
    if fault.at_s is not None:
        return units - int(fault.at_s) - 1
    if fault.on is None:
        return units
    if fault.on.received == "input_audio_buffer.append":
        return units - fault.on.nth
    opening = ("session.update", "session.created", "session.updated")
    return units if (fault.on.received or fault.on.sent) in opening else 0
