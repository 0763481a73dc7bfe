"""A judge's script played beside a live server, whose answer is not the scripted one."""

from __future__ import annotations

import pytest

from conformance.live.judged import PATIENCE_S, hastened, sentences_of
from conformance.outcome import Outcome
from scenarios.faults_judge import Stall
from scenarios.model import Reply
from tests.conformance.live_playing import CATALOGUE, played

LONGER = [Reply(starts_at_unit=1, units=3, text="A first one. A second one. A third one.")]
"""Three sentences; most scripts count one."""


@pytest.mark.parametrize(
    "name",
    ["judge/content-falls-back[prose]", "judge/missing-field[the-score]", "judge/reminders[after-the-event]"],
)
def test_a_script_is_played_and_counted_whatever_the_answer_says(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    result = played(monkeypatch, name, replies=LONGER)

    assert (result.outcome, result.reason) == (Outcome.PASS, "")
    (told,) = result.injected
    assert "by the scenario's script" in told


def test_a_client_that_does_not_ask_again_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("client.judge.judge.may_ask_again", lambda error, asked: False)

    result = played(monkeypatch, "judge/missing-field[the-score]", replies=LONGER)

    assert result.outcome is Outcome.FAIL
    assert "judge.reasks" in [finding.id for finding in result.findings]


def test_an_answer_with_fewer_sentences_than_the_script_is_no_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = played(
        monkeypatch, "judge/scored", replies=[Reply(starts_at_unit=1, units=3, text="One alone.")]
    )

    assert result.outcome is Outcome.NOT_OBSERVABLE
    assert "about the script" in result.reason
    assert result.findings == ()


def test_a_story_of_the_answer_does_not_ask_when_it_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = "judge/irrelevant-sentence[one-of-three]"
    early = [Reply(starts_at_unit=0, units=1, text="A first one. A second one. A third one.")]

    assert played(monkeypatch, scenario, replies=early).outcome is Outcome.PASS


def test_a_judge_that_stalls_is_not_waited_for_as_long_as_on_the_virtual_clock() -> None:
    never = hastened(CATALOGUE["judge/no-verdict[stalled]"])
    late = hastened(CATALOGUE["judge/slow-but-in-time"])

    assert never.judge is not None
    assert never.judge.timeout_s == PATIENCE_S
    assert never.expect.judge is not None
    assert never.expect.judge.sample is not None
    assert never.expect.judge.sample.reason == {"contains": "20"}
    (fault,) = late.faults
    assert isinstance(fault, Stall)
    assert fault.delay_s == pytest.approx(18)
    other = CATALOGUE["judge/scored"]
    assert hastened(other) is other


def test_sentences_are_counted_by_their_marks() -> None:
    assert [sentences_of(text) for text in ("", "One. Two! Three?", "No mark", "一。二。", "Wait...")] == [
        0,
        3,
        1,
        2,
        1,
    ]
