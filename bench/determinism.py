"""Whether the same seed gives the same trace: every scenario some times, ten of them often, in different processes.

python bench/determinism.py [--catalogue 10] [--ten 1000] [--busy 2] [--state FILE] [SCENARIO]...

Two processes with different PYTHONHASHSEED play the scenarios beside busy loops and tell a hash of each trace and
verdict (what is comparable: design.md 4). A scenario with more than one hash is named, and exit code 1. Each process
imports once and goes on; with --state an interrupted run goes on where it was.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from beside import State, Ticker, busy

HASH_SEEDS = ("0", "4711")
TEN = (
    "ack/request-timeout-in-join",
    "ack/stubborn-final",
    "transport/slow-network[slow-reading]",
    "commit/stall-at-commit",
    "drain/outlives-input[3s]",
    "drain/stall-before-done",
    "reply/reset",
    "retry/stall-then-success",
    "retry/tallies",
    "stream/clean-residual[july]",
)


def main(arguments: Sequence[str]) -> int:
    """Compare until every scenario has been played as often as asked; 1 when one gave two traces."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scenarios", nargs="*", help="instead of the whole catalogue")
    parser.add_argument("--catalogue", type=int, default=10, help="plays of every scenario")
    parser.add_argument("--ten", type=int, default=1000, help="plays of ten scenarios, each")
    parser.add_argument("--busy", type=int, default=2, help="busy loops beside them")
    parser.add_argument("--state", type=Path, help="figures are kept here; a run goes on from them")
    parser.add_argument("--play", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.play:
        return play()
    state = State(asked.state, {"played": {}, "hashes": {}})
    with busy(asked.busy), ExitStack() as stack:
        players = [_Player(stack, seed) for seed in HASH_SEEDS]
        names = asked.scenarios or players[0].catalogue()
        _compare(names, asked.catalogue, players, state)
        if not asked.scenarios:
            _compare(list(TEN), asked.ten, players, state)
    unlike = [name for name, hashes in state.figures["hashes"].items() if len(hashes) > 1]
    total = sum(state.figures["played"].values())
    different = len(state.figures["played"])
    print(f"{total} plays of {different} scenarios beside {asked.busy} busy loops: {len(unlike)} differ")
    for name in unlike:
        print(f"differs: {name}: {state.figures['hashes'][name]}")
    return 1 if unlike else 0


class _Player:
    """A process with a hash seed of its own that plays what it is told and answers with a hash."""

    def __init__(self, stack: ExitStack, seed: str) -> None:
        self._process = stack.enter_context(
            subprocess.Popen(
                [sys.executable, __file__, "--play"],
                env={**os.environ, "PYTHONHASHSEED": seed},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        stack.callback(self._process.kill)

    def ask(self, name: str) -> None:
        """Begin to play a scenario."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{name}\n")
        self._process.stdin.flush()

    def answer(self) -> str:
        """The hash of what was asked for last. Raises RuntimeError: the process died."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("a player died; its reason stands above")
        return line.strip()

    def catalogue(self) -> list[str]:
        """Ids of all scenarios that can be played here."""
        self.ask("")
        return list(json.loads(self.answer()))


def _compare(names: Sequence[str], wanted: int, players: Sequence[_Player], state: State) -> None:
    ticker = Ticker()
    played, hashes = state.figures["played"], state.figures["hashes"]
    while any(played.get(name, 0) < wanted for name in names):
        for name in names:
            if played.get(name, 0) >= wanted:
                continue
            for player in players:
                player.ask(name)
            for player in players:
                answer = player.answer()
                if answer not in hashes.setdefault(name, []):
                    hashes[name].append(answer)
                    if len(hashes[name]) > 1:
                        print(f"DIFFERS {name}: {hashes[name]}", flush=True)
            played[name] = played.get(name, 0) + len(players)
            least, unlike = min(played.get(n, 0) for n in names), sum(len(h) > 1 for h in hashes.values())
            ticker.tell(f"{len(names)} scenarios, each {least} of {wanted} times, {unlike} differ")
            state.save()
    state.save(now=True)


# The player ------------------------------------------------------------------------------------------------


def play() -> int:
    """Read ids from standard input, answer each with a hash; an empty line asks for the catalogue."""
    from conformance.defects.changes import ram_disk
    from conformance.options import RunOptions
    from conformance.session import choose

    scenarios = {s.id: s for s in choose([], [], RunOptions())[0]}
    with ram_disk():
        for line in sys.stdin:
            name = line.strip()
            answer = json.dumps(list(scenarios)) if not name else _hash(_lines(scenarios[name]))
            print(answer, flush=True)
    return 0


def _hash(lines: Iterator[str]) -> str:
    found = hashlib.sha256()
    for line in lines:
        found.update(line.encode() + b"\n")
    return found.hexdigest()[:20]


def _lines(scenario: object) -> Iterator[str]:
    """What must be the same: the comparable trace and the verdict; of a probe its facts."""
    from conformance.clients import builtin
    from conformance.judgement import judge
    from conformance.options import RunOptions
    from conformance.probing.ask import run_probe
    from conformance.runner import perform
    from conformance.trace import comparable
    from scenarios import Scenario

    assert isinstance(scenario, Scenario)
    options = RunOptions()
    if scenario.probe is not None:
        yield json.dumps(dict(run_probe(scenario, options).facts))
        return
    with tempfile.TemporaryDirectory() as folder:
        observation = perform(scenario, options, Path(folder), builtin.prepare(scenario, options))
        verdict = judge(observation, options, real_s=0.0)
    assert observation.recorder is not None
    yield from comparable(observation.recorder.ordered())
    yield f"{verdict.outcome} {[(f.id, f.sample) for f in verdict.findings]}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
