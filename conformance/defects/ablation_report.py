"""The ablation told: on the console, as JSON, and as docs/ablation.md.

python -m conformance.defects.ablation_report [FILE]
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from conformance.defects.ablation import Pair, Removal, Shares, measure, pairs_of
from conformance.defects.changes import Reference
from conformance.exits import Exit
from conformance.options import RunOptions
from conformance.session import check_clock, choose

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "ablation.md"
_SHOWN = 6
_HEAD = """\
# What each mitigation is good for

Written by `python -m conformance.defects.ablation_report`; do not edit. Each thing that keeps the client from losing
samples is taken away, alone and in pairs, and the whole catalogue says what it notices. "Fail" counts scenarios where
anything is noticed, "lose a sample" those in which a sample that should be published is not (a score that should be
given is not), or the client never comes back. `conformance defects --ablate` prints the same.

| taken away | what it does | scenarios that come to it | fail without it | lose a sample without it |
|---|---|---|---|---|
"""
_PAIRS = """
## Pairs

Which of two saves a scenario. *Either one*: it breaks only when both are gone, so neither may be credited alone. *Needs
both*: it breaks without either. *Hidden*: it breaks without one, and is whole again without both.
"""
_WORDS = {
    "either": "either one saves it",
    "first": "needs {0}, whatever {1} does",
    "second": "needs {1}, whatever {0} does",
    "both": "needs both",
    "hidden": "broken without one, whole without both",
}


def show_ablation(*, seed: int, processes: int, as_json: bool) -> Exit:
    """Measure and print; exit 1 when a mitigation cannot be taken away or the reference client is not clean."""
    options = RunOptions(seed=seed)
    check_clock(options)
    scenarios, _ = choose([], [], options)
    started = time.perf_counter()
    reference, running = measure(scenarios, options, processes)
    removals: list[Removal] = []
    for removal in running:
        removals.append(removal)
        if not as_json:
            print(line_of(removal), flush=True)
    pairs = pairs_of(removals)
    if as_json:
        print(orjson.dumps(as_data(removals, pairs), option=orjson.OPT_INDENT_2).decode())
    else:
        print("\n".join(line for pair in pairs for line in ("", *pair_lines(pair))))
    out = sys.stderr if as_json else sys.stdout
    print(f"\n{len(removals)} removals; {time.perf_counter() - started:.1f} s", file=out)
    return _verdict(reference, removals)


def _verdict(reference: Reference, removals: Iterable[Removal]) -> Exit:
    for result in reference.unclean:
        print(f"reference client not clean: {result.id}: {result.outcome}", file=sys.stderr)
    broken = [removal for removal in removals if removal.error]
    for removal in broken:
        print(f"cannot be taken away: {' + '.join(removal.taken)}: {removal.error}", file=sys.stderr)
    return Exit.FAILED if broken or reference.unclean else Exit.PASSED


def as_data(removals: Sequence[Removal], pairs: Sequence[Pair]) -> dict[str, Any]:
    """The measurement as plain data."""
    return {"removals": [asdict(r) for r in removals], "pairs": [asdict(p) for p in pairs]}


def line_of(removal: Removal) -> str:
    """One removal on one line."""
    name = " + ".join(removal.taken)
    counts = f"{len(removal.failing):>3} fail, {len(removal.losing):>3} lose a sample"
    return f"without {name:<28} {counts}  {_named(sorted(removal.losing or removal.failing))}".rstrip()


def pair_lines(pair: Pair) -> list[str]:
    """A pair's shares of the scenarios that keep their samples."""
    lines = [f"{pair.names[0]} and {pair.names[1]}, by samples kept (and by scenarios that pass)"]
    for key, words in _WORDS.items():
        kept, passing = getattr(pair.samples, key), getattr(pair.passing, key)
        lines.append(
            f"  {words.format(*pair.names):<52} {len(kept):>3} ({len(passing)})  {_named(kept)}".rstrip()
        )
    return lines


def _named(scenarios: Sequence[str], quote: str = "") -> str:
    files = list(dict.fromkeys(name.split("[")[0] for name in scenarios))
    shown = ", ".join(f"{quote}{name}{quote}" for name in files[:_SHOWN])
    return shown + (f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else "")


def render(removals: Sequence[Removal], pairs: Sequence[Pair]) -> str:
    """The whole document."""
    rows = [
        f"| {removal.taken[0]} | {removal.about} | {removal.ran} | {_cell(sorted(removal.failing))} "
        f"| {_cell(sorted(removal.losing))} |\n"
        for removal in removals
        if len(removal.taken) == 1
    ]
    return "".join([_HEAD, *rows, _PAIRS, *(_pair_table(pair) for pair in pairs)])


def _pair_table(pair: Pair) -> str:
    head = f"\n### {pair.names[0]} and {pair.names[1]}\n\n| | samples kept | scenarios that pass |\n|---|---|---|\n"
    return head + "".join(
        f"| {words.format(*pair.names)} | {_cell(_of(pair.samples, key))} | {_cell(_of(pair.passing, key))} |\n"
        for key, words in _WORDS.items()
    )


def _of(shares: Shares, key: str) -> Sequence[str]:
    found: tuple[str, ...] = getattr(shares, key)
    return found


def _cell(scenarios: Sequence[str]) -> str:
    return f"{len(scenarios)}: {_named(scenarios, '`')}" if scenarios else "none"


def main(arguments: Sequence[str]) -> int:
    """Measure and write the document; 1 as `show_ablation`."""
    options = RunOptions()
    scenarios, _ = choose([], [], options)
    reference, running = measure(scenarios, options, os.cpu_count() or 1)
    removals = list(running)
    target = Path(arguments[0]) if arguments else DOCUMENT
    target.write_text(render(removals, pairs_of(removals)), encoding="utf-8")
    return int(_verdict(reference, removals))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
