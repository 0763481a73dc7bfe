"""How often a verdict is not the one it should be: the catalogue over and over, and the stall scenarios more often.

python bench/flakes.py [--catalogue 200] [--stalls 5000] [--busy 2] [--jobs 2] [--state FILE]

Runs beside busy loops, which take the cores away. Every scenario passes with the reference client, so whatever does not
pass is a flake; each is printed with its findings. With --state an interrupted run goes on where it was. Exit code 1
when there was a flake. The processes are forked from one that has imported everything; nothing is imported again.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from beside import State, Ticker, busy

from conformance.defects.changes import ram_disk
from conformance.options import RunOptions
from conformance.outcome import Outcome, ScenarioResult
from conformance.pool import spread
from conformance.runner import run_scenario
from conformance.session import choose
from scenarios import Scenario


def main(arguments: Sequence[str]) -> int:
    """Run what is left of both parts; 1 when anything did not pass."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--catalogue", type=int, default=200, help="runs of the whole catalogue")
    parser.add_argument(
        "--stalls", type=int, default=5000, help="runs of scenarios with the tag stall, together"
    )
    parser.add_argument("--busy", type=int, default=2, help="busy loops beside them")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--state", type=Path, help="figures are kept here; a run goes on from them")
    asked = parser.parse_args(arguments)
    state = State(asked.state, {"catalogue": 0, "stalls": 0, "scenarios": 0, "flakes": []})
    everything, _ = choose([], [], RunOptions())
    stalls, _ = choose([], ["stall"], RunOptions())
    with busy(asked.busy), ram_disk():
        _catalogue(everything, asked.catalogue, asked.jobs, state)
        _stalls(stalls, asked.stalls, asked.jobs, state)
    figures = state.figures
    print(
        f"{figures['catalogue']} catalogue runs and {figures['stalls']} runs of {len(stalls)} stall scenarios, "
        f"{figures['scenarios']} scenarios in all, beside {asked.busy} busy loops: {len(figures['flakes'])} flakes"
    )
    return 1 if figures["flakes"] else 0


def _catalogue(scenarios: list[Scenario], wanted: int, jobs: int, state: State) -> None:
    ticker = Ticker()
    while state.figures["catalogue"] < wanted:
        began_s = time.monotonic()
        for result in spread(partial(run_scenario, options=RunOptions()), scenarios, jobs):
            _take(result, state)
        state.figures["catalogue"] += 1
        state.save()
        left = wanted - state.figures["catalogue"]
        took_s = time.monotonic() - began_s
        ticker.tell(
            f"catalogue {state.figures['catalogue']} of {wanted}, {took_s:.1f} s each, "
            f"{left * took_s / 60:.0f} min left, {len(state.figures['flakes'])} flakes"
        )
    state.save(now=True)


def _stalls(scenarios: list[Scenario], wanted: int, jobs: int, state: State) -> None:
    ticker = Ticker()
    while (done := state.figures["stalls"]) < wanted:
        began_s = time.monotonic()
        batch = (scenarios * (1 + 400 // len(scenarios)))[: min(400, wanted - done)]
        for result in spread(partial(run_scenario, options=RunOptions()), batch, jobs):
            _take(result, state)
        state.figures["stalls"] += len(batch)
        state.save()
        rate = len(batch) / (time.monotonic() - began_s)
        ticker.tell(
            f"stalls {state.figures['stalls']} of {wanted}, {rate:.0f} a second, {len(state.figures['flakes'])} flakes"
        )
    state.save(now=True)


def _take(result: ScenarioResult, state: State) -> None:
    state.figures["scenarios"] += 1
    if result.outcome is not Outcome.PASS:
        told = (
            "; ".join(f"{f.id}: expected {f.expected}, got {f.actual}" for f in result.findings)
            or result.reason
        )
        state.figures["flakes"].append(f"{result.id}: {result.outcome}: {told}"[:600])
        print(f"FLAKE {state.figures['flakes'][-1]}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
