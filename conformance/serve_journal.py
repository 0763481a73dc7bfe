"""Where the journal of `conformance serve` goes: a file as NDJSON, and the last lines for the control API."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import io
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from conformance.options import ConfigurationError
from mockserver.journal import Entry
from mockserver.journal_ring import MAX_LINE_BYTES, JournalRing, line_of


class ServeJournal:
    """Writes the lines of one turn of the loop together, so a file is whole whenever somebody else has the processor.

    Args:
        file: opened for appending, unbuffered; None: no file.
    """

    def __init__(self, file: io.FileIO | None) -> None:
        self.ring = JournalRing()
        self._file = file
        self._unwritten: list[bytes] = []

    def entry(self, entry: Entry) -> None:
        """A line of the server's."""
        try:
            line = orjson.dumps(entry, default=str)
        except TypeError:  # what JSON cannot hold
            line = line_of(_head(entry), entry.data)
        if len(line) > MAX_LINE_BYTES:
            self.ring.add(_head(entry), line)
        else:
            self.ring.add({}, line)
        self._write(line)

    def judge(self, event: str, data: Mapping[str, Any]) -> None:
        """A line of the judge's."""
        head = {"t_s": asyncio.get_running_loop().time(), "kind": "judge", "name": event}
        line = line_of(head, data)
        self.ring.add(head, line)
        self._write(line)

    def _write(self, line: bytes) -> None:
        if self._file is None:
            return
        if not self._unwritten:
            asyncio.get_running_loop().call_soon(self.flush)
        self._unwritten.append(line)

    def flush(self) -> None:
        """Write what there is; for the end, when the loop has no further turn."""
        if self._file is None or not self._unwritten:
            return
        lines = b"\n".join(self._unwritten) + b"\n"
        self._unwritten.clear()
        try:
            write_whole_lines(self._file, lines)
        except OSError as error:  # a full disk must not end anybody's session
            self._file = None
            reason = error.strerror or error
            print(
                f"conformance: --journal: cannot be written any more: {reason}", file=sys.stderr, flush=True
            )


def _head(entry: Entry) -> dict[str, Any]:
    return {
        "t_s": entry.t_s,
        "connection": entry.connection,
        "seq": entry.seq,
        "kind": entry.kind,
        "name": entry.name,
    }


def write_whole_lines(file: io.FileIO, lines: bytes) -> None:
    """Write all of it, or whole lines: a disk takes what it still has room for before it says that it is full.

    Raises OSError: not all of it could be written.
    """
    done = 0
    try:
        while done < len(lines):
            written = file.write(lines[done:])
            if written is None:
                raise BlockingIOError(errno.EAGAIN, "whoever reads it is too slow")
            done += written
    except OSError:
        torn = done - (lines.rfind(b"\n", 0, done) + 1)
        with contextlib.suppress(OSError):  # no file that could be cut, such as a pipe
            if torn and file.tell() == os.fstat(file.fileno()).st_size:  # nobody else has appended to it
                os.ftruncate(file.fileno(), file.tell() - torn)
        raise


def _ends_inside_a_line(path: Path) -> bool:
    """Whether somebody was stopped in the middle of a line."""
    if not path.is_file() or not path.stat().st_size:
        return False
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


@contextmanager
def journal_to(path: Path | None) -> Iterator[ServeJournal]:
    """A journal that is appended to a file while this lasts; None: it goes nowhere.

    Raises ConfigurationError: the file cannot be written.
    """
    if path is None:
        yield ServeJournal(None)
        return
    try:
        file = path.open("ab", buffering=0)
        if _ends_inside_a_line(path):
            file.write(b"\n")
    except OSError as error:
        raise ConfigurationError(f"--journal {path}: cannot be written: {error.strerror or error}") from None
    with file:
        yield ServeJournal(file)
