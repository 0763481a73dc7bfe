"""Both clocks agree: the scenarios tagged `both-clocks`, with shortened deadlines, end the same way on either.

The same means outcome, findings, retries, the answer file and the metadata; ids of responses and the
times in a verdict on a socket are left out. Sentences are compared with their times: they carry the media clock, which
moves with what was sent.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import orjson
import pytest

from conformance.clients import builtin
from conformance.judgement import judge
from conformance.options import RunOptions
from conformance.outcome import Outcome
from conformance.pool import spread
from conformance.report.explain import explain
from conformance.runner import perform
from scenarios import load_catalogue, select
from scenarios.model import Scenario

SHORT = {
    "created_s": 1.5,
    "write_s": 3.2,
    "ack_s": 1.5,
    "close_s": 1.5,
    "grace_s": 0.5,
    "settle_s": 0.4,
    "drain_slack_s": 1.5,
    "request_s": 30.0,
}
"""The client's deadlines for these runs, seconds; no two of them fall on one instant, which the clocks could order
differently."""
OWN: dict[str, dict[str, float]] = {"retry/row-12": {"request_s": 4.0, "drain_slack_s": 30.0}}
"""By file: deadlines that are the scenario's subject and keep their order."""
AT_ONCE = 20
"""Processes: nearly all of a run on the wall clock is waiting."""

SCENARIOS = {s.id: s for s in select(load_catalogue(), tags=["both-clocks"])}
_RESPONSE_ID = re.compile(r"resp-[0-9A-Za-z-]+")
_STAMP = re.compile(r"(within|for|came|up to) [0-9.]+ s")
_NO_STALL = re.compile(
    "the peer was reading: it answered what we sent within a while|unknown: nothing of ours waits in the socket|"
    "the peer's system took bytes of ours within a while; whether the peer itself reads is unknown: "
    "(it never answered anything|its last answer came a while before)"
)
"""What a socket shows that is not stalled. The kernel acknowledges in its own time, up to 40 ms late, and the virtual
clock does not wait for that: whether the last bytes were taken between two looks is no property of the client."""


@dataclass(frozen=True)
class Ending:
    """How a scenario ended on one clock."""

    id: str
    outcome: Outcome
    findings: tuple[str, ...]
    samples: Any
    """Outcome, attempts, close, answer, metadata and diagnosed rows of each sample."""
    client_s: float
    proofs: tuple[str, ...]
    told: str


def _deadlines(scenario: Scenario) -> dict[str, float]:
    return {**SHORT, **OWN.get(scenario.id.split("[")[0], {})}


def _end(scenario_id: str, clock: Literal["virtual", "real"]) -> Ending:
    scenario = SCENARIOS[scenario_id]
    options = RunOptions(clock=clock, deadlines=_deadlines(scenario))
    with tempfile.TemporaryDirectory(prefix="both-clocks-") as folder:
        seen = perform(scenario, options, Path(folder), builtin.prepare(scenario, options))
        result = judge(seen, options, real_s=0.0)
    samples = [
        {
            "name": facts.name,
            "outcome": facts.outcome,
            "attempts": facts.attempts,
            "close": facts.close,
            "answer": facts.sentences,
            "metadata": facts.metadata,
            "rows": [diagnostics["row"] for diagnostics in facts.diagnostics],
        }
        for facts in seen.samples
    ]
    plain = _STAMP.sub(r"\1 a while", _RESPONSE_ID.sub("resp", orjson.dumps(samples).decode()))
    plain = _NO_STALL.sub("no stall", plain)
    return Ending(
        scenario_id,
        result.outcome,
        tuple(sorted(finding.id for finding in result.findings)),
        orjson.loads(plain),
        seen.client_s,
        tuple(str(f.evidence.get("proof")) for f in result.faults if f.state == "observed"),
        "\n".join(explain(result, {})),
    )


def test_the_subset_is_large_enough_and_of_every_kind() -> None:
    areas = {scenario_id.split("/")[0] for scenario_id in SCENARIOS}

    assert len(SCENARIOS) >= 25
    assert {"ack", "commit", "drain", "handshake", "reply", "retry", "run"} <= areas


@pytest.fixture(scope="module")
def virtual() -> dict[str, Ending]:
    return {scenario_id: _end(scenario_id, "virtual") for scenario_id in SCENARIOS}


def test_the_subset_passes_on_the_virtual_clock_with_the_same_deadlines(virtual: dict[str, Ending]) -> None:
    for ending in virtual.values():
        assert ending.outcome is Outcome.PASS, ending.told


@pytest.mark.real
@pytest.mark.slow
def test_the_clocks_agree_on_outcomes_findings_and_artifacts(virtual: dict[str, Ending]) -> None:
    ids = sorted(virtual, key=lambda name: virtual[name].client_s, reverse=True)
    different: list[str] = []
    for real in spread(partial(_end, clock="real"), ids, AT_ONCE):
        expected = virtual[real.id]
        assert real.outcome is Outcome.PASS, real.told
        assert (real.findings, real.proofs) == (expected.findings, expected.proofs)
        if real.samples != expected.samples:
            different.append(f"{real.id}\n  real    {real.samples}\n  virtual {expected.samples}")
    assert not different, "\n".join(different)
