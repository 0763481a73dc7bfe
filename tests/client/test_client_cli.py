"""`duplex-eval` for people: what it prints, what it leaves, how it exits (evaluation.md 21)."""

from __future__ import annotations

import asyncio
import http.server
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from rich.console import Console
from typer.testing import CliRunner

from client.cli import app
from client.cli_options import complain, print_json
from client.progress import Estimate, PlainProgress, TerminalProgress, ending, in_short, minutes, summary_rows
from client.run_result import RunResult, SampleRecord
from conformance.clock import run_virtual
from mockserver.app import MockServer
from scenarios.model import Reply


def wav(path: Path, seconds: float = 0.2) -> Path:
    file = io.BytesIO()
    soundfile.write(file, np.full(round(16_000 * seconds), 9000, np.int16), 16_000, format="WAV")
    path.write_bytes(file.getvalue())
    return path


def rows(*ids: str, **more: Any) -> list[dict[str, Any]]:
    return [{"id": i, "split": "RTD_OCR", "question_audio": "q.wav", "video": None, **more} for i in ids]


def restore_interrupt() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Desk:
    """A folder with a manifest, its media and a voice, and the command over it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root = folder, folder / "out"
        wav(folder / "q.wav")
        self.options = {
            "--dataset": str(folder / "m.jsonl"),
            "--url": "ws://127.0.0.1:9/v1/realtime",
            "--model": "m",
            "--ref-audio": str(wav(folder / "voice.wav")),
            "--response-root": str(self.root),
        }
        self.samples(rows("1", "2"))

    def samples(self, listed: list[dict[str, Any]]) -> None:
        (self.folder / "m.jsonl").write_text("".join(json.dumps(row) + "\n" for row in listed))

    def arguments(self, *more: str, **changes: str) -> list[str]:
        options = {**self.options, **{f"--{k.replace('_', '-')}": v for k, v in changes.items()}}
        return ["generate", *(part for pair in options.items() for part in pair), *more]

    def call(self, *more: str, **changes: str) -> Any:
        return CliRunner().invoke(app, self.arguments(*more, **changes))

    def start(self, *more: str, **changes: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "client.cli", *self.arguments(*more, **changes)]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        pipe = subprocess.PIPE
        # A shell that starts the suite in the background leaves SIGINT ignored, and children inherit that.
        return subprocess.Popen(
            command, stdout=pipe, stderr=pipe, text=True, env=env, preexec_fn=restore_interrupt
        )


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@contextmanager
def mock_server() -> Iterator[str]:
    """The mock server on a real loop of its own thread."""
    started = threading.Event()
    told: dict[str, Any] = {}
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        server = MockServer(profile="july", replies=[Reply(starts_at_unit=0, units=1, text="Hello.")])
        await server.start()
        told["url"], told["end"] = server.url, asyncio.Event()
        started.set()
        await told["end"].wait()
        await server.stop()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        assert started.wait(5)
        yield told["url"]
    finally:
        loop.call_soon_threadsafe(told["end"].set)
        thread.join(10)
        loop.close()


BAD_INPUT: list[tuple[str, dict[str, str], str]] = [
    ("url of another scheme", {"url": "ftp://127.0.0.1/x"}, "url: wanted ws://"),
    ("url without a host", {"url": "ws:///v1/realtime"}, "url: wanted ws://"),
    (
        "url with a port that is none",
        {"url": "ws://127.0.0.1:99999/"},
        "a port of 1 to 65535 or none, got 'ws://127",
    ),
    ("url with half a login", {"url": "ws://me@127.0.0.1/v1?key=x"}, "got 'ws://127.0.0.1/v1'"),
    ("no model", {"model": " "}, "model: wanted the name the server knows, got ' '"),
    ("url with half an address", {"url": "ws://[::1/v1"}, "url: wanted ws://"),
    ("url with port 0", {"url": "ws://127.0.0.1:0/"}, "a port of 1 to 65535 or none"),
    ("no dataset", {"dataset": "/nowhere/at/all"}, "no such file or folder"),
    ("hub id", {"dataset": "Owner/Dataset"}, "hf download --repo-type dataset Owner/Dataset"),
    ("no such split", {"split": "RTD_Omni"}, "no row of split 'RTD_Omni'; splits seen: RTD_OCR"),
    ("no such id", {"ids": "1,77"}, "none has the id 77"),
    ("nothing left", {"family": "pr"}, "nothing to run: 2 rows"),
    ("no voice", {"ref_audio": "/nowhere/voice.wav"}, "/nowhere/voice.wav: cannot be read"),
    ("frames a second", {"fps": "0"}, "--fps: found 0.0"),
    ("frames a second that are none", {"fps": "nan"}, "--fps: found nan"),
    ("timeout", {"request_timeout_s": "inf"}, "--request-timeout-s: found inf"),
    ("key", {"api_key_env": "NO_SUCH_VARIABLE_HERE"}, "NO_SUCH_VARIABLE_HERE is unset"),
    ("response root", {"response_root": "/proc/none/out"}, "/proc/none/out: cannot be used"),
    ("family", {"family": "both"}, "--family"),
    ("pace", {"pace": "slow"}, "--pace"),
    ("mix", {"mix": "all"}, "--mix"),
    ("clock", {"clock": "wall"}, "--clock"),
    (
        "concurrency",
        {"concurrency": "0"},
        "error: --concurrency: found '0'; allowed: a whole number, 1 or more",
    ),
    ("limit", {"limit": "-2"}, "error: --limit: found '-2'; allowed: a whole number, 1 or more"),
    ("number", {"fps": "many"}, "error: --fps: found 'many'; allowed: frames a second above 0"),
]


@pytest.mark.parametrize(("changes", "found"), [b[1:] for b in BAD_INPUT], ids=[b[0] for b in BAD_INPUT])
def test_bad_input_ends_with_2_and_leaves_nothing(desk: Desk, changes: dict[str, str], found: str) -> None:
    done = desk.call(**changes)

    assert (done.exit_code, desk.root.exists()) == (2, False)
    assert found in done.stderr
    assert "Traceback" not in done.output


@pytest.mark.parametrize("content", [b"", b"no sound", b"RIFF\0\0\0\0WAVE"])
def test_a_voice_that_is_no_wav_is_bad_input(desk: Desk, content: bytes) -> None:
    (desk.folder / "bad.wav").write_bytes(content)

    done = desk.call(ref_audio=str(desk.folder / "bad.wav"))

    assert (done.exit_code, "bad.wav" in done.stderr) == (2, True)


def test_rows_that_cannot_be_used_are_told_before_anything_is_run(desk: Desk) -> None:
    desk.samples([{"id": "9", "question_audio": "q.wav", "video": None}, {"id": "8", "split": "RTD_OCR"}])

    done = desk.call()

    assert done.exit_code == 2
    assert "m.jsonl line 1 (id 9): cannot tell what the sample is" in done.stderr
    assert "m.jsonl line 2 (id 8): no media" in done.stderr


@pytest.mark.parametrize("missing", ["--dataset", "--url", "--model", "--ref-audio", "--response-root"])
def test_what_has_no_default_must_be_given(desk: Desk, missing: str) -> None:
    del desk.options[missing]

    assert desk.call().exit_code == 2


def test_a_server_that_is_not_there_ends_with_4_and_no_half_file(desk: Desk) -> None:
    done = desk.call()

    assert done.exit_code == 4
    assert "error: the server at ws://127.0.0.1:9/v1/realtime is away: ConnectionRefusedError" in done.stderr
    assert "samples: 2" in done.stdout
    for path in desk.root.rglob("*.json"):
        json.loads(path.read_text())
    assert not list(desk.root.rglob("*.part"))


def test_proxy_variables_are_ignored(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as proxy:
        proxy.bind(("127.0.0.1", 0))
        proxy.listen()
        proxy.setblocking(False)
        for name in ("http_proxy", "https_proxy", "all_proxy", "ws_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.getsockname()[1]}")

        assert desk.call().exit_code == 4
        with pytest.raises(BlockingIOError):
            proxy.accept()


class Silent(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_: Any) -> None: ...


@contextmanager
def http_only() -> Iterator[int]:
    """A server that speaks HTTP and knows no WebSocket. Gives its port."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Silent)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    "url", ["ws://127.0.0.1:PORT/v1/wrong", "wss://127.0.0.1:PORT/v1", "ws://no-such.invalid/v1"]
)
def test_a_server_that_is_away_is_told_once_with_its_url(desk: Desk, url: str) -> None:
    desk.samples(rows(*map(str, range(8))))

    with http_only() as port:
        url = url.replace("PORT", str(port))
        done = desk.call("--concurrency", "8", url=url)

    assert done.exit_code == 4, done.output
    errors = [line for line in done.stderr.splitlines() if not line.startswith("note: ")]
    assert [line for line in errors if line.startswith("error")] == errors[-1:]
    assert errors[-1].startswith(f"error: the server at {url} is away: ")
    assert "is away" not in done.stdout
    told = dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line)
    # Those whose refusal came in the same turn of the loop have failed as well; nobody else was begun.
    assert int(told["failed"]) >= 1
    assert int(told["failed"]) + int(told["cancelled"]) == 8


def test_media_that_no_sample_can_be_made_of_is_bad_input_and_told_once(desk: Desk) -> None:
    desk.samples(rows("1", "2", question_audio="no.wav") + rows("3", question_audio="gone.wav"))
    wav(desk.folder / "no.wav", seconds=0)

    done = desk.call()

    assert done.exit_code == 2
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert [line.partition(": preparation: ")[0] for line in errors] == [
        "error: RTD_OCR/1, RTD_OCR/2",
        "error: RTD_OCR/3",
    ]
    assert done.output.count("no.wav: WAV without samples (0 bytes of data); allowed: a WAV file (") == 1
    assert done.output.count("gone.wav: cannot be read") == 1
    assert "…" not in done.output


@pytest.mark.slow
def test_media_that_some_samples_cannot_be_made_of_fails_them_alone(desk: Desk) -> None:
    desk.samples(rows("1", question_audio="gone.wav") + rows("2"))

    with mock_server() as url:
        done = desk.call(url=url, pace="as-fast-as-possible")

    assert done.exit_code == 1
    assert "RTD_OCR/1 failed: preparation: " in done.stdout
    assert done.output.count("gone.wav: cannot be read") == 1
    assert "published: 1" in done.stdout


def test_the_key_is_never_printed_or_kept(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "s3cret-key")

    done = desk.call("--json", api_key_env="MY_KEY")

    assert "s3cret-key" not in done.output
    assert not [p for p in desk.root.rglob("*") if p.is_file() and "s3cret-key" in p.read_text()]


def test_json_is_the_only_thing_on_stdout(desk: Desk) -> None:
    desk.samples([*rows("1"), {"id": "8", "split": "RTD_OCR"}])

    told = json.loads(desk.call("--json").stdout)

    assert (told["requested"], told["failed"]) == (1, 1)
    assert [(r["id"], r["reason"][:8]) for r in told["refused"]] == [("8", "no media")]


@pytest.mark.slow
def test_samples_are_run_resumed_and_told(desk: Desk) -> None:
    with mock_server() as url:
        first = desk.call("--concurrency", "2", url=url, pace="as-fast-as-possible")
        again = desk.call("--json", url=url, pace="as-fast-as-possible")
        other = desk.call(url=url, model="other", pace="as-fast-as-possible")

    assert first.exit_code == 0, first.output
    assert "[1/2] RTD_OCR/1 published in " in first.stderr
    assert {"samples: 2", "published: 2", "failed: 0", "retried samples: 0 (0 retries)"} <= set(
        first.stdout.splitlines()
    )
    assert json.loads((desk.root / "RTD_OCR" / "2.json").read_text())[0]["sentence"] == "Hello."
    assert (again.exit_code, json.loads(again.stdout)["skipped_finished"]) == (0, 2)
    assert (other.exit_code, "was finished with model 'm'" in other.stderr) == (2, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "SIGTERM"]
)
def test_an_interruption_ends_in_time_with_a_summary_and_its_code(
    desk: Desk, number: signal.Signals, code: int
) -> None:
    wav(desk.folder / "q.wav", seconds=30)
    with mock_server() as url:
        running = desk.start(url=url)
        assert running.stderr is not None
        assert any("started" in line for line in running.stderr)
        running.send_signal(number)
        stdout, stderr = running.communicate(timeout=20)

    assert running.returncode == code, stderr
    assert stderr.count("interrupted") == 1
    assert "cancelled" not in stderr
    assert "cancelled: 2" in stdout
    assert "Traceback" not in stderr
    told = json.loads((desk.root / "run_result.json").read_text())
    assert (told["requested"], told["cancelled"]) == (2, 2)


def test_ctrl_c_while_the_dataset_is_read_ends_with_130(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("client.dataset.rows_of", interrupted)

    assert desk.call().exit_code == 130


@pytest.mark.parametrize("argument", ["--version", "--help"])
def test_the_first_answer_needs_none_of_the_heavy_libraries(argument: str) -> None:
    code = (
        "import sys, client.cli\n"
        f"sys.argv = ['duplex-eval', '{argument}']\n"
        "try: client.cli.main()\n"
        "except SystemExit as end: assert not end.code\n"
        "print([m for m in ('numpy', 'av', 'pyarrow', 'soundfile', 'websockets', 'aiohttp') if m in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "[]")


def record(outcome: Any = "published", **more: Any) -> SampleRecord:
    return SampleRecord("RTD_OCR", "1", outcome, **more)


def test_an_estimate_says_nothing_before_it_knows_anything() -> None:
    now_s = [0.0]
    estimate = Estimate(5, now_s=lambda: now_s[0])
    estimate.begin()
    now_s[0] = 30.0
    estimate.ended(record("skipped_finished"))
    assert (estimate.remaining_s, estimate.told()) == (None, "")

    estimate.ended(record())
    assert (estimate.remaining_s, estimate.told()) == (90.0, ", about 1:30 left")


def test_plain_progress_has_one_line_a_step() -> None:
    lines: list[str] = []

    async def main() -> None:
        with PlainProgress(2, lines.append) as progress:
            progress.started(0, "RTD_OCR", "1")
            await asyncio.sleep(40)
            progress.ended(0, record(latency_s=39.5, retry_count=1))

    run_virtual(main)

    assert lines == [
        "[1/2] RTD_OCR/1 started",
        "[1/2] RTD_OCR/1 published in 39.5 s, retried 1 time (elapsed 0:40, about 0:40 left)",
    ]


def test_progress_that_nobody_reads_any_more_ends_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    monkeypatch.setattr(sys, "stderr", os.fdopen(writer, "w", buffering=1))
    os.close(reader)

    progress = PlainProgress(2, complain)
    for _ in range(3):
        progress._write("a line")

    assert sys.stderr.name == os.devnull
    sys.stderr.close()


def test_json_of_a_folder_whose_name_is_no_utf8_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"folder": os.fsdecode(b"b\xff"), "tokens": 2**70})

    assert json.loads(capsys.readouterr().out) == {"folder": "b?", "tokens": 2**70}


def test_the_bar_shows_samples_in_work_and_keeps_failures_above_it() -> None:
    screen = Console(file=io.StringIO(), force_terminal=True, width=120, color_system=None)

    async def main() -> None:
        with TerminalProgress(3, screen) as progress:
            progress.started(0, "RTD_OCR", "1")
            progress.ended(0, record("failed", error="[red]no[/red] answer", close="lost"))
            progress.started(1, "RTD_OCR", "2")

    run_virtual(main)

    shown = screen.file.getvalue()  # type: ignore[attr-defined]
    assert "RTD_OCR/1 failed: [red]no[/red] answer" in shown
    assert "1/3" in shown
    assert "RTD_OCR/2" in shown


def test_endings_and_reasons_take_one_line() -> None:
    trace = "Traceback (most recent call last):\n  File x\nValueError: odd"

    assert ending(record("failed", error=trace)) == "RTD_OCR/1 failed: ValueError: odd"
    assert ending(record("failed", error="said: no\n  at all\n")) == "RTD_OCR/1 failed: said: no at all"
    assert ending(record("failed", error="x" * 1000)).endswith(": " + "x" * 1000)
    assert in_short(record("failed", error="x" * 1000, close="lost")).endswith(": " + "x" * 159 + "…")
    assert in_short(record("failed", error="x" * 1000)) == "RTD_OCR/1 failed"
    assert [minutes(s) for s in (0.4, 61, 3723)] == ["0:00", "1:01", "1:02:03"]


def test_the_closing_table_has_latencies_of_successes_alone() -> None:
    samples = [
        record(request_succeeded=True, latency_s=s, retry_count=int(s == 2)) for s in (1.0, 2.0, 3.0)
    ] + [record("failed", latency_s=500.0, error="x")]

    told = dict(summary_rows(RunResult("out", {}, samples), refused=2))

    assert told["latency mean"] == "2.0 s"
    assert told["latency median, longest"] == "2.0 s, 3.0 s"
    assert (told["retried samples"], told["refused rows"]) == ("1 (1 retries)", "2")
