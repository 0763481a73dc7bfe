"""docs/defects-caught.md, and the column "caught by" of docs/defects.md, written from a run of the matrix.

python -m conformance.defects.document [DEFECT]...

With names only those defects are run; the rows of the others, and what turns each scenario red, stay as they are.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from conformance.defects.all import ALL_DEFECTS, OWN_NAMES
from conformance.defects.matrix import chosen_defects
from conformance.defects.model import Catch, Defect, DefectResult
from conformance.defects.red import red_rows
from conformance.defects.runner import run_defects, run_reference
from conformance.exits import Exit
from conformance.options import ConfigurationError, RunOptions
from conformance.session import choose

DOCS = Path(__file__).resolve().parents[2] / "docs"
DOCUMENT = DOCS / "defects-caught.md"
LISTED = DOCS / "defects.md"
REMEDY = "python -m conformance.defects.document"
_SHOWN = 5
_HEAD = """\
# Defects and the scenarios that catch them

Written by `python -m conformance.defects.document`; do not edit. Defects of docs/defects.md are put back into the
client one by one, and so are defects of our own where a requirement, or a scenario, would never be seen to fail
otherwise. A scenario catches a defect when it passes with the reference client and fails with the defect, through a
finding that the defect named beforehand, in a message that names a requirement which the defect breaks. (A defect that
breaks a section of evaluation.md or protocol.md instead is caught by its finding alone.)

{caught} of {all} defects are caught. Of the {listed} historical defects in docs/defects.md {absent}.

| defect | the client... | breaks | caught by | finding | also by |
|---|---|---|---|---|---|
"""
_REQUIREMENTS = """
## Requirements that were seen to fail

| requirement | broken by, and shown in |
|---|---|
"""
_RED = """
## What turns each scenario red

One defect for each scenario: the one that turns the fewest others red, and by an expectation of the scenario's own
where there is such a one. *(invariant)*: only by what holds in every scenario anyway.

| scenario | turned red by |
|---|---|
"""


def row(defect: Defect, result: DefectResult) -> str:
    """One line of the table: the first catch in full, then how many others there are and some of them."""
    name = f"`{defect.name}`" + (" (own)" if defect.name in OWN_NAMES else "")
    cells = [name, defect.about, broken_by(defect)]
    if not result.catches:
        return _line([*cells, "**not caught**", "", ""])
    first, *others = result.catches
    return _line([*cells, f"`{first.scenario}`", caught_through(first), _also(others)])


def broken_by(defect: Defect) -> str:
    """What a defect breaks: requirements, or a section."""
    return ", ".join(defect.breaks) or defect.rule


def caught_through(catch: Catch) -> str:
    """The finding and the requirements of a catch, as the table shows them."""
    numbers = f" ({', '.join(catch.requirements)})" if catch.requirements else ""
    return f"`{catch.finding}`{numbers}"


def _also(others: Sequence[Catch]) -> str:
    files = list(dict.fromkeys(catch.scenario.split("[")[0] for catch in others))
    shown = ", ".join(f"`{name}`" for name in files[:_SHOWN])
    more = f" and {len(files) - _SHOWN} more files" if len(files) > _SHOWN else ""
    return f"{len(others)}: {shown}{more}" if others else ""


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def requirement_rows(results: Sequence[DefectResult], kept: Mapping[str, Mapping[str, str]]) -> list[str]:
    """One line a requirement: the defects and scenarios that showed it broken, by a finding that names it.

    Args:
        kept: of the defects that were not run: requirement to defect to scenario.
    """
    shown: dict[str, dict[str, str]] = {name: dict(defects) for name, defects in kept.items()}
    for result in results:
        for catch in result.catches:
            for requirement in catch.covers:
                shown.setdefault(requirement, {}).setdefault(result.name, catch.scenario)
    order = [defect.name for defect in ALL_DEFECTS]
    return [
        _line(
            [
                name,
                ", ".join(
                    f"`{defect}` in `{shown[name][defect]}`"
                    for defect in sorted(shown[name], key=order.index)
                ),
            ]
        )
        for name in sorted(shown, key=lambda name: int(name[1:]))
    ]


def rows_of(text: str) -> dict[str, str]:
    """The table's lines by the name of the defect."""
    table = text.split(_REQUIREMENTS.strip().splitlines()[0], 1)[0]
    return {m[1]: m[0] + "\n" for m in re.finditer(r"^\| `([a-z-]+)`.*$", table, flags=re.M)}


def requirements_of(text: str) -> dict[str, dict[str, str]]:
    """Requirement to defect to scenario, as the document says."""
    found = {}
    for match in re.finditer(r"^\| (R\d+) \| (.*) \|$", text, flags=re.M):
        found[match[1]] = dict(re.findall(r"`([a-z-]+)` in `([^`]+)`", match[2]))
    return found


def red_of(text: str) -> str:
    """The section that says what turns each scenario red, without its head."""
    return text.split(_RED, 1)[1] if _RED in text else ""


def listed_names() -> list[str]:
    """The historical defects of docs/defects.md, in its order."""
    return re.findall(r"^\| `([a-z-]+)` \|", LISTED.read_text("utf-8"), flags=re.M)


def render(results: Sequence[DefectResult], red: str, before: str = "") -> str:
    """The whole document.

    Args:
        results: of the defects that were run.
        red: what turns each scenario red.
        before: the document as it was; its rows stay for defects that were not run.
    """
    ran = {result.name: result for result in results}
    known = {d.name for d in ALL_DEFECTS} - set(ran)
    old = {name: line for name, line in rows_of(before).items() if name in known}
    lines = [
        row(d, ran[d.name]) if d.name in ran else old[d.name] for d in ALL_DEFECTS if d.name in {**ran, **old}
    ]
    kept = {
        name: {d: s for d, s in defects.items() if d in known}
        for name, defects in requirements_of(before).items()
    }
    listed = listed_names()
    left = [name for name in listed if name not in {defect.name for defect in ALL_DEFECTS}]
    absent = f"all but {', '.join(left)} can be put back so far" if left else "all can be put back"
    caught = sum("**not caught**" not in line for line in lines)
    head = _HEAD.format(caught=caught, all=len(lines), listed=len(listed), absent=absent)
    return "".join([head, *lines, _REQUIREMENTS, *requirement_rows(results, kept), _RED, red])


def listed_with_column(text: str, rows: Mapping[str, str]) -> str:
    """docs/defects.md with its last column, taken from the rows of docs/defects-caught.md."""
    lines = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| id |"):
            line = _line([*cells[:3], "caught by"]).rstrip("\n")
        elif line.startswith("|---"):
            line = "|---|---|---|---|"
        elif (match := re.match(r"\| `([a-z-]+)` \|", line)) is not None:
            line = _line([*cells[:3], _caught_by(rows.get(match[1], ""))]).rstrip("\n")
        lines.append(line)
    return "\n".join(lines) + "\n"


def _caught_by(row_line: str) -> str:
    cells = row_line.rstrip("\n").strip("|").split(" | ")
    if len(cells) < 6 or "not caught" in cells[3]:
        return "not yet"
    others = cells[5].strip().split(":")[0]
    return cells[3].strip() + (f" and {others} more" if others else "")


def main(names: Sequence[str]) -> int:
    """Run the matrix, or some defects of it, and write both documents; 1 when a defect is not caught, 2 for a name."""
    try:
        defects = chosen_defects(names)
    except ConfigurationError as error:
        print(f"conformance.defects.document: {error}", file=sys.stderr)
        return int(Exit.USAGE)
    options = RunOptions()
    scenarios, _ = choose([], [], options)
    processes = os.cpu_count() or 1
    reference = run_reference(scenarios, options, processes, defects)
    results = list(run_defects(defects, scenarios, reference, options, processes=processes))
    before = DOCUMENT.read_text("utf-8")
    red = red_of(before) if names else "".join(_line(cells) for cells in red_rows(scenarios, results))
    text = render(results, red, before)
    DOCUMENT.write_text(text, encoding="utf-8")
    LISTED.write_text(listed_with_column(LISTED.read_text("utf-8"), rows_of(text)), encoding="utf-8")
    for result in results:
        if not result.caught:
            print(f"not caught: {result.name}: {result.missed_reason[:400]}", file=sys.stderr)
    return 0 if all(result.caught for result in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
