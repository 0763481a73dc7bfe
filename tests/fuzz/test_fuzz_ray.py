"""A campaign on a local Ray of two workers finds what it finds here, also when a worker dies."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]

SCRIPT = """
import os
import signal
import sys
from pathlib import Path

from conformance.fuzz.case import Block
from conformance.fuzz.drawing import Kinds
from conformance.fuzz.executors import local, on_ray
from conformance.fuzz.playing import play_block

MARKER = Path(sys.argv[1])


def dies_once(block):
    if block.numbers[0] == 2 and not MARKER.exists():
        MARKER.write_text("died")
        os.kill(os.getpid(), signal.SIGKILL)
    return play_block(block)


if __name__ == "__main__":
    blocks = [Block(3, (n, n + 1), Kinds()) for n in (0, 2, 4)]
    here = [case for result in local(blocks, play_block, 1) for case in result.cases]
    there = [case for result in on_ray(blocks, dies_once, 2, None) for case in result.cases]
    assert MARKER.exists(), "no worker died"
    assert there == here
    print("the same", [case.number for case in there])
"""


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed (extra `cluster`)")
def test_ray_gives_the_same_results_though_a_worker_dies(tmp_path: Path) -> None:
    script = tmp_path / "on_two_workers.py"
    script.write_text(SCRIPT)

    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "marker")],
        env={"PYTHONPATH": str(PROJECT), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )

    assert "the same [0, 1, 2, 3, 4, 5]" in done.stdout, done.stdout + done.stderr
