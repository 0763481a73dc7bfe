"""`conformance defects`: which scenario catches which historical defect."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict

import orjson

from conformance.defects.all import ALL_DEFECTS, OWN_NAMES
from conformance.defects.model import Defect, DefectResult
from conformance.defects.runner import run_defects, run_reference
from conformance.exits import Exit
from conformance.options import ConfigurationError, RunOptions
from conformance.outcome import Outcome
from conformance.session import check_clock, choose


def chosen_defects(names: Sequence[str]) -> list[Defect]:
    """Defects by name, all of them when none is named.

    Raises ConfigurationError: an unknown name; the message lists the known ones.
    """
    known = {defect.name: defect for defect in ALL_DEFECTS}
    for name in names:
        if name not in known:
            raise ConfigurationError(f"no defect {name!r}; known: {', '.join(sorted(known))}")
    return [known[name] for name in names] if names else list(ALL_DEFECTS)


def show_matrix(
    names: Sequence[str],
    patterns: Sequence[str] = (),
    *,
    seed: int,
    processes: int,
    stop_at_first: bool,
    as_json: bool,
) -> Exit:
    """Run and print the matrix; all caught or exit 1, a reference client that is not clean is exit 1 as well.

    Args:
        names: of the defects; none: all.
        patterns: ids, globs or files of the scenarios; none: all.
    """
    defects = chosen_defects(names)
    options = RunOptions(seed=seed)
    check_clock(options)
    scenarios, _ = choose(patterns, [], options)
    started = time.perf_counter()
    reference = run_reference(scenarios, options, processes, defects)
    unclean = reference.unclean
    results: list[DefectResult] = []
    for result in run_defects(
        defects, scenarios, reference, options, processes=processes, stop_at_first=stop_at_first
    ):
        results.append(result)
        if not as_json:
            for line in _lines(result):
                print(line, flush=True)
    if as_json:
        print(orjson.dumps([asdict(result) for result in results], option=orjson.OPT_INDENT_2).decode())
    caught = sum(result.caught for result in results)
    out = sys.stderr if as_json else sys.stdout
    print(
        f"\n{caught} of {len(results)} defects caught; reference client: "
        f"{len(reference.results) - len(unclean)} of {len(reference.results)}"
        f" scenarios pass; {time.perf_counter() - started:.1f} s",
        file=out,
    )
    for unclean_result in unclean:
        print(f"reference client not clean: {unclean_result.id}: {unclean_result.outcome}", file=out)
    if any(result.outcome is Outcome.HARNESS_ERROR for result in unclean):
        return Exit.HARNESS
    return Exit.PASSED if caught == len(results) and not unclean else Exit.FAILED


def _lines(result: DefectResult) -> list[str]:
    name = f"{result.name} (own)" if result.name in OWN_NAMES else result.name
    if not result.caught:
        return [f"{name:<36} NOT CAUGHT  {result.missed_reason}"]
    first, *more = result.catches
    broken = ", ".join(first.requirements) or next(d.rule for d in ALL_DEFECTS if d.name == result.name)
    lines = [f"{name:<36} caught by {first.scenario}: {first.finding} ({broken})"]
    if more:
        lines.append(f"{'':<36} and {len(more)} more: {', '.join(c.scenario for c in more)}")
    return lines
