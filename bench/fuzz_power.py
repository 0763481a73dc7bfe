"""How many cases a fuzz campaign needs to find each historical defect: ten seeds, the median.

    python bench/fuzz_power.py [--seeds 10] [--cases 5000] [--jobs 2] [--markdown] [DEFECT ...]

A defect is found by a case that fails for the defect's own reason (a finding that it named beforehand) and does not
fail so without the defect. The cases are those of `conformance fuzz --seed S`, in their order; one that has no judge
is not played for a defect of the judge, since it could show nothing, and is counted all the same.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass
from functools import lru_cache

from conformance.defects.all import ALL_DEFECTS
from conformance.defects.model import Defect
from conformance.defects.rewrite import applied
from conformance.defects.runner import catch_of
from conformance.fuzz.drawing import Drawer, Kinds
from conformance.fuzz.play import play
from conformance.fuzz.strategies import build
from conformance.options import RunOptions
from conformance.pool import spread
from conformance.scratch import scratch_folder

DEFECTS = {defect.name: defect for defect in ALL_DEFECTS}


@dataclass(frozen=True)
class Job:
    defect: str
    seed: int
    cases: int


@dataclass(frozen=True)
class Hunt:
    """One campaign against one defect."""

    defect: str
    seed: int
    needed: int | None
    """Cases until it was found; None: not within the limit."""
    finding: str
    cpu_s: float


@lru_cache(maxsize=1)
def drawer() -> Drawer:
    return Drawer(Kinds())


def hunt(job: Job) -> Hunt:
    defect = DEFECTS[job.defect]
    options = RunOptions(seed=job.seed)
    began_s = time.process_time()
    with scratch_folder() as scratch:
        for number in range(job.cases):
            data = drawer().draw(job.seed, number)
            if defect.of_the_judge and "judge" not in data:
                continue
            scenario = build(data, f"fuzz/{job.seed}-{number}")
            with applied(defect.rewrites):
                result = play(scenario, options, scratch).result
            catch = catch_of(defect, result)
            if catch is None:
                continue
            if catch_of(defect, play(scenario, options, scratch).result) is None:
                return Hunt(job.defect, job.seed, number + 1, catch.finding, time.process_time() - began_s)
    return Hunt(job.defect, job.seed, None, "", time.process_time() - began_s)


def told(defect: Defect, hunts: list[Hunt], cases: int, *, markdown: bool) -> str:
    needed = [h.needed for h in hunts]
    found = [n for n in needed if n is not None]
    middle = statistics.median([n if n is not None else float("inf") for n in needed])
    median = f"{middle:.0f}" if middle != float("inf") else f"more than {cases}"
    most = f"{max(found)}" if len(found) == len(needed) else f"more than {cases}"
    by = ", ".join(sorted({h.finding for h in hunts if h.finding})) or "-"
    cells = (
        defect.name,
        median,
        f"{min(found)}" if found else "-",
        most,
        f"{len(found)} of {len(hunts)}",
        by,
    )
    if markdown:
        return "| " + " | ".join((f"`{cells[0]}`", *cells[1:])) + " |"
    return f"{cells[0]:<36} {cells[1]:>12} {cells[2]:>8} {cells[3]:>14}  {cells[4]:>9}  {cells[5]}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("defects", nargs="*")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--markdown", action="store_true")
    given = parser.parse_args()
    names = given.defects or list(DEFECTS)
    jobs = [Job(name, seed, given.cases) for name in names for seed in range(1, given.seeds + 1)]
    of: dict[str, list[Hunt]] = {}
    for done in spread(hunt, jobs, given.jobs):
        of.setdefault(done.defect, []).append(done)
        if len(of[done.defect]) == given.seeds:
            print(
                told(DEFECTS[done.defect], of[done.defect], given.cases, markdown=given.markdown), flush=True
            )


if __name__ == "__main__":
    main()
