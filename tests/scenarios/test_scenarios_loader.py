"""What a file means: faults, cases, ids, selection."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenarios import Scenario, ScenarioError, load_scenario, load_scenarios, select
from scenarios.faults import LateSessionClosed, NoTransport, StopReading

BASE = """\
title: A close that comes late
about: A story.
requires: [R12]
tags: [close]
clip: {seconds: 2.4}
faults:
  - late_session_closed: {delay_s: 1}
  - no_transport
expect: {metadata: {close_timeout: null}}
"""
CASES = """\
cases:
  soon: {faults.0.late_session_closed.delay_s: 0.5, tags: [close, soon]}
  late:
    faults.0.late_session_closed.delay_s: 19.9
    client.deadlines.close_s: 30
    expect.metadata: {close_timeout: set}
"""


def load(folder: Path, text: str) -> list[Scenario]:
    file = folder / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    return load_scenarios(file)


def test_faults_become_instances_of_their_class(tmp_path: Path) -> None:
    text = BASE.replace("no_transport", "stop_reading: {on: {sent: response.done}, proof: unread}")

    first, second = load(tmp_path, text)[0].faults
    assert isinstance(first, LateSessionClosed)
    assert first.delay_s == 1.0
    assert isinstance(second, StopReading)
    assert second.on is not None
    assert (second.on.sent, second.proof, second.buffer_bytes) == ("response.done", "unread", 4096)


def test_a_fault_without_parameters_may_be_a_bare_name_or_empty(tmp_path: Path) -> None:
    for form in ("no_transport", "no_transport: {}", "no_transport:"):
        assert isinstance(load(tmp_path, BASE.replace("no_transport", form))[0].faults[1], NoTransport)


def test_faults_keep_their_parameters_when_a_scenario_is_written_out(tmp_path: Path) -> None:
    dumped = load(tmp_path, BASE)[0].model_dump()

    assert dumped["faults"][0]["delay_s"] == 1.0


def test_cases_put_their_values_in_the_place_of_dotted_keys(tmp_path: Path) -> None:
    soon, late = load(tmp_path, BASE + CASES)

    assert (soon.id, late.id) == ("mine[soon]", "mine[late]")
    assert (soon.title, late.title) == ("A close that comes late [soon]", "A close that comes late [late]")
    assert [fault.model_dump()["delay_s"] for fault in (soon.faults[0], late.faults[0])] == [0.5, 19.9]
    assert (soon.client.deadlines, late.client.deadlines) == ({}, {"close_s": 30.0})
    assert (soon.expect.metadata, late.expect.metadata) == ({"close_timeout": None}, {"close_timeout": "set"})
    assert soon.tags == ["close", "soon"]


def test_a_value_of_one_case_does_not_reach_the_next(tmp_path: Path) -> None:
    first, second = load(
        tmp_path, BASE + "cases: {a: {faults.0.late_session_closed.delay_s: 9}, b: {tags: [b]}}"
    )

    assert [s.faults[0].model_dump()["delay_s"] for s in (first, second)] == [9.0, 1.0]


def test_a_key_that_every_case_brings_need_not_be_in_the_file(tmp_path: Path) -> None:
    text = BASE.replace("expect: {metadata: {close_timeout: null}}\n", "")

    assert load(tmp_path, text + "cases: {a: {expect.close: clean}}")[0].expect.close == "clean"


def test_a_case_may_reach_a_sample_whose_id_is_a_number(tmp_path: Path) -> None:
    text = BASE + "cases: {a: {expect.samples.1.attempts: 2}}"

    assert load(tmp_path, text)[0].expect.samples["1"].attempts == 2


@pytest.mark.parametrize(
    ("cases", "key", "line", "told"),
    [
        ("cases: {}", "cases", 10, "a mapping of short ids"),
        ("cases: [a]", "cases", 10, "a mapping of short ids"),
        ("cases: {A b: {tags: []}}", "cases.A b", 10, "lower-case letters"),
        ("cases: {a: 3}", "cases.a", 10, "dotted keys and their values"),
        (
            "cases:\n  a: {faults.7.x: 3}",
            "cases.a.faults.7.x",
            11,
            "faults has no item 7; an index from 0 to 1",
        ),
        ("cases:\n  a: {faults.x: 3}", "cases.a.faults.x", 11, "faults has no item x"),
        ("cases:\n  a: {title.x: 3}", "cases.a.title.x", 11, "title is 'A close that comes late [a]'"),
        (
            "cases:\n  a: {judge.replies.0.text: x}",
            "cases.a.judge.replies.0.text",
            11,
            "judge.replies does not stand",
        ),
        (
            "cases:\n  a: {client.gates.floors: {x: 1}}",
            "cases.a.client.gates.floors.x",
            11,
            "unknown mean 'x'",
        ),
        (
            "cases:\n  a: {client.gates.floors: {rtd.mean_content_score: 1}}",
            "cases.a.client.gates.floors",
            11,
            "floors without a judge",
        ),
        ("cases:\n  a:\n    client.pase: fast", "cases.a.client.pase", 12, "did you mean 'pace'?"),
        ("cases:\n  a:\n    server: {profil: july}", "cases.a.server.profil", 12, "did you mean 'profile'?"),
    ],
)
def test_a_wrong_case_is_told_at_its_own_line(
    cases: str, key: str, line: int, told: str, tmp_path: Path
) -> None:
    with pytest.raises(ScenarioError) as caught:
        load(tmp_path, BASE + cases)

    assert [(p.key, p.line) for p in caught.value.problems] == [(key, line)]
    assert told in str(caught.value)


def test_a_problem_all_cases_share_is_told_once(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError) as caught:
        load(tmp_path, BASE.replace("R12", "R99") + CASES)

    assert len(caught.value.problems) == 1


def test_one_scenario_is_not_taken_from_a_file_of_two(tmp_path: Path) -> None:
    load(tmp_path, BASE + CASES)

    with pytest.raises(ScenarioError, match=r"2 scenarios: mine\[soon\], mine\[late\]"):
        load_scenario(tmp_path / "mine.yaml")


def test_a_scenario_built_by_hand_keeps_the_same_rules() -> None:
    with pytest.raises(ValueError, match="neither `clip` nor `samples`"):
        Scenario.model_validate(
            {"id": "x", "title": "t", "about": "a", "requires": [], "expect": {"close": "clean"}}
        )


@pytest.fixture
def several(tmp_path: Path) -> list[Scenario]:
    clean = load(tmp_path, BASE.replace("tags: [close]", "tags: [clean]"))[0].model_copy(
        update={"id": "stream/clean"}
    )
    cases = [s.model_copy(update={"id": f"close/{s.id}"}) for s in load(tmp_path, BASE + CASES)]
    return [clean, *cases]


@pytest.mark.parametrize(
    ("patterns", "tags", "picked"),
    [
        ([], [], ["stream/clean", "close/mine[soon]", "close/mine[late]"]),
        (["close/mine[late]"], [], ["close/mine[late]"]),
        (["close/mine"], [], ["close/mine[soon]", "close/mine[late]"]),
        (
            ["close/*", "stream/clean", "close/mine"],
            [],
            ["stream/clean", "close/mine[soon]", "close/mine[late]"],
        ),
        (["*/cl??n"], [], ["stream/clean"]),
        ([], ["soon", "clean"], ["stream/clean", "close/mine[soon]"]),
        (["close/*"], ["clean"], []),
    ],
)
def test_patterns_and_tags_pick_scenarios_once_and_in_order(
    several: list[Scenario], patterns: list[str], tags: list[str], picked: list[str]
) -> None:
    assert [s.id for s in select(several, patterns, tags)] == picked


def test_a_file_outside_the_catalogue_is_picked_by_its_path(several: list[Scenario], tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"

    assert [s.id for s in select(several, [str(file), "stream/clean"])] == [
        "stream/clean",
        "mine[soon]",
        "mine[late]",
    ]


def test_a_pattern_or_tag_that_picks_nothing_is_an_error(several: list[Scenario]) -> None:
    with pytest.raises(ScenarioError) as caught:
        select(several, ["stream/claen", "close/*"], ["sonn"])

    text = str(caught.value)
    assert "stream/claen: no scenario has this id; did you mean 'stream/clean'?" in text
    assert "sonn: no scenario has this tag; did you mean 'soon'? known: clean, close, soon" in text
