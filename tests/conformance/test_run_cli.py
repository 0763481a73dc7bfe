"""`conformance` as a person or a CI job calls it: what it prints, where, and with which exit code."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from conformance.cli import main
from conformance.commands import app
from conformance.listing import show_lines
from conformance.options import ConfigurationError
from conformance.session import alone_in
from conformance.trace import Record, write_ndjson
from scenarios import load_catalogue
from scenarios.loader import build_scenarios
from scenarios.source import parse_source

CLEAN = "stream/clean-residual[july]"

BROKEN_EXPECTATION = """
title: A clip that is answered is said to fail
about: Only here to fail.
requires: [R51]
clip: {seconds: 2.4, speech: [0.2, 1.4]}
server:
  reply:
    - {starts_at_unit: 1, units: 1, text: "Hello."}
expect:
  sample: {outcome: failed}
"""


@pytest.fixture(scope="module")
def cli() -> CliRunner:
    return CliRunner()


@pytest.fixture
def failing(tmp_path: Path) -> Path:
    file = tmp_path / "failing.yaml"
    file.write_text(BROKEN_EXPECTATION)
    return file


def test_a_passing_scenario_ends_with_counts_and_code_0(cli: CliRunner) -> None:
    result = cli.invoke(app, ["run", CLEAN, "--jobs", "1"])

    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == "1 passed, 0 failed"


def test_a_failing_scenario_is_told_in_full_and_ends_with_code_1(cli: CliRunner, failing: Path) -> None:
    result = cli.invoke(app, ["run", str(failing), "--jobs", "1"])

    assert result.exit_code == 1
    assert "sample.outcome (R51)" in result.stdout
    assert re.search(r"expected +'failed'", result.stdout)
    assert re.search(r"actual +'published'", result.stdout)
    assert "last events, both sides" in result.stdout
    assert re.search(r"reproduce +conformance run ", result.stdout)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run", "no/such"], "no/such"),
        (["run", "--tag", "no-such-tag"], "no-such-tag"),
        (["run", "stream/dataset-sample"], "needs the dataset folder 'mini' (--dataset mini=PATH)"),
        (["run", CLEAN, "--dataset", "mini"], "expected NAME=PATH"),
        (["run", CLEAN, "--dataset", "mini=/nowhere/at/all"], "/nowhere/at/all does not exist"),
        (["run", CLEAN, "--ref-audio", "/nowhere/voice.wav"], "/nowhere/voice.wav"),
        (["show", "no/such"], "no/such"),
        (["defects", "no-such-defect"], "no defect 'no-such-defect'; known: ack-"),
        (["serve", "--profile", "august"], "known: below-real-time, engine, input-"),
        (["serve", "--host", "0.0.0.0", "--token-env", "NO_SUCH_VARIABLE"], "not set, or empty"),
        (
            ["serve", "--journal", "/nowhere/at/all.ndjson"],
            "--journal /nowhere/at/all.ndjson: cannot be written",
        ),
        (["serve", "--scenario", "no/such"], "no/such"),
        (
            ["serve", "--scenario", "ack/stubborn-final"],
            "swallow_cancellation act on a client in the same process",
        ),
    ],
)
def test_bad_input_is_one_clear_message_and_code_2(cli: CliRunner, arguments: list[str], told: str) -> None:
    result = cli.invoke(app, arguments)

    assert result.exit_code == 2
    assert told in result.stderr
    assert len(result.stderr.strip().splitlines()) <= 3
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("option", "path", "told"),
    [
        ("--out", "file", "cannot be written"),
        ("--out", "file/deep", "cannot be written"),
        ("--json", ".", "is a folder"),
        ("--junit", "file/report.xml", "cannot be written"),
    ],
)
def test_an_output_that_cannot_be_written_is_refused_before_anything_runs(
    cli: CliRunner, tmp_path: Path, option: str, path: str, told: str
) -> None:
    (tmp_path / "file").write_text("mine")
    result = cli.invoke(app, ["run", CLEAN, option, str(tmp_path / path)])

    assert result.exit_code == 2
    assert told in result.stderr
    assert str(tmp_path) in result.stderr
    assert result.stdout == ""
    assert (tmp_path / "file").read_text() == "mine"


def test_two_runs_do_not_write_to_one_folder(cli: CliRunner, tmp_path: Path) -> None:
    """Each clears what it takes for an older run's, and the other's client was blamed for what it lost."""
    with alone_in(tmp_path):
        result = cli.invoke(app, ["run", CLEAN, "--jobs", "1", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert result.stderr == f"conformance: {tmp_path}: another run writes there; name another folder\n"
    assert list(tmp_path.iterdir()) == []
    assert cli.invoke(app, ["run", CLEAN, "--jobs", "1", "--out", str(tmp_path)]).exit_code == 0


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--keep-traces"], "--keep-traces: nowhere to keep them; give --out DIR"),
        (["--max-sessions", "4"], "--max-sessions needs --target live"),
        (["--judge-video-mode", "odd"], "--judge-video-mode needs --target live"),
        (["--json", "x", "--junit", "./x"], "/x: named for two reports; each needs a file of its own"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(cli: CliRunner, options: list[str], told: str) -> None:
    result = cli.invoke(app, ["run", CLEAN, *options])
    assert result.exit_code == 2
    assert result.stderr.endswith(f"{told}\n")


def test_a_report_that_cannot_be_written_is_named_and_the_others_are_written(
    cli: CliRunner, tmp_path: Path
) -> None:
    for full, written in (("--json", "--junit"), ("--junit", "--json")):
        kept = tmp_path / f"kept{written}"
        result = cli.invoke(app, ["run", CLEAN, "--jobs", "1", full, "/dev/full", written, str(kept)])

        assert result.exit_code == 2
        assert result.stderr == "conformance: /dev/full: cannot be written: No space left on device\n"
        assert kept.stat().st_size > 500
    with pytest.raises(ConfigurationError, match="/dev/full: cannot be written"):
        write_ndjson(Path("/dev/full"), [Record(0.0, "s", 1, "client", "sent", {})])


def test_a_full_standard_output_is_one_message() -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "conformance", "run", CLEAN, "--jobs", "1"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)

    assert done.returncode == 2
    assert done.stderr.strip() == "conformance: output cannot be written: No space left on device"


def test_a_bug_of_ours_ends_with_a_code_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*arguments: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("client.cli_entry.enter", broken)
    monkeypatch.setattr("sys.argv", ["conformance", "list"])
    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == 3
    assert "ZeroDivisionError: a bug" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["live", "nowhere"])
def test_an_unknown_target_or_clock_is_refused(cli: CliRunner, target: str) -> None:
    assert cli.invoke(app, ["run", "--target", target]).exit_code == 2
    assert cli.invoke(app, ["run", "--clock", target]).exit_code == 2


def test_a_scenario_file_with_an_unknown_key_names_file_line_and_what_is_allowed(
    cli: CliRunner, tmp_path: Path
) -> None:
    file = tmp_path / "typo.yaml"
    file.write_text(BROKEN_EXPECTATION.replace("seconds:", "secnds:"))

    for command in ("run", "validate"):
        result = cli.invoke(app, [command, str(file)])
        assert result.exit_code == 2
        assert "typo.yaml" in result.stderr
        assert re.search(r"\b5\b", result.stderr)
        assert "secnds" in result.stderr
        assert "seconds" in result.stderr


def test_validate_accepts_a_good_file(cli: CliRunner, failing: Path) -> None:
    result = cli.invoke(app, ["validate", str(failing)])

    assert result.exit_code == 0
    assert "1 scenario(s), valid" in result.stdout


def test_the_json_document_goes_to_standard_output_alone(cli: CliRunner, failing: Path) -> None:
    result = cli.invoke(app, ["run", str(failing), "--json", "-", "--jobs", "1"])

    document = json.loads(result.stdout)
    assert document["counts"]["failed"] == 1
    assert document["results"][0]["findings"][0]["id"] == "sample.outcome"
    assert "1 failed" in result.stderr


def test_junit_and_json_files_are_written(cli: CliRunner, tmp_path: Path) -> None:
    junit, document = tmp_path / "r" / "junit.xml", tmp_path / "r" / "run.json"
    result = cli.invoke(app, ["run", CLEAN, "--junit", str(junit), "--json", str(document), "--jobs", "1"])

    assert result.exit_code == 0
    assert ElementTree.parse(junit).getroot().iter("testcase")
    assert json.loads(document.read_text())["results"][0]["outcome"] == "pass"


def test_out_keeps_the_clients_files_and_the_trace(cli: CliRunner, tmp_path: Path) -> None:
    result = cli.invoke(app, ["run", CLEAN, "--out", str(tmp_path), "--keep-traces", "--jobs", "1"])

    assert result.exit_code == 0
    lines = (tmp_path / CLEAN / "trace.ndjson").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert {"client", "server"} <= {record["side"] for record in records}
    assert not any("audio" in record and len(str(record["audio"])) > 100 for record in records)
    assert (tmp_path / CLEAN / "answers" / "RTD_Omni" / "1.json").is_file()


def test_fail_fast_stops_at_the_first_that_does_not_pass(cli: CliRunner, failing: Path) -> None:
    second = failing.with_name("second.yaml")
    second.write_text(BROKEN_EXPECTATION)
    result = cli.invoke(app, ["run", str(failing), str(second), "--fail-fast", "--jobs", "1"])

    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1] == "0 passed, 1 failed"


def test_list_and_show_tell_a_scenario(cli: CliRunner) -> None:
    listed = cli.invoke(app, ["list", "--json"])
    shown = cli.invoke(app, ["show", "commit/stall-at-commit"])

    rows = {row["id"]: row for row in json.loads(listed.stdout)}
    assert rows["commit/stall-at-commit"]["title"] in shown.stdout
    assert "R13" in shown.stdout
    assert "stop_reading" in shown.stdout
    assert len(rows) >= 20


def test_what_show_prints_is_the_scenario(cli: CliRunner) -> None:
    """Pasted into a file it loads as the same scenario: cases, datasets, judges, probes, breaks in text and all."""
    for scenario in load_catalogue():
        text = "\n".join(show_lines(scenario))
        assert build_scenarios(parse_source(text.encode(), scenario.id), scenario.id) == [scenario]

    shown = cli.invoke(app, ["show", "commit/stall-at-commit"]).stdout
    assert "\n  - {starts_at_unit: " in shown


def test_requirements_are_listed_with_what_speaks_for_them(cli: CliRunner) -> None:
    every = cli.invoke(app, ["requirements", "--json"])
    two = cli.invoke(app, ["requirements", "R21", "R2"])

    rows = {row["id"]: row for row in json.loads(every.stdout)}
    assert list(rows) == [f"R{number}" for number in range(1, 64)]
    claiming = [scenario for scenario in load_catalogue() if "R21" in scenario.requires]
    assert rows["R21"]["scenarios"] == len(claiming)
    assert re.match(rf"R21 +must +{len(claiming)} scenario\(s\)  Only a stall .+\nR2 ", two.stdout)
    assert cli.invoke(app, ["requirements", "R99"]).exit_code == 2


def test_a_bound_that_can_never_fail_is_warned_of(cli: CliRunner, tmp_path: Path) -> None:
    for bound, warned in ((6500, True), (300, False)):
        file = tmp_path / "mine.yaml"
        file.write_text(
            BROKEN_EXPECTATION.replace("expect:", "client: {deadlines: {request_s: 120}}\nexpect:")
            + f"  finishes_within_s: {bound}\n"
        )
        result = cli.invoke(app, ["validate", str(file)])
        assert result.exit_code == 0
        assert ("can never fail" in result.stderr) is warned


def test_the_schema_is_json_schema(cli: CliRunner) -> None:
    schema = json.loads(cli.invoke(app, ["schema"]).stdout)

    assert "properties" in schema


def test_defects_prints_the_catch_and_exits_0(cli: CliRunner) -> None:
    result = cli.invoke(app, ["defects", "ack-timeout-blank", "--scenarios", "ack/*", "--jobs", "1"])

    assert result.exit_code == 0
    assert re.search(r"ack-timeout-blank +caught by \S+: metadata\.ack_timeout \(R3\)", result.stdout)
    assert "1 of 1 defects caught" in result.stdout


def test_a_defect_that_the_chosen_scenarios_miss_exits_1(cli: CliRunner) -> None:
    result = cli.invoke(app, ["defects", "judge-prose-fails", "--scenarios", "ack/*", "--jobs", "1"])

    assert result.exit_code == 1
    assert "judge-prose-fails" in result.stdout
    assert "NOT CAUGHT" in result.stdout


def test_scenarios_that_do_not_exist_are_refused_before_anything_runs(cli: CliRunner) -> None:
    result = cli.invoke(app, ["defects", "judge-prose-fails", "--scenarios", "nosuch/*"])

    assert result.exit_code == 2
    assert "nosuch/*" in result.stderr


def _serve(*arguments: str) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-m", "conformance", "serve", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline()


def test_serve_tells_its_url_answers_and_stops_on_a_signal(tmp_path: Path) -> None:
    process, line = _serve("--journal", str(tmp_path / "journal.ndjson"))
    try:
        match = re.search(r"ws://(127\.0\.0\.1:\d+)/v1/realtime", line)
        assert match is not None
        with urllib.request.urlopen(f"http://{match[1]}/health", timeout=10) as answer:
            assert json.load(answer)["status"] == "healthy"
        assert process.stdout is not None
        judge = re.search(r"judging at (http://127\.0\.0\.1:\d+/v1) ", process.stdout.readline())
        assert judge is not None
        with urllib.request.urlopen(f"{judge[1]}/models", timeout=10) as answer:
            assert json.load(answer)["data"][0]["id"] == "judge-model"
        body = {"model": "judge-model", "messages": [{"role": "user", "content": "success_score?"}]}
        request = urllib.request.Request(f"{judge[1]}/chat/completions", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert "success_score" in json.load(answer)["choices"][0]["message"]["content"]
    finally:
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=20)

    assert process.returncode == 0
    assert "stopped after 0 connection(s), 1 judge request(s)" in output
    heard = [json.loads(line) for line in (tmp_path / "journal.ndjson").read_text().splitlines()]
    assert [line["name"] for line in heard if line["kind"] == "judge"] == ["asked", "answered"]


def _until_closed(client: ClientConnection) -> tuple[list[str], ConnectionClosed]:
    """Names of the events that still come, and how the connection ends."""
    names: list[str] = []
    try:
        while True:
            names.append(json.loads(client.recv(timeout=10))["type"])
    except ConnectionClosed as closed:
        return names, closed


def test_serve_beyond_loopback_makes_a_token_and_ends_its_sessions_on_a_signal(tmp_path: Path) -> None:
    journal = tmp_path / "journal.ndjson"
    process, line = _serve("--host", "0.0.0.0", "--profile", "engine", "--journal", str(journal))
    try:
        assert process.stdout is not None
        port = line.split(":")[2].split("/")[0]
        told = [process.stdout.readline() for _ in range(3)]
        token = told[2].removeprefix("control token, told only here: ").strip()
        request = urllib.request.Request(f"http://127.0.0.1:{port}/control/state")
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(request, timeout=10)
        request.add_header("Authorization", f"Bearer {token}")
        with connect(f"ws://127.0.0.1:{port}/v1/realtime?autostart=0", proxy=None) as client:
            client.send(json.dumps({"type": "session.update", "session": {"modalities": ["text"]}}))
            assert json.loads(client.recv(timeout=10))["type"] == "session.created"
            with urllib.request.urlopen(request, timeout=10) as answer:
                assert json.load(answer)["connections"][0]["state"] == "open"
            process.terminate()
            names, closed = _until_closed(client)
        output, errors = process.communicate(timeout=20)
    finally:
        process.kill()

    assert names[-1] == "session.closed"
    assert closed.rcvd is not None
    assert (closed.rcvd.code, closed.rcvd.reason) == (1001, "shutdown")
    assert process.returncode == 0
    assert "stopped after 1 connection(s)" in output
    assert "can be reached from other hosts; sessions and judge take anybody" in errors
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    assert (lines[-1]["kind"], lines[-1]["data"]["by"]) == ("end", "server")
    assert token not in journal.read_text() + errors + output


def test_serve_on_a_port_in_use_is_unavailable() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        process, line = _serve("--port", str(taken.getsockname()[1]))
        _, errors = process.communicate(timeout=20)

    assert line == ""
    assert process.returncode == 4
    assert "cannot listen on 127.0.0.1" in errors


def test_ctrl_c_ends_in_time_with_a_summary_of_what_ran() -> None:
    command = [
        sys.executable,
        "-m",
        "conformance",
        "run",
        "--clock",
        "real",
        "--jobs",
        "1",
        "drain/outlives-input",
    ]
    process = subprocess.Popen(
        command,
        preexec_fn=_hear_interrupts,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "CI": "1"},
    )
    deadline = time.monotonic() + 20
    while not _children_or_threads_running(process.pid) and time.monotonic() < deadline:
        pass
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=20)

    assert process.returncode == 130, errors
    assert "interrupted: only what is listed above ran" in output
    assert "Traceback" not in errors


HALF_MADE = """
import os, signal
from conformance.pool import interrupted_by_sigterm

class Transport:
    def __init__(self):
        os.kill(os.getpid(), signal.{signal})
        self.closing = True
    def __del__(self):
        print("collected", self.closing)

try:
    with interrupted_by_sigterm():
        Transport()
except KeyboardInterrupt:
    print("interrupted")
import weakref
watched = weakref.ref(set(), lambda gone: 1 / 0)
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_an_object_that_an_interrupt_left_half_made_goes_without_a_trace(name: str) -> None:
    program = [sys.executable, "-c", HALF_MADE.replace("{signal}", name)]
    ended = subprocess.run(program, preexec_fn=_hear_interrupts, capture_output=True, text=True, timeout=20)

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "interrupted\n"
    assert "closing" not in ended.stderr
    assert "ZeroDivisionError" in ended.stderr, "what else goes unheard must be told as ever"


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _hear_interrupts() -> None:
    """A shell that starts the suite in the background leaves SIGINT ignored, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _children_or_threads_running(pid: int) -> bool:
    """Whether the process has connected a socket: the scenario is on its way."""
    try:
        links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    except OSError:
        return False
    return sum(link.startswith("socket:") for link in links) >= 3


def test_ctrl_c_does_not_wait_for_workers_on_the_real_clock() -> None:
    command = [sys.executable, "-m", "conformance", "run", "--clock", "real", "--jobs", "2"]
    process = subprocess.Popen(
        [*command, "drain/outlives-input", "drain/never-done"],
        preexec_fn=_hear_interrupts,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "CI": "1"},
    )
    deadline = time.monotonic() + 20
    while not any(map(_children_or_threads_running, _children(process.pid))):
        assert time.monotonic() < deadline
    os.killpg(process.pid, signal.SIGINT)
    output, errors = process.communicate(timeout=20)

    assert process.returncode == 130, errors
    assert "interrupted: only what is listed above ran" in output


def test_out_touches_nothing_that_is_not_ours(cli: CliRunner, tmp_path: Path, failing: Path) -> None:
    theirs = tmp_path / "failing" / "src" / "code.py"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("mine")
    for _ in range(2):
        cli.invoke(app, ["run", str(failing), "--out", str(tmp_path), "--jobs", "1"])

    assert theirs.read_text() == "mine"
    assert (tmp_path / "failing" / "trace.ndjson").is_file()
