"""docs/requirements.yaml and the catalogue are in step: every requirement on a session is spoken for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from scenarios import Scenario, load_catalogue

DOCS = Path(__file__).resolve().parents[2] / "docs"
SESSION_LEVEL = [f"R{number}" for number in range(1, 52)]
NOT_IN_A_SCENARIO: dict[str, str] = {}
"""Must or decided requirements that no scenario can show, each with its reason."""


@pytest.fixture(scope="module")
def rows() -> dict[str, dict[str, Any]]:
    document = yaml.safe_load((DOCS / "requirements.yaml").read_text("utf-8"))
    return {row["id"]: row for row in document["requirements"]}


@pytest.fixture(scope="module")
def catalogue() -> list[Scenario]:
    return load_catalogue()


def test_each_requirement_says_what_it_is_and_where_it_stands(rows: dict[str, dict[str, Any]]) -> None:
    headings = re.findall(r"^##+ (\d+(?:\.\d+)?)", (DOCS / "evaluation.md").read_text("utf-8"), flags=re.M)

    assert list(rows) == [f"R{number}" for number in range(1, 64)]
    for row in rows.values():
        assert set(row) == {"id", "status", "section", "text"}
        assert row["section"] in headings


def test_what_a_scenario_requires_is_there_and_is_no_matter_of_process(
    rows: dict[str, dict[str, Any]], catalogue: list[Scenario]
) -> None:
    required = {name for scenario in catalogue for name in scenario.requires}

    assert required <= set(rows)
    # R7 is about how R6 is proven; the scenario that proves it that way says so.
    assert {name for name in required if rows[name]["status"] == "process"} <= {"R7"}


def test_every_requirement_on_a_session_is_required_by_a_scenario(
    rows: dict[str, dict[str, Any]], catalogue: list[Scenario]
) -> None:
    required = {name for scenario in catalogue for name in scenario.requires}
    wanted = {name for name in SESSION_LEVEL if rows[name]["status"] in ("must", "decided")}

    assert wanted - required == set(NOT_IN_A_SCENARIO)


def test_every_requirement_on_a_session_is_broken_by_a_defect(rows: dict[str, dict[str, Any]]) -> None:
    from conformance.defects.all import ALL_DEFECTS

    broken = {name for defect in ALL_DEFECTS for name in defect.breaks}
    wanted = {name for name in SESSION_LEVEL if rows[name]["status"] in ("must", "decided")}

    assert wanted - broken == set(NOT_IN_A_SCENARIO)


PROJECT = Path(__file__).resolve().parents[2]
FIELD_REPORTS = (
    "fr01-stops-reading-after-commit",
    "fr01-stops-reading-mid-stream",
    "fr02-append-crosses-close",
    "fr03-no-pong",
    "fr04-bad-bytes-in-text",
    "fr04-character-cut-at-end",
    "fr05-peer-limit-1009",
    "fr05-peer-limit-closed-as-1000",
    "fr06-close-1000-mid-reply",
    "fr06-close-1001-mid-reply",
    "fr07-incomplete-max-tokens",
    "fr08-error-code-null",
    "fr08-error-is-a-string",
    "fr09-odd-delta",
    "fr10-damaged-base64",
    "fr11-split-emoji",
    "fr12-late-deltas",
    "fr13-commit-empty",
    "fr14-expired-mid-reply",
    "fr15-ack-after-commit",
    "fr16-no-terminal-event",
    "fr17-reply-before-commit",
)
"""Ids of the field reports about event sequences and transports."""
PLAYED = {
    "judge_reply": "tests/client/judge/test_judge_field_reports.py",
    "media": "tests/client/test_client_media.py",
    "dataset": "tests/client/test_client_dataset.py",
}
"""Kinds whose reports are played one by one from the handed file, and where."""
TOLD = {"fr29-shared-output": "tests/client/test_client_cli_run.py"}
"""Reports of runs that a test tells, and where."""
OF_RUNS = ("fr18-task-from-split", "fr27-unicode-line-breaks", "fr28-kill-9")
"""Of the others, those that a scenario tells; tests of the client tell the rest."""


def test_each_field_report_is_told_by_a_scenario(catalogue: list[Scenario]) -> None:
    tagged = {
        tag for scenario in catalogue for tag in scenario.tags if tag.startswith("fr") and tag[2].isdigit()
    }

    assert tagged == {*FIELD_REPORTS, *OF_RUNS}


@pytest.mark.shared_data
def test_the_field_reports_are_all_of_them(shared_data: Path) -> None:
    import json

    cases = json.loads((shared_data.parent / "cases" / "field_reports.json").read_text("utf-8"))

    assert [c["id"] for c in cases if c["kind"] in ("event_sequence", "transport")] == list(FIELD_REPORTS)
    for case in cases:
        if case["kind"] in PLAYED:
            assert "field_reports.json" in (PROJECT / PLAYED[case["kind"]]).read_text("utf-8")
        elif case["kind"] == "run" and case["id"] not in OF_RUNS:
            assert case["id"] in (PROJECT / TOLD[case["id"]]).read_text("utf-8")
