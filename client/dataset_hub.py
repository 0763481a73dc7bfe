"""Rows of a dataset of the Hugging Face hub, by its own library where that is installed (evaluation.md 1.1, 1.5)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from client.dataset_identity import ALIASES
from client.input_errors import DatasetError, MediaError

MEDIA_FIELDS: Final = ("video", "question_audio")
_HUB_ID: Final = re.compile(r"[A-Za-z0-9][\w-]*/[\w-]+")


def is_hub_id(source: str) -> bool:
    """Whether a source that is no file may be an id of the hub: `owner/name`."""
    return _HUB_ID.fullmatch(source) is not None


def import_datasets(source: str) -> Any:
    """The `datasets` library. Raises DatasetError: it is not installed; says what to do instead."""
    try:
        import datasets
    except ImportError as error:
        raise DatasetError(
            f"{source}: no such file or folder; an id of the Hugging Face hub needs the package datasets, which is not "
            "installed. Either install it (pip install datasets), or fetch the files first: "
            f"hf download --repo-type dataset {source} --local-dir FOLDER, then give FOLDER"
        ) from error
    return datasets


HubRow = tuple[str, int, Mapping[str, Any], Mapping[str, Callable[[], Any]]]
"""(split, row, its small columns, media column to what reads its value)."""


def hub_rows(source: str) -> Iterator[HubRow]:
    """All rows, split by split; media is read one cell at a time and never decoded.

    Raises DatasetError: the library is missing, or cannot load the dataset.
    """
    datasets = import_datasets(source)
    names = [column for field in MEDIA_FIELDS for column in ALIASES[field]]
    try:
        loaded = datasets.load_dataset(source)
    except (OSError, ValueError, RuntimeError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise DatasetError(f"{source}: cannot be loaded from the hub ({first})") from error
    for split in sorted(loaded):
        table = loaded[split]
        media = [column for column in table.column_names if column in names]
        for column in media:
            kind = type(table.features[column]).__name__
            if kind in ("Audio", "Video"):
                table = table.cast_column(column, getattr(datasets, kind)(decode=False))
        for index, values in enumerate(table.remove_columns(media)):
            readers = {column: _reader(table, index, column) for column in media}
            yield str(split), index, values, readers


def _reader(table: Any, index: int, column: str) -> Callable[[], Any]:
    return lambda: table.select([index])[0][column]


def bytes_of(read: Callable[[], Any], label: str) -> Callable[[], bytes]:
    """What gives the bytes of a cell; a struct that has only a path is that local file's."""

    def content() -> bytes:
        value: Any = read()
        path: Any = None
        if isinstance(value, Mapping):
            value, path = value.get("bytes"), value.get("path")
        if isinstance(value, bytes):
            return value
        if not path:
            raise MediaError(f"{label}: no media; allowed: bytes, or a path")
        try:
            with open(path, "rb") as file:
                return file.read()
        except OSError as error:
            raise MediaError(f"{label}: {path} cannot be read ({error.strerror or error})") from error

    return content
