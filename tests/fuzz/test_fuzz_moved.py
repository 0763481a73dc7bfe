"""A difference between two performances that hangs on a fault's very instant is no finding; any other is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.fuzz.case import MOVED_S, CasePlayer, _moved
from conformance.fuzz.play import Played, Summary
from conformance.outcome import Outcome

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
