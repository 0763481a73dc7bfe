"""Watches what a client in this process does beside its work: files it touches elsewhere, clocks it reads itself.

What this sees, and what it cannot: `docs/verdicts.md`.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import client
import conformance
import mockserver
import scenarios
from conformance.clock import SIDE

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_NAMED_PATHS: Mapping[str, tuple[int, ...]] = {
    "os.mkdir": (0,),
    "os.remove": (0,),
    "os.rmdir": (0,),
    "os.truncate": (0,),
    "os.rename": (0, 1),
    "os.link": (1,),
    "os.symlink": (1,),
}
"""Audit events that change the file system, and which of their arguments are the changed paths."""
_WRITTEN_BY_US = ("client.std", "trace")
"""Names that the harness writes beside the allowed folder while a client runs."""
_NOWHERE = ("/dev/", "/proc/")
_MEMORY = "/dev/shm/"
"""Files like any other, though in memory."""
_CLOCKS = ("monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "time", "time_ns")
_LIBRARIES = tuple(sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib", "platlib"))
_CLIENT = str(Path(client.__file__ or "").parent)
_HARNESS = tuple(str(Path(module.__file__ or "").parent) for module in (conformance, mockserver, scenarios))

_told: Callable[[str, tuple[Any, ...]], None] | None = None
_hooked = False


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if _told is not None and (event == "open" or event in _NAMED_PATHS) and SIDE.get() == "client":
        _told(event, args)


class Watch:
    """What one client did in this process that its files and its wire do not show.

    Attributes:
        escaped: paths outside the allowed folder that the client wrote, made, moved or removed, in the order of the
            first time.
        clock_reads: readings of a clock that is not the loop's, by function and line.
    """

    def __init__(self, out: Path) -> None:
        """Watch a client that may write below `out`."""
        self._allowed = os.path.realpath(out)
        self._neighbours = out.parent
        self._before: dict[str, tuple[int, int]] | None = None
        self.escaped: dict[str, None] = {}
        self.clock_reads: Counter[str] = Counter()

    def begin(self) -> None:
        """Remember what stands beside the allowed folder: the client starts now."""
        self._before = self._beside()

    def end(self) -> None:
        """Look again: whatever changed beside the allowed folder was the client's doing."""
        if self._before is None:
            return
        now = self._beside()
        for path in sorted(now.keys() | self._before.keys()):
            if now.get(path) != self._before.get(path):
                self.escaped[os.path.join(os.path.realpath(self._neighbours), path)] = None

    def _beside(self) -> dict[str, tuple[int, int]]:
        """Size and time of each file beside the allowed folder, by path; a folder is (-1, 0)."""
        found: dict[str, tuple[int, int]] = {}
        for folder, folders, files in os.walk(self._neighbours):
            folders[:] = sorted(
                f for f in folders if os.path.realpath(os.path.join(folder, f)) != self._allowed
            )
            for name in folders:
                found[os.path.relpath(os.path.join(folder, name), self._neighbours)] = (-1, 0)
            for name in files:
                if folder == str(self._neighbours) and name.startswith(_WRITTEN_BY_US):
                    continue
                status = os.lstat(os.path.join(folder, name))
                path = os.path.relpath(os.path.join(folder, name), self._neighbours)
                found[path] = (status.st_size, status.st_mtime_ns)
        return found

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Hear of files and clocks while the block runs; one at a time in a process."""
        global _told, _hooked
        if not _hooked:
            sys.addaudithook(_hook)  # for good: an audit hook cannot be taken back
            _hooked = True
        clocks = {name: getattr(time, name) for name in _CLOCKS}
        _told = self._on_file
        for name, clock in clocks.items():
            setattr(time, name, self._reading(name, clock))
        try:
            yield
        finally:
            _told = None
            for name, clock in clocks.items():
                setattr(time, name, clock)
            self.end()

    def _on_file(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = args
            paths = (path,) if isinstance(flags, int) and flags & _WRITING else ()
        else:
            paths = tuple(args[position] for position in _NAMED_PATHS[event])
        for path in paths:
            if isinstance(path, str | bytes | os.PathLike):
                self._on_change(os.fsdecode(path))

    def _on_change(self, path: str) -> None:
        # The last part is kept as it is: removing a link changes the folder it stands in.
        folder, name = os.path.split(os.path.abspath(path))
        real = os.path.join(self._real(folder), name)
        inside = real == self._allowed or real.startswith(self._allowed + os.sep)
        if os.path.islink(real):
            target = os.path.realpath(real)
            inside = inside and (target == self._allowed or target.startswith(self._allowed + os.sep))
        above = self._allowed.startswith(
            real + os.sep
        )  # `mkdir(parents=True)` tries the folders above as well
        nowhere = real.startswith(_NOWHERE) and not real.startswith(_MEMORY)
        if not inside and not above and not nowhere and "__pycache__" not in real:
            self.escaped[real] = None

    def _real(self, folder: str) -> str:
        """As `os.path.realpath`, which asks about every folder above, those above the allowed one too.

        A client that put a link into their place would have been seen doing it.
        """
        if folder != self._allowed and not folder.startswith(self._allowed + os.sep):
            return os.path.realpath(folder)
        below = folder
        while not os.path.islink(below):
            if below == self._allowed:
                return folder
            below = os.path.dirname(below)
        return os.path.realpath(folder)

    def _reading(self, name: str, clock: Callable[[], Any]) -> Callable[[], Any]:
        def read() -> Any:
            if SIDE.get() == "client":
                caller = sys._getframe(1)
                if of_the_client(str(caller.f_globals.get("__file__", caller.f_code.co_filename))):
                    code = caller.f_code
                    where = f"{code.co_qualname} ({Path(code.co_filename).name}:{caller.f_lineno})"
                    self.clock_reads[f"time.{name} in {where}"] += 1
            return clock()

        return read


def of_the_client(file: str) -> bool:
    """Whether code in this file is the client's own: neither a library's, nor ours."""
    if file.startswith(_CLIENT + os.sep):
        return True
    return os.path.isabs(file) and not file.startswith((*_LIBRARIES, *_HARNESS))
