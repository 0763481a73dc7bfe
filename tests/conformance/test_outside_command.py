"""`command:` clients: a program on the real clock, in a network of its own where this machine allows one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.clients.choice import ClientChoice, Shows, abilities_of
from conformance.clients.estimating import estimate
from conformance.clients.network import refusal
from conformance.clients.program import KEPT_BYTES, KeptOutput, program_environment
from conformance.options import RunOptions
from conformance.outcome import Outcome
from scenarios import load_catalogue
from tests.conformance.playing_programs import CLEAN, STORY, play

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parent.parent / "docs" / "examples"

CLEAN_ID = "stream/clean-residual[july]"

STALLED = (
    STORY
    + """
faults:
  - stop_reading: {on: {received: input_audio_buffer.append}, for_s: 1.8}
expect: {socket_evidence: write_blocked, wire: {connections: 1}}
"""
)


@pytest.fixture(scope="module")
def own_network() -> None:
    """Skips where no network namespace is allowed."""
    why_not = refusal()
    if why_not is not None:
        pytest.skip(f"no network of its own is allowed here: {why_not}")


@pytest.mark.parametrize(("example", "shows"), [("minimal", "answers"), ("complete", None)])
def test_a_right_client_passes_as_a_program(tmp_path: Path, example: str, shows: Shows | None) -> None:
    argv = (sys.executable, str(EXAMPLES / f"{example}_client.py"))
    abilities = abilities_of(ClientChoice("command", arguments=argv, shows=shows), "shared")
    result = play(tmp_path, CLEAN, *argv[1:], abilities=abilities)
    assert (result.outcome, result.findings, result.reason) == (Outcome.PASS, (), "")
    answer = next((tmp_path / "out").rglob("answers/RTD_Omni/1.json"))
    assert "A bell." in answer.read_text()


@pytest.mark.usefixtures("own_network")
def test_a_stopped_peer_is_felt_in_a_network_of_its_own_and_told_from_both_ends(tmp_path: Path) -> None:
    result = play(tmp_path, STALLED, str(HERE / "hasty_program.py"), network="own")
    (stall,) = result.faults
    assert (stall.state, stall.evidence["proof"]) == ("observed", "write_blocked")
    assert stall.evidence["cause"] == "the peer stopped reading"
    assert 0 < stall.evidence["unacked_bytes"] < 16_384
    assert "socket_evidence" not in [found.id for found in result.findings]


def test_a_stall_on_this_machines_network_is_not_observable_and_never_inert(tmp_path: Path) -> None:
    result = play(tmp_path, STALLED, str(HERE / "hasty_program.py"))
    assert result.outcome is Outcome.NOT_OBSERVABLE
    assert "its socket takes megabytes" in result.reason


def test_a_program_gets_its_job_and_none_of_our_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AN_API_KEY", "sk-do-not-tell")
    monkeypatch.setenv("LAB_SETTING", "seven")
    told = ("{host}", "{port}", "{model}", "{samples}", "{out}", "{url}")
    result = play(
        tmp_path,
        STORY + "expect: {wire: {connections: 2}}\n",
        str(HERE / "hasty_program.py"),
        *told,
        client_env=program_environment(os.environ, ("LAB_SETTING",)),
    )
    secret, argv = result.output[:2]
    assert secret == "stdout: secret: none asked for: seven"
    _, _, host, port, model, samples, out, url = argv.split()
    assert (host, model) == ("127.0.0.1", "openbmb/MiniCPM-o-4_5")
    assert url == f"ws://127.0.0.1:{port}/v1/realtime"
    assert Path(samples).name == "samples.jsonl"
    assert Path(out).name == "answers"
    kept = next((tmp_path / "out").rglob("client.stdout")).read_text()
    assert kept.startswith("secret: none")


def runs(pid: int) -> bool:
    """Whether a process is there and no zombie that its new parent has not reaped."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def gone(pid: int) -> bool:
    """Whether a process that was sent its end is gone, on a busy machine a little later."""
    until = time.monotonic() + 10
    while runs(pid) and time.monotonic() < until:
        time.sleep(0.02)
    return not runs(pid)


HANGS = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "600"])
print(os.getpid(), child.pid, flush=True)
print("last words", file=sys.stderr, flush=True)
time.sleep(600)
"""


def test_a_program_that_hangs_is_ended_with_all_it_started_and_its_last_lines_are_told(
    tmp_path: Path,
) -> None:
    begun = time.monotonic()
    result = play(tmp_path, CLEAN, "-c", HANGS, client_deadline_s=1.0)
    assert time.monotonic() - begun < 15
    assert result.outcome is Outcome.FAIL
    hang = result.findings[0]
    assert hang.id == "unbounded-await"
    assert "it never connected" in hang.actual
    assert "stderr: last words" in result.output
    for pid in map(int, result.output[0].removeprefix("stdout: ").split()):
        assert gone(pid)
    assert "--client-deadline 1" in result.reproduce


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("import sys; sys.exit('no licence')", "it ended with status 1 before it connected"),
        ("import os; os.kill(os.getpid(), 9)", f"it was killed by signal {signal.SIGKILL.value}"),
    ],
)
def test_a_program_that_ends_without_an_account_is_a_crash(tmp_path: Path, source: str, told: str) -> None:
    result = play(tmp_path, CLEAN, "-c", source)
    crash = next(found for found in result.findings if found.id == "client-crashed")
    assert told in crash.actual


def test_only_the_ends_of_a_long_output_are_kept() -> None:
    kept = KeptOutput()
    for number in range(60_000):
        kept.add(b"line %d\n" % number)
    text = kept.text()
    assert len(text) < 2 * KEPT_BYTES + 100
    assert text.startswith("line 0\n")
    assert text.endswith("line 59999\n")
    assert "bytes left out" in text
    assert kept.last_lines(2) == ["line 59998", "line 59999"]


KILLED = """
import sys
from conformance.clients.network import Helper
helper = Helper("shared", 0, 0, output=None)
helper.become(["sleep", "600"], {"PATH": "/usr/bin:/bin"})
print(helper.process.pid, flush=True)
sys.stdin.read()
"""


def test_a_harness_that_is_killed_leaves_no_program_behind() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KILLED], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as harness:
        assert harness.stdout is not None
        pid = int(harness.stdout.readline())
        assert runs(pid)
        harness.kill()
    assert gone(pid)


def test_how_long_a_run_takes_is_told_before_it_begins() -> None:
    catalogue = {scenario.id: scenario for scenario in load_catalogue()}
    program = ClientChoice("command", arguments=("true",))
    options = RunOptions(clock="real", client=program, abilities=abilities_of(program))
    chosen = [
        catalogue["stream/clean-residual[july]"],
        catalogue["retry/stall-twice"],
        catalogue["close/no-socket"],
    ]
    told = estimate(chosen, options, 8)
    # 175 s as the scenario says, and two attempts whose drains last 90 s longer than the scenario's own
    assert told.startswith(
        "2 scenario(s) on the real clock, 8 at a time: at most about 6 min for a right client;"
    )
    assert "given up after 5 s at most" in estimate(chosen, replace(options, client_deadline_s=5.0), 8)
    assert "nothing is played" in estimate([catalogue["close/no-socket"]], options, 8)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_run_that_is_ended_leaves_no_program_and_no_child_of_one_behind(tmp_path: Path) -> None:
    """By SIGTERM, as CI ends a job: a worker each, so Ctrl-C goes the same way. One program of two is stubborn."""
    (tmp_path / "hang.sh").write_text(
        "mkdir stubborn 2>/dev/null && trap '' TERM\nsleep 60 &\necho $$ $! >> pids\nwait\nwait\nsleep 60\n"
    )
    argv = ["run", "--client", "command:sh hang.sh", CLEAN_ID, "close/never-closed[deferred]", "--jobs", "2"]
    with subprocess.Popen(
        [sys.executable, "-m", "conformance", *argv],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        pids: list[int] = []
        until = time.monotonic() + 30
        while len(pids) < 4 and time.monotonic() < until:
            time.sleep(0.02)
            if (tmp_path / "pids").exists():
                pids = [int(word) for word in (tmp_path / "pids").read_text().split()]
        process.send_signal(signal.SIGTERM)
        told, _ = process.communicate(timeout=30)
    left = [pid for pid in pids if _runs(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert (len(pids), left) == (4, [])
    assert process.returncode == 130
    assert "interrupted: only what is listed above ran" in told
