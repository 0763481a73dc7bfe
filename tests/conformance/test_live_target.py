"""Scenarios on a server that nobody scripts: what may be held against the client there, and what it costs."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.abilities import Need
from conformance.clients.making import as_played
from conformance.exits import Exit
from conformance.judgement import reproduce
from conformance.live.bill import DeviceUse, Purse, bill, bill_lines, estimate_s, ordered
from conformance.live.command import again, masked_command
from conformance.live.dispatch import dispatch
from conformance.live.premises import Conversation, Session, Shape, held_against
from conformance.live.report import first_line, lines, pull_request_table
from conformance.live.session import _exit, unplayed
from conformance.options import RunOptions
from conformance.outcome import Finding, Outcome, RunReport, ScenarioResult, Unobserved
from conformance.targets import live
from conformance.targets.live import LiveTarget, abilities, beyond_reach
from scenarios.faults import LateSessionClosed
from scenarios.faults_session import LateSessionCreated
from scenarios.model import Reply, Scenario
from tests.conformance.live_playing import CATALOGUE, MEASURED, SERVER, interrupt_at_the_first_append, played

SPEAKING = [Reply(starts_at_unit=1, units=3, text="Something else is said. And more of it.")]


def test_a_server_that_happens_to_follow_the_script_can_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    result = played(monkeypatch, "commit/stall-at-commit")

    assert (result.outcome, result.reason) == (Outcome.PASS, "")
    (use,) = result.device
    assert use["spent_on"] == "success"
    assert use["device_s"] > 20


def test_other_words_of_the_server_are_no_failure_of_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    replies = [Reply(starts_at_unit=1, units=1, text="Other words.")]

    assert played(monkeypatch, "close/late-closed[july]", replies=replies).outcome is Outcome.PASS
    longer = [Reply(starts_at_unit=1, units=6, text="Words that nobody scripted. For longer.")]
    assert played(monkeypatch, "stream/clean-residual[july]", replies=longer).outcome is Outcome.PASS
    exact = played(monkeypatch, "reply/before-commit[july]", replies=longer)
    assert exact.outcome is Outcome.NOT_OBSERVABLE
    assert "about the script" in exact.reason


def test_a_story_that_needs_a_reply_is_not_observable_on_a_server_that_listens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = played(monkeypatch, "commit/stall-at-commit", replies=[])

    assert result.outcome is Outcome.NOT_OBSERVABLE
    assert "the story needs a reply, and the server said nothing" in result.reason
    assert result.findings == ()


def test_a_story_of_listening_is_not_observable_on_a_server_that_speaks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = played(monkeypatch, "commit/silent-clip[july]", replies=SPEAKING)

    assert result.outcome is Outcome.NOT_OBSERVABLE
    assert "only listens, and it spoke" in result.reason


def test_a_session_that_the_server_never_confirms_closed_is_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    late = (LateSessionClosed(delay_s=200),)

    result = played(monkeypatch, "stream/clean-residual[july]", own_faults=late)

    assert result.outcome is Outcome.FAIL
    (left,) = (f for f in result.findings if f.id == "session-left-open")
    assert "session.close unanswered" in left.details[0]
    assert result.unconfirmed == 1
    assert [use["spent_on"] for use in result.device] == ["failure"]  # published, in a scenario that failed


def test_a_server_that_goes_away_is_told_as_away_and_nobody_is_blamed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = played(monkeypatch, "stream/clean-residual[july]", away=True)

    assert result.outcome is Outcome.INDETERMINATE
    assert "127.0.0.1:9" in result.away
    assert result.device == ()


def test_a_broken_invariant_stays_a_failure_whatever_the_server_says(monkeypatch: pytest.MonkeyPatch) -> None:
    from client import wire

    silence_append = wire.silence_append

    def loud(period_ms: int, *, audio_end_ms: int) -> Any:
        return {**silence_append(period_ms, audio_end_ms=audio_end_ms), "is_speech": True}

    monkeypatch.setattr(wire, "silence_append", loud)

    result = played(monkeypatch, "close/late-closed[july]", replies=SPEAKING)

    assert result.outcome is Outcome.FAIL
    assert "padded-unit" in [f.id for f in result.findings]


def test_retries_are_billed_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = next(s for s in CATALOGUE.values() if s.id.startswith("retry/stall-twice"))

    result = played(monkeypatch, scenario)

    assert [use["spent_on"] for use in result.device] == ["failure", "retry"]


STATEMENT = Finding("sample.outcome", ("R2",), "'published'", "'failed'", "RTD_Omni/1")
ONE = Shape(1, 1, False)


def session(shape: Shape) -> Session:
    return Session(1, "RTD_Omni/1", 1, shape, True, "words", 0.0)


@pytest.mark.parametrize(
    ("got", "kept"), [(ONE, True), (Shape(1, 1, True), False), (Shape(0, 0, False), False)]
)
def test_a_statement_that_fails_is_held_against_the_client_only_in_the_scripted_conversation(
    got: Shape, kept: bool
) -> None:
    conversation = Conversation({"1": ONE}, [session(got)])

    told = held_against([STATEMENT], None, conversation)  # type: ignore[arg-type]

    assert (told == [STATEMENT]) is kept
    assert kept or all(isinstance(one, Unobserved) for one in told)


def test_fewer_sessions_than_scripted_are_a_difference() -> None:
    conversation = Conversation({"1": ONE}, [session(ONE)], concurrency=(8, 2))

    assert conversation.differences() == ["8 sessions at a time are scripted, 2 are allowed (--max-sessions)"]


def test_what_a_live_server_cannot_show_is_told_before_anything_is_spent() -> None:
    target = LiveTarget(SERVER, inject=True)
    told = {name: beyond_reach(s, target) for name, s in CATALOGUE.items()}

    frozen = next(name for name in told if name.startswith("drain/frozen-tail"))
    assert told[frozen] == [
        ("freeze_tail", "the server's own silence cannot be switched off from the path to it")
    ]
    assert told["commit/stall-at-commit"] == []
    judged = {name: s.judge for name, s in CATALOGUE.items() if s.judge is not None}
    assert [name for name in judged if told[name] == [("judge", "no judge was named (--judge-url)")]]
    assert all(bool(told[name]) is not spec.is_scripted for name, spec in judged.items())
    bare = LiveTarget(SERVER)
    assert all("--inject" in dict(beyond_reach(CATALOGUE[n], bare))["judge"] for n in judged if not told[n])


def test_without_inject_no_fault_is_played_and_the_option_is_named() -> None:
    target = LiveTarget(SERVER)
    options = RunOptions(live=target, abilities=abilities(target))

    result = unplayed(CATALOGUE["commit/stall-at-commit"], options, target)

    assert result is not None
    assert result.outcome is Outcome.NOT_OBSERVABLE
    assert "--inject" in result.reason
    assert unplayed(CATALOGUE["stream/clean-residual[july]"], options, target) is None


def test_the_cheapest_and_most_telling_come_first() -> None:
    first = ordered(CATALOGUE.values(), 1)[:20]

    assert all(len(s.specs) == 1 for s in first)
    assert estimate_s(first[0], 1) < 30
    assert ordered(CATALOGUE.values(), 1)[-1].id.startswith(("retry/", "judge/"))


def test_the_budget_is_not_exceeded_by_what_already_runs() -> None:
    purse = Purse(60.0)
    one, two, three = list(CATALOGUE.values())[:3]

    assert purse.take(one, 40.0)
    assert not purse.take(two, 30.0)
    purse.paid(one.id, [DeviceUse("s/1", 1, 10.0, "success")])
    assert purse.take(three, 50.0)
    assert purse.left_out == [two.id]


def test_the_bill_says_what_device_time_went_for() -> None:
    uses = [
        ("a", DeviceUse("s/1", 1, 60.0, "failure")),
        ("a", DeviceUse("s/1", 2, 30.0, "retry")),
        ("b", DeviceUse("s/2", 1, 30.0, "success")),
    ]

    account = bill(uses, Purse(600.0, left_out=["c"]))

    assert account["device_minutes"] == 2.0
    assert account["spent_on"] == {
        "success": 0.5,
        "failure": 1.0,
        "retry": 0.5,
        "interrupted": 0.0,
        "refused": 0.0,
    }
    assert account["next_time_minutes"] == 1.5
    assert account["by_scenario"] == {"a": 1.5, "b": 0.5}
    assert "left out by the budget of 10 min: 1 scenario(s): c" in bill_lines(account)


def report_of(*outcomes: Outcome) -> RunReport:
    results = tuple(
        ScenarioResult(
            f"area/{n}",
            "title",
            (),
            outcome,
            reason="because",
            unobserved=(Unobserved("x", "fault", Need.SEAM, "because | of that"),)
            if outcome is Outcome.NOT_OBSERVABLE
            else (),
        )
        for n, outcome in enumerate(outcomes)
    )
    account = bill([], Purse(None))
    live_part = {"server": SERVER.told(), "bill": account, "command": "conformance run"}
    return RunReport(results, 1, "live", "real", "builtin", 1.0, live=live_part)


def test_a_run_of_which_less_than_half_was_observable_says_so_first_and_prints_no_pass() -> None:
    unseen = Outcome.NOT_OBSERVABLE
    report = report_of(Outcome.PASS, unseen, unseen)

    told = lines(report, {})

    assert told[0].startswith("ONLY 1 OF 3 SCENARIOS WERE OBSERVABLE, fewer than half")
    assert "pass" not in "\n".join(told)
    assert "1 held, 2 not-observable" in told[-1]
    assert first_line(report_of(Outcome.PASS, unseen)) == "1 of 2 scenarios were observable"
    assert "1 not-observable, 1 pass" in lines(report_of(Outcome.PASS, unseen), {})[-1]


def test_the_table_for_a_pull_request_explains_everything_that_was_not_seen() -> None:
    table = pull_request_table(report_of(Outcome.PASS, Outcome.NOT_OBSERVABLE, Outcome.INDETERMINATE))

    assert "| area/2 | indeterminate | because |" in table
    assert "- area/1: x: because \\| of that" in table
    assert "`conformance run`" in table


def test_what_was_played_in_a_peers_place_is_told() -> None:
    report = report_of(Outcome.PASS, Outcome.PASS)
    assert "nothing beside the faults" in pull_request_table(report)
    with_judge = replace(report.results[0], injected=("the judge: 3 request(s)",))
    report = replace(report, results=(with_judge, *report.results[1:]))

    told = "1 scenario(s), a judge's script or the end of a reply"
    assert f"played here: {told}" in lines(report, {})
    assert f"| played here | {told} |" in pull_request_table(report)


def test_a_command_line_is_told_without_the_values_of_headers() -> None:
    told = masked_command(
        ["run", "--header", "X-Key: s3cret", "--header=Y: s3cret", "--header", "Z: env:KEY"]
    )

    assert "s3cret" not in told
    assert "env:KEY" in told


def test_what_reproduces_a_live_scenario_plays_it_on_the_same_server() -> None:
    told = again(
        ["run", "close/*", "--target", "live", "--url", "ws://h/v1?token=s3cret", "--inject", "--json", "x.json",
         "--header=Y: s3cret", "--header", "Z: env:KEY", "--max-sessions=2", "--out", "out"]
    )  # fmt: skip
    options = RunOptions(clock="real", live=LiveTarget(SERVER, again=told))

    line = reproduce("close/late-closed[july]", options)

    assert line == (
        "conformance run 'close/late-closed[july]' --seed 1 --target live --url 'ws://h/v1?token=***' --inject "
        "'--header=Y: ***' --header 'Z: env:KEY' --max-sessions=2"
    )


def test_a_scenario_that_was_seen_in_part_is_counted_as_that() -> None:
    blind = (Unobserved("x", "fault", Need.SEAM, "because"),)
    report = report_of(Outcome.FAIL, Outcome.PASS)
    first, second = report.results

    report = replace(report, results=(replace(first, unobserved=blind), second))

    assert first_line(report) == "2 of 2 scenarios were observable, 1 of them in part"


def test_a_run_in_which_nothing_was_played_does_not_end_well() -> None:
    assert _exit(report_of(Outcome.SKIPPED, Outcome.NOT_OBSERVABLE)) is Exit.USAGE
    assert _exit(report_of(Outcome.SKIPPED, Outcome.PASS)) is Exit.PASSED


def test_a_command_line_is_told_without_the_query_of_its_urls() -> None:
    told = masked_command(
        ["run", "--url", "wss://h/v1/realtime?token=s3cret&x=1", "--judge-url=http://j/v1?key=s3cret", "a?"]
    )

    assert told == (
        "conformance run --url 'wss://h/v1/realtime?token=***&x=***' '--judge-url=http://j/v1?key=***' 'a?'"
    )


def work(job: str) -> str:
    if job == "dies":
        os._exit(7)
    if job == "tells":
        try:
            time.sleep(30)
        except KeyboardInterrupt:
            return "stopped"
    if job.startswith("/"):
        try:
            time.sleep(30)
        except KeyboardInterrupt:
            Path(job).write_text("closed its sessions")
            raise
    return job.upper()


def test_processes_side_by_side_give_results_and_one_that_dies_is_told() -> None:
    waiting = ["a", "dies", "b"]

    done = dict(
        dispatch(
            lambda room: (waiting.pop(0), 1) if waiting else None,
            work,
            lambda job, why: f"{job}: {why}",
            at_once=2,
        )
    )

    assert done == {"a": "A", "b": "B", "dies": "dies: its process ended with 7"}


def test_leaving_early_lets_every_process_close_its_sessions(tmp_path: Path) -> None:
    waiting = [str(tmp_path / "one"), "a"]
    stream = dispatch(
        lambda room: (waiting.pop(0), 1) if waiting else None, work, lambda job, why: why, at_once=2
    )
    assert next(stream)[1] == "A"
    time.sleep(0.05)

    stream.close()

    assert (tmp_path / "one").read_text() == "closed its sessions"


def test_what_is_told_after_everybody_was_told_to_stop_is_not_lost() -> None:
    waiting = ["tells", "a"]
    told: list[tuple[str, str]] = []
    stream = dispatch(
        lambda room: (waiting.pop(0), 1) if waiting else None,
        work,
        lambda job, why: why,
        at_once=2,
        late=lambda job, result: told.append((job, result)),
    )
    assert next(stream)[1] == "A"
    time.sleep(0.05)

    stream.close()

    assert told == [("tells", "stopped")]


def test_ctrl_c_in_a_scenario_ends_its_session_on_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = CATALOGUE["stream/clean-residual[july]"]
    seen: list[Any] = []
    account = live.make_server

    def make(*args: Any, **named: Any) -> Any:
        proxy = account(*args, **named)
        seen.append(proxy)
        return proxy

    monkeypatch.setattr(live, "make_server", make)
    interrupt_at_the_first_append(monkeypatch)
    with pytest.raises(live.CutShort) as ended:
        played(monkeypatch, replace_clip(scenario))

    (proxy,) = seen
    assert proxy.unconfirmed == []
    (facts,) = proxy.seen.values()
    assert facts.closed_by_us
    (use,) = ended.value.uses
    assert (use.sample, use.spent_on) == ("RTD_Omni/1", "interrupted")


def replace_clip(scenario: Scenario) -> Scenario:
    return scenario.model_copy(update={"id": "x/y"})


def test_options_are_masked_wherever_they_are_told() -> None:
    server = replace(SERVER, headers={"Authorization": "Bearer s3cret"})

    assert "s3cret" not in f"{LiveTarget(server)!r} {RunOptions(live=LiveTarget(server))!r}"


def test_a_job_waits_for_as_much_room_as_it_takes() -> None:
    waiting = [("a", 1), ("b", 3), ("c", 1)]
    asked: list[int] = []

    def next_job(room: int) -> tuple[str, int] | None:
        asked.append(room)
        fits = next((job for job in waiting if job[1] <= room), None)
        if fits is not None:
            waiting.remove(fits)
        return fits

    done = [job for job, _ in dispatch(next_job, work, lambda job, why: why, at_once=3)]

    assert sorted(done) == ["a", "b", "c"]
    assert done[-1] == "b"
    assert asked[:2] == [3, 2]


def test_a_session_that_ended_before_its_commit_is_compared_as_far_as_it_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A reply that is over before the stall is another story than one that the stall meets."""
    scripted = played(monkeypatch, "retry/stalled-stream[once]")
    other = played(
        monkeypatch, "retry/stalled-stream[once]", replies=[Reply(starts_at_unit=0, units=1, text="Early.")]
    )

    assert (scripted.outcome, scripted.reason) == (Outcome.PASS, "")
    assert other.outcome in (Outcome.PASS, Outcome.NOT_OBSERVABLE)
    assert other.findings == ()


def test_padding_is_held_to_the_period_that_the_server_declares(monkeypatch: pytest.MonkeyPatch) -> None:
    from mockserver import capabilities

    monkeypatch.setattr(capabilities, "CHUNK_PERIOD_MS", 500)

    result = played(monkeypatch, "close/late-closed[july]", replies=SPEAKING)

    assert result.findings == ()
    assert result.outcome is Outcome.PASS


def no_duration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers do not say how long their audio is."""
    from mockserver.responses import OpenResponse

    whole = OpenResponse._audio_delta

    def without(self: Any, *args: Any, **named: Any) -> Any:
        event = whole(self, *args, **named)
        return {**event, "metadata": {**event["metadata"], "audio_duration_ms": None}}

    monkeypatch.setattr(OpenResponse, "_audio_delta", without)


def test_positions_are_counted_in_bytes_where_a_server_does_not_say_how_long_its_audio_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from client import wire

    no_duration(monkeypatch)
    right = played(monkeypatch, "stream/clean-residual[july]")
    ack = wire.playback_ack
    monkeypatch.setattr(wire, "playback_ack", lambda response_id, played_ms: ack(response_id, played_ms + 7))
    wrong = played(monkeypatch, "stream/clean-residual[july]")

    assert (right.outcome, right.findings) == (Outcome.PASS, ())
    assert "ack-position" in [f.id for f in wrong.findings]


@pytest.mark.parametrize(
    ("name", "deadline"), [("handshake/late-created", "created_s"), ("close/late-closed[july]", "close_s")]
)
def test_on_the_wall_clock_what_comes_just_in_time_has_room(name: str, deadline: str) -> None:
    """A tenth of a second is a busy machine's; on the virtual clock it stays one."""
    scenario = CATALOGUE[name]
    slow = replace(MEASURED, session_created_s=2.0, closed_after_s=2.0)

    def delay_s(options: RunOptions) -> float:
        (fault,) = as_played(scenario, options).faults
        assert isinstance(fault, LateSessionCreated | LateSessionClosed)
        return fault.delay_s

    assert delay_s(RunOptions()) == 19.9
    assert delay_s(RunOptions(clock="real")) == 18.5
    assert delay_s(RunOptions(clock="real", live=LiveTarget(SERVER, measured=slow))) == 14.5
    assert delay_s(RunOptions(clock="real", deadlines={deadline: 60.0})) == 19.9


def test_what_comes_too_late_stays_too_late_on_the_wall_clock() -> None:
    scenario = CATALOGUE["close/no-socket"]

    assert as_played(scenario, RunOptions(clock="real")).faults == scenario.faults
