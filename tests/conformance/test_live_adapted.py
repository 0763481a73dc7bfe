"""Statements that hold of a live server in its own words, and by its own figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.lateness import LATE_S, Lateness, excuse
from conformance.live.adapted import holds_all_the_same
from conformance.live.premises import Conversation, Session, Shape
from conformance.outcome import Finding, Outcome
from scenarios.model import Reply
from tests.conformance.live_playing import CATALOGUE, MEASURED, played

OTHER = [Reply(starts_at_unit=1, units=3, text="Other words here. And more of them. And the end.")]


@pytest.mark.parametrize(
    "name",
    [
        "protocol/lost-events[transcript-delta]",
        "protocol/duplicated[transcript-delta]",
        "protocol/reordered[audio-delta]",
        "resume/killed[answer-in-its-place]",
        "retry/row-06[once]",
        "transport/session-expired[session-expired]",
    ],
)
def test_the_words_that_went_to_the_client_stand_for_the_script(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    result = played(monkeypatch, name, replies=OTHER)

    assert (result.outcome, result.reason) == (Outcome.PASS, "")


def test_words_that_the_client_lost_are_its_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    from client.sentences import TextDelta, timed_sentences

    monkeypatch.setattr("client.generate.timed_sentences", lambda deltas: timed_sentences(list(deltas)[1:]))

    result = played(monkeypatch, "protocol/reordered[audio-delta]", replies=OTHER)

    assert result.outcome is Outcome.FAIL
    (finding,) = result.findings
    assert (finding.id, finding.expected) == ("sample.text", repr(OTHER[0].text))

    monkeypatch.setattr("client.session.TextDelta", lambda at_ms, text: TextDelta(at_ms, text.upper()))
    partial = played(monkeypatch, "retry/row-06[once]", replies=OTHER)

    assert partial.outcome is Outcome.NOT_OBSERVABLE
    assert "about the script" in partial.reason


@pytest.mark.parametrize("status", ["failed", "incomplete", "cancelled"])
def test_a_reply_is_told_on_its_way_to_have_ended_as_scripted(
    monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    result = played(monkeypatch, f"reply/not-completed[{status}]", replies=OTHER)

    assert (result.outcome, result.reason) == (Outcome.PASS, "")
    assert result.injected == (f"a reply that the server had completed ended as {status!r}",)
    assert [(f.name, f.state) for f in result.faults] == [("status", "observed")]


def test_a_client_that_takes_a_failed_reply_for_a_whole_one_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("client.wire.response_status_of", lambda event: ("completed", ""))
    same = [Reply(starts_at_unit=1, units=2, text="A cyclist passes.")]

    result = played(monkeypatch, "reply/not-completed[failed]", replies=same)

    assert result.outcome is Outcome.FAIL
    assert "sample.outcome" in [finding.id for finding in result.findings]


def test_a_late_loop_is_measured_and_excuses_what_hangs_on_time_alone() -> None:
    due: list[tuple[float, Callable[..., None], tuple[Any, ...]]] = []
    now_s = 10.0
    loop: Any = SimpleNamespace(
        time=lambda: now_s, call_at=lambda at_s, do, *rest: due.append((at_s, do, rest))
    )
    late = Lateness()
    late.begin(loop)
    for seconds in (0.01, 0.15, 0.0):
        at_s, look, given = due.pop()
        now_s = at_s + seconds
        look(*given)

    assert late.worst_s == pytest.approx(0.15)
    assert "our own loop was late, by 0.15 s" in excuse(0.15, ["finishes_within_s"])
    assert excuse(LATE_S / 2, ["finishes_within_s"]) == ""
    assert excuse(0.15, ["finishes_within_s", "wire-violation"]) == ""
    assert excuse(0.15, []) == ""


@pytest.mark.parametrize("behind", [True, False])
def test_a_server_that_is_behind_has_until_its_last_decision(behind: bool) -> None:
    scenario = CATALOGUE["close/late-closed[july]"]
    allowed_s = scenario.expect.finishes_within_s
    assert allowed_s is not None
    shape = Shape(1, 1, False)
    session = Session(1, "RTD_Omni/1", 1, shape, True, "", after_commit_s=2.0, heard_s=9.0)
    conversation = Conversation({"1": shape}, [session], behind=behind)
    statement = Finding("finishes_within_s", (), "in time", "later")

    def held(client_s: float) -> bool:
        observation: Any = SimpleNamespace(scenario=scenario, client_s=client_s)
        return holds_all_the_same(statement, observation, conversation)

    assert held(allowed_s + 1.9)
    assert held(allowed_s + 8.9) is behind
    assert not held(allowed_s + 9.1)
    assert replace(MEASURED, pace=0.48).behind
    assert not replace(MEASURED, pace=0.78).behind
    assert not MEASURED.behind


def test_a_reply_that_begins_late_is_open_after_the_commit_as_well() -> None:
    """Of a server that is behind; one that was done before leaves nothing to wait for."""
    wanted = Shape(1, 1, True)

    def broken(got: Shape) -> list[str]:
        session = Session(1, "RTD_Omni/1", 1, got, True, "", 2.0)
        return Conversation({"1": wanted}, [session]).broken_premises()

    assert broken(Shape(1, 0, False, done_after_commit=True)) == []
    assert broken(Shape(1, 1, False)) == ["the story needs a reply that is open at the commit, and none was"]
