"""docs/bring-your-own-client.md: its command for the upstream benchmark runs, and its tables are true."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.clients.choice import FIELDS, ClientChoice, parse_client
from conformance.clients.job import Job
from conformance.clients.reach import BY_INVARIANTS, OWN_STATEMENTS, out_of_reach
from conformance.invariants import INVARIANTS
from conformance.outcome import Outcome
from scenarios import load_catalogue
from tests.conformance.playing_programs import CLEAN, play

HERE = Path(__file__).resolve().parent
DOCUMENT = (HERE.parents[1] / "docs" / "bring-your-own-client.md").read_text("utf-8")
PROGRAM = ClientChoice("command", arguments=("true",))


def upstream_command() -> tuple[str, ...]:
    """The arguments of the document's command, ours in the place of the program."""
    block = re.search(r"```text\n(conformance run .*?)```", DOCUMENT, re.DOTALL)
    assert block is not None
    words = shlex.split(block[1])
    client = words[words.index("--client") + 1]
    choice = parse_client(
        client.replace("command:vllm", f"command:{sys.executable} {HERE / 'upstream_bench.py'}")
    )
    return choice.arguments[1:]


def test_the_upstream_command_line_is_judged_by_what_it_leaves_under_its_run_folder(tmp_path: Path) -> None:
    text = CLEAN.replace("close: by_peer", "run: {completed: 1, published: 1, duplex_retry_count: 0}")
    result = play(tmp_path, text, *upstream_command())
    assert (result.outcome, result.findings, result.reason) == (Outcome.PASS, (), "")
    (answer,) = (tmp_path / "out").rglob("answers/run-*/RTD_Omni/1.json")
    assert "A bell." in answer.read_text()


def test_a_readiness_session_counts_as_an_attempt_as_the_page_says(tmp_path: Path) -> None:
    assert "--ready-check-timeout-sec 0" in DOCUMENT
    argv = [word if word != "0" else "1" for word in upstream_command()]
    argv[argv.index("--num-prompts") + 1] = "0"
    result = play(tmp_path, CLEAN, *argv)
    assert [found.id for found in result.findings if found.id == "sample.attempts"] == ["sample.attempts"]


@pytest.mark.parametrize("wrong", ["--endpoint=/v1/chat/completions", "--backend=openai", "--profile"])
def test_what_upstream_refuses_is_told_with_its_own_last_line(tmp_path: Path, wrong: str) -> None:
    result = play(tmp_path, CLEAN, *upstream_command(), wrong)
    crash = next(found for found in result.findings if found.id == "client-crashed")
    assert "it ended with status 2 before it connected" in crash.actual
    assert "vllm bench serve: error" in result.output[-1]


def rows(table: str) -> dict[str, str]:
    """Requirement and reason of each row of a table."""
    return dict(re.findall(r"^\| (R\d+) \| (.*) \|$", table, re.MULTILINE))


def test_the_tables_of_what_cannot_be_observed_are_true() -> None:
    catalogue = [scenario for scenario in load_catalogue() if scenario.probe is None]
    _, first, second, third = DOCUMENT.split("| requirement | why |")
    always = out_of_reach(catalogue, PROGRAM)
    shared = out_of_reach(catalogue, PROGRAM, "shared")
    assert rows(first) == always
    assert rows(second) == {name: why for name, why in shared.items() if name not in always}
    answers = out_of_reach(catalogue, replace(PROGRAM, shows="answers"))
    assert rows(third) == {name: why for name, why in answers.items() if name not in always}
    assert out_of_reach(catalogue, replace(PROGRAM, kind="python")) == always


def test_what_is_said_of_statements_and_invariants_names_some_that_are() -> None:
    assert set(BY_INVARIANTS) <= {one.id for one in INVARIANTS}
    assert all(name.startswith(("sample.", "metadata.")) for name in OWN_STATEMENTS)


def test_the_table_of_the_job_names_every_field_and_variable() -> None:
    job = Job("ws://127.0.0.1:9/v1/realtime", "m", "v.wav", "s.jsonl", "out", 9.5, "http://j", "jm")
    assert set(job.fields()) == set(FIELDS)
    for name in (*FIELDS, *job.environment()):
        assert f"`{name}`" in DOCUMENT
    assert job.fields()["port"] == "9"
    assert job.environment()["CONFORMANCE_DEADLINE_S"] == "9.5"
    assert {f"CONFORMANCE_{name.upper()}" for name in vars(job)} == set(job.environment())


def test_the_table_of_examples_names_them_with_their_lengths() -> None:
    told = dict(re.findall(r"^\| `(\w+\.py)` \|[^|]*\| (\d+) \|", DOCUMENT, re.MULTILINE))
    examples = (HERE.parents[1] / "docs" / "examples").glob("*.py")
    assert told == {path.name: str(len(path.read_text("utf-8").splitlines())) for path in examples}
