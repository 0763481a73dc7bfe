"""A dataset of the hub is read by its own library, one cell of media at a time (evaluation.md 1.1, 1.5, 1.6)."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from client.dataset import DatasetError, load_dataset
from client.media import MediaError


class Audio:
    def __init__(self, decode: bool = True) -> None:
        self.decode = decode


class Table:
    """As much of a table of the library as is used."""

    def __init__(
        self, rows: list[dict[str, Any]], features: dict[str, Any], reads: list[tuple[int, list[str]]]
    ) -> None:
        self.rows, self.features, self.reads = rows, features, reads
        self.column_names = list(rows[0])

    def cast_column(self, column: str, feature: Any) -> Table:
        assert not feature.decode
        return Table(self.rows, {**self.features, column: feature}, self.reads)

    def remove_columns(self, names: list[str]) -> list[dict[str, Any]]:
        return [{k: v for k, v in row.items() if k not in names} for row in self.rows]

    def select(self, indices: list[int]) -> list[dict[str, Any]]:
        assert not self.features["question_audio"].decode
        self.reads.append((indices[0], self.column_names))
        return [self.rows[index] for index in indices]


ROW = {"question_text": "What?", "video_duration": 3.0, "video": None}


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The library with one dataset, `Owner/Set`; keeps what was read of it."""
    (tmp_path / "q.wav").write_bytes(b"from a file")
    rows = [
        {"id": "1", "question_audio": {"bytes": b"sound", "path": "a.wav"}, **ROW},
        {"id": "2", "question_audio": {"bytes": None, "path": str(tmp_path / "q.wav")}, **ROW},
        {"id": "3", "question_audio": None, **ROW},
        {"id": "4", "question_audio": {"bytes": None, "path": "/nowhere/q.wav"}, **ROW},
    ]
    module = ModuleType("datasets")
    module.reads = []  # type: ignore[attr-defined]
    module.Audio = Audio  # type: ignore[attr-defined]

    def load(source: str) -> Any:
        if source != "Owner/Set":
            raise ValueError(f"no dataset {source}\nmore lines")
        return {"RTD_OCR": Table(rows, {"question_audio": Audio(), "video": None}, module.reads)}  # type: ignore[attr-defined]

    module.load_dataset = load  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", module)
    return module


def test_rows_are_known_without_reading_any_media(library: Any) -> None:
    dataset = load_dataset("Owner/Set", ids=["1", "2"])

    assert [(s.split, s.id, s.question_text) for s in dataset.samples] == [
        ("RTD_OCR", "1", "What?"),
        ("RTD_OCR", "2", "What?"),
    ]
    assert library.reads == []


def test_media_is_read_undecoded_when_it_is_needed(library: Any) -> None:
    samples = load_dataset("Owner/Set").samples
    sources = [sample.question_audio for sample in samples]

    assert [source.read() for source in sources[:2] if source is not None] == [b"sound", b"from a file"]
    for source, told in zip(sources[2:], ("no media", "/nowhere/q.wav cannot be read"), strict=True):
        assert source is not None
        with pytest.raises(MediaError, match=told):
            source.read()
    assert [row for row, _ in library.reads] == [0, 1, 2, 3]


def test_a_table_without_a_media_column_is_refused(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(ROW, "video")
    rows = [{"id": "1", "question_audio": None, **ROW}]
    table = Table(rows, {"question_audio": Audio(), "video": None}, library.reads)
    monkeypatch.setattr(library, "load_dataset", lambda source: {"RTD_OCR": table})

    with pytest.raises(DatasetError, match="Owner/Set split RTD_OCR: no column video; found"):
        load_dataset("Owner/Set")


def test_a_dataset_the_library_cannot_load_is_told_in_one_line(library: Any) -> None:
    with pytest.raises(
        DatasetError, match=r"Owner/Other: cannot be loaded from the hub \(no dataset Owner/Other\)$"
    ):
        load_dataset("Owner/Other")


def test_without_the_library_it_is_said_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)

    with pytest.raises(DatasetError, match=r"pip install datasets\), or fetch the files first: hf download"):
        load_dataset("Owner/Set")
