"""The `kill_client` seam: the process of the client ends at one of its writes."""

from __future__ import annotations

import fnmatch
import os
from pathlib import Path
from typing import Any

from conformance.clock import SIDE
from conformance.outcome import FaultReport
from conformance.seams.base import Proof, SeamContext
from conformance.seams.disk import PART, FileWatch, WatchedFile
from scenarios.faults_seam import KillClient


class KillClientSeam:
    """The process that runs the client sends itself SIGKILL in the middle of a write below the response root.

    Wire: the sockets of the process are gone with it. On the disk: what had been written, and no more. Server and
        client play in a child process until then; afterwards a second run begins in the same folder, against a fresh
        server, and what a scenario expects is asked of that one.
    Parameters: `file` (pattern), `when` (how far the write has come), `nth` (which write).
    Survive: take nothing for finished that is not whole, run finished samples no second time, and end with an
        account of all.
    """

    def __init__(self, fault: KillClient, index: int, context: SeamContext) -> None:
        self._fault = fault
        self._context = context
        self._proof = Proof(fault, index, context)
        self._watch = FileWatch(context.root, self._watched)
        self._writes = 0
        self._renamed: str | None = None
        """The file whose write was the one, and which is killed when it comes to its place."""
        self._released = False
        self._replace: Any = None

    def install(self) -> None:
        """Stand before the files and before what renames them."""
        self._watch.install()
        self._replace = os.replace
        os.replace = self._replaced  # type: ignore[assignment]

    def release(self) -> None:
        """Leave writes alone from here on."""
        self._released = True

    def remove(self) -> None:
        """Restore Python's files."""
        os.replace = self._replace
        self._watch.remove()

    def report(self) -> FaultReport:
        """State and evidence."""
        return self._proof.report()

    def meet(self, file: Any, relative: str, path: Path, data: Any) -> int | None:
        """A write of the client. Returns None: it goes on as it would; else as much as was written by then."""
        if self._released or not fnmatch.fnmatch(relative, self._fault.file):
            return None
        self._writes += 1
        if self._writes != self._fault.nth:
            return None
        self._proof.triggered(0)
        when = self._fault.when
        if when in ("before_rename", "after"):
            beside = path.name.endswith(PART)
            if when == "after" and beside:
                self._renamed = relative
                return None
            if when == "before_rename" and not beside:
                return None  # it is written in its place: there is no such moment
            written = len(data)
        else:
            written = len(data) // 2 if when == "half_written" else 0
        file.write(data[:written])
        file.flush()
        self._die(relative, path)
        return written

    def _watched(self, opened: Any, relative: str, path: Path) -> WatchedFile:
        return _DoomedFile(opened, relative, path, self)

    def _replaced(self, source: Any, target: Any, **kwargs: Any) -> None:
        self._replace(source, target, **kwargs)
        if SIDE.get() == "client" and self._renamed is not None:
            relative = self._watch.below_root(target)
            if relative == self._renamed:
                self._die(relative, Path(target))

    def _die(self, relative: str, path: Path) -> None:
        assert self._context.die is not None, "built for a process that is to end"
        self._context.die({"file": relative, "when": self._fault.when, "bytes_there": path.stat().st_size})


class _DoomedFile(WatchedFile):
    """A file of the client in whose write the process may end."""

    def __init__(self, file: Any, relative: str, path: Path, seam: KillClientSeam) -> None:
        super().__init__(file, relative, lambda _, size_bytes: size_bytes)
        self._path = path
        self._seam = seam

    def write(self, data: Any) -> int:
        """As the file's own, unless the process ends."""
        written = self._seam.meet(self._file, self._relative, self._path, data)
        return super().write(data) if written is None else written
