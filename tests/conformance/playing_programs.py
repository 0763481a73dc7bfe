"""One short scenario in real time, played by a program."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from conformance.clients.choice import ClientChoice, abilities_of
from conformance.clients.program import program_environment
from conformance.options import RunOptions
from conformance.outcome import ScenarioResult
from conformance.runner import run_scenario
from scenarios import load_scenarios

STORY = """
title: A short one
about: Made for tests in real time.
requires: []
clip: {seconds: 1.2, speech: [0.1, 1.0], frames: false}
server:
  profile: july
  reply: [{starts_at_unit: 0, units: 1, text: "A bell."}]
"""
CLEAN = STORY + "expect: {sample: {outcome: published, attempts: 1, text: A bell.}, close: by_peer}\n"


def play(
    tmp_path: Path, text: str, *argv: str, network: Literal["own", "shared"] = "shared", **more: Any
) -> ScenarioResult:
    """One scenario, by its text, with a program."""
    file = tmp_path / "short.yaml"
    file.write_text(text)
    (scenario,) = load_scenarios(file)
    choice = ClientChoice("command", arguments=(sys.executable, *argv))
    options = RunOptions(
        clock="real",
        client=choice,
        network=network,
        out=tmp_path / "out",
        client_env=program_environment(os.environ, ()),
        abilities=abilities_of(choice, network),
        client_deadline_s=30.0,
    )
    return run_scenario(scenario, replace(options, **more))
