"""Folders for what a scenario writes and nobody keeps, in memory where the system has such a place.

Each is held by a lock that ends with the processes that hold it, however they end. What a killed process has left is
thereby told from what is in use, in other containers too, and removed by the next one that needs a folder here.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

MEMORY_FOLDER = Path("/dev/shm")
"""Files and folders are made and removed thousands of times in a run; a disk would be most of the time."""
ENOUGH_BYTES = 256 * 1024 * 1024
"""Free memory that makes it a place: a container often has no more than 64 MiB there."""
SUFFIX = ".scratch"
_OURS = re.compile(r"conformance-([a-z]+-)*[a-z0-9_]{8}\.scratch")
_given: Path | None = None
"""Where a worker makes its folders: below one that its parent removes."""


@contextmanager
def scratch_folder(prefix: str = "conformance-fuzz-") -> Iterator[Path]:
    """An empty folder, removed at the end; below `TMPDIR` where that is set.

    Raises OSError: no folder can be made anywhere.
    """
    try:
        made, lock = _held(prefix, _given or _place())
    except OSError:
        made, lock = _held(prefix, None)
    try:
        remove_leftovers(made.parent)
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def make_below(folder: Path) -> None:
    """From here on this process makes its folders below another, which somebody else removes."""
    global _given
    _given = folder


@cache
def remove_leftovers(place: Path) -> None:
    """Once a process: remove the folders of processes that are gone; never one that is held, or another user's."""
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        left = [entry.path for entry in entries if _OURS.fullmatch(entry.name)]
        for path in left:
            _remove_unheld(Path(path))


def _remove_unheld(folder: Path) -> None:
    try:
        about = folder.lstat()
        if about.st_uid != os.geteuid() or not stat.S_ISDIR(about.st_mode):
            return
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:  # removed by its owner meanwhile, or not to be opened by us
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # somebody holds it; or locks mean nothing there, and so nothing is known
        return
    else:
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)


def _held(prefix: str, place: Path | None) -> tuple[Path, int | None]:
    """A new folder and the lock that says it is in use; None where the file system has no locks."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, suffix=SUFFIX, dir=place))
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:  # before its lock it looks like a leftover
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError:
            os.close(lock)
            return folder, None
        if folder.is_dir():
            return folder, lock
        os.close(lock)


def _place() -> Path | None:
    """The folder in memory; None: the usual one for what is temporary."""
    if "TMPDIR" in os.environ or not MEMORY_FOLDER.is_dir():
        return None
    free = os.statvfs(MEMORY_FOLDER)
    return MEMORY_FOLDER if free.f_bavail * free.f_frsize >= ENOUGH_BYTES else None
