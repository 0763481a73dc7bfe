"""docs/catalogue.md: the scenarios by area, written from their files.

python -m conformance.catalogue_document [FILE]
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from scenarios import Scenario, load_catalogue

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "catalogue.md"
AREAS = {
    "ack": "playback acks, periodic and closing",
    "close": "the end of a session and of its connection",
    "commit": "the commit, and what may not pass it",
    "dataset": "rows, splits and ids of a dataset",
    "disk": "disks that are full or slow",
    "drain": "after the commit: padding, waiting, leaving",
    "handshake": "connect, upgrade, session.update to session.created",
    "judge": "requests, re-asks, verdicts and scores",
    "media": "clips and frames that are odd",
    "pace": "servers that are slower, or more talkative, than real time",
    "probes": "questions to a server; nothing is asserted",
    "protocol": "events that are unknown, damaged, doubled or missing",
    "regressions": "what fuzzing found, kept",
    "reply": "replies that end otherwise than completed",
    "resume": "runs that were killed and go on",
    "retry": "the sixteen rows of the retry table",
    "run": "many samples, one result",
    "stream": "clips on their way",
    "teardown": "sockets that stop draining",
    "transport": "the network and the WebSocket protocol",
}
"""What an area is about. One that is not named here is told by its name alone."""
_HEAD = """\
# The catalogue

Written by `python -m conformance.catalogue_document` (`make docs`); do not edit. {count} scenarios in {files} files,
{single} of which are no rows of a table. `conformance show ID` tells the whole story of one; `docs/defects-caught.md`
tells which defect turns each of them red.
"""


def render(scenarios: Sequence[Scenario]) -> str:
    """The whole document."""
    ordered = sorted(scenarios, key=lambda s: (_area(s), _file(s)))
    files = [list(group) for _, group in groupby(ordered, key=_file)]
    head = _HEAD.format(count=len(ordered), files=len(files), single=sum(len(group) == 1 for group in files))
    parts = [head]
    for area, groups in groupby(files, key=lambda group: _area(group[0])):
        rows = list(groups)
        about = AREAS.get(area, "")
        parts.append(f"\n## {area}\n\n" + (f"{about[0].upper()}{about[1:]}.\n\n" if about else ""))
        last = "facts" if area == "probes" else "requires"
        parts.append(f"| scenario | rule | story | {last} |\n|---|---|---|---|\n")
        parts += [_row(group) for group in rows]
    return "".join(parts)


def _row(group: Sequence[Scenario]) -> str:
    first = group[0]
    cases = [_case(s) for s in group]
    name = f"`{_file(first)}`" + (f" [{', '.join(cases)}]" if cases != [""] else "")
    title = first.title.removesuffix(f" [{_case(first)}]")
    requires = dict.fromkeys(r for s in group for r in s.requires)
    facts = list(first.probe.facts) if first.probe is not None else []
    last = ", ".join(facts or sorted(requires, key=lambda r: int(r[1:])))
    return (
        "| " + " | ".join(_cell(text) for text in (name, title, first_sentence(first.about), last)) + " |\n"
    )


def first_sentence(text: str) -> str:
    """Up to the first full stop that ends a sentence; names such as `session.close` and `1.8 s` hold none."""
    flat = " ".join(text.split())
    end = re.search(r"[.!?](?= [A-Z\"']|$)", flat)
    return flat[: end.end()] if end is not None else flat


def _area(scenario: Scenario) -> str:
    return scenario.id.split("/", 1)[0]


def _file(scenario: Scenario) -> str:
    return scenario.id.split("[", 1)[0]


def _case(scenario: Scenario) -> str:
    return scenario.id.removeprefix(_file(scenario)).strip("[]")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main(arguments: Sequence[str]) -> int:
    """Write the document; 2 for what is no file."""
    if len(arguments) > 1 or any(one.startswith("-") for one in arguments):
        print(
            f"conformance.catalogue_document: found {' '.join(arguments)!r}; allowed: FILE", file=sys.stderr
        )
        return 2
    target = Path(arguments[0]) if arguments else DOCUMENT
    target.write_text(render(load_catalogue()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
