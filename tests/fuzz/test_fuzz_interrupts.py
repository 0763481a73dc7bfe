"""Signals to real processes: what was found is kept, no worker and no folder stays behind."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conformance import scratch
from conformance.commands import app
from conformance.fuzz import campaign, telling
from conformance.fuzz.case import Block, BlockResult, CaseResult, Found
from conformance.fuzz.executors import Play
from conformance.outcome import Finding, Outcome
from conformance.pool import interrupted_by_sigterm
from conformance.scratch import remove_leftovers

IMPORTED = (campaign, telling)
"""What a campaign needs, once for all that are forked from here."""
SCENARIO = {"title": "t", "about": "a", "requires": [], "clip": {"seconds": 1.4}}
LONG_ENOUGH_S = 20.0


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the campaigns of a test make their scratch folders."""
    folder = tmp_path / "place"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


def begun(save: Path, said: Path) -> BaseProcess:
    """A campaign of two workers in a process group of its own, forked from here; it has a finding by now."""
    process = multiprocessing.get_context("fork").Process(target=_campaign, args=(save, said))
    process.start()
    until_s = time.monotonic() + LONG_ENOUGH_S
    while not told(save).get("findings"):
        assert process.is_alive(), said.read_text()
        assert time.monotonic() < until_s
        time.sleep(0.005)
    return process


def _campaign(save: Path, said: Path) -> None:
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    sys.stdout = sys.stderr = said.open("w")
    asked = ["fuzz", "--for", "60s", "--seed", "3", "--jobs", "2"]
    campaign.play_block = _found  # type: ignore[attr-defined]
    app([*asked, "--save", str(save)])


def _found(block: Block) -> BlockResult:
    """In a worker: stands for cases that take their time and find something."""
    found = Found(Finding("task-leak", ("R9",), "none", "one"), block.seed, block.numbers[0], SCENARIO)
    with scratch.scratch_folder() as folder:
        (folder / "left").touch()
        time.sleep(0.02)
    return BlockResult((CaseResult(block.numbers[0], Outcome.FAIL, (found,), frozenset(), 1.0, 0),), 0.1)


def told(save: Path) -> dict[str, Any]:
    file = save / "campaign.json"
    return dict(json.loads(file.read_text())) if file.exists() else {}


def workers(process: BaseProcess) -> list[int]:
    pids = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [int(pid) for pid in pids.split()]


def gone(pids: list[int]) -> bool:
    """Whether all of them end soon; one that nobody waited for counts as ended."""
    until_s = time.monotonic() + LONG_ENOUGH_S
    while any(_lives(pid) for pid in pids):
        if time.monotonic() > until_s:
            for pid in filter(_lives, pids):
                os.kill(pid, signal.SIGKILL)
            return False
        time.sleep(0.005)
    return True


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def kept(save: Path) -> bool:
    """Whether the folder says that the campaign was interrupted, and has every finding that it tells of."""
    assert told(save)["interrupted"] is True
    findings = sorted(f"{finding['key']}.yaml" for finding in told(save)["findings"])
    return bool(findings) and findings == sorted(file.name for file in save.glob("*.yaml"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_campaign_keeps_what_it_has_and_leaves_nobody(
    number: signal.Signals, tmp_path: Path, place: Path
) -> None:
    save, said = tmp_path / "save", tmp_path / "said"
    process = begun(save, said)
    playing = workers(process)

    assert process.pid is not None
    if number == signal.SIGTERM:
        os.kill(process.pid, number)
    else:
        os.killpg(process.pid, number)  # as a terminal does: the workers hear it, too
    process.join(LONG_ENOUGH_S)

    assert process.exitcode == 130, said.read_text()
    assert kept(save)
    assert said.read_text().endswith(" finding(s), interrupted\n")
    assert "Traceback" not in said.read_text()
    assert gone(playing)
    assert list(place.iterdir()) == []


def test_a_killed_campaign_leaves_a_summary_no_worker_and_a_folder_for_the_next_one_to_remove(
    tmp_path: Path, place: Path
) -> None:
    save, said = tmp_path / "save", tmp_path / "said"
    process = begun(save, said)
    playing = workers(process)
    remove_leftovers.cache_clear()
    remove_leftovers(place)
    held = list(place.iterdir())

    process.kill()
    process.join(LONG_ENOUGH_S)

    assert gone(playing)
    assert len(held) == 1, "it was in use"
    assert kept(save)
    remove_leftovers.cache_clear()
    with scratch.scratch_folder() as folder:
        assert list(place.iterdir()) == [folder]


class _Ray:
    """As much of Ray as a campaign takes; like Ray it handles SIGTERM by itself."""

    exceptions = SimpleNamespace(WorkerCrashedError=ArithmeticError)
    shut_down = False

    def init(self, **given: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def remote(self, **given: object) -> Callable[[Play], SimpleNamespace]:
        return lambda play: SimpleNamespace(remote=play)

    def get(self, result: BlockResult) -> BlockResult:
        signal.raise_signal(signal.SIGTERM)
        return result

    def shutdown(self) -> None:
        self.shut_down = True


def test_under_ray_sigterm_ends_the_campaign_with_a_summary_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = _Ray()
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setattr(campaign, "play_block", lambda block: BlockResult((), 0.0))

    with interrupted_by_sigterm():
        plan = campaign.Plan(3, cases=60, executor="ray")
        tally = campaign.run_campaign(plan, save=tmp_path, on_block=lambda tally, fresh: None)

    assert (tally.interrupted, ray.shut_down) == (True, True)
    assert told(tmp_path)["interrupted"] is True


def test_a_hang_up_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interrupted_by_sigterm():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)
