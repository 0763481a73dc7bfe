"""Indeterminate where the verdict could have been another, ours where it is ours; a failure names its deadline."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance import runner
from conformance.capture import guarded
from conformance.clients import builtin
from conformance.clock import VirtualLoop
from conformance.defects.rewrite import Rewrite, applied
from conformance.judgement import judge, reproduce
from conformance.observation import Observation
from conformance.options import RunOptions
from conformance.outcome import Finding, Outcome, ScenarioResult
from conformance.report.explain import explain
from conformance.runner import perform, run_scenario
from conformance.wiring import Wiring
from scenarios import load_catalogue
from scenarios.faults import FaultBase, LateSessionClosed, NoSessionClosed, NoSessionCreated
from scenarios.faults_session import LateSessionCreated
from scenarios.model import Expect, Scenario

CATALOGUE = {s.id: s for s in load_catalogue()}
CLEAN = CATALOGUE["stream/clean-residual[july]"]


def _scenario(expect: dict[str, Any] | None = None, *faults: FaultBase) -> Scenario:
    wanted = Expect.model_validate(expect or {"finishes_within_s": 86_400})
    return CLEAN.model_copy(update={"expect": wanted, "faults": list(faults)})


def _run(scenario: Scenario, *rewrites: Rewrite, options: RunOptions | None = None) -> ScenarioResult:
    with applied(rewrites):
        return run_scenario(scenario, options or RunOptions())


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        (LateSessionClosed(delay_s=20.0), "session.closed (20 s) passed at 25.500 s in RTD_Omni/1#1"),
        (LateSessionClosed(delay_s=20.0005), "session.closed (20 s) passed at 25.500 s in RTD_Omni/1#1"),
        (LateSessionClosed(delay_s=19.9995), "close_s (20 s)"),
        (LateSessionCreated(delay_s=20.0), "created_s (20 s)"),
    ],
    ids=["at once", "just after", "just before", "created"],
)
def test_an_answer_beside_its_deadline_makes_the_scenario_indeterminate(fault: FaultBase, name: str) -> None:
    result = _run(_scenario(None, fault))

    assert result.outcome is Outcome.INDETERMINATE
    assert name in result.reason


@pytest.mark.parametrize("delay_s", [19.99, 20.01])
def test_an_answer_ten_milliseconds_off_is_judged(delay_s: float) -> None:
    assert _run(_scenario(None, LateSessionClosed(delay_s=delay_s))).outcome is Outcome.PASS


def test_a_broken_invariant_counts_beside_a_coincidence() -> None:
    broken = Rewrite("client.generate:metadata_of", '"mix"', '"mixture"')

    assert _run(_scenario(None, LateSessionClosed(delay_s=20.0)), broken).outcome is Outcome.FAIL


def test_a_network_that_never_came_to_rest_makes_every_verdict_doubtful(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Unrested(VirtualLoop):
        def close(self) -> None:
            super().close()

        def stop(self) -> None:
            self.unrested = ["12 bytes to port 4711"]
            super().stop()

    monkeypatch.setattr(runner, "make_loop", lambda *_, **__: Unrested())
    result = _run(_scenario({"sample": {"outcome": "failed"}}))

    assert result.outcome is Outcome.INDETERMINATE
    assert result.reason == "the network did not come to rest: 12 bytes to port 4711"


def test_a_bug_in_our_hooks_is_ours_though_the_client_called_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise KeyError("a bug of ours")

    for hook in ("on_client_step", "on_connect"):
        with monkeypatch.context() as patch:
            patch.setattr(Wiring, hook, broken)
            result = _run(_scenario())
        assert result.outcome is Outcome.HARNESS_ERROR, hook
        assert "a bug of ours" in result.reason
        assert [f.id for f in result.findings if f.id == "client-crashed"] == []


def test_a_guarded_hook_hands_its_arguments_on_and_keeps_its_error() -> None:
    observation = _performed(_scenario())
    heard: list[int] = []

    guarded(observation, heard.append)(7)
    guarded(observation, heard.remove)(8)

    assert heard == [7]
    assert "ValueError" in observation.harness_errors[-1]


def test_an_error_of_ours_still_tells_how_to_see_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> ScenarioResult:
        raise RuntimeError("a bug of ours")

    monkeypatch.setattr(runner, "judge", broken)
    result = _run(_scenario(), options=RunOptions(seed=7))

    assert result.reproduce == "conformance run 'stream/clean-residual[july]' --seed 7"


def _performed(scenario: Scenario) -> Observation:
    import tempfile

    options = RunOptions()
    with tempfile.TemporaryDirectory() as folder:
        return perform(scenario, options, Path(folder), builtin.prepare(scenario, options))


def _finding(result: ScenarioResult, name: str) -> Finding:
    return next(finding for finding in result.findings if finding.id == name)


def test_a_timeout_that_was_not_told_names_the_deadline_that_should_have_told_it() -> None:
    result = _run(_scenario({"metadata": {"close_timeout": "set"}}))

    told = _finding(result, "metadata.close_timeout")
    assert told.deadline == "close_s + grace_s (25 s), in phase closing"
    assert "deadline   close_s + grace_s (25 s), in phase closing should have acted" in "\n".join(
        explain(result, {})
    )


def test_a_wait_that_ran_over_its_bound_is_named_with_the_time_it_took() -> None:
    inner = Rewrite("client.teardown:say_goodbye", "conversation.deadlines.close_s", "80.0")
    outer = Rewrite("client.teardown:close_session", "deadlines.close_outer_s", "90.0")
    result = _run(_scenario({"finishes_within_s": 40}, NoSessionClosed()), inner, outer)

    told = _finding(result, "finishes_within_s")
    assert told.deadline is not None
    assert told.deadline.startswith("close_s + grace_s (25 s), in phase closing, which lasted 80.")


def test_a_failure_that_no_wait_explains_names_no_deadline() -> None:
    assert _finding(_run(_scenario({"sample": {"outcome": "failed"}})), "sample.outcome").deadline is None


def test_a_hang_in_the_judging_names_the_judges_timeout() -> None:
    observation = _performed(next(s for s in CATALOGUE.values() if s.id.startswith("judge/prose-once")))
    observation.watchdog_fired, observation.phase = True, "judging"

    result = judge(observation, RunOptions(), real_s=0.0)

    told = _finding(result, "unbounded-await")
    assert told.deadline is not None
    assert told.deadline.startswith("the judge's timeout_s (")
    assert any(" server  judge " in line for line in result.last_events)


def test_every_failure_shows_ten_events_of_each_side_on_one_time_line() -> None:
    result = _run(_scenario({"sample": {"outcome": "failed"}}))

    times = [float(line.split()[0]) for line in result.last_events]
    assert times == sorted(times)
    for side in ("client", "server"):
        assert sum(f" {side} " in line for line in result.last_events) == 10


def test_a_kept_trace_is_where_the_report_says(tmp_path: Path) -> None:
    result = _run(_scenario({"sample": {"outcome": "failed"}}), options=RunOptions(out=tmp_path))

    assert result.trace_path is not None
    first = json.loads(Path(result.trace_path).read_text().splitlines()[0])
    assert first["t_s"] >= 0


def test_the_command_that_reproduces_a_result_says_all_that_was_said(tmp_path: Path) -> None:
    options = RunOptions(
        clock="real",
        seed=3,
        files={"mine": Path("my scenario.yaml")},
        datasets={"mini": Path("/data/mini")},
        ref_audio=Path("voice.wav"),
        model="another/model",
    )

    assert reproduce("mine", options) == (
        "conformance run 'my scenario.yaml' --seed 3 --clock real --model another/model "
        "--ref-audio voice.wav --dataset mini=/data/mini"
    )


def test_no_handshake_twice_names_no_wait_that_kept_its_bound() -> None:
    result = _run(_scenario({"sample": {"outcome": "published"}}, NoSessionCreated()))

    assert result.outcome is Outcome.FAIL
    assert _finding(result, "sample.outcome").deadline is None


def test_entries_in_time_follow_the_entries() -> None:
    observation = _performed(_scenario())
    before = len(observation.entries_in_time)

    observation.entries = observation.entries[:5]

    assert before > 5
    assert len(observation.entries_in_time) == 5
    assert replace(observation, entries=[]).entries_in_time == []
