"""The finding that docs/fuzzing.md shows is one: a client with the defect gives it, a right one does not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from conformance.commands import app
from conformance.defects.all import ALL_DEFECTS
from conformance.defects.rewrite import applied
from conformance.fuzz import campaign

DOCUMENT = Path(__file__).parents[2] / "docs" / "fuzzing.md"
(DEFECT,) = (defect for defect in ALL_DEFECTS if defect.name == "timeout-text-substring")


def test_the_finding_in_the_document_is_seen_with_its_defect_and_not_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaign, "shrink", lambda found, player: found)  # the document has the small one
    shown = re.search(r"```yaml\n(# conformance finding .*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert shown is not None
    name = re.search(r"^# finding: (\S+)$", shown[1], re.MULTILINE)
    assert name is not None
    file = tmp_path / f"{name[1]}.yaml"
    file.write_text(shown[1])

    with applied(DEFECT.rewrites):
        there = CliRunner().invoke(app, ["replay", str(file)])
    gone = CliRunner().invoke(app, ["replay", str(file)])

    assert there.exit_code == 1, there.output
    assert gone.exit_code == 3, gone.output
    drawn = re.search(r"^# drawn: conformance (.*)$", shown[1], re.MULTILINE)
    assert drawn is not None
    with applied(DEFECT.rewrites):
        drawn_again = CliRunner().invoke(app, drawn[1].split())
    assert drawn_again.exit_code == 1
    assert name[1] in drawn_again.output
