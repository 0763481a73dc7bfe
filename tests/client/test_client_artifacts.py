"""Write order, crashes at any step, and path safety (evaluation.md 12)."""

from __future__ import annotations

import json
import resource
import signal
from pathlib import Path
from typing import Any

import pytest

from client import artifacts
from client.artifacts import UnsafePathError, answer_path, check_paths, publish, write_attempt, write_whole
from client.result import SampleResult

SENTENCES = [{"sentence": "你好。", "start": 1.0, "end": 2.0}]


def result(sentences: list[dict[str, Any]] | None = None) -> SampleResult:
    metadata = {"id": "1", "split": "S", "retry_count": 0}
    return SampleResult("S", "1", SENTENCES if sentences is None else sentences, metadata, [], [], True, 1)


def files(root: Path) -> list[str]:
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())


def test_published_sample_is_answer_and_metadata_in_utf8_indented(tmp_path: Path) -> None:
    publish(result(), tmp_path, "S", "1")

    assert files(tmp_path) == ["S/1.json", "S/1.meta.json"]
    text = (tmp_path / "S/1.json").read_text("utf-8")
    assert json.loads(text) == SENTENCES
    assert "你好" in text
    assert '\n  {\n    "sentence"' in text


def test_empty_answer_is_published(tmp_path: Path) -> None:
    publish(result([]), tmp_path, "S", "1")

    assert json.loads((tmp_path / "S/1.json").read_text()) == []


STEPS = ["unlink", "mkdir", "write_bytes", "replace"]


class Crash(BaseException):
    """The process dies here."""


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_any_step_no_name_holds_half_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, nth: int, overwrite: bool
) -> None:
    if overwrite:
        publish(result([{"sentence": "old", "start": 0, "end": 0}]), tmp_path, "S", "1")
    calls = 0
    real = getattr(Path, step)

    def dying(self: Path, *args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == nth:
            if step == "write_bytes":
                real(self, args[0][: len(args[0]) // 2])
            raise Crash
        return real(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(Path, step, dying)
        try:
            publish(result(), tmp_path, "S", "1")
        except Crash:
            pass

    for path in tmp_path.rglob("*.json"):
        json.loads(path.read_text())
    if answer_path(tmp_path, "S", "1").is_file() and (step, nth) != ("unlink", 1):
        assert json.loads((tmp_path / "S/1.json").read_text()) == SENTENCES
    publish(result(), tmp_path, "S", "1")
    assert files(tmp_path) == ["S/1.json", "S/1.meta.json"]


def test_answer_is_the_last_to_appear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    real = Path.replace

    def noting(self: Path, target: Path) -> Path:
        order.append(Path(target).name)
        return real(self, target)

    monkeypatch.setattr(Path, "replace", noting)
    publish(result(), tmp_path, "S", "1")

    assert order == ["1.meta.json", "1.json"]


def test_full_disk_leaves_no_part_and_names_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device", str(self))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match=r"1\.meta\.json"):
        publish(result(), tmp_path, "S", "1")

    assert files(tmp_path) == []


def test_half_a_surrogate_pair_is_written_as_valid_utf8(tmp_path: Path) -> None:
    write_whole(tmp_path / "x.json", {"error": "ok \ud83d"})

    assert json.loads((tmp_path / "x.json").read_text("utf-8")) == {"error": "ok ?"}


def test_attempt_diagnostics_lie_where_no_reader_of_answers_looks(tmp_path: Path) -> None:
    write_attempt(tmp_path, split="S", id="1", attempt=2, reason="drain")

    assert files(tmp_path) == ["attempts/S/1/2.json"]
    assert json.loads((tmp_path / "attempts/S/1/2.json").read_text()) == {
        "split": "S",
        "id": "1",
        "attempt": 2,
        "reason": "drain",
    }


BAD_NAMES = ["", ".", "..", "a/b", "a\\b", "a\0b", "/etc", "../x", "x" * 241, "\ud83d"]


@pytest.mark.parametrize("bad", BAD_NAMES)
@pytest.mark.parametrize("place", ["split", "id"])
def test_name_that_is_no_single_component_is_refused_before_any_directory(
    tmp_path: Path, bad: str, place: str
) -> None:
    pair = (bad, "1") if place == "split" else ("S", bad)

    with pytest.raises(UnsafePathError, match=place):
        check_paths(tmp_path / "run", [("S", "ok"), pair])

    assert not (tmp_path / "run").exists()


COLLISIONS: list[tuple[list[tuple[str, str]], str]] = [
    ([("S", "1"), ("S", "1")], "occur twice"),
    ([("S", "x"), ("S", "x.meta")], "is also a file of S/x"),
    ([("S", "x.meta"), ("S", "x")], "is also a file of S/x.meta"),
    ([("attempts", "S"), ("S", "1"), ("S.json", "2")], "folder"),
    ([("evaluation", "evaluation_summary")], "is also a file of the run"),
    ([("run_result.json", "1")], "folder"),
    ([("duplex_metrics.json", "1")], "folder"),
]


@pytest.mark.parametrize(("samples", "message"), COLLISIONS)
def test_colliding_files_are_refused(tmp_path: Path, samples: list[tuple[str, str]], message: str) -> None:
    with pytest.raises(UnsafePathError, match=message):
        check_paths(tmp_path, samples)


def test_same_id_in_two_splits_is_fine(tmp_path: Path) -> None:
    check_paths(
        tmp_path, [("RTD_OCR", "1"), ("RTD_Omni", "1"), ("RTD_Omni", "x.attempt-1"), ("RTD_Omni", "x")]
    )


def test_every_written_path_is_one_that_check_paths_knows(tmp_path: Path) -> None:
    publish(result(), tmp_path, "S", "1")
    write_attempt(tmp_path, split="S", id="1", attempt=1)

    known = set(artifacts.sample_files(tmp_path, "S", "1"))
    assert {p for p in tmp_path.rglob("*") if p.is_file()} <= known


@pytest.mark.parametrize("split", [".metrics.jsonl", ".run.lock", "duplex_metrics.json", "run_result.json"])
def test_no_split_may_take_the_place_of_a_file_of_the_run(tmp_path: Path, split: str) -> None:
    with pytest.raises(artifacts.UnsafePathError, match="the run"):
        artifacts.check_paths(tmp_path, [(split, "1")])


def test_a_line_that_the_disk_cannot_take_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"
    artifacts.append_line(path, b"one")
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]

    resource.setrlimit(resource.RLIMIT_FSIZE, (6, hard))
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with pytest.raises(OSError, match=r"f\.jsonl"):
            artifacts.append_line(path, b"a longer line")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert path.read_bytes() == b"one\n"
    artifacts.append_line(path, b"two")
    assert path.read_bytes() == b"one\ntwo\n"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("RTD_OCR", "Cafe"), ("RTD_OCR", "cafe")),
        (("RTD_OCR", "1"), ("rtd_ocr", "1")),
        (("RTD_OCR", "caf\u00e9"), ("RTD_OCR", "cafe\u0301")),
        (("RTD_OCR", "CAF\u00c9"), ("RTD_OCR", "cafe\u0301")),
        (("RTD_OCR", "stra\u00dfe"), ("RTD_OCR", "STRASSE")),
        (("RTD_OCR", "x"), ("RTD_OCR", "X.META")),
    ],
)
def test_names_that_some_file_systems_take_for_the_same_are_refused(
    one: tuple[str, str], other: tuple[str, str], tmp_path: Path
) -> None:
    check_paths(tmp_path, [one])
    check_paths(tmp_path, [other])

    with pytest.raises(UnsafePathError, match="is also a file of"):
        check_paths(tmp_path, [one, other])
    assert list(tmp_path.iterdir()) == []
