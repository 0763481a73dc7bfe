"""Who has only docs/evaluation.md finds every file and key of a judged run where it says (evaluation.md 12.1, 19, 20).

The lists are read from the document, the run is `duplex-eval run` from dataset to verdicts, in virtual time.
"""

from __future__ import annotations

import io
import json
import re
import socket
from collections.abc import Awaitable, Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from typer.testing import CliRunner

from client import cli_judge, cli_run
from client.cli import app
from conformance.clock import run_virtual
from mockserver.app import MockServer
from mockserver.judge import JudgeServer
from scenarios.clips import make_frames
from scenarios.model import Clip, Reply

pa = pytest.importorskip("pyarrow", reason="the extra `dataset` is not installed")
av = pytest.importorskip("av", reason="the extra `dataset` is not installed")
import pyarrow.parquet as pq  # noqa: E402


def write_video(path: Path, jpegs: list[bytes]) -> None:
    """Write JPEGs, one a second, as an MP4."""
    with av.open(str(path), "w") as out:
        stream = out.add_stream("mjpeg", rate=1)
        for second, jpeg in enumerate(jpegs):
            with av.open(io.BytesIO(jpeg), mode="r", format="mjpeg") as still:
                frame = next(still.decode(video=0))
            if second == 0:
                stream.width, stream.height, stream.pix_fmt = frame.width, frame.height, "yuvj420p"
            frame.pts, frame.time_base = second, Fraction(1, 1)
            out.mux(stream.encode(frame))
        out.mux(stream.encode())


DOCUMENT = Path(__file__).parents[2] / "docs" / "evaluation.md"
SECONDS = 4
SAMPLES = {"RTD_OCR": "560", "PR_correction": "0", "PR_event_reminder": "133"}
NAME = re.compile(r"`([a-z][a-z0-9_]*)`")


def section(number: str) -> str:
    """Text of a section of the document, without the sections below it at the same level."""
    found = re.search(rf"^(#+) {re.escape(number)}\.? .*?(?=^#)", DOCUMENT.read_text(), re.M | re.S)
    assert found is not None, number
    return found[0]


def names(text: str, begin: str, end: str = "\n") -> set[str]:
    """What stands in backticks between two marks of a text."""
    _, mark, rest = text.partition(begin)
    assert mark, begin
    found = set(NAME.findall(rest.partition(end)[0]))
    assert found, begin
    return found


def question() -> bytes:
    """A WAV file."""
    sound = io.BytesIO()
    soundfile.write(sound, np.full(16_000 * SECONDS, 9000, np.int16), 16_000, format="WAV")
    return sound.getvalue()


def dataset(folder: Path) -> Path:
    sound = question()
    clip = folder / "clip.mp4"
    write_video(clip, make_frames(Clip(seconds=float(SECONDS), frame_bytes=600), 1, "1"))
    for split, sample_id in SAMPLES.items():
        row = {
            "id": sample_id,
            "question_audio": {"bytes": sound, "path": "q.wav"},
            "video": {"bytes": clip.read_bytes(), "path": "clip.mp4"},
            "question_text": "What happens?",
            "answer1": "A person walks in.",
            "reminder1": "1.0" if split == "PR_event_reminder" else None,
            "video_duration": float(SECONDS),
        }
        file = folder / "set" / "data" / f"{split}-00000-of-00001.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist([row]), file)
    (folder / "voice.wav").write_bytes(sound)
    return folder / "set"


def free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as two:
        for taken in (one, two):
            taken.bind(("127.0.0.1", 0))
        return one.getsockname()[1], two.getsockname()[1]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of one judged run."""
    folder = tmp_path_factory.mktemp("layout")
    port, judge_port = free_ports()

    def in_virtual_time(work: Callable[[], Awaitable[Any]]) -> int:
        async def main() -> int:
            replies = [Reply(starts_at_unit=1, units=2, text="A person walks in. The door closes.")]
            server = MockServer(profile="july", replies=replies, port=port)
            judge = JudgeServer(answers_after_s=0.02, port=judge_port)
            await server.start()
            await judge.start()
            try:
                await work()
            finally:
                await judge.stop()
                await server.stop()
            return 0

        return run_virtual(main)

    options = {
        "--dataset": dataset(folder),
        "--url": f"ws://127.0.0.1:{port}/v1/realtime",
        "--model": "m",
        "--ref-audio": folder / "voice.wav",
        "--response-root": folder / "out",
        "--judge-model": "judge-model",
        "--judge-base-url": f"http://127.0.0.1:{judge_port}/v1",
    }
    with pytest.MonkeyPatch.context() as patch:
        for module in (cli_run, cli_judge):
            patch.setattr(module, "run_until_ended", in_virtual_time)
        words = [str(word) for pair in options.items() for word in pair]
        done = CliRunner().invoke(app, ["run", *words])
    assert done.exit_code == 0, done.output
    return folder / "out" / "run-0001"


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_every_file_of_the_table_is_there_and_no_other(ran: Path) -> None:
    rows = [line.split("|")[1] for line in section("12.1").splitlines() if line.startswith("| `")]
    told = [pattern for row in rows for pattern in re.findall(r"`([^`]+)`", row)]
    assert len(told) >= 7, told

    expected = set()
    for pattern in told:
        for split, sample_id in SAMPLES.items():
            path = ran / pattern.replace("<split>", split).replace("<id>", sample_id)
            if pattern.endswith("/"):
                assert split.startswith("PR") or path.is_dir(), path
                expected |= {file for file in path.rglob("*") if file.is_file()}
            else:
                assert path.is_file(), path
                expected.add(path)
    found = {file for file in ran.rglob("*") if file.is_file() and not file.name.startswith(".")}
    assert found - expected == {ran / "run_result.json"}


def test_sentences_and_metadata_have_their_keys(ran: Path) -> None:
    text = section("12.1")
    assert '{"sentence": str, "start": float, "end": float}' in text
    wanted = names(text, "Metadata keys:", "\n\n") - {"media", "invalid"}

    for split, sample_id in SAMPLES.items():
        sentences = read(ran / split / f"{sample_id}.json")
        assert sentences
        assert all(set(item) == {"sentence", "start", "end"} for item in sentences)
        metadata = read(ran / split / f"{sample_id}.meta.json")
        assert wanted <= set(metadata), wanted - set(metadata)
        assert not [key for key in metadata if key.startswith("duplex")]


def test_score_files_have_their_keys(ran: Path) -> None:
    text = section("19")
    shared = names(text, "* Score file:", "; RTD adds")
    rtd = names(text, "RTD adds", "; PR adds")
    pr = names(text, "PR adds", ". Written")

    for split, sample_id in SAMPLES.items():
        score = read(ran / "evaluation" / split / f"{sample_id}.json")
        assert shared <= set(score), shared - set(score)
        own, nested = (rtd, "temporal") if split.startswith("RTD") else (pr, "pr")
        assert own <= set(score) | set(score[nested]), own
        assert (nested in score, len({"temporal", "pr"} & set(score))) == (True, 1)
    summary = read(ran / "evaluation" / "RTD_OCR" / "560.json")["temporal"]["summary"]
    wanted = names(section("17"), "* **Summary**", "\n* **Content**") - {"is_relevant", "temporal_score"}
    everything = set(summary) | set(summary["score_distribution"]) | set(summary["relevance_stats"])
    assert wanted <= everything | {"3_points"}, wanted - everything


def test_each_judge_request_has_a_line_with_its_fields(ran: Path) -> None:
    found = re.search(r"\[D\] schema: `\{([^`]+)\}`", section("16.8"))
    assert found is not None
    wanted = set(re.findall(r'"(\w+)"', found[1]))
    assert len(wanted) == 7

    for split, sample_id in SAMPLES.items():
        text = (ran / "evaluation" / split / f"{sample_id}.judge.jsonl").read_text(encoding="utf-8")
        lines = [json.loads(line) for line in text.split("\n") if line]
        assert lines
        assert all(wanted <= set(line) for line in lines)


def test_the_accuracy_object_and_the_run_result_have_their_keys(ran: Path) -> None:
    text = section("19")
    accuracy = read(ran / "evaluation" / "evaluation_summary.json")
    result = read(ran / "run_result.json")

    means = names(text, "`summarize_scores(root)`", "A family with no sample")
    below = set(accuracy) | set(accuracy["rtd"]) | set(accuracy["pr"])
    assert means <= below, means - below
    own = names(text, "* `accuracy` = that plus", ". `status`:")
    assert own <= set(accuracy), own - set(accuracy)
    assert accuracy["status"] == "completed"
    assert set(accuracy["rtd"]["by_task"]) == {"RTD_OCR"}
    assert set(accuracy["pr"]["by_task"]) == {"correction", "proactive_reminder"}

    block = names(text, "* Run result key", " when judging was asked for") - {"omni_duplex_eval"}
    assert block == set(result["omni_duplex_eval"])
    assert result["omni_duplex_eval"]["accuracy"] == accuracy
    top = names(text, "* Top-level run result:")
    assert top <= set(result), top - set(result)
    assert {key for key in result if key.startswith("duplex_stream_")}
    assert {"duplex_retried_samples", "duplex_retry_count"} <= set(result)


def test_the_metrics_file_has_the_rows_and_the_figures_of_the_run(ran: Path) -> None:
    text = section("20")
    metrics = read(ran / "duplex_metrics.json")
    request, session = metrics["duplex_request_metrics"][0], metrics["duplex_session_metrics"][0]

    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    wanted = {name for row in rows for name in NAME.findall(row)} | names(text, "(row: ", "; only if")
    absent = wanted - set(request)
    assert absent == {"tpot_ms"}, "the mock tells no engine figures, and none are invented"
    wanted = names(text, "**Per session**:", "No audio at all") - {"stream_start"}
    assert wanted <= set(session), wanted - set(session)

    flat = names(text, "over all responses for", " (from")
    flat |= names(text, "(from `ttft_ms`, `ttfp_ms`), ", "; `duplex_stream")
    for name in flat:
        kinds = {f"num_{name}_samples", f"mean_{name}", f"median_{name}", f"p99_{name}"}
        assert kinds <= set(metrics), kinds - set(metrics)
    for name in ("duplex_stream_ttft_ms", "duplex_stream_ttfp_ms", "duplex_stream_rtf"):
        assert f"`{name}`" in text
        assert set(metrics[name]) == {"count", "mean", "p50", "p99"}
    assert [len(metrics[name]) for name in ("duplex_request_metrics", "duplex_session_metrics")] == [3, 3]
