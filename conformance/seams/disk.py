"""What the disk's seams share: writes of the client below its response root, met at Python's own files."""

from __future__ import annotations

import builtins
import errno
import fnmatch
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conformance.clock import SIDE
from conformance.outcome import FaultReport
from conformance.seams.base import Proof, SeamContext
from scenarios.faults_seam import DiskFault

Meet = Callable[[str, int], int]
"""(path below the root, bytes to write) -> how many of them the disk takes. It may let time pass."""
PART = ".part"
"""The end of the name that a file has while it is written beside its place."""


class WatchedFile:
    """A file of the client whose writes are met; everything else is the file's own."""

    def __init__(self, file: Any, relative: str, meet: Meet) -> None:
        self._file = file
        self._relative = relative
        self._meet = meet

    def __enter__(self) -> WatchedFile:
        return self

    def __exit__(self, *exc: object) -> None:
        self._file.close()

    def __iter__(self) -> Any:
        return iter(self._file)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, data: Any) -> int:
        """As the file's own, for as much as the disk takes.

        As a file system has it: a raw write that is cut tells how much went out, any other raises; the error of a
        write names no path.
        """
        size = len(data)
        fits = self._meet(self._relative, size)
        if fits >= size:
            return int(self._file.write(data))
        if fits:
            self._file.write(data[:fits])
            self._file.flush()
            if isinstance(self._file, io.RawIOBase):
                return fits
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class FileWatch:
    """Stands in the place of Python's own `open` and wraps what the client writes below its response root."""

    def __init__(self, root: Path | None, wrap: Callable[[Any, str, Path], Any]) -> None:
        """`wrap` gets an opened file, the path below the root of what it will be, and the path it is written to."""
        self._root = root
        self._wrap = wrap
        self._original: Any = None

    def install(self) -> None:
        """Put the watched files in the place of Python's own."""
        self._original = io.open
        io.open = builtins.open = self._open

    def remove(self) -> None:
        """Restore Python's files."""
        if self._original is not None:
            io.open = builtins.open = self._original
            self._original = None

    def below_root(self, file: Any) -> str | None:
        """The path below the response root of what this file will be; None: it stands elsewhere."""
        if self._root is None or not isinstance(file, str | os.PathLike):
            return None
        try:
            path = Path(os.fspath(file)).resolve().relative_to(self._root.resolve())
        except ValueError:
            return None
        return path.as_posix().removesuffix(PART)

    def _open(self, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        opened = self._original(file, mode, *args, **kwargs)
        relative = self.below_root(file) if set(mode) & set("wax+") and SIDE.get() == "client" else None
        return opened if relative is None else self._wrap(opened, relative, Path(file))


class DiskSeam:
    """Stands before the writes of one disk fault. `bite` says what the fault does with a write."""

    def __init__(self, fault: DiskFault, index: int, context: SeamContext, bite: Meet) -> None:
        self.fault = fault
        self.proof = Proof(fault, index, context)
        self._watch = FileWatch(
            context.root, lambda opened, relative, _: WatchedFile(opened, relative, self._meet)
        )
        self._bite = bite
        self._left = fault.count
        self._released = False

    def install(self) -> None:
        """Put the watched files in the place of Python's own."""
        self._watch.install()

    def release(self) -> None:
        """Leave writes alone from here on."""
        self._released = True

    def remove(self) -> None:
        """Restore Python's files."""
        self._watch.remove()

    def report(self) -> FaultReport:
        """State and evidence."""
        return self.proof.report()

    def _meet(self, relative: str, size_bytes: int) -> int:
        pattern = self.fault.file
        if self._released or self._left == 0 or not (pattern is None or fnmatch.fnmatch(relative, pattern)):
            return size_bytes
        return self._bite(relative, size_bytes)

    def counted(self) -> None:
        """One write has been bitten."""
        if self._left is not None:
            self._left -= 1
