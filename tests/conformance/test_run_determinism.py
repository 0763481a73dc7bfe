"""The same seed gives the same trace: in one process, across processes and hash seeds, beside busy loops."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conformance.clients import builtin
from conformance.options import RunOptions
from conformance.runner import perform
from conformance.trace import comparable
from scenarios import load_catalogue

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
SCENARIOS = {s.id: s for s in load_catalogue()}


def trace(scenario_id: str, seed: int, folder: Path) -> list[str]:
    """The comparable lines of one performance."""
    options = RunOptions(seed=seed)
    scenario = SCENARIOS[scenario_id]
    observation = perform(scenario, options, folder, builtin.prepare(scenario, options))
    assert not observation.harness_errors
    assert observation.recorder is not None
    return comparable(observation.recorder.ordered())


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Processes that take the cores away."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


@pytest.mark.slow
def test_ten_scenarios_give_the_same_trace_beside_busy_loops(tmp_path: Path) -> None:
    with busy(2):
        for scenario_id in TEN:
            runs = [trace(scenario_id, 1, tmp_path / scenario_id / str(n)) for n in range(3)]

            assert runs[0] == runs[1] == runs[2], scenario_id
            assert len(runs[0]) > 20


def test_another_seed_gives_another_trace(tmp_path: Path) -> None:
    scenario_id = "stream/clean-residual[july]"

    assert trace(scenario_id, 1, tmp_path / "1") != trace(scenario_id, 2, tmp_path / "2")


def digest(folder: Path) -> str:
    """One value over the traces of the ten scenarios."""
    lines = [line for scenario_id in TEN for line in trace(scenario_id, 1, folder / scenario_id)]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


@pytest.mark.slow
def test_processes_with_other_hash_seeds_give_the_same_traces(tmp_path: Path) -> None:
    digests = []
    for hash_seed in ("0", "4711"):
        done = subprocess.run(
            [sys.executable, __file__, str(tmp_path / hash_seed)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        digests.append(done.stdout.strip())

    assert len(set(digests)) == 1


if __name__ == "__main__":
    print(digest(Path(sys.argv[1])))
