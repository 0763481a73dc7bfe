"""Rows of any source under one shape: columns, media, and where they stand (evaluation.md 1.5, 1.6)."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from client.dataset_hub import bytes_of, hub_rows, import_datasets, is_hub_id
from client.dataset_identity import ALIASES, RowError
from client.dataset_parquet import (
    GENERIC_SPLIT,
    MEDIA_FIELDS,
    ParquetFile,
    ParquetRow,
    find_shards,
    split_of_file,
)
from client.input_errors import DatasetError
from client.media import MediaSource, suffix_of

FALLBACK_SUFFIX = {"video": ".mp4", "question_audio": ".wav"}
_MEDIA_ALLOWED = "allowed: a path, bytes, or {bytes, path}"


@dataclass(frozen=True)
class Row:
    """One row of a source."""

    values: Mapping[str, Any]
    """Columns; media columns too where they are in memory anyway."""
    where: str
    """File and row, for messages."""
    physical: str | None
    """Split the file stands for; None for rows without a file of their own split (manifests, iterables)."""
    media: Callable[[str], MediaSource | None]
    """`video` or `question_audio` to its source; None where the row has none. Raises RowError."""


def rows_of(
    source: Path | str | Iterable[Mapping[str, Any]], media_root: Path | None, *, require_media: bool
) -> tuple[str, Iterator[Row]]:
    """(name of the source, its rows).

    Raises DatasetError: nothing there, no known kind, damaged, a column missing. Also while the rows are
        read.
    """
    if not isinstance(source, str | Path):
        return "rows in memory", _memory_rows(source, media_root)
    path = Path(source)
    if path.is_dir():
        return str(path), _parquet_rows(find_shards(path), media_root or path, require_media)
    if not path.exists():
        if is_hub_id(str(source)):
            import_datasets(str(source))
            return str(source), _hub_rows(str(source), require_media)
        raise DatasetError(
            f"{source}: no such file or folder; allowed: a folder, a .parquet file, a .json or .jsonl manifest, "
            "or an id of the Hugging Face hub"
        )
    match path.suffix.lower():
        case ".parquet":
            return str(path), _parquet_rows(
                [(_lone_split(path), path)], media_root or path.parent, require_media
            )
        case ".jsonl" | ".json":
            rows = _jsonl(path) if path.suffix.lower() == ".jsonl" else _json(path)
            return str(path), _manifest_rows(path, rows, media_root or path.parent, require_media)
    raise DatasetError(
        f"{path}: not a dataset; allowed: a folder with data/<SPLIT>-00000-of-00001.parquet, a .parquet "
        "file, a .json or .jsonl manifest"
    )


def _hub_rows(source: str, require_media: bool) -> Iterator[Row]:
    checked: set[str] = set()
    for split, index, values, readers in hub_rows(source):
        if split not in checked:
            checked.add(split)
            _check_columns(f"{source} split {split}", [*values, *readers], require_media)
        where = f"{source} split {split} row {index}"
        yield Row(values, where, split, _hub_media(readers, where))


def _hub_media(readers: Mapping[str, Callable[[], Any]], where: str) -> Callable[[str], MediaSource | None]:
    def media(name: str) -> MediaSource | None:
        for column in ALIASES[name]:
            if column in readers:
                label = f"{where} {column}"
                return MediaSource(label, bytes_of(readers[column], label), FALLBACK_SUFFIX[name])
        return None

    return media


def _lone_split(path: Path) -> str:
    """A lone file stands for `train`, unless it is a shard that carries its split in its name."""
    split, _, _ = split_of_file(path)
    return GENERIC_SPLIT if split == path.stem else split


def _parquet_rows(files: list[tuple[str, Path]], base: Path, require_media: bool) -> Iterator[Row]:
    for split, path in files:
        file = ParquetFile(path)
        _check_columns(str(path), file.columns, require_media)
        for row in file.rows():
            where = f"{path} row {row.index}"
            yield Row(row.values, where, split, _parquet_media(row, where, base))


def _check_columns(where: str, columns: Collection[str], require_media: bool) -> None:
    """Raises DatasetError: a column is not there at all.

    That is another thing than a column whose cell is null: a wrong export would be run as silence, sample for sample.
    """
    if not set(ALIASES["id"]) & set(columns):
        raise DatasetError(
            f"{where}: no column for the id; found {list(columns)}; allowed: {', '.join(ALIASES['id'])}"
        )
    absent = [name for name in MEDIA_FIELDS if require_media and not set(ALIASES[name]) & set(columns)]
    if absent:
        needed = " and ".join(f"{name} (or {', '.join(ALIASES[name][1:])})" for name in absent)
        raise DatasetError(
            f"{where}: no column {' and no column '.join(absent)}; found {sorted(columns)}; needed: {needed}, "
            "null in rows that are to be run without"
        )


def _parquet_media(row: ParquetRow, where: str, base: Path) -> Callable[[str], MediaSource | None]:
    def media(name: str) -> MediaSource | None:
        for column in ALIASES[name]:
            path, read = row.media.get(column, (None, None))
            if read is not None:
                # The path of a struct with bytes is a name inside the dataset, never a local file.
                label = f"{where} {column}" + (f" ({path})" if path else "")
                return MediaSource(label, read, suffix_of(path, FALLBACK_SUFFIX[name]))
            if path:
                return _file_source(path, name, base)
        return None

    return media


def _memory_rows(rows: Iterable[Mapping[str, Any]], base: Path | None) -> Iterator[Row]:
    for number, row in enumerate(rows):
        where = f"row {number}"
        if not isinstance(row, Mapping):
            raise DatasetError(f"{where}: found {type(row).__name__}; allowed: a mapping of column to value")
        yield Row(row, where, None, _memory_media(row, where, base or Path()))


def _manifest_rows(
    path: Path, listed: Iterator[tuple[str, Any]], base: Path, require_media: bool
) -> Iterator[Row]:
    """A key that no row has is an absent column; where one row has it, the others' is null."""
    rows: list[tuple[str, Mapping[str, Any]]] = []
    for where, row in listed:
        if not isinstance(row, dict):
            raise DatasetError(f"{where}: found {type(row).__name__}; allowed: an object of column to value")
        rows.append((where, row))
    if rows:
        _check_columns(str(path), list(dict.fromkeys(key for _, row in rows for key in row)), require_media)
    for where, row in rows:
        yield Row(row, where, None, _memory_media(row, where, base))


def _memory_media(row: Mapping[str, Any], where: str, base: Path) -> Callable[[str], MediaSource | None]:
    def media(name: str) -> MediaSource | None:
        for column in ALIASES[name]:
            source = _value_source(row.get(column), name, f"{where} {column}", base)
            if source is not None:
                return source
        return None

    return media


def _value_source(value: Any, name: str, label: str, base: Path) -> MediaSource | None:
    """A media column's value as source; None for null, and for a struct whose bytes and path are null."""
    path: Any = None
    if isinstance(value, Mapping):
        value, path = value.get("bytes"), value.get("path")
        if value is None:
            value, path = path, None
    if value is None or value == "":
        return None
    if isinstance(value, str | Path):
        return _file_source(value, name, base)
    if isinstance(value, bytes | bytearray | memoryview):
        content = bytes(value)
        if isinstance(path, str):
            label += f" ({path})"
        return MediaSource(label, lambda: content, suffix_of(path, FALLBACK_SUFFIX[name]))
    raise RowError(f"{name}: found {type(value).__name__}; {_MEDIA_ALLOWED}")


def _file_source(path: str | Path, name: str, base: Path) -> MediaSource:
    file = base / Path(path).expanduser()
    return MediaSource(str(file), file, suffix_of(str(path), FALLBACK_SUFFIX[name]))


def _jsonl(path: Path) -> Iterator[tuple[str, Any]]:
    """Lines end at a line feed alone: U+0085, U+2028 and their kind are text inside a line."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                if line.strip():
                    where = f"{path} line {number}"
                    yield where, _parsed(line, where)
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read ({error.strerror or error})") from error


def _json(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        content = _parsed(path.read_bytes().removeprefix(b"\xef\xbb\xbf"), str(path))
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read ({error.strerror or error})") from error
    rows = content
    if isinstance(content, dict):
        rows = content.get("data", content.get("samples"))
    if not isinstance(rows, list):
        found = (
            f"an object with {sorted(content)[:8]}" if isinstance(content, dict) else type(content).__name__
        )
        raise DatasetError(
            f"{path}: found {found}; allowed: a list of rows, or an object with data or samples"
        )
    for number, row in enumerate(rows):
        yield f"{path} row {number}", row


def _parsed(text: bytes, where: str) -> Any:
    try:
        return orjson.loads(text)
    except json.JSONDecodeError as error:
        raise DatasetError(f"{where}: not JSON ({error}); found {text[:60]!r}") from error
