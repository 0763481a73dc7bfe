"""Datasets of scenarios: each statement about the client's loader can fail, and each form is what it says it is."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from client.dataset import load_dataset
from conformance.clients import builtin
from conformance.datasets import dataset_path, write_dataset
from conformance.defects.rewrite import Rewrite, applied
from conformance.options import RunOptions
from conformance.outcome import Outcome
from conformance.runner import run_scenario
from scenarios import load_catalogue
from tests.conformance.refusing import refusal

SCENARIOS = {s.id: s for s in load_catalogue()}
BREAKS = "dataset/unicode-breaks[jsonl]"
REFUSED = "dataset/refused-rows[jsonl]"
PARENT = "dataset/hostile-ids[far-parent]"

NO_NAME_CHECK = Rewrite("client.dataset:_Reader.dataset", "_check_names(samples)", "pass")
NO_PATH_CHECK = Rewrite(
    "client.run:Run.run",
    "artifacts.check_paths(root, [(sample.split, sample.id) for sample in self._samples])",
    "pass",
)


def findings(name: str, *rewrites: Rewrite) -> dict[str, str]:
    with contextlib.ExitStack() as stack:
        for rewrite in rewrites:
            stack.enter_context(applied((rewrite,)))
        result = run_scenario(SCENARIOS[name], RunOptions())
    assert result.outcome is Outcome.FAIL, result.reason
    return {finding.id: finding.actual for finding in result.findings}


def test_a_loader_that_takes_other_characters_for_line_feeds_is_found() -> None:
    lines = Rewrite(
        "client.dataset_rows:_jsonl",
        "enumerate(file, start=1)",
        "enumerate([line.encode() for line in file.read().decode().splitlines()], start=1)",
    )

    assert "not JSON" in findings(BREAKS, lines)["dataset.error"]


def test_a_loader_that_drops_a_row_in_silence_is_found() -> None:
    silent = Rewrite(
        "client.dataset:_Reader.read",
        "self._refused.append((len(self._samples), refused))",
        "pass",
    )

    assert findings(REFUSED, silent)["dataset.refused"] == "rows []"


def test_a_loader_that_gives_no_reason_is_found() -> None:
    blank = Rewrite("client.dataset:_Reader.read", "str(error)", "'bad row'")

    assert findings(REFUSED, blank)["dataset.refused"] == "'bad row'"


def test_a_loader_that_loses_a_sample_is_found() -> None:
    first_only = Rewrite("client.dataset:_Reader.dataset", "self._samples[:limit]", "self._samples[:1]")

    found = findings(REFUSED, first_only)
    assert found["dataset.samples"] == "PR_correction/560"


def test_a_guard_that_forgets_refused_rows_is_found() -> None:
    forgets = Rewrite("client.gates:gate", "result.requested + gates.refused", "result.requested")

    assert findings(REFUSED, forgets)["verdicts.guard"] == "'passed'"


def test_an_id_that_leads_out_of_the_folder_is_found_whoever_forgets_to_refuse_it() -> None:
    loader = findings(PARENT, NO_NAME_CHECK)
    neither = findings(PARENT, NO_NAME_CHECK, NO_PATH_CHECK)

    assert "it loads" in loader["dataset.error"]
    assert "holds a path separator" in loader["client-crashed"]
    assert "it loads" in neither["dataset.error"]
    assert "x" in neither["path-escape"]


@pytest.mark.parametrize("form", ["jsonl", "json", "parquet", "folder"])
def test_each_form_holds_the_samples_with_their_words_and_sound(form: Any, tmp_path: Path) -> None:
    scenario = SCENARIOS[BREAKS]
    assert scenario.dataset is not None
    scenario = scenario.model_copy(update={"dataset": scenario.dataset.model_copy(update={"form": form})})
    prepared = builtin.prepare(scenario, RunOptions())
    write_dataset(scenario, prepared, tmp_path / "dataset")
    assert scenario.dataset is not None
    loaded = load_dataset(dataset_path(scenario.dataset, tmp_path / "dataset"))

    assert [s.question_text for s in loaded.samples] == [s.question_text for s in scenario.samples]
    assert [s.answer1 for s in loaded.samples] == [s.answer1 for s in scenario.samples]
    assert [s.prepare().pcm for s in loaded.samples] == [one.pcm for one in prepared]
    assert loaded.refused == ()


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("frames: false", "frames: true", "frames of a clip in a dataset"),
        (
            "expect: {dataset: {rows: 1}}",
            "expect: {run: {published: 1}}",
            "nothing is expected of the dataset",
        ),
        ("dataset: {form: json}\n", "", "expected without a dataset"),
        ("{rows: 1}", "{rows: 1, error: set}", "given with error"),
        ("{rows: 1}", "{}", "nothing is expected"),
        ("form: json", "form: csv", "jsonl"),
        ("faults: []", "faults: [kill_client: {file: a}]", "given with the fault kill_client"),
        (
            "samples: [{id: a, clip: {seconds: 1, frames: false}}]",
            "clip: {seconds: 1}",
            "given with a dataset",
        ),
    ],
)
def test_what_cannot_be_is_refused(old: str, new: str, told: str, tmp_path: Path) -> None:
    text = """\
title: A dataset
about: It is loaded.
requires: [R30]
samples: [{id: a, clip: {seconds: 1, frames: false}}]
dataset: {form: json}
faults: []
expect: {dataset: {rows: 1}}
"""
    assert told in refusal(tmp_path / "loaded.yaml", text, old, new)
