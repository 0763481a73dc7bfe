"""A server that is full, or that stopped reading: told as that, never as the client's failure, and never stormed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from conformance import runner
from conformance.exits import Exit
from conformance.live import session
from conformance.live.bill import Purse, bill, bill_lines
from conformance.live.cassette import Cassette, Line
from conformance.live.drifting import _silences
from conformance.live.heard import answers_line
from conformance.live.preflight import Preflight
from conformance.live.report import lines, pull_request_table
from conformance.live.session import LivePlan
from conformance.live.slots import IN_A_ROW, Patience
from conformance.options import RunOptions
from conformance.outcome import Outcome, ScenarioResult
from conformance.report.explain import explain
from conformance.targets import live
from conformance.targets.live import LiveTarget
from mockserver.answered import Answered
from scenarios.faults import LateSessionClosed, StopReading
from scenarios.model import Reply
from tests.conformance.live_playing import CATALOGUE, SERVER, interrupt_at_the_first_append, played

DEAF = StopReading.model_validate({"on": {"received": "playback.ack", "nth": 9}, "proof": "unread"})
LONG = [Reply(starts_at_unit=1, units=6, text="Words that nobody scripted. For longer.")]


def test_a_full_server_is_no_failure_of_the_client_and_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = next(s for s in CATALOGUE.values() if len(s.specs) > 2 and s.client.concurrency == 1)

    result = played(monkeypatch, scenario, slots=0)

    assert (result.outcome, result.findings) == (Outcome.INDETERMINATE, ())
    assert "the server had no free session slot: resource_exhausted" in result.reason
    assert "requirements" not in "\n".join(explain(result, {}))
    assert [use["spent_on"] for use in result.device] == ["refused"]  # of all its samples and attempts


class Asked:
    """A scenario that finds a slot after some tries; the clock moves only by pauses."""

    def __init__(self, refusals: int) -> None:
        self.refusals, self.now_s, self.pauses = refusals, 0.0, []  # type: ignore[var-annotated]

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now_s += seconds

    def once(self) -> ScenarioResult:
        full = len(self.pauses) < self.refusals
        result = ScenarioResult(
            "a/b", "t", (), Outcome.INDETERMINATE if full else Outcome.PASS, unconfirmed=1
        )
        use = {"sample": "s", "attempt": 1, "device_s": 0.0, "spent_on": "refused" if full else "success"}
        return replace(result, no_slot="full" if full else "", reason="full" if full else "", device=(use,))

    def play(self) -> ScenarioResult:
        return Patience(60.0, self.sleep, lambda: self.now_s).play(self.once)


def test_a_slot_is_waited_for_with_growing_pauses_and_a_bound() -> None:
    some, never = Asked(2), Asked(99)

    found, vain = some.play(), never.play()

    assert (found.outcome, some.pauses) == (Outcome.PASS, [2.0, 4.0])
    assert [use["spent_on"] for use in found.device] == ["refused", "refused", "success"]
    assert found.unconfirmed == 3
    assert vain.no_slot
    assert sum(never.pauses) == 60.0
    assert len(never.pauses) == 6
    assert vain.reason == "full (7 time(s) within 60 s)"


def test_after_some_scenarios_without_a_slot_the_run_stops_with_4(monkeypatch: pytest.MonkeyPatch) -> None:
    def dispatch(next_job: Any, work: Any, lost: Any, **how: Any) -> Iterator[Any]:
        while (found := next_job(4)) is not None:
            full = ScenarioResult(found[0].id, "t", ("R30",), Outcome.INDETERMINATE, no_slot="all are in use")
            yield found[0], full

    monkeypatch.setattr(session, "dispatch", dispatch)
    target = LiveTarget(SERVER, inject=True)
    scenarios = [s for s in CATALOGUE.values() if s.id.startswith("close/")]
    run = session._Run(RunOptions(live=target), LivePlan(target, 4, None, "x"), target, scenarios)

    run.play()

    report = run.report((), Preflight({}), "", {})
    asked = [r for r in report.results if r.no_slot]
    skipped = [r for r in report.results if "the server has no slot: all are in use" in r.reason]
    assert len(asked) == IN_A_ROW
    assert len(skipped) > IN_A_ROW
    assert all(r.outcome is Outcome.SKIPPED for r in skipped)
    assert session._exit(report) is Exit.UNAVAILABLE
    told = lines(report, {})
    assert f"{IN_A_ROW} scenario(s) found no free slot: nothing of them was played" in told[:3]


def test_refusals_are_counted_apart_in_the_bill() -> None:
    uses = [
        ("a", session.DeviceUse("s", 1, 0.0, "refused")),
        ("a", session.DeviceUse("s", 1, 6.0, "success")),
    ]

    account = bill(uses, Purse(None))

    assert (account["sessions"], account["refused"]) == (1, 1)
    assert "1 more were asked for and refused: no free slot" in bill_lines(account)[0]


def test_a_server_that_stopped_reading_is_told_with_what_it_left_unanswered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = played(monkeypatch, "stream/clean-residual[july]", replies=LONG, own_faults=(DEAF,))

    (told,) = result.answers
    assert told.startswith("RTD_Omni/1: the server answered nothing after t ")
    assert "(9 of " in told
    assert "session.close unanswered" in told
    assert any(told in line for line in explain(result, {}))
    assert any(" proxy   took playback.ack" in line for line in result.last_events)
    assert not any(" server  received " in line for line in result.last_events)
    assert result.unconfirmed == 1


def test_ctrl_c_says_whose_end_was_not_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt_at_the_first_append(monkeypatch)
    with pytest.raises(live.CutShort) as ended:
        played(monkeypatch, "stream/clean-residual[july]", own_faults=(LateSessionClosed(delay_s=200),))
    assert (ended.value.unconfirmed, len(ended.value.answers)) == (1, 1)

    def cut(*args: Any) -> Any:
        raise ended.value

    monkeypatch.setattr(runner, "run_scenario", cut)
    target = LiveTarget(SERVER)
    scenario = CATALOGUE["stream/clean-residual[july]"]
    result = session._play(scenario, RunOptions(live=target), 4, 0.0)
    run = session._Run(RunOptions(live=target), LivePlan(target, 4, None, "x"), target, [])
    run.interrupted = True
    run._take(scenario, result)
    report = run.report((), Preflight({}), "", {})
    assert report.live is not None
    assert report.live["unconfirmed"] == 1
    assert "its sessions were closed" not in "\n".join([*lines(report, {}), pull_request_table(report)])
    assert any("session.close unanswered" in line for line in lines(report, {})[:4])
    assert lines(report, {})[-1].endswith(
        "1 session(s) did not confirm their end: the server may still hold their slots"
    )


def conversation(*steps: tuple[float, str]) -> Cassette:
    """Names with `<` before them are the server's."""
    found = Cassette("x", "")
    for t_s, name in steps:
        theirs, plain = name.startswith("<"), name.lstrip("<")
        kind: Any = plain if plain in ("ping", "pong", "end") else "text"
        event = {"type": plain} if kind == "text" else None
        direction: Any = "server->client" if theirs else "client->server"
        found.lines.append(Line(t_s, direction, kind, event=event))
    return found


OPEN = (
    (0.0, "session.update"),
    (0.1, "<session.created"),
    (1.0, "playback.ack"),
    (1.1, "<playback.acknowledged"),
)
DEAF_ONE = conversation(
    *OPEN,
    (2.0, "playback.ack"),
    (3.0, "ping"),
    (4.0, "<response.listen"),
    (5.0, "session.close"),
    (9.0, "<end"),
)
WELL = conversation(
    *OPEN, (2.0, "playback.ack"), (2.1, "<playback.acknowledged"), (3.0, "ping"), (3.0, "<pong"),
    (5.0, "session.close"), (5.1, "<session.closed"), (5.1, "<end"),
)  # fmt: skip


def test_a_cassette_says_since_when_nothing_was_answered() -> None:
    assert answers_line(DEAF_ONE) == (
        "the server answered nothing after t 1.10 s (1 of 2 acks answered; ping, session.close unanswered), "
        "though it went on sending"
    )
    assert answers_line(WELL) == (
        "the server answered: 2 of 2 acks answered; last session.close, at t 5.10 s"
    )
    assert Answered().told(0.0, 9.0) == "the server answered: 0 of 0 acks answered"


def test_drift_names_what_a_silent_server_owes_before_its_consequences() -> None:
    (told,) = _silences(DEAF_ONE, WELL)

    assert told.startswith("A: the server answered nothing after t 1.10 s")
    assert (
        "missing: playback.acknowledged (1 of 2; the other 2), session.closed (0 of 1; the other 1)" in told
    )
    assert _silences(WELL, WELL) == ()
