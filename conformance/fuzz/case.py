"""One case of a campaign: a drawn scenario played, and played again with other chances, and what that shows."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.fuzz.drawing import Kinds
from conformance.fuzz.play import Played, play
from conformance.fuzz.strategies import build
from conformance.options import RunOptions
from conformance.outcome import Finding, Outcome
from scenarios.errors import ScenarioError

Data = dict[str, Any]

TIES_EVERY = 4
"""Every so many cases the scenario is played again with simultaneous events in another order."""
CHUNKS_EVERY = 8
"""Every so many cases it is played again with the server's frames cut in pieces."""
DOUBTS = (11, 12, 13)
"""Orders of ties that a finding beside a near miss must survive."""
SLICER: Data = {"slicer": {"average_size_bytes": 900, "size_variation_bytes": 700, "delay_s": 1e-7}}
BYTEWISE = frozenset({"limit_data", "slicer", "bandwidth", "latency"})
"""Faults that count bytes or writes: with other pieces they are other faults."""
HARNESS_ERROR = "harness-error"
"""Id of the finding that the harness itself broke in a performance."""
MOVED_S = 0.0037
"""How much later the faults come when a difference is looked at again: off every beat that a scenario has."""
_MOMENTS = ("at_s", "for_s", "delay_s")
_SHORT_S = 0.01
"""Of less than that a delay paces pieces and is no moment."""
_SLOW_READER = "fault slow_reading"
"""What it takes in a step hangs on whether that comes before or behind a write of the same instant, and when the writer
goes on hangs on that: an order, or a microsecond, moves whole units."""


@dataclass(frozen=True)
class Found:
    """A finding, and all that is needed to see it again."""

    finding: Finding
    seed: int
    number: int
    data: Data
    """The scenario."""
    ties: int | None = None
    """Order of simultaneous events; None: as they were asked for."""
    against: str = ""
    """`ties` or `chunks`: it was found by comparing with the performance without."""

    @property
    def key(self) -> str:
        """Findings with the same id and stack are one."""
        return f"{self.finding.id}-{_digest(_essence(self.finding))}"


@dataclass(frozen=True)
class CaseResult:
    """What came of one case."""

    number: int
    outcome: Outcome
    found: tuple[Found, ...]
    states: frozenset[str]
    virtual_s: float
    extra_runs: int
    """Performances beyond the first."""
    digest: str = ""
    """Of the trace; only when asked for."""
    notes: tuple[str, ...] = field(default=())
    """Why it is indeterminate."""


_VARIABLE = re.compile(r"\d+(\.\d+)?|'[^']*'|\"[^\"]*\"|0x[0-9a-f]+")


def _essence(finding: Finding) -> str:
    """What makes two findings one: the stack where there is one, else its words without numbers and quotations."""
    stack = [re.sub(r":\d+\)", ")", line) for line in finding.details if line.startswith("  ")]
    if stack:
        return "\n".join(stack)
    return _VARIABLE.sub("_", finding.actual)[:160]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:6]


class CasePlayer:
    """Plays cases of one seed in one folder."""

    def __init__(self, seed: int, scratch: Path, *, trace: bool = False) -> None:
        self.seed = seed
        self.scratch = scratch
        self.trace = trace

    def case(self, number: int, data: Data) -> CaseResult:
        """Play a drawn scenario; and where its number says so, with other ties and other pieces."""
        played = self.play(data, number)
        found = list(self._found(played, data, number))
        states, notes, extra = set(played.states), [], 0
        if found and played.in_doubt:
            kept = self._beyond_doubt(found, data, number)
            extra += len(DOUBTS)
            if len(kept) < len(found):
                notes.append("a finding hangs on an event within 1 ms of a deadline")
            found = kept
        for against in self._variants(number, data):
            extra += 1
            more, note = self._against(played, against, data, number)
            found += more
            if note:
                notes.append(note)
        outcome = played.result.outcome
        if found:
            outcome = Outcome.FAIL
        elif notes:
            outcome = Outcome.INDETERMINATE
        digest = played.digest if self.trace else ""
        return CaseResult(
            number,
            outcome,
            tuple(found),
            frozenset(states),
            played.result.virtual_s,
            extra,
            digest,
            tuple(notes),
        )

    def play(self, data: Data, number: int, *, ties: int | None = None) -> Played:
        """One performance of some data."""
        options = RunOptions(seed=self.seed, tie_seed=ties)
        return play(build(data, f"fuzz/{self.seed}-{number}"), options, self.scratch, trace=self.trace)

    def valid(self, data: Data) -> bool:
        """Whether it is a scenario at all."""
        try:
            build(data, "edited")
        except ScenarioError:
            return False
        return True

    def check(self, found: Found, data: Data) -> tuple[Found, ...]:
        """What the same look finds in other data: for shrinking, and for replaying."""
        played = self.play(data, found.number, ties=None if found.against else found.ties)
        if found.against:
            return tuple(self._against(played, found.against, data, found.number, ties=found.ties)[0])
        return tuple(self._found(played, data, found.number, ties=found.ties))

    def _found(self, played: Played, data: Data, number: int, ties: int | None = None) -> Iterator[Found]:
        for finding in played.findings:
            yield Found(finding, self.seed, number, data, ties)

    def _beyond_doubt(self, found: Sequence[Found], data: Data, number: int) -> list[Found]:
        """Those that do not hang on the order of what happened at the deadline's own instant.

        An error of the harness in one of the orders is found whatever it hangs on.
        """
        keys, broken = {one.key for one in found}, []
        for ties in DOUBTS:
            again = list(self._found(self.play(data, number, ties=ties), data, number, ties))
            keys &= {one.key for one in again}
            broken += _broken(again)
        kept = [one for one in found if one.key in keys]
        known = {one.key for one in kept}
        return kept + list({one.key: one for one in broken if one.key not in known}.values())

    def _variants(self, number: int, data: Data) -> Iterator[str]:
        names = {name for name, _ in faults_of(data)}
        if number % TIES_EVERY == 1 and not _order_decides(data):
            yield "ties"
        if number % CHUNKS_EVERY == 3 and not names & BYTEWISE:
            yield "chunks"

    def _against(
        self, played: Played, against: str, data: Data, number: int, ties: int | None = None
    ) -> tuple[list[Found], str]:
        """Compare with a performance that should have ended the same way."""
        if against == "ties" and ties is None:
            ties = number
        varied = _varied(data, against)
        other = self.play(varied, number, ties=_order(against, ties))
        known = {Found(finding, self.seed, number, data).key for finding in played.findings}
        fresh = [f for f in self._found(other, varied, number, ties) if f.key not in known]
        if broken := _broken(fresh):
            return broken, ""
        difference = None
        if not played.findings and not other.findings:
            difference = played.summary.difference(other.summary)
        if not fresh and difference is None:
            return [], ""
        if doubt := _doubt(played, other, fresh):
            return [], f"with other {against} {doubt}"
        if fresh:
            return fresh, ""
        assert difference is not None
        moved = _moved(data)
        if moved is not None:
            differs, broken = self._differs(moved, against, number, ties)
            if broken:
                return broken, ""
            if not differs:
                return (
                    [],
                    f"with other {against} it ends otherwise, and not when its faults come a little later",
                )
        sample, expected, actual = difference
        finding = Finding(f"depends-on-{against}", (), expected, actual, sample)
        return [Found(finding, self.seed, number, data, ties, against)], ""

    def _differs(self, data: Data, against: str, number: int, ties: int | None) -> tuple[bool, list[Found]]:
        """Whether other data, too, ends otherwise in another order or in other pieces; and errors of the harness."""
        plain, varied = self.play(data, number), _varied(data, against)
        other = self.play(varied, number, ties=_order(against, ties))
        broken = _broken(self._found(plain, data, number))
        broken += _broken(self._found(other, varied, number, _order(against, ties)))
        if broken:
            return False, broken
        return plain.summary.difference(other.summary) is not None, []


def _broken(found: Iterable[Found]) -> list[Found]:
    """The errors of the harness among them: of such a performance nothing else can be said."""
    return [one for one in found if one.finding.id == HARNESS_ERROR]


def _varied(data: Data, against: str) -> Data:
    """The scenario of the other performance."""
    return {**data, "faults": [*(data.get("faults") or ()), SLICER]} if against == "chunks" else data


def _order(against: str, ties: int | None) -> int | None:
    """The order of simultaneous events in the other performance."""
    return None if against == "chunks" else ties


def _doubt(played: Played, other: Played, fresh: Sequence[Found]) -> str:
    """Why two performances may end otherwise though the client is right; "" if nothing says so."""
    if played.near_misses or other.near_misses:
        return "it ends otherwise, beside an event within 1 ms of a deadline"
    if fresh:
        return ""
    if _bitten(played) != _bitten(other):
        return "another fault bites"
    if _SLOW_READER in played.states | other.states:
        return "a slow reader takes other steps"
    if played.open_orders or other.open_orders:
        return "it ends otherwise, beside input in the instant of a server's timer"
    return ""


def faults_of(data: Data) -> list[tuple[str, Data]]:
    """Name and parameters of each fault, however it is written: alone as text, without parameters, with some."""
    pairs: list[tuple[str, Data]] = []
    for fault in data.get("faults") or ():
        given = {fault: None} if isinstance(fault, str) else fault
        pairs += [(name, parameters or {}) for name, parameters in given.items()]
    return pairs


def _moved(data: Data) -> Data | None:
    """The scenario with its faults a little later, and so beside no event of anybody's; None: it has none that can.

    What a fault that comes in the very instant of an event does to it, the order of the instant decides, and each is
    right: a difference that is the client's is there when the fault comes a little later as well.
    """
    if not any(_later(key, value) != value for _, given in faults_of(data) for key, value in given.items()):
        return None
    faults = [{n: {k: _later(k, v) for k, v in given.items()} or None} for n, given in faults_of(data)]
    later = {**data, "faults": faults}
    try:
        build(later, "moved")
    except ScenarioError:  # a bound of its own
        return None
    return later


def _later(key: str, value: Any) -> Any:
    if key in _MOMENTS and isinstance(value, int | float) and (key == "at_s" or value >= _SHORT_S):
        return value + MOVED_S
    return value


def _order_decides(data: Data) -> bool:
    """Whether a fault's own effect depends on the order within an instant.

    Jitter is drawn write by write, and what order they have decides whose is whose; a disk that holds up the whole loop
    holds up other samples or other steps, as they come.
    """
    return any(
        name == "slow_disk" or (name == "latency" and given.get("jitter_s"))
        for name, given in faults_of(data)
    )


def _bitten(played: Played) -> set[str]:
    """Faults that were seen to bite, but for the one that a comparison adds."""
    return {state for state in played.states if state.startswith("fault ")} - {"fault slicer"}


@dataclass(frozen=True)
class Block:
    """Cases that one worker plays in one go."""

    seed: int
    numbers: tuple[int, ...]
    kinds: Kinds


@dataclass(frozen=True)
class BlockResult:
    """What came of a block."""

    cases: tuple[CaseResult, ...]
    cpu_s: float
    """Processor time of this process for it."""
