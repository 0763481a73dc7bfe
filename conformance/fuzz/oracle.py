"""What follows for a drawn scenario from what was seen."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.observation import Observation
from conformance.outcome import Finding


def check_model(observation: Observation) -> Iterator[Finding]:
    yield from ()


def statement(finding: Finding) -> dict[str, object] | None:
    return None
