"""A client that is declared to show its answers alone: what is asked of it all the same, and what is not."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

import scenarios
from conformance.abilities import Need
from conformance.clients.choice import BUILTIN, Shows, parse_client, showing
from conformance.errors import ConfigurationError
from conformance.options import RunOptions
from conformance.outcome import Outcome, ScenarioResult
from conformance.runner import run_scenario
from conformance.session import ready_client

HERE = Path(__file__).resolve().parent
FILES = Path(scenarios.__file__).parent / "catalogue"
CLEAN = "stream/clean-residual[july]"
TWO_SAMPLES = """
title: Two short ones
about: Both are answered.
requires: []
samples:
  - {id: "1", clip: {seconds: 1.2, speech: [0.1, 1.0], frames: false}}
  - {id: "2", clip: {seconds: 1.4, speech: [0.1, 1.0], frames: false}}
server: {reply: [{starts_at_unit: 0, units: 1, text: "A bell."}]}
expect: {sample: {outcome: published, text: A bell.}}
"""
NO_METADATA = "for f in Path(job.out).glob('*/*.meta.json'): f.unlink()"
NO_RETRY_COUNT = (
    "statement sample.retry_count needs metadata: the client is declared to show its answers alone"
)


@pytest.fixture(autouse=True)
def _path_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lab's folder stays on the path of its process: here many labs share one."""
    monkeypatch.setattr(sys, "path", list(sys.path))


def lab(
    tmp_path: Path, *after: str, declared: str = "SHOWS = 'answers'", asked: Shows | None = None
) -> RunOptions:
    """The shipped client, and what becomes of its files when it has returned."""
    file = tmp_path / "lab.py"
    lines = [f"import sys\nfrom pathlib import Path\nsys.path.insert(0, {str(HERE)!r})", declared]
    lines += [
        "from shipped_as_outside import run as shipped",
        "async def run(job):",
        "    await shipped(job)",
    ]
    file.write_text("\n".join([*lines, *(f"    {line}" for line in after)]) + "\n")
    return ready_client(RunOptions(client=showing(parse_client(f"python:{file}:run"), asked)))


def play(scenario_id: str, options: RunOptions) -> ScenarioResult:
    """The result of one scenario of the catalogue."""
    file = FILES / f"{scenario_id.partition('[')[0]}.yaml"
    (scenario,) = [one for one in scenarios.load_scenarios(file) if one.id.endswith(scenario_id)]
    return run_scenario(scenario, options)


def ids(result: ScenarioResult) -> set[str]:
    """Of its findings."""
    return {found.id for found in result.findings}


def test_right_answers_without_metadata_leave_open_only_what_metadata_would_say(tmp_path: Path) -> None:
    options = lab(tmp_path, NO_METADATA)
    assert play("drain/tail-times[input-driven]", options).outcome is Outcome.PASS
    result = play(CLEAN, options)
    assert (result.outcome, result.findings) == (Outcome.NOT_OBSERVABLE, ())
    assert {told.need for told in result.unobserved if told.what == "statement"} == {Need.METADATA}
    assert NO_RETRY_COUNT in result.reason


@pytest.mark.parametrize(
    ("mistake", "finding"),
    [
        ("for f in Path(job.out).glob('*/1.json'): f.unlink()", "sample.outcome"),
        ("for f in Path(job.out).glob('*/1.json'): f.write_text('[]')", "sample.text"),
        ("for f in Path(job.out).glob('*/1.json'): f.write_text('[{')", "torn-artifact"),
        ("await shipped(job)\n    " + NO_METADATA, "sample.attempts"),
    ],
)
def test_answers_and_wire_are_judged_all_the_same(tmp_path: Path, mistake: str, finding: str) -> None:
    result = play(CLEAN, lab(tmp_path, NO_METADATA, mistake))
    assert result.outcome is Outcome.FAIL
    assert finding in ids(result)


def test_a_client_that_declares_nothing_and_loses_its_metadata_fails(tmp_path: Path) -> None:
    options = lab(tmp_path, NO_METADATA, declared="")
    assert "metadata-incomplete" in ids(play(CLEAN, options))


def test_a_client_that_loses_every_file_fails_whatever_it_declares(tmp_path: Path) -> None:
    lost = "for f in Path(job.out).rglob('*.json'): f.unlink()"
    assert "sample.outcome" in ids(play(CLEAN, lab(tmp_path, lost)))


def test_one_metadata_file_and_all_are_asked_for(tmp_path: Path) -> None:
    some = "next(Path(job.out).glob('*/*.meta.json')).unlink()"
    (tmp_path / "two.yaml").write_text(TWO_SAMPLES)
    (scenario,) = scenarios.load_scenarios(tmp_path / "two.yaml")
    result = run_scenario(scenario, lab(tmp_path, some))
    assert "metadata-incomplete" in ids(result)
    assert Need.METADATA not in {told.need for told in result.unobserved}


def test_the_command_line_comes_before_the_module_and_is_repeated_to_play_it_again(tmp_path: Path) -> None:
    result = play(CLEAN, lab(tmp_path, NO_METADATA, asked="metadata"))
    assert "metadata-incomplete" in ids(result)
    assert "--client-shows metadata" in result.reproduce
    shown = play(CLEAN, lab(tmp_path, NO_METADATA, declared="", asked="answers"))
    assert NO_RETRY_COUNT in shown.reason


def test_what_may_be_declared_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="SHOWS is 'nothing'; expected 'metadata' or 'answers'"):
        lab(tmp_path, declared="SHOWS = 'nothing'")
    with pytest.raises(ConfigurationError, match="--client-shows answers: builtin shows all"):
        showing(BUILTIN, "answers")


def test_a_program_is_declared_on_the_command_line() -> None:
    program = parse_client(f"command:{sys.executable}")
    assert Need.METADATA in ready_client(RunOptions(client=program)).abilities.have
    answers = ready_client(RunOptions(client=replace(program, shows="answers")))
    assert Need.METADATA not in answers.abilities.have
