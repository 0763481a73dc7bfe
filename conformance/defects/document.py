"""docs/defects-caught.md: which scenario catches which defect, written from a run of the whole matrix.

python -m conformance.defects.document [FILE]
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from conformance.defects.all import ALL_DEFECTS, OWN_NAMES
from conformance.defects.model import Catch, Defect, DefectResult
from conformance.defects.runner import run_defects, run_reference
from conformance.options import RunOptions
from conformance.session import choose

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "defects-caught.md"
_SHOWN = 5
_HEAD = """\
# Defects and the scenarios that catch them

Written by `python -m conformance.defects.document`; do not edit. Defects of docs/defects.md are put back into the
client one by one, and so are defects of our own where a requirement would never be seen to fail otherwise. A scenario
catches a defect when it passes with the reference client and fails with the defect, through a finding that the defect
named beforehand and that names a requirement which the defect breaks.

{caught} of {all} defects are caught. Of the {listed} historical defects in docs/defects.md {absent}.

| defect | the client... | breaks | caught by | finding | also by |
|---|---|---|---|---|---|
"""
_REQUIREMENTS = """
## Requirements that were seen to fail

| requirement | broken by, and shown in |
|---|---|
"""


def row(defect: Defect, result: DefectResult) -> str:
    """One line of the table: the first catch in full, then how many others there are and some of them."""
    name = f"`{defect.name}`" + (" (own)" if defect.name in OWN_NAMES else "")
    cells = [name, defect.about, ", ".join(defect.breaks)]
    if not result.catches:
        return _line([*cells, "**not caught**", "", ""])
    first, *others = result.catches
    return _line([*cells, f"`{first.scenario}`", caught_through(first), _also(others)])


def caught_through(catch: Catch) -> str:
    """The finding and the requirements of a catch, as the table shows them."""
    return f"`{catch.finding}` ({', '.join(catch.requirements)})"


def _also(others: Sequence[Catch]) -> str:
    files = list(dict.fromkeys(catch.scenario.split("[")[0] for catch in others))
    shown = ", ".join(f"`{name}`" for name in files[:_SHOWN])
    more = f" and {len(files) - _SHOWN} more files" if len(files) > _SHOWN else ""
    return f"{len(others)}: {shown}{more}" if others else ""


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def requirement_rows(results: Sequence[DefectResult]) -> list[str]:
    """One line a requirement: the defects and scenarios that showed it broken, by a finding that names it."""
    shown: dict[str, dict[str, str]] = {}
    for result in results:
        for catch in result.catches:
            for requirement in catch.covers:
                shown.setdefault(requirement, {}).setdefault(result.name, catch.scenario)
    return [
        _line([name, ", ".join(f"`{defect}` in `{scenario}`" for defect, scenario in shown[name].items())])
        for name in sorted(shown, key=lambda name: int(name[1:]))
    ]


def render(results: Sequence[DefectResult]) -> str:
    """The whole document; results in the order of `ALL_DEFECTS`."""
    lines = [row(defect, result) for defect, result in zip(ALL_DEFECTS, results, strict=True)]
    caught = sum(result.caught for result in results)
    listed = re.findall(
        r"^\| `([a-z-]+)` \|", (DOCUMENT.parent / "defects.md").read_text("utf-8"), flags=re.M
    )
    left = [name for name in listed if name not in {defect.name for defect in ALL_DEFECTS}]
    absent = f"all but {', '.join(left)} can be put back so far" if left else "all can be put back"
    head = _HEAD.format(caught=caught, all=len(results), listed=len(listed), absent=absent)
    return "".join([head, *lines, _REQUIREMENTS, *requirement_rows(results)])


def main(arguments: Sequence[str]) -> int:
    """Run the matrix and write the document; 1 when a defect is not caught."""
    target = Path(arguments[0]) if arguments else DOCUMENT
    options = RunOptions()
    scenarios, _ = choose([], [], options)
    processes = os.cpu_count() or 1
    reference = run_reference(scenarios, options, processes)
    results = list(run_defects(ALL_DEFECTS, scenarios, reference, options, processes=processes))
    target.write_text(render(results), encoding="utf-8")
    for result in results:
        if not result.caught:
            print(f"not caught: {result.name}: {result.missed_reason[:400]}", file=sys.stderr)
    return 0 if all(result.caught for result in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
