"""`conformance coverage`: which requirements have been seen to fail, by which defect and in which scenario.

A requirement is covered when a defect that breaks it is caught by a scenario that lists it, with a finding that
names it (design.md section 8). A claim that was never seen to fail is unproven.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import orjson

from conformance.defects.all import ALL_DEFECTS
from conformance.defects.model import Defect
from conformance.defects.runner import run_defects, run_reference
from conformance.exits import Exit
from conformance.options import RunOptions
from conformance.requirements import requirement_rows
from conformance.session import check_clock, choose
from scenarios.model import Scenario

MUST_BE_COVERED = ("must", "decided")
"""Statuses that fail the command when they are not covered; `open` and `process` are only told."""


@dataclass
class Covered:
    """What is known of one requirement."""

    id: str
    status: str
    text: str
    claimed_by: list[str] = field(default_factory=list)
    """Scenarios that list it."""
    shown: list[str] = field(default_factory=list)
    """`defect in scenario`, each a catch that names it."""

    @property
    def state(self) -> str:
        """covered; unproven: claimed and never seen to fail; hole: not even claimed; else the status itself."""
        if self.status not in MUST_BE_COVERED:
            return self.status
        if self.shown:
            return "covered"
        return "unproven" if self.claimed_by else "hole"


def measure(
    scenarios: Sequence[Scenario],
    defects: Sequence[Defect],
    options: RunOptions,
    processes: int,
    tell: Callable[[str], None] = lambda line: None,
) -> list[Covered]:
    """Coverage of every requirement, R1 to R63 in order.

    Each defect runs in the scenarios most likely to catch it; what is not shown by then is looked for in every
    scenario that claims it.

    Args:
        tell: is given a line when something long begins, and one for each defect.
    """
    found = {row["id"]: Covered(row["id"], row["status"], row["text"]) for row in requirement_rows()}
    for scenario in scenarios:
        for requirement in scenario.requires:
            found[requirement].claimed_by.append(scenario.id)
    likely = {name for defect in defects for name in defect.first}
    _look(found, [s for s in scenarios if s.id in likely], defects, options, processes, tell)
    missing = {c.id for c in found.values() if c.state == "unproven"}
    if missing:
        claiming = [s for s in scenarios if missing & set(s.requires) and s.id not in likely]
        breaking = [d for d in defects if missing & set(d.breaks)]
        tell(f"not shown yet: {', '.join(sorted(missing, key=lambda name: int(name[1:])))}")
        _look(found, claiming, breaking, options, processes, tell)
    return list(found.values())


def _look(
    found: Mapping[str, Covered],
    scenarios: Sequence[Scenario],
    defects: Sequence[Defect],
    options: RunOptions,
    processes: int,
    tell: Callable[[str], None],
) -> None:
    if not scenarios or not defects:
        return
    tell(
        f"playing {len(scenarios)} scenario(s) with the reference client, then with {len(defects)} defect(s)"
    )
    requires = {s.id: set(s.requires) for s in scenarios}
    reference = run_reference(scenarios, options, processes, defects)
    results = run_defects(defects, scenarios, reference, options, processes=processes)
    for number, result in enumerate(results, start=1):
        tell(f"[{number}/{len(defects)}] {result.name}: {len(result.catches)} catch(es)")
        for catch in result.catches:
            for requirement in catch.covers:
                if requirement in requires[catch.scenario]:
                    found[requirement].shown.append(f"{result.name} in {catch.scenario}")


def show_coverage(*, seed: int, processes: int, as_json: bool) -> Exit:
    """Print the table; a hole or an unproven requirement that must hold is exit 1."""
    options = RunOptions(seed=seed)
    check_clock(options)
    scenarios, _ = choose([], [], options)
    covered = measure(scenarios, ALL_DEFECTS, options, processes, _progress)
    if as_json:
        rows = [
            {
                "id": c.id,
                "status": c.status,
                "state": c.state,
                "text": c.text,
                "claimed_by": c.claimed_by,
                "shown": c.shown,
            }
            for c in covered
        ]
        print(orjson.dumps(rows, option=orjson.OPT_INDENT_2).decode())
    else:
        for line in lines(covered):
            print(line)
    bad = [c for c in covered if c.state in ("hole", "unproven")]
    must = [c for c in covered if c.status in MUST_BE_COVERED]
    print(
        f"\n{len(must) - len(bad)} of {len(must)} requirements that must hold were seen to fail",
        file=sys.stderr if as_json else sys.stdout,
    )
    return Exit.FAILED if bad else Exit.PASSED


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def lines(covered: Iterable[Covered]) -> Iterable[str]:
    """One line a requirement: id, state, how many scenarios claim it, and one way in which it was seen to fail."""
    for c in covered:
        shown = (
            f"{c.shown[0]}" + (f" and {len(c.shown) - 1} more" if len(c.shown) > 1 else "")
            if c.shown
            else c.text
        )
        yield f"{c.id:<4} {c.state:<9} {len(c.claimed_by):>3} scenarios  {shown[:110]}"
