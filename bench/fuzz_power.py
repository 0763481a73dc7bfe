"""How many cases a fuzz campaign needs to find each historical defect: ten seeds, the median.

    python bench/fuzz_power.py [--seeds 10] [--cases 5000] [--jobs 2] [--state FILE] [--markdown] [--own N] [DEFECT ...]

A defect is found by a case that fails for the defect's own reason (a finding that it named beforehand) and does not
fail so without the defect. The cases are those of `conformance fuzz --seed S`, in their order. Defects of our own
(conformance.defects.own) are many, and most need a statement of a scenario to be seen: with `--own N` they are looked
for too, in the first N cases.

Each case is drawn and played once with the reference client, whose every place that a defect changes is watched; it is
played again only for the defects whose place it came to and that are still looked for. A run in virtual time is decided
by scenario and seed, so elsewhere the client with the defect does the very same. Such a case counts all the same;
`--every-case` plays it too, and must give the same table. With `--state` an interrupted table goes on where it was.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import NoReturn

from conformance.defects.all import ALL_DEFECTS
from conformance.defects.historical import DEFECTS as OF_THE_FIELD
from conformance.defects.model import Defect
from conformance.defects.reach import fits, watched
from conformance.defects.rewrite import Rewrite, rewritten
from conformance.defects.runner import catch_of
from conformance.fuzz.drawing import Kinds, draw
from conformance.fuzz.play import Played, play
from conformance.fuzz.strategies import build
from conformance.options import RunOptions
from conformance.pool import spread
from conformance.scratch import scratch_folder
from scenarios.model import Scenario

DEFECTS = {defect.name: defect for defect in ALL_DEFECTS}
HISTORICAL = frozenset(defect.name for defect in OF_THE_FIELD)
ROOT = Path(__file__).resolve().parents[1]
STRETCH = 100
"""Cases of one seed that are played in one go."""
UNPLAYABLE = {"artifact-torn": "needs a client that is killed in the middle of a write"}
"""Defects that no drawn scenario can show, whatever is drawn."""
Codes = list[tuple[FunctionType, CodeType]]


@dataclass(frozen=True)
class Stretch:
    seed: int
    first: int
    last: int
    """The case behind it."""
    wanted: tuple[str, ...]
    """Defects that are still looked for."""
    every_case: bool = False


@dataclass
class Report:
    """What one stretch gave."""

    seed: int
    last: int
    found: dict[str, tuple[int, str]] = field(default_factory=dict)
    """By defect: how many cases it took, and the finding."""
    plays: int = 0
    cpu_s: float = 0.0


@lru_cache(maxsize=1)
def codes() -> dict[str, Codes]:
    """The functions that each defect changes, with their changed code; made before anything is watched."""
    made: dict[str, Codes] = {}
    for defect in ALL_DEFECTS:
        by_function: dict[str, list[Rewrite]] = {}
        for rewrite in defect.rewrites:
            by_function.setdefault(rewrite.function, []).append(rewrite)
        made[defect.name] = [rewritten(group) for group in by_function.values()]
    return made


@contextlib.contextmanager
def put_in(name: str) -> Iterator[None]:
    with contextlib.ExitStack() as undo:
        for function, code in codes()[name]:
            undo.callback(setattr, function, "__code__", function.__code__)
            function.__code__ = code
        yield


def hunt(stretch: Stretch) -> Report:
    """Play a stretch of a campaign against every defect that is still looked for."""
    began_s = time.process_time()
    report = Report(stretch.seed, stretch.last)
    left = [DEFECTS[name] for name in stretch.wanted]
    codes()
    blind = {d.name for d in left if stretch.every_case or not fits(d.rewrites)}
    with scratch_folder() as scratch, watched({d.name: d.rewrites for d in left}) as reached:
        for number in range(stretch.first, stretch.last):
            data = draw(Kinds(), stretch.seed, number)
            concerned = [d for d in left if not d.of_the_judge or "judge" in data]
            if not concerned:
                continue
            scenario = build(data, f"fuzz/{stretch.seed}-{number}")
            for defect, finding in _caught(
                scenario, stretch.seed, concerned, reached, blind, scratch, report
            ):
                report.found[defect.name] = (number + 1, finding)
                left.remove(defect)
            if not left:
                break
    report.cpu_s = time.process_time() - began_s
    return report


def _caught(
    scenario: Scenario,
    seed: int,
    concerned: Sequence[Defect],
    reached: set[str],
    blind: set[str],
    scratch: Path,
    report: Report,
) -> Iterator[tuple[Defect, str]]:
    options = RunOptions(seed=seed)

    def played() -> Played:
        report.plays += 1
        return play(scenario, options, scratch)

    reached.clear()
    reference = played().result
    there = set(reached) | blind
    for defect in concerned:
        if defect.name not in there or catch_of(defect, reference) is not None:
            continue
        with put_in(defect.name):
            catch = catch_of(defect, played().result)
        if catch is not None:
            yield defect, catch.finding


@dataclass
class Table:
    """What is known of every campaign so far, in memory and in the file of `--state`."""

    seeds: Sequence[int]
    names: Sequence[str]
    cases: int
    own_cases: int
    """Where the search for a defect of our own ends."""
    file: Path | None
    played: dict[int, int] = field(default_factory=dict)
    found: dict[int, dict[str, tuple[int, str]]] = field(default_factory=dict)

    def load(self) -> None:
        """Take over what stands in the file; it must be of the same sources, or the numbers would not fit together."""
        if self.file is None:
            return
        if not self.file.exists():
            self.file.write_text(json.dumps(self._head()) + "\n")
            return
        whole, _, _ = self.file.read_text().rpartition("\n")  # an interrupt may have torn the last line
        try:
            head, *lines = [json.loads(line) for line in whole.splitlines()]
            reports = [Report(**line) for line in lines]
        except (ValueError, TypeError) as error:
            _refuse(f"{self.file}: is no state of this bench ({error}); give another file, or delete it")
        if head != self._head():
            _refuse(f"{self.file}: is of {head}, now it is {self._head()}; give another file, or delete it")
        self.file.write_text(whole + "\n")
        for report in reports:
            self._take(report)

    def _head(self) -> dict[str, object]:
        own = self.own_cases if self.own_cases < self.cases else 0
        return {"sources": sources(), "defects": sorted(self.names), "own": own}

    def add(self, report: Report) -> None:
        self._take(report)
        if self.file is not None:
            with self.file.open("a") as out:
                out.write(json.dumps(asdict(report)) + "\n")

    def _take(self, report: Report) -> None:
        self.played[report.seed] = max(self.played.get(report.seed, 0), report.last)
        known = self.found.setdefault(report.seed, {})
        known.update({name: (int(needed), finding) for name, (needed, finding) in report.found.items()})

    def next(self, seed: int, *, every_case: bool) -> Stretch | None:
        """What is to be played of a seed now; None: all is found, or played."""
        first = self.played.get(seed, 0)
        known = self.found.get(seed, {})
        wanted = tuple(
            n for n in self.names if first < self.limit(n) and n not in known and n not in UNPLAYABLE
        )
        if not wanted:
            return None
        last = min([first + STRETCH, *(self.limit(n) for n in wanted)])
        return Stretch(seed, first, last, wanted, every_case)

    def limit(self, name: str) -> int:
        """How many cases a defect is looked for."""
        return self.cases if name in HISTORICAL else min(self.own_cases, self.cases)


def _refuse(message: str) -> NoReturn:
    print(message, file=sys.stderr)
    raise SystemExit(2)


def sources() -> str:
    """Digest of all that decides a number."""
    digest = hashlib.sha256()
    for folder in ("client", "conformance", "mockserver", "scenarios"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def told(table: Table, name: str, *, markdown: bool) -> str:
    hunts = [table.found.get(seed, {}).get(name) for seed in table.seeds]
    found = [h[0] for h in hunts if h is not None and h[0] <= table.limit(name)]
    beyond = "not played" if name in UNPLAYABLE else f"more than {table.limit(name)}"
    middle = statistics.median([*found, *[float("inf")] * (len(hunts) - len(found))])
    by = ", ".join(sorted({h[1] for h in hunts if h is not None})) or UNPLAYABLE.get(name, "-")
    cells = (
        name,
        f"{middle:.0f}" if middle != float("inf") else beyond,
        f"{min(found)}" if found else "-",
        f"{max(found)}" if len(found) == len(hunts) else beyond,
        f"{len(found)} of {len(hunts)}",
        by,
    )
    if markdown:
        return "| " + " | ".join((f"`{cells[0]}`", *cells[1:])) + " |"
    return f"{cells[0]:<36} {cells[1]:>14} {cells[2]:>6} {cells[3]:>14}  {cells[4]:>9}  {cells[5]}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("defects", nargs="*")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--own", type=int, metavar="N", default=0)
    parser.add_argument("--state", type=Path)
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--every-case", action="store_true")
    given = parser.parse_args()
    unknown = sorted(set(given.defects) - set(DEFECTS))
    if unknown:
        parser.error(f"no such defect: {', '.join(unknown)}")
    names = given.defects or [name for name in DEFECTS if name in HISTORICAL or given.own]
    own_cases = given.own or (given.cases if given.defects else 0)
    table = Table(range(1, given.seeds + 1), names, given.cases, own_cases, given.state)
    table.load()
    began_s, cpu_s, plays = time.monotonic(), 0.0, 0
    while True:
        stretches = [table.next(seed, every_case=given.every_case) for seed in table.seeds]
        due = [stretch for stretch in stretches if stretch is not None]
        if not due:
            break
        for report in spread(hunt, due, given.jobs):
            table.add(report)
            cpu_s, plays = cpu_s + report.cpu_s, plays + report.plays
        left = {name for stretch in due for name in stretch.wanted if name not in table.found[stretch.seed]}
        played = max(table.played.values())
        print(
            f"{played} cases a seed, {len(left)} still looked for, {plays} performances, {cpu_s:.0f} s of CPU, "
            f"{time.monotonic() - began_s:.0f} s",
            file=sys.stderr,
            flush=True,
        )
    for name in table.names:
        print(told(table, name, markdown=given.markdown), flush=True)


if __name__ == "__main__":
    main()
