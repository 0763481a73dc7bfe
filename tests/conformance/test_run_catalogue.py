"""The reference client passes the whole catalogue, in virtual time, over real sockets."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.options import RunOptions
from conformance.outcome import Outcome
from conformance.report.explain import explain
from conformance.runner import run_scenario
from scenarios import load_catalogue
from scenarios.model import Scenario

CATALOGUE = load_catalogue()
MADE = [s for s in CATALOGUE if s.clip is None or s.clip.dataset is None]
FROM_DATASET = [s for s in CATALOGUE if s.clip is not None and s.clip.dataset is not None]


@pytest.mark.parametrize("scenario", MADE, ids=lambda s: s.id)
def test_the_reference_client_passes(scenario: Scenario) -> None:
    result = run_scenario(scenario, RunOptions())

    assert result.outcome is Outcome.PASS, "\n".join(explain(result, {}))


@pytest.mark.shared_data
@pytest.mark.parametrize("scenario", FROM_DATASET, ids=lambda s: s.id)
def test_the_reference_client_passes_with_real_media(scenario: Scenario, shared_data: Path) -> None:
    options = RunOptions(
        datasets={"mini": shared_data / "mini"}, ref_audio=shared_data / "reference_voice.wav"
    )
    result = run_scenario(scenario, options)

    assert result.outcome is Outcome.PASS, "\n".join(explain(result, {}))
