"""The same scenarios on the wall clock, with shortened deadlines, have the same outcomes and findings.

Three of them block a write of the client, which its own socket proves.
"""

from __future__ import annotations

import os

import pytest

from conformance.options import RunOptions
from conformance.outcome import Outcome
from conformance.pool import spread
from conformance.report.explain import explain
from conformance.runner import run_scenario
from scenarios import load_catalogue
from scenarios.model import Scenario

SHORT = {
    "created_s": 1.5,
    "write_s": 2.0,
    "ack_s": 1.5,
    "close_s": 1.5,
    "grace_s": 0.5,
    "settle_s": 0.4,
    "drain_slack_s": 6.0,
    "request_s": 30.0,
}
"""The client's deadlines for these runs, seconds."""

BLOCK_A_WRITE = ("commit/stall-at-commit", "drain/stall-before-done", "retry/stalled-stream[once]")
OTHERS = (
    "stream/clean-residual[july]",
    "handshake/no-session-created",
    "reply/reset",
    "close/never-closed[deferred]",
)

SCENARIOS = {s.id: s for s in load_catalogue()}
"""What the catalogue says, and the clip, are unchanged; only the deadlines are shorter."""


def _run(scenario_id: str) -> tuple[str, Outcome, str, list[str]]:
    result = run_scenario(SCENARIOS[scenario_id], RunOptions(clock="real", deadlines=SHORT))
    proofs = [str(f.evidence.get("proof")) for f in result.faults if f.state == "observed"]
    return scenario_id, result.outcome, "\n".join(explain(result, {})), proofs


@pytest.mark.real
@pytest.mark.slow
def test_the_clocks_agree_and_stalls_are_proven_from_the_socket() -> None:
    ids = [*BLOCK_A_WRITE, *OTHERS]
    results = list(spread(_run, ids, max(2, os.cpu_count() or 1) * 2))

    for scenario_id, outcome, told, proofs in results:
        assert outcome is Outcome.PASS, f"{scenario_id}\n{told}"
        if scenario_id in BLOCK_A_WRITE:
            assert "write_blocked" in proofs


def test_the_same_scenarios_pass_on_the_virtual_clock_with_the_same_deadlines() -> None:
    for scenario_id in (*BLOCK_A_WRITE, *OTHERS):
        scenario: Scenario = SCENARIOS[scenario_id]
        assert run_scenario(scenario, RunOptions(deadlines=SHORT)).outcome is Outcome.PASS, scenario_id
