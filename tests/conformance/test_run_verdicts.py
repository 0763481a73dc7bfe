"""Outcomes mean what design.md says: each invariant can fail, and our own bugs never blame the client."""

from __future__ import annotations

import gc
from functools import partial
from typing import Any

import pytest

from conformance import runner
from conformance.clock import VirtualLoop
from conformance.defects.rewrite import Rewrite, applied
from conformance.options import RunOptions
from conformance.outcome import Outcome, ScenarioResult
from conformance.runner import run_scenario
from scenarios import load_catalogue
from scenarios.faults import (
    ErrorEvent,
    FaultBase,
    LateSessionClosed,
    NeverDone,
    NoSessionClosed,
    NoSessionCreated,
    NoTransport,
    On,
    ResetPeer,
    StopReading,
    SwallowCancellation,
)
from scenarios.model import Expect, Reply, Scenario

CLEAN = next(s for s in load_catalogue() if s.id == "stream/clean-residual[july]")


def _clean(**changes: Any) -> Scenario:
    return CLEAN.model_copy(update={"expect": Expect(finishes_within_s=86_400), **changes})


def _run(scenario: Scenario, *rewrites: Rewrite) -> ScenarioResult:
    with applied(rewrites):
        return run_scenario(scenario, RunOptions())


NEVER = On(received="session.close", nth=99)

INEFFECTIVE: list[FaultBase] = [
    StopReading(on=On(received="input_audio_buffer.commit"), buffer_bytes=None),
    StopReading(on=NEVER),
    ResetPeer(on=NEVER),
    NoSessionCreated(connection=9),
    LateSessionClosed(delay_s=1, connection=9),
    NoSessionClosed(connection=9),
    ErrorEvent(on=NEVER),
    NeverDone(attempt=2),
    SwallowCancellation(nth=999),
    NoTransport(),
    NoTransport(attempt=2),
]


@pytest.mark.parametrize("fault", INEFFECTIVE, ids=lambda f: f.name)
def test_a_fault_that_did_not_bite_is_inert(fault: FaultBase) -> None:
    result = _run(_clean(faults=[fault]))

    assert result.outcome is Outcome.INERT
    assert fault.name in result.reason


def test_a_reply_that_no_session_came_to_makes_the_scenario_inert_and_is_named() -> None:
    beyond = Reply(starts_at_unit=50, units=1, text="Never said.")
    server = CLEAN.server.model_copy(update={"reply": [*CLEAN.server.reply, beyond]})
    result = _run(_clean(server=server))

    assert result.outcome is Outcome.INERT
    assert result.reason.startswith(
        "reply 1 ('Never said.', starts_at_unit 50) never began: a session decided "
    )


def test_a_reply_that_an_ended_session_did_not_come_to_is_explained() -> None:
    beyond = Reply(starts_at_unit=50, units=1, text="Never said.")
    server = CLEAN.server.model_copy(update={"reply": [*CLEAN.server.reply, beyond]})
    lost = _run(_clean(server=server, faults=[ResetPeer(on=On(received="input_audio_buffer.commit"))]))

    assert lost.outcome is Outcome.PASS


def test_a_trigger_that_came_too_seldom_says_how_often_it_came() -> None:
    result = _run(_clean(faults=[ErrorEvent(on=On(received="input_audio_buffer.commit", nth=40))]))

    assert result.outcome is Outcome.INERT
    assert result.reason.endswith(
        "(connection 1): received input_audio_buffer.commit came 1 time(s), nth is 40"
    )


def test_a_reply_that_never_came_cannot_be_kept_from_its_end() -> None:
    silent = CLEAN.server.model_copy(update={"reply": []})
    result = _run(_clean(faults=[NeverDone()], server=silent))

    assert result.outcome is Outcome.INERT


def test_a_hang_names_what_is_pending_its_stack_and_the_deadline_that_should_have_acted() -> None:
    result = _run(
        _clean(),
        Rewrite(
            "client.teardown:final_ack",
            "await send_acks(conversation, within_s=conversation.deadlines.ack_s, grace_s=0.0)",
            "await asyncio.Event().wait()",
        ),
        Rewrite("client.teardown:final_ack", "TimeoutError", "asyncio.CancelledError"),
        Rewrite("client.retry:run_attempt", "deadlines.request_s", "1e9", places=2),
    )

    finding = next(f for f in result.findings if f.id == "unbounded-await")
    assert result.outcome is Outcome.FAIL
    assert "pending" in finding.actual
    assert any("final_ack" in line for line in finding.details)
    assert finding.deadline == "ack_s (20 s), in phase final_ack"


def test_a_livelock_is_a_finding_that_names_the_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "make_loop", lambda *_, **__: _Impatient())
    spin = Rewrite(
        "client.acks:keep_acking",
        "await asyncio.sleep(deadlines.ack_period_s)",
        "await asyncio.sleep(0); continue",
    )
    result = _run(_clean(), spin)

    finding = next(f for f in result.findings if f.id == "unbounded-await")
    assert "acks" in finding.actual


class _Impatient(VirtualLoop):
    def __init__(self) -> None:
        super().__init__(livelock_s=0.3)


def test_a_bug_of_the_judge_is_a_harness_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> ScenarioResult:
        raise RuntimeError("a bug of ours")

    monkeypatch.setattr(runner, "judge", broken)
    result = _run(_clean())

    assert result.outcome is Outcome.HARNESS_ERROR
    assert "a bug of ours" in result.reason


def test_a_bug_of_the_server_is_a_harness_error() -> None:
    result = _run(
        _clean(), Rewrite("mockserver.session:ServerSession.receive", "now_s", "1 / 0", places=_uses())
    )

    assert result.outcome is Outcome.HARNESS_ERROR


def _uses() -> int:
    import ast
    import inspect
    import textwrap

    from mockserver.session import ServerSession

    tree = ast.parse(textwrap.dedent(inspect.getsource(ServerSession.receive)))
    return sum(isinstance(node, ast.Name) and node.id == "now_s" for node in ast.walk(tree))


def test_a_failure_shows_the_last_events_of_both_sides_and_a_command() -> None:
    broken = partial(_clean, expect=Expect(sample={"outcome": "failed"}))  # type: ignore[arg-type]
    result = _run(broken())

    assert result.outcome is Outcome.FAIL
    assert any(" client " in line for line in result.last_events)
    assert any(" server " in line for line in result.last_events)
    assert result.reproduce == "conformance run 'stream/clean-residual[july]' --seed 1"
    assert result.findings[0].expected == "'failed'"
    assert result.findings[0].actual == "'published'"


def test_scenarios_leave_nothing_behind_in_their_process() -> None:
    for _ in range(4):
        _run(_clean())

    loops = [thing for thing in gc.get_objects() if isinstance(thing, VirtualLoop)]
    assert len(loops) <= 1  # the last one is garbage that the next scenario collects
