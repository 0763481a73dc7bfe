"""Results and reports that the report tests share."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from conformance.outcome import FaultReport, Finding, Outcome, RunReport, ScenarioResult

HOSTILE = "\x1b[2J\x1b]0;owned\x07[bold red]x[/]\r\n9 passed, 0 failed\n\u202e<b>&]]>\x00\ud800\uffff"
"""What a server under test might put into its error message."""


def result(
    scenario_id: str = "teardown/stall", outcome: Outcome = Outcome.PASS, **changes: Any
) -> ScenarioResult:
    """A result with all that a report needs; `changes` are fields of ScenarioResult."""
    fields: dict[str, Any] = {
        "title": "A stall costs the teardown, not the sample",
        "requires": ("R2", "R13"),
        "virtual_s": 65.0,
        "real_s": 0.042,
        "reproduce": f"conformance run {scenario_id} --seed 7",
    }
    return ScenarioResult(id=scenario_id, outcome=outcome, **{**fields, **changes})


def failure(text: str = "None", scenario_id: str = "teardown/stall") -> ScenarioResult:
    """A failed result whose every free text is `text`."""
    finding = Finding(
        id="metadata.close_timeout",
        requirements=("R18",),
        expected="set",
        actual=text,
        sample="RTD_Omni/610",
        deadline="close_s (20 s)",
        details=(text,),
    )
    fault = FaultReport("stop_reading", 0, 1, "observed", {"unsent_bytes": 4096, "note": text})
    return result(
        scenario_id,
        Outcome.FAIL,
        findings=(finding,),
        faults=(fault,),
        last_events=(f"1012.000 server sent {text}", "1012.050 client deadline close_s"),
        trace_path="out/trace.ndjson",
    )


def report(*results: ScenarioResult, **changes: Any) -> RunReport:
    """A run of these results on the mock in virtual time."""
    fields: dict[str, Any] = {
        "seed": 7,
        "target": "mock",
        "clock": "virtual",
        "client": "builtin",
        "real_s": 0.5,
        "environment": {"python": "3.11.7", "websockets": "17.4"},
    }
    return RunReport(results=results, **{**fields, **changes})


@pytest.fixture
def make() -> SimpleNamespace:
    """Makers of results and reports, and the hostile text."""
    return SimpleNamespace(result=result, failure=failure, report=report, hostile=HOSTILE)
