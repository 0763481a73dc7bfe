"""A mitigation taken away shows what depends on it; two taken away show which of them saves what."""

from __future__ import annotations

import pytest

from conformance.defects.ablation import Removal, is_lost, measure, pairs_of, share
from conformance.defects.ablation_report import DOCUMENT, line_of, pair_lines, render
from conformance.defects.mitigations import MITIGATIONS, PAIRS, Mitigation
from conformance.defects.rewrite import applied
from conformance.options import RunOptions
from conformance.outcome import Finding, Outcome, ScenarioResult
from scenarios import load_catalogue

SCENARIOS = {s.id: s for s in load_catalogue()}
SIX = (
    "drain/frozen-tail[july]",
    "commit/stall-at-commit",
    "retry/stall-then-success",
    "close/no-transport",
    "drain/frozen-once",
    "drain/slow-once",
)


@pytest.fixture(scope="module")
def removals() -> dict[tuple[str, ...], Removal]:
    paired = {name for pair in PAIRS for name in pair}
    scenarios, mitigations = [SCENARIOS[name] for name in SIX], [m for m in MITIGATIONS if m.name in paired]
    reference, running = measure(scenarios, RunOptions(), 1, mitigations)
    assert reference.unclean == []
    return {removal.taken: removal for removal in running}


@pytest.mark.parametrize("mitigation", MITIGATIONS, ids=lambda m: m.name)
def test_each_mitigation_can_be_taken_away(mitigation: Mitigation) -> None:
    with applied(mitigation.without):
        pass


def test_each_pair_can_be_taken_away_together() -> None:
    by_name = {m.name: m.without for m in MITIGATIONS}
    for one, other in PAIRS:
        with applied(by_name[one] + by_name[other]):
            pass


def test_a_frozen_tail_depends_on_padding_and_on_no_retry(removals: dict[tuple[str, ...], Removal]) -> None:
    assert "drain/frozen-tail[july]" in removals["padding",].losing
    assert "drain/frozen-tail[july]" not in removals["retry",].failing


def test_a_stall_at_the_commit_needs_both_bounds(removals: dict[tuple[str, ...], Removal]) -> None:
    pair = next(p for p in pairs_of(list(removals.values())) if p.names == ("ack-bound", "close-bound"))

    assert "commit/stall-at-commit" in pair.samples.both


def test_a_tail_frozen_once_is_saved_by_padding_or_by_the_retry(
    removals: dict[tuple[str, ...], Removal],
) -> None:
    pairs = {pair.names: pair for pair in pairs_of(list(removals.values()))}

    assert "drain/frozen-once" in pairs["padding", "retry"].samples.either
    assert "drain/slow-once" in pairs["drain-window", "retry"].samples.either


@pytest.mark.parametrize(
    ("first", "second", "together", "place"),
    [
        ("", "", "s", "either"),
        ("s", "", "s", "first"),
        ("", "s", "s", "second"),
        ("s", "s", "s", "both"),
        ("s", "", "", "hidden"),
        ("", "", "", None),
    ],
)
def test_each_scenario_stands_in_one_place(first: str, second: str, together: str, place: str | None) -> None:
    shares = share(frozenset(first), frozenset(second), frozenset(together))
    found = [name for name in ("either", "first", "second", "both", "hidden") if getattr(shares, name)]

    assert found == ([place] if place else [])


@pytest.mark.parametrize(
    ("finding", "lost"),
    [
        (Finding("sample.outcome", (), "'published'", "'failed'"), True),
        (Finding("sample.outcome", (), "'failed'", "'published'"), False),
        (Finding("unbounded-await", (), "", ""), True),
        (Finding("sample.attempts", (), "1", "2"), False),
    ],
)
def test_a_sample_is_lost_when_it_should_have_been_published(finding: Finding, lost: bool) -> None:
    result = ScenarioResult("a/b", "t", (), Outcome.FAIL, (finding,))

    assert is_lost(result) is lost


def test_the_document_has_a_row_for_each_mitigation_and_a_table_for_each_pair(
    removals: dict[tuple[str, ...], Removal],
) -> None:
    text = DOCUMENT.read_text("utf-8")
    ours = list(removals.values())
    fresh = render(ours, pairs_of(ours))

    for mitigation in MITIGATIONS:
        assert f"| {mitigation.name} | {mitigation.about} |" in text, (
            "run: python -m conformance.defects.ablation_report"
        )
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        line for line in fresh.splitlines() if line.startswith("#")
    ]
    assert line_of(removals["padding",]).startswith("without padding")
    assert any("either one saves it" in line for line in pair_lines(pairs_of(ours)[0]))
