"""`duplex-eval run`, `evaluate`, `summarize` and `compare` for people (evaluation.md 19, 21)."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from typer.testing import CliRunner

from client.cli import app
from client.cli_run import unfinished
from client.response_root import RunError, locked, new_run_folder, resumed_folder
from client.run_result import RunResult
from mockserver.app import MockServer
from mockserver.judge import JudgeServer
from scenarios.faults import FaultBase
from scenarios.faults_judge import HttpStatus
from scenarios.model import Reply


def wav(path: Path, seconds: float = 0.2) -> Path:
    file = io.BytesIO()
    soundfile.write(file, np.full(round(16_000 * seconds), 9000, np.int16), 16_000, format="WAV")
    path.write_bytes(file.getvalue())
    return path


class Peers:
    """Mock server and judge on a real loop of a thread of their own."""

    def __init__(self, faults: list[FaultBase]) -> None:
        self.faults = faults
        self.url = self.judge_url = ""
        self.sessions = self.requests = 0


@contextmanager
def peers(*faults: FaultBase) -> Iterator[Peers]:
    told = Peers(list(faults))
    loop = asyncio.new_event_loop()
    started, end = threading.Event(), asyncio.Event()

    async def serve() -> None:
        server = MockServer(profile="july", replies=[Reply(starts_at_unit=0, units=1, text="Hello. There.")])
        judge = JudgeServer(answers_after_s=0.001, faults=told.faults)
        await server.start()
        await judge.start()
        told.url, told.judge_url = server.url, judge.url
        started.set()
        await end.wait()
        told.sessions, told.requests = len(server.connections), len(judge.ledger.entries)
        await judge.stop()
        await server.stop()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        assert started.wait(5)
        yield told
    finally:
        loop.call_soon_threadsafe(end.set)
        thread.join(10)
        loop.close()


class Desk:
    """A manifest of corrections with its media, and the commands over it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root = folder, folder / "out"
        wav(folder / "q.wav")
        wav(folder / "voice.wav")
        self.samples("1", "2")

    def samples(self, *ids: str, extra: Any = ()) -> None:
        row = {
            "split": "PR_correction",
            "question_audio": "q.wav",
            "video": None,
            "question_text": "It is black.",
            "answer1": "White.",
        }
        listed = [*({"id": i, **row} for i in ids), *extra]
        (self.folder / "m.jsonl").write_text("".join(json.dumps(line) + "\n" for line in listed))

    def call(self, command: str, *more: str, **options: str) -> Any:
        words = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
        return CliRunner().invoke(app, [command, *words, *more])

    def run(
        self, *more: str, url: str = "ws://127.0.0.1:9", judge_url: str = "http://127.0.0.1:9", **changes: str
    ) -> Any:
        options = {
            "dataset": str(self.folder / "m.jsonl"),
            "url": url,
            "model": "m",
            "ref_audio": str(self.folder / "voice.wav"),
            "response_root": str(self.root),
            "judge_model": "judge-model",
            "judge_base_url": judge_url,
            "pace": "as-fast-as-possible",
            "concurrency": "4",
            **changes,
        }
        return self.call("run", "--allow-invalid-clock", *more, **options)

    def evaluate(self, judge_url: str, *more: str, **changes: str) -> Any:
        options = {
            "dataset": str(self.folder / "m.jsonl"),
            "response_root": str(self.root / "run-0001"),
            "score_root": str(self.folder / "scores"),
            "judge_model": "judge-model",
            "judge_base_url": judge_url,
            **changes,
        }
        return self.call("evaluate", "--allow-invalid-clock", *more, **options)

    def answers(self, *ids: str) -> None:
        """Answers as a run leaves them."""
        folder = self.root / "run-0001" / "PR_correction"
        folder.mkdir(parents=True)
        for name in ids:
            (folder / f"{name}.json").write_text('[{"sentence": "White.", "start": 1, "end": 2}]')
            (folder / f"{name}.meta.json").write_text('{"clock": "media"}')

    def told(self, number: int = 1) -> Any:
        return json.loads((self.root / f"run-{number:04d}" / "run_result.json").read_text())


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Desk, Any]:
    """A desk on which two runs ended, and what the first one printed."""
    desk = Desk(tmp_path_factory.mktemp("desk"))
    with peers() as up:
        done = desk.run(
            "--concurrency", "2", url=up.url, judge_url=up.judge_url, guard="basic", floors="none"
        )
        desk.samples("1", "2", "3")
        second = desk.run(url=up.url, judge_url=up.judge_url)
    assert second.exit_code == 0, second.output
    return desk, done


@pytest.mark.slow
def test_a_whole_run_leaves_every_file_where_evaluation_says(finished: tuple[Desk, Any]) -> None:
    desk, done = finished
    folder = desk.root / "run-0001"

    assert done.exit_code == 0, done.output
    for name in (
        "PR_correction/1.json",
        "PR_correction/1.meta.json",
        "duplex_metrics.json",
        "run_result.json",
    ):
        assert (folder / name).is_file(), name
    for name in ("PR_correction/1.json", "PR_correction/1.judge.jsonl", "evaluation_summary.json"):
        assert (folder / "evaluation" / name).is_file(), name
    accuracy = json.loads((folder / "evaluation" / "evaluation_summary.json").read_text())
    told = desk.told()
    assert told["omni_duplex_eval"]["accuracy"] == accuracy
    assert (accuracy["status"], accuracy["evaluated"], accuracy["total"]) == ("completed", 2, 2)


@pytest.mark.slow
def test_the_run_result_has_every_key_of_section_19(finished: tuple[Desk, Any]) -> None:
    told = finished[0].told()

    keys = "duration completed failed errors start_times ttfts itls duplex_request_metrics duplex_session_metrics"
    assert set(keys.split()) <= set(told)
    assert {"duplex_stream_ttft_ms", "duplex_stream_ttfp_ms", "duplex_stream_rtf", "p99_ttft_ms"} <= set(told)
    assert (told["completed"], told["duplex_retried_samples"], told["duplex_retry_count"]) == (2, 0, 0)
    keys = "response_root published published_now skipped_finished artifact_errors accuracy"
    assert set(told["omni_duplex_eval"]) == {*keys.split(), "duplex_retried_samples", "duplex_retry_count"}
    assert len(told["ttfts"]) == len(told["e2els"]) == 2


@pytest.mark.slow
def test_the_closing_table_tells_tallies_scores_verdicts_and_that_padding_was_on(
    finished: tuple[Desk, Any],
) -> None:
    lines = finished[1].stdout.splitlines()

    assert {
        "samples: 2",
        "published: 2",
        "retried samples: 0 (0 retries)",
        "scored: 2 of 2 (completed; 0 failed, 0 without an answer)",
        "guard: ok: completed 2 (wanted completed == 2)",
    } <= set(lines)
    assert lines[-1].startswith("drain padding: on")
    assert "run-0001 (after an interruption: --resume run-0001)" in finished[1].stderr


@pytest.mark.slow
def test_each_invocation_has_a_folder_of_its_own(finished: tuple[Desk, Any]) -> None:
    assert [path.name for path in sorted(finished[0].root.glob("run-*"))] == ["run-0001", "run-0002"]


@pytest.mark.slow
def test_two_runs_are_compared_by_sample(finished: tuple[Desk, Any]) -> None:
    desk, _ = finished
    a, b = desk.root / "run-0001", desk.root / "run-0002"

    done = CliRunner().invoke(app, ["compare", str(a), str(b)])
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[0] == "PR_correction/3: not in this run -> published, scored"
    assert done.stdout.splitlines()[-1] == "1 of 3 samples differ"
    told = json.loads(CliRunner().invoke(app, ["compare", str(a), str(b), "--json"]).stdout)
    assert [(d["id"], d["a"], d["appeared"]) for d in told["different"]] == [
        ("3", None, ["Hello.", "There."])
    ]


@pytest.mark.slow
def test_scores_are_summarized_without_asking_anybody(finished: tuple[Desk, Any], tmp_path: Path) -> None:
    root = finished[0].root / "run-0001" / "evaluation"

    done = CliRunner().invoke(
        app, ["summarize", "--score-root", str(root), "--output-json", str(tmp_path / "s.json"), "--json"]
    )
    told = json.loads(done.stdout)
    assert (done.exit_code, told["samples"], told["verdicts"]) == (0, 2, [])
    assert json.loads((tmp_path / "s.json").read_text()) == {k: v for k, v in told.items() if k != "verdicts"}


@pytest.mark.slow
def test_every_gate_that_fails_is_named_and_ends_with_1(desk: Desk) -> None:
    floors = "pr.mean_all_success=1.1,rtd.mean_content_score=0"

    with peers() as up:
        done = desk.run(url=up.url, judge_url=up.judge_url, floors=floors, guard="strict", max_retries="0")

    assert done.exit_code == 1, done.output
    assert [v["name"] for v in desk.told()["verdicts"] if not v["passed"]] == [
        "strict: clock",
        "floor pr.mean_all_success",
        "floor rtd.mean_content_score",
    ]
    assert "strict: clock: FAILED: invalid (wanted media)" in done.stdout
    assert "floor rtd.mean_content_score: FAILED: no sample was scored (wanted >= 0)" in done.stdout


@pytest.mark.parametrize(("guard", "code"), [("basic", 1), ("off", 0)])
def test_a_sample_without_a_score_fails_the_run_unless_nothing_is_guarded(
    desk: Desk, guard: str, code: int
) -> None:
    desk.samples("1")
    desk.answers("1")

    with peers(HttpStatus(status=400)) as up:
        done = desk.run(judge_url=up.judge_url, guard=guard, resume="last")
    assert done.exit_code == code, done.output
    assert "scored: 0 of 1 (failed; 1 failed, 0 without an answer)" in done.stdout
    assert ("failed: 0 of 1 samples were scored" in done.stderr) == (code == 1)


def test_a_bug_in_judging_surfaces_and_stands_in_the_run_result(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: Any) -> None:
        raise ZeroDivisionError("a bug")

    desk.answers("1", "2")
    monkeypatch.setattr("client.cli_run.judge_all", broken)

    done = desk.run(resume="last")

    assert isinstance(done.exception, ZeroDivisionError)
    assert desk.told()["omni_duplex_eval"]["accuracy"] == {
        "status": "failed",
        "error": "ZeroDivisionError: a bug",
    }


def test_scores_of_another_judge_end_a_resumed_run_before_a_session_is_spent(desk: Desk) -> None:
    desk.answers("1")

    with peers() as up:
        desk.samples("1")
        first = desk.run(judge_url=up.judge_url, resume="last")
        desk.samples("1", "2")
        again = desk.run(url=up.url, judge_url=up.judge_url, resume="last", judge_model="other")

    assert (first.exit_code, again.exit_code, up.sessions) == (0, 2, 0), again.output
    assert "PR_correction/1 was judged with another judge_model" in again.stderr


def test_files_that_could_not_be_written_are_lost() -> None:
    full = RunResult("out", {}, artifact_errors=["out/a.json: No space left on device"])

    assert unfinished(full) == "1 file(s) could not be written"
    assert unfinished(RunResult("out", {}, accuracy={"status": "completed"})) == ""


@pytest.mark.slow
def test_a_refused_row_fails_the_guard(desk: Desk) -> None:
    desk.samples("1", extra=[{"id": "9", "split": "PR_correction"}])

    with peers() as up:
        done = desk.run(url=up.url, judge_url=up.judge_url)
    assert done.exit_code == 1
    assert "guard: FAILED: completed 1 (wanted completed == 2)" in done.stdout
    assert "(id 9): no media" in done.stderr


@pytest.mark.slow
def test_an_interrupted_run_is_resumed_where_it_ended(desk: Desk) -> None:
    with peers() as up:
        first = desk.run(url=up.url, judge_url=up.judge_url)
        folder = desk.root / "run-0001"
        (folder / "PR_correction" / "2.json").write_bytes(b'[{"sent')
        (folder / "PR_correction" / "2.json.part").write_bytes(b"[")
        (folder / "run_result.json").unlink()
        (folder / "evaluation" / "PR_correction" / "2.json").write_bytes(b"{")
        again = desk.run("--resume", "last", "--json", url=up.url, judge_url=up.judge_url)

    assert (up.sessions, up.requests) == (3, 3)
    assert (first.exit_code, again.exit_code) == (0, 0)
    told = json.loads(again.stdout)
    assert (told["published_now"], told["skipped_finished"], told["completed"]) == (1, 1, 2)
    block = told["omni_duplex_eval"]
    assert (told["published"], block["published"]) == (2, 2)
    assert block["accuracy"]["evaluated"] == 2
    assert block["accuracy"]["skipped"] == block["accuracy"]["total"] - block["published"]
    assert len(told["duplex_session_metrics"]) == 2
    assert sorted(path.name for path in desk.root.glob("run-*")) == ["run-0001"]


@pytest.mark.slow
def test_a_judge_that_is_away_ends_with_4_and_keeps_what_was_finished(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("client.judge.judge.pause_s", lambda settings, tries, asked, chance: None)
    with peers() as up:
        done = desk.run(url=up.url)
        assert done.exit_code == 4, done.output
        assert "error: no answer from http://127.0.0.1:9/v1/chat/completions" in done.stderr
        assert done.output.count("no answer from") == 1
        assert desk.told()["published"] == 2
        judged = desk.evaluate(up.judge_url, "--floors", "pr.mean_all_success=0")

    assert judged.exit_code == 0, judged.output
    assert "scored: 2 of 2 (completed; 0 failed, 0 without an answer)" in judged.stdout


def test_judging_that_cannot_begin_is_told_in_the_run_result(desk: Desk) -> None:
    desk.answers("1", "2")

    with locked(desk.root / "run-0001" / "evaluation"):
        done = desk.run("--json", resume="run-0001", floors="pr.mean_all_success=0.1")

    assert done.exit_code == 2, done.output
    told = desk.told()
    assert json.loads(done.stdout)["omni_duplex_eval"] == told["omni_duplex_eval"]
    accuracy = told["omni_duplex_eval"]["accuracy"]
    assert accuracy["status"] == "failed"
    assert "evaluation: another run is writing here" in accuracy["error"]
    assert f"error: {accuracy['error']}" in done.stderr
    assert [verdict["passed"] for verdict in told["verdicts"]] == [True, False]


def test_a_judge_url_that_serves_a_page_ends_with_2_and_one_message(desk: Desk) -> None:
    from aiohttp import web

    async def page(_: web.Request) -> web.Response:
        return web.Response(text="<!DOCTYPE html><p>hello</p>", content_type="text/html")

    loop, started, port = asyncio.new_event_loop(), threading.Event(), [0]
    end = asyncio.Event()

    async def serve() -> None:
        site = web.Application()
        site.router.add_route("*", "/{path:.*}", page)
        runner = web.AppRunner(site)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port[0] = runner.addresses[0][1]
        started.set()
        await end.wait()
        await runner.cleanup()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    started.wait(5)
    try:
        desk.answers("1", "2")
        done = desk.evaluate(f"http://127.0.0.1:{port[0]}")
    finally:
        loop.call_soon_threadsafe(end.set)
        thread.join(5)
        loop.close()
    assert done.exit_code == 2, done.output
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert "the judge's reply is no JSON object: '<!DOCTYPE html>" in errors[0]


BAD_RUN: list[tuple[str, dict[str, str], str]] = [
    (
        "floors",
        {"floors": "pr.mean_all_success=high"},
        "floor pr.mean_all_success: found 'high'; allowed: a number",
    ),
    ("floor name", {"floors": "quality=1"}, "floor: found 'quality=1'"),
    ("concurrency", {"concurrency": "1.5"}, "error: --concurrency: found '1.5'; allowed: a whole"),
    ("workers", {"eval_workers": "0"}, "error: --eval-workers: found '0'; allowed: a whole number, 1 or"),
    ("judge url", {"judge_base_url": "judge:8000"}, "judge base URL: found 'judge:8000'"),
    (
        "judge port",
        {"judge_base_url": "http://h:99999"},
        "judge base URL: found 'http://h:99999' (Port out of range",
    ),
    ("judge model", {"judge_model": ""}, "judge model: found nothing"),
    ("judge timeout", {"judge_timeout_s": "0"}, "judge timeout_s: found 0.0"),
    ("judge fps", {"judge_fps": "nan"}, "judge fps: found nan"),
    ("window", {"window_size": "-1"}, "judge window_size_s: found -1.0"),
    ("video mode", {"judge_video_mode": "x"}, "--judge-video-mode"),
    (
        "key",
        {"judge_api_key_env": "NO_SUCH_VARIABLE_HERE"},
        "--judge-api-key-env: NO_SUCH_VARIABLE_HERE is unset",
    ),
    ("guard", {"guard": "loose"}, "--guard"),
    ("retries", {"max_retries": "-1"}, "error: --max-retries: found '-1'; allowed: a whole number, 0 or"),
    ("resume", {"resume": "run-0007"}, "no run 'run-0007' to resume; found: none"),
    ("dataset", {"dataset": "/nowhere/at/all"}, "no such file or folder"),
    ("url", {"url": "ftp://h"}, "url: wanted ws://"),
]


@pytest.mark.parametrize(("changes", "found"), [b[1:] for b in BAD_RUN], ids=[b[0] for b in BAD_RUN])
def test_bad_input_of_a_run_ends_with_2_and_no_folder(
    desk: Desk, changes: dict[str, str], found: str
) -> None:
    done = desk.run(**changes)

    assert done.exit_code == 2, done.output
    assert found in done.stderr
    assert "Traceback" not in done.output
    assert list(desk.root.glob("run-*")) == []


def test_media_that_no_sample_can_be_made_of_ends_a_run_before_the_judge(desk: Desk) -> None:
    wav(desk.folder / "q.wav", seconds=0)

    done = desk.run()

    assert done.exit_code == 2, done.output
    assert "error: PR_correction/1, PR_correction/2: preparation: " in done.stderr
    assert done.output.count("WAV without samples") == 1


def test_a_pace_without_times_is_refused_before_it_is_run(desk: Desk) -> None:
    options = {
        "dataset": "d",
        "url": "ws://h",
        "model": "m",
        "ref-audio": "v",
        "response-root": "r",
        "judge-model": "j",
    }
    words = [part for name, value in options.items() for part in (f"--{name}", value)]

    done = CliRunner().invoke(app, ["run", *words, "--pace", "as-fast-as-possible"])
    assert (done.exit_code, "--allow-invalid-clock" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"response_root": "/nowhere/at/all"}, "--response-root: /nowhere/at/all: no such folder"),
        ({"floors": "x=1"}, "floor: found 'x=1'"),
    ],
)
def test_bad_input_of_an_evaluation_ends_with_2(desk: Desk, changes: dict[str, str], found: str) -> None:
    done = desk.evaluate("http://127.0.0.1:9", **changes)

    assert (done.exit_code, found in done.stderr) == (2, True), done.output
    assert not (desk.folder / "scores").exists()


def test_a_torn_score_is_named_by_summarize(tmp_path: Path) -> None:
    (tmp_path / "RTD_OCR").mkdir()
    (tmp_path / "RTD_OCR" / "1.json").write_text('{"family": "rtd", "con')

    done = CliRunner().invoke(app, ["summarize", "--score-root", str(tmp_path)])
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    assert "RTD_OCR/1.json" in done.stderr


@pytest.mark.parametrize("content", [None, "{", '{"samples": 7}', '{"samples": [{"split": "a"}]}'])
def test_what_is_no_run_cannot_be_compared(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "run_result.json").write_text(content)

    done = CliRunner().invoke(app, ["compare", str(tmp_path), str(tmp_path)])
    assert (done.exit_code, "run_result.json" in done.stderr) == (2, True)


def test_a_second_run_on_the_same_root_stops_with_a_clear_message(desk: Desk) -> None:
    """The field report fr29-shared-output: no file mixes two models."""
    with locked(desk.root):
        done = desk.run()

    assert done.exit_code == 2
    assert "another run is writing here; allowed: one run at a time" in done.stderr


def test_run_folders_are_numbered_and_never_reused(tmp_path: Path) -> None:
    assert [new_run_folder(tmp_path).name for _ in range(2)] == ["run-0001", "run-0002"]
    (tmp_path / "run-0001").rmdir()
    (tmp_path / "run-x").mkdir()

    assert new_run_folder(tmp_path).name == "run-0003"
    assert resumed_folder(tmp_path, "last").name == "run-0003"
    assert resumed_folder(tmp_path, "run-0002").name == "run-0002"
    with pytest.raises(RunError, match="found: run-0002, run-0003"):
        resumed_folder(tmp_path, "../run-0009")
