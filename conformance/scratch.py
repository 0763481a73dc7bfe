"""Folders for what a scenario writes and nobody keeps, in memory where the system has such a place."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MEMORY_FOLDER = Path("/dev/shm")
"""Files and folders are made and removed thousands of times in a run; a disk would be most of the time."""
ENOUGH_BYTES = 256 * 1024 * 1024
"""Free memory that makes it a place: a container often has no more than 64 MiB there."""


@contextmanager
def scratch_folder(prefix: str = "conformance-fuzz-") -> Iterator[Path]:
    """An empty folder, removed at the end; below `TMPDIR` where that is set.

    Raises OSError: no folder can be made anywhere.
    """
    try:
        made = tempfile.mkdtemp(prefix=prefix, dir=_place())
    except OSError:
        made = tempfile.mkdtemp(prefix=prefix)
    try:
        yield Path(made)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _place() -> Path | None:
    """The folder in memory; None: the usual one for what is temporary."""
    if "TMPDIR" in os.environ or not MEMORY_FOLDER.is_dir():
        return None
    free = os.statvfs(MEMORY_FOLDER)
    return MEMORY_FOLDER if free.f_bavail * free.f_frsize >= ENOUGH_BYTES else None
