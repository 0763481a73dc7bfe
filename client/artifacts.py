"""Per-sample files: write order, path safety, diagnostics (evaluation.md 12).

Every file is written beside its place and renamed into it, so no name ever holds half a file. The answer `<id>.json`
comes last: its presence means that the sample is complete.
"""

from __future__ import annotations

import errno
import json
import os
import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any, Final

import orjson

from client.result import SampleResult

ATTEMPTS: Final = "attempts"
"""Folder of the attempt diagnostics below the response root; no reader of answers or scores looks there."""
RUN_FILES: Final = (
    "run_result.json",
    "duplex_metrics.json",
    ".metrics.jsonl",
    ".run.lock",
    "evaluation/evaluation_summary.json",
    "evaluation/.run.lock",
)
_MAX_NAME_BYTES: Final = 240
"""Longest id or split: file systems allow 255 bytes, the suffixes need some."""


class UnsafePathError(ValueError):
    """A split or id that cannot name files safely, or two samples whose files collide. The message names both."""


def answer_path(root: Path, split: str, sample_id: str) -> Path:
    """The judge-visible file of a sample."""
    return root / split / f"{sample_id}.json"


def metadata_path(root: Path, split: str, sample_id: str) -> Path:
    """The metadata file of a sample."""
    return root / split / f"{sample_id}.meta.json"


def attempt_path(root: Path, split: str, sample_id: str, attempt: int) -> Path:
    """The diagnostics of a failed or retried attempt, counted from 1."""
    return root / ATTEMPTS / split / sample_id / f"{attempt}.json"


def publish(result: SampleResult, root: Path, split: str, sample_id: str) -> None:
    """Write a successful sample: metadata first, the answer last (evaluation.md 12.2).

    An older answer is taken away first, so that at no moment an answer stands beside the metadata of another run.

    Raises OSError: the message names the path.
    """
    _remove(answer_path(root, split, sample_id))
    write_metadata(root, split, sample_id, result.metadata)
    write_answer(root, split, sample_id, result.timed_sentences)


def write_metadata(root: Path, split: str, sample_id: str, metadata: Mapping[str, Any]) -> None:
    """Write `<id>.meta.json`; alone, it is the trace of a sample without an answer. Raises OSError."""
    write_whole(metadata_path(root, split, sample_id), metadata)


def write_answer(root: Path, split: str, sample_id: str, sentences: list[dict[str, Any]]) -> None:
    """Write `<id>.json`. Raises OSError."""
    write_whole(answer_path(root, split, sample_id), sentences)


def write_attempt(root: Path, *, split: str, id: str, attempt: int, **facts: Any) -> None:
    """Write the diagnostics of one attempt (design.md 7). Raises OSError."""
    content = {"split": split, "id": id, "attempt": attempt, **facts}
    write_whole(attempt_path(root, split, id, attempt), content)


def write_whole(path: Path, content: Any) -> None:
    """Write JSON to `<name>.part` and rename it; a leftover `.part` is always removed.

    UTF-8, indented by 2; what has no UTF-8 (half a surrogate pair) becomes `?`.

    Raises OSError: the message names the path.
    """
    _make(path.parent)
    part = path.with_name(path.name + ".part")
    text = indented(content)
    try:
        part.write_bytes(text + b"\n")
        part.replace(path)
    except OSError as error:  # a disk that is full in the middle names no file
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        _remove(part)


def indented(content: Any) -> bytes:
    """JSON, laid out. Raises ValueError, TypeError: there is none for the content, a NaN for one."""
    try:
        text = orjson.dumps(content, option=orjson.OPT_INDENT_2)
    except orjson.JSONEncodeError:  # half a surrogate pair, an integer beyond 64 bits, a key that is no text
        text = json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False).encode("utf-8", "replace")
    else:
        if orjson.loads(text) != content:  # a null for what is no number; a list for a tuple is allowed
            json.dumps(content, allow_nan=False)
    return text


def _make(folder: Path) -> None:
    """A folder with those above it. To look is cheaper than to be refused, and it is nearly always there."""
    if not os.path.isdir(folder):
        folder.mkdir(parents=True, exist_ok=True)


def _remove(path: Path) -> None:
    """A file, should there be one. To look is cheaper than to be refused, and there is nearly never one."""
    if os.path.lexists(path):
        path.unlink(missing_ok=True)


def append_line(path: Path, line: bytes) -> None:
    """Append one line to a file of lines, whole or not at all; a torn last line that a kill left is cut off first.

    Args:
        line: without its line feed, and without any inside.
    Raises OSError: the message names the path.
    """
    _make(path.parent)
    with path.open("a+b", buffering=0) as file:
        end = cut_torn_line(file)
        try:
            written = file.write(line + b"\n")
            if written != len(line) + 1:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        except OSError as error:
            file.truncate(end)
            raise OSError(error.errno, error.strerror, str(path)) from error


def cut_torn_line(file: IO[bytes]) -> int:
    """Cut a last line without its line feed off an open file. Returns: the length that is left."""
    end = file.seek(0, os.SEEK_END)
    if not end:
        return 0
    file.seek(end - 1)
    if file.read(1) == b"\n":
        return end
    file.seek(0)
    kept = file.read(end).rfind(b"\n") + 1
    file.truncate(kept)
    return kept


def check_paths(root: Path, samples: Iterable[tuple[str, str]]) -> None:
    """Refuse a set of (split, id) pairs before any directory is made (evaluation.md 12.4).

    Raises UnsafePathError: a name that is empty, `.`, `..`, too long, or holds a separator or NUL; a pair that occurs
    twice; two samples, or a sample and a file of the run, of which one needs a path that the other uses, on some file
    system at least: there are some that know neither case nor Unicode normal forms.
    """
    owners: dict[str, str] = {folded(name): "the run" for name in RUN_FILES}
    seen: set[tuple[str, str]] = set()
    for split, sample_id in samples:
        check_name("split", split)
        check_name("id", sample_id)
        if (split, sample_id) in seen:
            raise UnsafePathError(f"{split}/{sample_id}: this split and id occur twice")
        seen.add((split, sample_id))
        for path in sample_files(root, split, sample_id):
            other = owners.setdefault(folded(str(path.relative_to(root))), f"{split}/{sample_id}")
            if other != f"{split}/{sample_id}":
                raise UnsafePathError(f"{split}/{sample_id}: {path} is also a file of {other}")
    for name, owner in owners.items():
        folder, _, _ = name.rpartition("/")
        while folder:
            if folder in owners:
                raise UnsafePathError(
                    f"{owner}: {root / folder} is a folder here and a file of {owners[folder]}"
                )
            folder, _, _ = folder.rpartition("/")


def folded(name: str) -> str:
    """What a file system that knows neither case nor Unicode normal forms takes a name for."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", name).casefold())


def sample_files(root: Path, split: str, sample_id: str) -> list[Path]:
    """Every file a sample may own below the response root, judging included."""
    answer, metadata = answer_path(root, split, sample_id), metadata_path(root, split, sample_id)
    return [
        answer,
        answer.with_name(answer.name + ".part"),
        metadata,
        metadata.with_name(metadata.name + ".part"),
        attempt_path(root, split, sample_id, 1),
        attempt_path(root, split, sample_id, 2),
        root / "evaluation" / split / f"{sample_id}.json",
        root / "evaluation" / split / f"{sample_id}.judge.jsonl",
        root / split / ".media" / sample_id / "media",
    ]


def check_name(what: str, name: str) -> None:
    """Raises UnsafePathError: `name` cannot be one path component everywhere."""
    if name in ("", ".", ".."):
        raise UnsafePathError(f"{what}: {name!r} names no file")
    if any(mark in name for mark in ("/", "\\", "\0", os.sep)):
        raise UnsafePathError(f"{what}: {name!r} holds a path separator")
    try:
        length = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        raise UnsafePathError(f"{what}: {name!r} has no UTF-8") from None
    if length > _MAX_NAME_BYTES:
        raise UnsafePathError(f"{what}: {name[:40]!r}... is longer than {_MAX_NAME_BYTES} bytes")
