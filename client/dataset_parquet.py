"""Rows of parquet files whose media is read one row at a time (evaluation.md 1.5, 1.6)."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from client.dataset_identity import ALIASES
from client.input_errors import DatasetError, MediaError

MEDIA_FIELDS = ("video", "question_audio")
GENERIC_SPLIT = "train"
"""What a lone file stands for, as with the dataset library of the hub."""

_SHARD = re.compile(r"(?P<split>.+)-(?P<index>\d{5})-of-(?P<count>\d{5})\.parquet")
_READ_BUFFER_BYTES = 1 << 20
_MEDIA_ALLOWED = "allowed: struct<bytes: binary, path: string>, binary, or string (a path)"


@dataclass(frozen=True)
class ParquetRow:
    """One row: its small columns, and for each media column its path and how to get its bytes."""

    values: Mapping[str, Any]
    media: Mapping[str, tuple[str | None, Callable[[], bytes] | None]]
    """Column to (path inside the dataset or local path, reader of the bytes where the row has bytes)."""
    index: int


def import_parquet() -> Any:
    """pyarrow.parquet, or a DatasetError that says how to install it."""
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise DatasetError(
            "reading parquet needs pyarrow, which is not installed: pip install 'duplex-conformance[dataset]'"
        ) from error
    return pyarrow.parquet


def find_shards(folder: Path) -> list[tuple[str, Path]]:
    """(split, file) of a folder in the hub's layout, splits in name order, shards in number order.

    Raises DatasetError: no parquet file, or a shard is missing (its samples would be lost in silence).
    """
    data = folder / "data" if (folder / "data").is_dir() else folder
    files = sorted(data.glob("*.parquet"))
    if not files:
        seen = sorted(entry.name for entry in data.iterdir())[:5]
        raise DatasetError(
            f"{folder}: no parquet file in {data}; found {seen or 'an empty folder'}; "
            "expected data/<SPLIT>-00000-of-00001.parquet"
        )
    shards: dict[tuple[str, int], dict[int, Path]] = {}
    for file in files:
        split, index, count = split_of_file(file)
        shards.setdefault((split, count), {})[index] = file
    for (split, count), found in shards.items():
        missing = sorted(set(range(count)) - set(found))
        if missing:
            raise DatasetError(
                f"{data}: split {split}: {len(found)} of {count} shards; missing {missing[:5]}"
            )
    return [(split, found[index]) for (split, _), found in sorted(shards.items()) for index in sorted(found)]


def split_of_file(file: Path) -> tuple[str, int, int]:
    """(split, shard index, shard count) a file's name tells; a plain name is a split of one shard."""
    match = _SHARD.fullmatch(file.name)
    if match:
        return match["split"], int(match["index"]), int(match["count"])
    return file.stem, 0, 1


class ParquetFile:
    """One parquet file: small columns at once, media row by row.

    Media is read forwards and one row at a time, whatever the size of the row groups, so memory holds one
    row. Going backwards starts its row group again. May be called from several threads.
    """

    def __init__(self, path: Path) -> None:
        """Raises DatasetError: missing, no parquet file, or without the columns every sample needs."""
        self._path = path
        self._lock = threading.Lock()
        self._open_file = self._open()
        self._columns: list[str] = list(self._open_file.schema_arrow.names)
        self._media = [c for name in MEDIA_FIELDS for c in ALIASES[name] if c in self._columns]
        self._kinds = {column: self._kind_of(column) for column in self._media}
        self._batches: Iterator[Any] | None = None
        self._next_row = 0
        self._held: dict[str, Any] = {}
        self._held_row = -1

    @property
    def columns(self) -> list[str]:
        return self._columns

    def rows(self) -> Iterator[ParquetRow]:
        """All rows, no media bytes among them.

        Raises DatasetError: the file is damaged.
        """
        paths = [f"{c}.path" for c, kind in self._kinds.items() if kind == "struct" and self._has_path(c)]
        paths += [c for c, kind in self._kinds.items() if kind == "path"]
        small = [c for c in self._columns if c not in self._media]
        table = self._guarded(lambda: self._open_file.read(columns=small + paths))
        with_bytes = {c: self._rows_with_bytes(c) for c, kind in self._kinds.items() if kind != "path"}
        for index, values in enumerate(table.to_pylist()):
            media: dict[str, tuple[str | None, Callable[[], bytes] | None]] = {}
            for column in self._media:
                told = values.pop(column, None)
                path = told.get("path") if isinstance(told, dict) else told
                has_bytes = column in with_bytes and with_bytes[column][index]
                media[column] = (path, self._reader(index, column) if has_bytes else None)
            yield ParquetRow(values, media, index)

    def _reader(self, row: int, column: str) -> Callable[[], bytes]:
        return lambda: self.read_bytes(row, column)

    def read_bytes(self, row: int, column: str) -> bytes:
        """Bytes of one cell, handed out once: the row is let go when its media has been read.

        Raises MediaError: the file cannot be read (any more).
        """
        with self._lock:
            try:
                if self._held_row != row or column not in self._held:
                    self._held, self._held_row = self._read_row(row), row
            except DatasetError as error:
                raise MediaError(str(error)) from error
            value = self._held.pop(column)
            if not self._held and self._next_row == self._open_file.metadata.num_rows:
                self._batches = None  # a file that has been read to its end holds no page
        content = value["bytes"] if isinstance(value, dict) else value
        if not isinstance(content, bytes):
            raise MediaError(f"{self._path}: row {row}: column {column}: no bytes")
        return content

    def _read_row(self, row: int) -> dict[str, Any]:
        if self._batches is None or row < self._next_row:
            first_group, self._next_row = self._group_of(row)
            groups = list(range(first_group, self._open_file.metadata.num_row_groups))
            columns = [c for c, kind in self._kinds.items() if kind != "path"]
            self._batches = self._open_file.iter_batches(
                batch_size=1, row_groups=groups, columns=columns, use_threads=False
            )
        while True:
            batch = self._guarded(lambda: next(self._batches, None) if self._batches else None)
            if batch is None:
                raise DatasetError(f"{self._path}: row {row}: the file ends at row {self._next_row}")
            self._next_row += batch.num_rows
            if self._next_row > row:
                return dict(batch.to_pylist()[0])

    def _group_of(self, row: int) -> tuple[int, int]:
        """(row group that holds a row, number of its first row)."""
        first = 0
        for group in range(self._open_file.metadata.num_row_groups):
            rows = self._open_file.metadata.row_group(group).num_rows
            if row < first + rows:
                return group, first
            first += rows
        raise DatasetError(f"{self._path}: row {row}: the file has {first} rows")

    def _rows_with_bytes(self, column: str) -> list[bool]:
        """Which rows have bytes: told by the statistics where they are clear, else looked up batch by
        batch.
        """
        leaf = f"{column}.bytes" if self._kinds[column] == "struct" else column
        rows = self._open_file.metadata.num_rows
        nulls = self._null_count(leaf)
        if nulls in (0, rows):
            return [nulls == 0] * rows
        found: list[bool] = []
        for batch in self._open_file.iter_batches(batch_size=8, columns=[leaf], use_threads=False):
            cells = batch.column(0)
            cells = cells.field("bytes") if self._kinds[column] == "struct" else cells
            valid = zip(cells.is_valid().to_pylist(), batch.column(0).is_valid().to_pylist(), strict=True)
            found.extend(inner and outer for inner, outer in valid)
        return found

    def _null_count(self, leaf: str) -> int | None:
        total = 0
        metadata = self._open_file.metadata
        for group in range(metadata.num_row_groups):
            chunks = (metadata.row_group(group).column(i) for i in range(metadata.num_columns))
            statistics = next((c.statistics for c in chunks if c.path_in_schema == leaf), None)
            if statistics is None or not statistics.has_null_count:
                return None
            total += statistics.null_count
        return total

    def _kind_of(self, column: str) -> str:
        import pyarrow.types as types

        kind = self._open_file.schema_arrow.field(column).type
        if types.is_struct(kind) and any(kind.field(i).name == "bytes" for i in range(kind.num_fields)):
            return "struct"
        if types.is_binary(kind) or types.is_large_binary(kind):
            return "bytes"
        if types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind):
            return "path"
        raise DatasetError(f"{self._path}: column {column}: found {kind}; {_MEDIA_ALLOWED}")

    def _has_path(self, column: str) -> bool:
        kind = self._open_file.schema_arrow.field(column).type
        return any(kind.field(i).name == "path" for i in range(kind.num_fields))

    def _open(self) -> Any:
        parquet = import_parquet()
        # Without the read-ahead, and with a small buffer: pages are read one after the other as rows are
        # asked for.
        return self._guarded(
            lambda: parquet.ParquetFile(self._path, pre_buffer=False, buffer_size=_READ_BUFFER_BYTES)
        )

    def _guarded(self, read: Callable[[], Any]) -> Any:
        import pyarrow

        try:
            return read()
        except (pyarrow.ArrowException, OSError) as error:
            first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise DatasetError(f"{self._path}: cannot be read as parquet ({first_line})") from error
