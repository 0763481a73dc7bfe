"""Shards put together: what is not whole is told, what does not belong together or is broken is refused."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from conformance.commands import app
from conformance.fuzz import summary
from conformance.fuzz.campaign import Group, Plan, Tally
from conformance.fuzz.case import Found
from conformance.fuzz.drawing import Kinds
from conformance.fuzz.summary import write_summary
from conformance.outcome import Finding

PLAN = Plan(3, cases=6, shard=(1, 2))
LEAK = Found(Finding("task-leak", ("R9",), "none", "one"), 3, 2, {})


def shard(folder: Path, plan: Plan, *, cases: int = 3, interrupted: bool = False) -> str:
    """A folder as a shard leaves it."""
    tally = Tally(cases=cases, outcomes=Counter({"pass": cases}), interrupted=interrupted)
    write_summary(plan, tally, folder)
    return str(folder)


def merged(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["merge", *arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


@pytest.fixture
def two(tmp_path: Path) -> list[str]:
    """The folders of both shards of a campaign."""
    return [shard(tmp_path / str(k), replace(PLAN, shard=(k, 2))) for k in (1, 2)]


def test_whole_shards_without_a_finding_are_a_pass(two: list[str]) -> None:
    code, said = merged(*reversed(two))

    assert code == 0, said
    assert said.endswith("\nseed 3, 2 shard(s), 6 cases (6 pass)\n0 finding(s)\n")


def test_a_shard_that_was_interrupted_or_played_too_little_is_told(two: list[str], tmp_path: Path) -> None:
    shard(tmp_path / "1", PLAN, cases=2, interrupted=True)
    shard(tmp_path / "2", replace(PLAN, shard=(2, 2)), cases=1)

    code, said = merged(*two)

    assert code == 1
    assert "unfinished shard(s): 1/2 (interrupted after 2 of 3 cases), 2/2 (1 of 3 cases)\n" in said


def test_a_shard_that_was_interrupted_behind_its_last_case_is_told_and_so_is_one_without_a_share(
    tmp_path: Path,
) -> None:
    for plan, words in (
        (replace(PLAN, shard=(1, 1), cases=3), "1/1 (interrupted after 3 of 3 cases)"),
        (replace(PLAN, shard=(1, 1), cases=None, for_s=60.0), "1/1 (interrupted after 3 cases)"),
    ):
        code, said = merged(shard(tmp_path, plan, interrupted=True))
        assert (code, f"unfinished shard(s): {words}\n" in said) == (1, True), said


def test_of_an_odd_number_of_cases_the_later_shard_has_the_smaller_share(tmp_path: Path) -> None:
    plan = replace(PLAN, cases=7)
    folders = [
        shard(tmp_path / str(k), replace(plan, shard=(k, 2)), cases=cases) for k, cases in ((1, 4), (2, 3))
    ]

    assert merged(*folders)[0] == 0


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_what_several_shards_have_is_told_from_its_lowest_case_and_added_up(
    tmp_path: Path, order: tuple[int, int]
) -> None:
    folders = [tmp_path / "1", tmp_path / "2"]
    for k, (folder, first_case, count) in enumerate(zip(folders, (4, 3), (2, 5), strict=True), 1):
        seen = replace(LEAK, finding=replace(LEAK.finding, actual=f"one in shard {k}"))
        group = Group(seen, first_case=first_case, count=count)
        states = Counter({"row 1": k, "close lost": 1})
        tally = Tally(cases=3, outcomes=Counter({"pass": k}), states=states, groups={LEAK.key: group})
        write_summary(replace(PLAN, shard=(k, 2)), tally, folder)
        (folder / f"{LEAK.key}.yaml").write_text(f"of shard {k}")
        (folder / f"{LEAK.key}.trace.ndjson").write_text(f"trace of shard {k}")

    code, said = merged(*[str(folders[k]) for k in order], "--save", str(folders[1]), "--states")

    assert code == 1
    assert f"{LEAK.key}  R9  7 time(s), first in case 3\n  actual     one in shard 2\n" in said
    assert f"  replay     conformance replay {folders[1] / LEAK.key}.yaml\n" in said
    assert re.search(r"^row 1 \(clean\) +3$", said, re.MULTILINE)
    assert "6 cases (3 pass)\n" in said
    assert merged(*[str(folders[k]) for k in order], "--save", str(tmp_path / "all"))[0] == 1
    for folder in (folders[1], tmp_path / "all"):
        assert (folder / f"{LEAK.key}.yaml").read_text() == "of shard 2"
        assert (folder / f"{LEAK.key}.trace.ndjson").read_text() == "trace of shard 2"


def test_an_error_of_the_harness_in_a_shard_ends_the_merge_with_its_code(tmp_path: Path) -> None:
    broken = replace(LEAK, finding=replace(LEAK.finding, id="harness-error"))
    tally = Tally(cases=6, groups={broken.key: Group(broken, first_case=2)})
    write_summary(replace(PLAN, shard=(1, 1)), tally, tmp_path)

    assert merged(str(tmp_path))[0] == 3


def test_a_summary_is_replaced_and_never_seen_half(tmp_path: Path) -> None:
    """Who has the older one open reads on in it."""
    file = Path(shard(tmp_path, PLAN, cases=1)) / "campaign.json"
    older = file.read_text()
    os.link(file, tmp_path / "open")

    shard(tmp_path, PLAN, cases=2)

    assert (tmp_path / "open").read_text() == older
    assert json.loads(file.read_text())["cases"] == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["campaign.json", "open"]


def test_a_summary_beyond_all_bounds_is_not_read(two: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "MAX_BYTES", 100)

    code, said = merged(*two)

    assert (code, said) == (2, f"conformance: {two[0]}/campaign.json: more than 100 bytes\n")


def test_a_shard_that_nobody_brought_is_told_and_a_million_of_them_in_a_line(tmp_path: Path) -> None:
    code, said = merged(shard(tmp_path / "1", PLAN))
    assert code == 1
    assert "missing shard(s): 2/2\n" in said

    code, said = merged(shard(tmp_path / "1", replace(PLAN, shard=(1, 10**9)), cases=1))
    assert code == 1
    assert said.count("/1000000000") == 10
    assert "and 999999989 more\n" in said


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"kinds": Kinds(server=True)}, "is of `conformance fuzz --seed 3 --server --cases 6`"),
        ({"kinds": Kinds(judge=False)}, "is of `conformance fuzz --seed 3 --no-judge --cases 6`"),
        ({"kinds": Kinds(media=False)}, "is of `conformance fuzz --seed 3 --no-media --cases 6`"),
        ({"cases": 7}, "is of `conformance fuzz --seed 3 --cases 7`"),
        ({"cases": None, "for_s": 60.0}, "is of `conformance fuzz --seed 3 --for 60s`"),
        ({"seed": 4}, "is of `conformance fuzz --seed 4 --cases 6`"),
        ({"shard": (2, 3)}, "is one of 3 shards, {first} is one of 2"),
        ({"shard": (1, 2)}, "shard 1/2, and so is {first}"),
        ({"case": 5, "cases": None}, "is of `conformance fuzz --seed 3 --case 5`"),
    ],
)
def test_shards_of_different_campaigns_are_refused(tmp_path: Path, other: dict[str, Any], told: str) -> None:
    first = shard(tmp_path / "first", PLAN)
    second = shard(tmp_path / "second", replace(PLAN, **{"shard": (2, 2), **other}))

    code, said = merged(first, second)

    assert code == 2
    assert said.startswith(f"conformance: {second}")
    assert told.format(first=first) in said
    assert first in said
    assert said.count("\n") == 1


def test_shards_of_different_versions_are_refused(
    two: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summary, "versions", lambda: "duplex-conformance 0.0.9")
    shard(tmp_path / "2", replace(PLAN, shard=(2, 2)))

    code, said = merged(*two)

    assert code == 2
    assert f"{two[1]} is played with duplex-conformance 0.0.9, {two[0]} is played with duplex-" in said


def test_a_case_that_was_played_alone_is_no_shard(tmp_path: Path) -> None:
    code, said = merged(shard(tmp_path, Plan(3, case=5), cases=1))

    assert code == 2
    assert said == f"conformance: {tmp_path}: only case 5 was played; that is no shard\n"


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"shard": 5}, "shard: 5; a list"),
        ({"shard": [3, 2]}, "shard: [3, 2]; [K, N] with K <= N"),
        ({"shard": [0, 2]}, "shard[0]: 0; at least 1"),
        ({"states": [1]}, "states: a list of 1; a mapping"),
        ({"findings": [{}]}, "findings[0].key: missing; required"),
        ({"findings": [{"key": "../../x"}]}, "findings[0].key: '../../x'; "),
        ({"cases": "x"}, "cases: 'x'; a whole number"),
        ({"cases": -1}, "cases: -1; at least 0"),
        ({"kinds": {"media": 1}}, "kinds.media: 1; true or false"),
        ({"format": 1}, "format 1; a summary of format 2 is wanted"),
    ],
)
def test_a_broken_summary_is_one_message(two: list[str], broken: dict[str, Any], message: str) -> None:
    file = Path(two[1]) / "campaign.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | broken))

    code, said = merged(*two)

    assert code == 2
    assert said.startswith(f"conformance: {file}: {message}")
    assert said.count("\n") == 1


@pytest.mark.parametrize("text", ["", "[]", "[" * 100_000, "\x00", '{"format": 2, "seed": NaN}'])
def test_what_is_no_summary_is_one_message(two: list[str], text: str) -> None:
    file = Path(two[1]) / "campaign.json"
    file.write_text(text)

    code, said = merged(*two)

    assert code == 2
    assert said.startswith(f"conformance: {file}: ")
    assert said.count("\n") == 1


def test_a_folder_that_cannot_be_written_or_read_is_one_message(two: list[str], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for save, message in ((tmp_path / "file", "File exists"), (Path("/proc/x"), "No such file or directory")):
        code, said = merged(*two, "--save", str(save))
        assert (code, said) == (2, f"conformance: {save}: cannot be written: {message}\n")
    code, said = merged(str(tmp_path / "nowhere"))
    assert code == 2
    assert "nowhere/campaign.json: cannot be read: No such file or directory" in said


def test_a_finding_is_told_with_how_to_see_it_again(tmp_path: Path) -> None:
    plan = Plan(3, cases=6, kinds=Kinds(media=False))
    write_summary(plan, Tally(cases=6, groups={LEAK.key: Group(LEAK, first_case=2)}), tmp_path)

    code, said = merged(str(tmp_path))
    assert code == 1
    assert "  again      conformance fuzz --seed 3 --no-media --case 2 --save DIR\n" in said

    (tmp_path / f"{LEAK.key}.yaml").touch()
    code, said = merged(str(tmp_path), "--save", str(tmp_path / "all"))
    assert f"  replay     conformance replay {tmp_path / LEAK.key}.yaml\n" in said
    assert (tmp_path / "all" / f"{LEAK.key}.yaml").exists()
    (tmp_path / "all" / f"{LEAK.key}.yaml").unlink()
    (tmp_path / "all" / f"{LEAK.key}.yaml").mkdir()
    code, said = merged(str(tmp_path), "--save", str(tmp_path / "all"))
    assert code == 2
    assert "cannot be copied" in said
