"""A report's file, whole or not at all."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO

from conformance.exits import Exit


def publish(path: Path, content: bytes) -> None:
    """Write bytes; see `publish_by`.

    Raises OSError: the folder cannot be made or written; no half-written file is left.
    """
    publish_by(path, lambda file: file.write(content))


def publish_by(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file through a temporary one beside it and an atomic rename.

    A run that is killed leaves the old file or the new one; a CI system never reads half of one. A target
    that is no regular file (`/dev/stdout`, a pipe) is written to directly, since a rename would replace it.

    Raises OSError: the folder cannot be made or written; no half-written file is left.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            write(file)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:64]}.", suffix=".part")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
        temporary.chmod(0o644)  # mkstemp makes it private; a CI system's collector may be another user
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def deliver(reports: Iterable[tuple[Path, Callable[[Path], None]]]) -> Exit:
    """Write the reports of a run that has been played: what cannot be written is told, the others are written.

    Args:
        reports: each file with what writes it.
    Returns: the exit code that this asks for.
    """
    code = Exit.PASSED
    for path, write in reports:
        try:
            write(path)
        except OSError as error:
            sys.stderr.write(f"conformance: {path}: cannot be written: {error.strerror or error}\n")
            code = Exit.USAGE
    return code
