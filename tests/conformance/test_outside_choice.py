"""`--client`: its three forms, and a lab's module loaded under a name of its own."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import client
from conformance.clients.choice import BUILTIN, ClientChoice, clock_of, jobs_for, parse_client
from conformance.clients.python_module import find_module, load_entry
from conformance.commands import app
from conformance.errors import ConfigurationError


@pytest.fixture(autouse=True)
def _path_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lab's folder stays on the path of its process: here many labs share one."""
    monkeypatch.setattr(sys, "path", list(sys.path))


def test_the_three_forms_are_read_and_told_as_given() -> None:
    assert parse_client("builtin") is BUILTIN
    python = parse_client("python:lab/client.py:run")
    assert (python.kind, python.module, python.function) == ("python", "lab/client.py", "run")
    assert python.told == "python:lab/client.py:run"
    command = parse_client(
        "command:'sh -m lab --url {url} --out {out}/x --note \"{} {Up}\"'".replace("'", "")
    )
    assert command.arguments == (
        "sh",
        "-m",
        "lab",
        "--url",
        "{url}",
        "--out",
        "{out}/x",
        "--note",
        "{} {Up}",
    )
    fields = {name: f"<{name}>" for name in ("url", "out")}
    assert command.fill(fields)[4:7] == ["<url>", "--out", "<out>/x"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("shipped", "unknown; known: builtin, python:MOD:FUNC, command:"),
        ("python:lab.client", "expected python:MOD:FUNC"),
        ("python::run", "expected python:MOD:FUNC"),
        ("python:lab:not a name", "expected python:MOD:FUNC"),
        ("command:", "no program"),
        ("command:sh 'open", "No closing quotation"),
        ("command:sh -c {sample}", "{sample} is not known; known: {url}, {host}, {port}"),
        ("command:no-such-program-here {url}", "no program 'no-such-program-here'"),
    ],
)
def test_what_is_no_client_is_refused_with_what_is_allowed(text: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(told)):
        parse_client(text)


def test_a_program_runs_on_the_real_clock_and_several_at_once() -> None:
    program = ClientChoice("command", arguments=("true",))
    assert clock_of(program, None) == "real"
    assert clock_of(BUILTIN, None) == "virtual"
    assert clock_of(ClientChoice("python"), "real") == "real"
    assert jobs_for(program) == 8
    with pytest.raises(ConfigurationError, match="a program keeps its own time"):
        clock_of(program, "virtual")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--client-deadline", "5"], "--client-deadline 5: the builtin client has deadlines of its own"),
        (["--client-env", "HOME"], "--client-env HOME: builtin runs in this process"),
        (
            ["--client", "command:true", "--client-env", "NO_SUCH_VARIABLE"],
            "--client-env NO_SUCH_VARIABLE: the variable is not set",
        ),
    ],
)
def test_an_option_that_a_client_does_not_hear_is_refused(arguments: list[str], told: str) -> None:
    result = CliRunner().invoke(app, ["run", "close/ignored", *arguments])

    assert result.exit_code == 2
    assert result.output.startswith(f"conformance: {told}")


def test_packages_of_a_lab_that_are_named_as_ours_are_its_own(tmp_path: Path) -> None:
    for package, word in (("client", "a lab's client"), ("tests", "a lab's tests")):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text(f"WORD = {word!r}\n")
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "helper.py").write_text("from client import WORD\n")
    (tmp_path / "lab" / "bench.py").write_text(
        "import tests\nfrom lab.helper import WORD\nasync def run(job):\n    return WORD, tests.WORD\n"
    )
    path, ours = list(sys.path), sys.modules["client"]
    entry = load_entry(ClientChoice("python", module="lab.bench", function="run"), tmp_path)
    with pytest.raises(StopIteration) as done:
        entry(None).__await__().__next__()  # type: ignore[attr-defined]
    assert done.value.value == ("a lab's client", "a lab's tests")
    assert sys.modules["client"] is ours
    assert client is ours
    assert sys.path == [*path, str(tmp_path)]


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("def run(job): ...", "run is no `async def`"),
        ("async def go(job): ...", "has no 'run'"),
        ("raise RuntimeError('no licence')", "raised RuntimeError: no licence"),
        ("async def run(job) ...", "raised SyntaxError"),
        ("import sys\nsys.exit(0)", "raised SystemExit: 0"),
    ],
)
def test_a_module_that_cannot_be_used_is_told_with_its_file(tmp_path: Path, source: str, told: str) -> None:
    (tmp_path / "lab.py").write_text(source)
    with pytest.raises(ConfigurationError, match=re.escape(told)) as refused:
        load_entry(ClientChoice("python", module="lab.py", function="run"), tmp_path)
    assert str(tmp_path / "lab.py") in str(refused.value)
    assert "python:lab.py:run" in str(refused.value)


def test_a_missing_module_names_the_places_looked_at(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no file .*lab/client.py or .*lab/client/__init__.py"):
        find_module("lab.client", tmp_path)
    with pytest.raises(ConfigurationError, match=r"no file .*lab.py"):
        find_module("lab.py", tmp_path)
    with pytest.raises(ConfigurationError, match=r"a path to a \.py file, or a dotted name"):
        find_module("../lab", tmp_path)
