"""A case: the same seed gives the same trace, a planted defect is found, and doubtful findings are none."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.clock import VirtualLoop
from conformance.defects.all import ALL_DEFECTS
from conformance.defects.rewrite import applied
from conformance.fuzz import play as playing
from conformance.fuzz.case import Block, CasePlayer, Found, faults_of
from conformance.fuzz.dice import Dice
from conformance.fuzz.drawing import Kinds, draw
from conformance.fuzz.executors import local
from conformance.fuzz.faults import session_faults
from conformance.fuzz.playing import play_block
from conformance.fuzz.shrink import shrink
from conformance.observation import Observation
from conformance.outcome import Finding, Outcome
from conformance.trace import Recorder
from mockserver.app import MockServer

DEFECTS = {defect.name: defect for defect in ALL_DEFECTS}
PLAIN: dict[str, Any] = {
    "title": "t",
    "about": "a",
    "requires": [],
    "clip": {"seconds": 2.4, "frames": False},
    "server": {"reply": [{"starts_at_unit": 1, "units": 3, "text": "A cyclist passed."}]},
    "client": {"deadlines": {"request_s": 120.0}},
    "expect": {"finishes_within_s": 1000.0},
}


def test_the_same_seed_gives_the_same_traces(tmp_path: Path) -> None:
    datas = [draw(Kinds(), 3, number) for number in range(4, 11)]

    def digests() -> list[str]:
        player = CasePlayer(3, tmp_path, trace=True)
        return [player.case(number, data).digest for number, data in enumerate(datas)]

    first = digests()
    assert len(set(first)) == len(first)
    assert digests() == first


def test_when_a_writer_goes_on_that_a_slow_reader_holds_up_is_no_matter_of_real_time(tmp_path: Path) -> None:
    """The reader's kernel acknowledges up to 40 ms late, in which the clock jumped on by seconds."""
    data = {
        **PLAIN,
        "clip": {"seconds": 2.4, "frames": True},
        "client": {"deadlines": {"request_s": 120.0, "drain_slack_s": 10.0}},
        "faults": [{"slow_reading": {"bytes_per_s": 4000, "on": {"received": "input_audio_buffer.append"}}}],
    }
    player = CasePlayer(1, tmp_path, trace=True)

    assert len({player.play(data, 0).digest for _ in range(4)}) == 1


def test_cases_do_not_depend_on_how_they_are_spread() -> None:
    blocks = [Block(4, tuple(range(start, start + 3)), Kinds()) for start in (0, 3, 6)]

    alone = [case for result in local(blocks, play_block, 1) for case in result.cases]
    spread = [case for result in local(blocks, play_block, 2) for case in result.cases]

    assert [case.number for case in alone] == list(range(9))
    assert spread == alone


def dies_once(block: Block) -> Any:
    """Kills its worker the first time that it gets the second block."""
    import os
    import signal

    marker = Path(os.environ["FUZZ_DEATH_MARKER"])
    if block.numbers[0] == 1 and not marker.exists():
        marker.write_text("died")
        os.kill(os.getpid(), signal.SIGKILL)
    return play_block(block)


def test_the_cases_of_a_worker_that_dies_are_played_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FUZZ_DEATH_MARKER", str(tmp_path / "marker"))
    blocks = [Block(4, (number,), Kinds()) for number in range(3)]

    numbers = [case.number for result in local(blocks, dies_once, 2) for case in result.cases]

    assert (tmp_path / "marker").exists()
    assert numbers == [0, 1, 2]


def test_a_failure_that_needs_no_fault_is_made_small(tmp_path: Path) -> None:
    data = {
        **PLAIN,
        "server": {**PLAIN["server"], "decision_ms": 200},
        "faults": [
            {"unknown_event": {"type": "x"}},
            {"latency": {"latency_s": 0.05}},
            {"late_deltas": {"nth": None}},
            {"garbage_event": {"text": "null", "on": {"sent": "response.created"}}},
        ],
    }
    player = CasePlayer(1, tmp_path)
    assert player.case(0, data).outcome is not Outcome.FAIL

    with applied(DEFECTS["pad-as-speech"].rewrites):
        found = player.case(0, data).found
        spoken = next(one for one in found if one.finding.id == "wire-violation")
        small = shrink(spoken, player)

    assert small.key == spoken.key
    assert "faults" not in small.data
    assert small.data["server"] == {}


class Planted:
    """In the model's place: a failure wherever three faults bite in one performance."""

    def __init__(self) -> None:
        self.needed: set[str] = set()
        self.seen: set[str] = set()

    def __call__(self, observation: Observation, of_samples: Any) -> Iterator[Finding]:
        self.seen = {report.name for report in observation.faults if report.state == "observed"}
        if self.needed and self.needed <= self.seen:
            yield Finding("planted", ("R1",), "not these three together", "all three")


def drawn_among_noise(player: CasePlayer, planted: Planted) -> dict[str, Any]:
    """A drawn session under seven drawn faults, of which five bite at least and any three of these suffice."""
    for number in range(240, 400):
        dice = Dice.seeded(f"seven faults {number}")
        data = draw(Kinds(judge=False, media=False), 1, number)
        if "samples" in data:
            continue
        data["faults"] = session_faults(dice, ("1",), 7, data, seams=True)
        planted.needed, planted.seen = set(), set()
        if len({name for name, _ in faults_of(data)}) < 7 or not player.valid(data):
            continue
        player.play(data, 0)
        bitten = sorted(planted.seen)
        if len(bitten) < 5:
            continue
        planted.needed = {bitten.pop(dice.number(0, len(bitten) - 1)) for _ in range(3)}
        alone = [fault for fault in data["faults"] if set(fault) <= planted.needed]
        if player.play({**data, "faults": alone}, 0).findings:
            return data
    raise AssertionError("no such case was drawn")


def test_a_failure_that_needs_three_faults_of_seven_is_made_these_three(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    player, planted = CasePlayer(1, tmp_path), Planted()
    monkeypatch.setattr(playing, "check_model", planted)
    data = drawn_among_noise(player, planted)
    (spoken,) = player.case(0, data).found

    small = shrink(spoken, player)

    assert small.key == spoken.key
    assert sorted(name for name, _ in faults_of(small.data)) == sorted(planted.needed)
    assert len(planted.needed) == 3


def test_one_key_for_one_stack_whatever_the_numbers_are() -> None:
    def key(actual: str, *details: str) -> str:
        return Found(Finding("task-leak", (), "none", actual, details=details), 1, 0, {}).key

    assert key("waited 3.5 s for 'a'") == key("waited 17 s for 'b'")
    assert key("waited") != key("slept")
    assert key("x", "task a", "  f (a.py:3)") == key("y", "task b", "  f (a.py:9)")
    assert key("x", "task a", "  f (a.py:3)") != key("x", "task a", "  g (a.py:3)")


def test_a_case_leaves_nothing_in_memory(tmp_path: Path) -> None:
    """A campaign plays a hundred thousand of them; what stays of each would be collected again after each."""
    player = CasePlayer(1, tmp_path)
    for number in range(3):
        player.play(PLAIN, number)
    gc.collect()

    assert [kept for kept in gc.get_objects() if isinstance(kept, MockServer | Recorder | VirtualLoop)] == []
