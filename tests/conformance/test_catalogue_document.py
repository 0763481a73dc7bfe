"""docs/catalogue.md says what the scenarios' files say, a table of cases in one row."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.catalogue_document import AREAS, DOCUMENT, first_sentence, main, render
from scenarios import load_catalogue

SCENARIOS = load_catalogue()


def test_the_document_is_current() -> None:
    assert render(SCENARIOS) == DOCUMENT.read_text("utf-8"), "docs/catalogue.md is old; run: make docs"


def test_cases_of_a_file_share_a_row_and_keep_their_names() -> None:
    text = render([s for s in SCENARIOS if s.id.startswith("close/late-closed[")])

    assert (
        text.count(
            "| `close/late-closed` [engine, input-driven, july] | A close that is answered just in time"
        )
        == 1
    )
    assert "3 scenarios in 1 files,\n0 of which are no rows of a table" in text


def test_a_probe_is_told_by_its_facts() -> None:
    text = render([s for s in SCENARIOS if s.id == "probes/refusal"])

    assert "| facts |" in text
    assert "refusal, refusal_ends |" in text


def test_every_area_of_the_catalogue_says_what_it_is_about() -> None:
    assert {s.id.split("/")[0] for s in SCENARIOS} <= set(AREAS)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("One. Two.", "One."),
        ("It takes 1.8 s to\n  close. Then.", "It takes 1.8 s to close."),
        ("The session.close is late. It is", "The session.close is late."),
        ("No end", "No end"),
        ('He says "no." And goes.', 'He says "no." And goes.'),
    ],
)
def test_the_first_sentence_ends_at_its_full_stop(text: str, sentence: str) -> None:
    assert first_sentence(text) == sentence


def test_an_option_is_not_taken_for_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    assert main(["--help"]) == 2
    assert capsys.readouterr().err == "conformance.catalogue_document: found '--help'; allowed: FILE\n"
    assert list(tmp_path.iterdir()) == []
