"""A difference between two performances that hangs on a fault's very instant is no finding; any other is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.fuzz import play as playing
from conformance.fuzz.case import DOUBTS, MOVED_S, CasePlayer, _moved, faults_of
from conformance.fuzz.play import Played, Summary
from conformance.observation import Observation
from conformance.outcome import Finding, Outcome

CUT_BESIDE_AN_ACK: dict[str, Any] = {
    "title": "t",
    "about": "a",
    "requires": [],
    "clip": {"seconds": 3.4, "frames": False},
    "server": {
        "profile": "input-driven",
        "reply": [
            {"starts_at_unit": 0, "units": 2, "text": "A cyclist passed. Then it rained!", "audio_ms": 40}
        ],
    },
    "client": {"deadlines": {"request_s": 120.0, "ack_period_s": 0.4, "connect_s": 5.3, "ack_s": 1.0}},
    "faults": [{"slow_close": {"delay_s": 26.3}}, {"limit_data": {"limit_bytes": 1, "at_s": 5.2}}],
    "expect": {"finishes_within_s": 86400.0},
}
"""The connection is cut at the next byte, in the instant of an ack: before the answer is whole, or behind it."""
NOTE = "with other ties it ends otherwise, and not when its faults come a little later"


def test_a_fault_in_the_instant_of_an_ack_makes_no_finding(tmp_path: Path) -> None:
    player = CasePlayer(16001, tmp_path)
    right = player.play(CUT_BESIDE_AN_ACK, 8209)
    other = player.play(CUT_BESIDE_AN_ACK, 8209, ties=8209)
    assert right.summary.difference(other.summary) is not None
    assert (right.near_misses, other.near_misses) == (0, 0)

    case = player.case(8209, CUT_BESIDE_AN_ACK)  # by its number it is played with other ties

    assert (case.found, case.outcome, case.notes) == ((), Outcome.INDETERMINATE, (NOTE,))


@pytest.mark.parametrize("faults", [CUT_BESIDE_AN_ACK["faults"], []], ids=["moved", "without faults"])
def test_a_difference_that_stays_when_the_faults_come_later_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, faults: list[Any]
) -> None:
    data = {**CUT_BESIDE_AN_ACK, "faults": faults}
    player = CasePlayer(16001, tmp_path)
    right = player.play(data, 8209)

    def play(data: dict[str, Any], number: int, *, ties: int | None = None) -> Played:
        """A client that ends otherwise in any other order."""
        return right if ties is None else replace(right, summary=Summary((("RTD_Omni/1", "failed"),)))

    monkeypatch.setattr(player, "play", play)

    found, note = player._against(right, "ties", data, 8209)

    assert ([one.finding.id for one in found], note) == (["depends-on-ties"], "")


@pytest.mark.parametrize("broken_at", [2, 3, 4])
def test_an_error_of_the_harness_in_another_performance_is_found_and_ends_no_campaign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken_at: int
) -> None:
    player = CasePlayer(16001, tmp_path)
    perform, performances = playing.perform, iter(range(1, 9))

    def breaks(*given: Any) -> Observation:
        if next(performances) == broken_at:  # 1 as drawn, 2 with other ties, 3 and 4 moved
            raise ArithmeticError("ours")
        return perform(*given)

    monkeypatch.setattr(playing, "perform", breaks)

    (found,) = player.case(8209, CUT_BESIDE_AN_ACK).found

    assert (found.finding.id, found.against) == ("harness-error", "")
    assert "ArithmeticError: ours" in found.finding.actual
    assert (found.data == CUT_BESIDE_AN_ACK, found.ties) == (broken_at == 2, None if broken_at == 3 else 8209)
    assert player.play(found.data, 8209, ties=found.ties).findings == ()


def test_an_error_of_the_harness_in_an_order_that_is_tried_for_a_doubt_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    player = CasePlayer(1, tmp_path)
    right = player.play(CUT_BESIDE_AN_ACK, 0)
    seen = Finding("task-leak", ("R9",), "none", "one")
    first = replace(
        right, near_misses=1, result=replace(right.result, outcome=Outcome.FAIL, findings=(seen,))
    )
    broken = replace(right, result=replace(right.result, outcome=Outcome.HARNESS_ERROR, reason="ours"))

    def play(data: dict[str, Any], number: int, *, ties: int | None = None) -> Played:
        return first if ties is None else broken if ties == DOUBTS[-1] else right

    monkeypatch.setattr(player, "play", play)

    case = player.case(0, CUT_BESIDE_AN_ACK)

    assert [(one.finding.id, one.ties) for one in case.found] == [("harness-error", DOUBTS[-1])]


def test_faults_are_taken_apart_however_they_are_written(tmp_path: Path) -> None:
    written: list[Any] = ["no_session_closed", {"no_session_closed": None}, {"no_session_closed": {}}]
    for fault in written:
        data = {**CUT_BESIDE_AN_ACK, "faults": [fault]}
        assert faults_of(data) == [("no_session_closed", {})]
        assert _moved(data) is None
        assert CasePlayer(16001, tmp_path).case(1, data).found == ()
    assert _moved(
        {**CUT_BESIDE_AN_ACK, "faults": [*written, {"limit_data": {"limit_bytes": 1, "at_s": 5.2}}]}
    )
    assert [name for name, _ in faults_of({**CUT_BESIDE_AN_ACK, "faults": None})] == []


def test_moments_are_moved_and_nothing_else() -> None:
    faults = [
        {"stop_reading": {"at_s": 0.0, "for_s": 2.0, "attempt": 1}},
        {"no_session_closed": None},
        {"slicer": {"average_size_bytes": 900, "size_variation_bytes": 700, "delay_s": 1e-7}},
    ]
    data = {**CUT_BESIDE_AN_ACK, "faults": faults}

    moved = _moved(data)

    assert moved is not None
    assert moved["faults"] == [
        {"stop_reading": {"at_s": MOVED_S, "for_s": 2.0 + MOVED_S, "attempt": 1}},
        {"no_session_closed": None},
        faults[2],
    ]
    assert _moved({**data, "faults": faults[1:]}) is None
    assert _moved({**data, "faults": []}) is None


def test_a_beat_that_is_cut_off_in_its_instant_excuses_no_difference_and_asks_for_other_orders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The acks end in the instant of their next round; no deadline is near."""
    reply = {"starts_at_unit": 0, "units": 1, "text": "A cyclist passed."}
    data = {
        **CUT_BESIDE_AN_ACK,
        "clip": {"seconds": 0.4, "frames": False},
        "server": {"profile": "input-driven", "reply": [reply]},
        "client": {"deadlines": {"request_s": 120.0}},
        "faults": [],
    }
    player = CasePlayer(1, tmp_path)
    right = player.play(data, 1)
    assert (right.cut_sleeps > 0, right.near_misses, right.open_orders) == (True, 0, 0)
    assert "session: waited until the last millisecond" not in right.states
    otherwise = replace(right, summary=Summary((("RTD_Omni/1", "failed"),)))
    seen = Finding("task-leak", ("R9",), "none", "one")
    wrong = replace(right, result=replace(right.result, outcome=Outcome.FAIL, findings=(seen,)))

    monkeypatch.setattr(
        player, "play", lambda data, number, *, ties=None: right if ties is None else otherwise
    )
    assert [one.finding.id for one in player.case(1, data).found] == ["depends-on-ties"]

    monkeypatch.setattr(player, "play", lambda data, number, *, ties=None: wrong if ties is None else right)
    case = player.case(0, data)
    assert (case.found, case.outcome, case.extra_runs) == ((), Outcome.INDETERMINATE, len(DOUBTS))
