"""The journal's file is lines of JSON, whatever becomes of the disk or of who wrote it before."""

from __future__ import annotations

import json
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conformance.clock import run_virtual
from conformance.serve_journal import journal_to


@contextmanager
def room_for(size_bytes: int) -> Iterator[None]:
    """No file may grow beyond this: the kernel writes what fits, then says no."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)


def note(path: Path, *names: str) -> None:
    """Each name is a line of a turn of its own."""

    async def main() -> None:
        with journal_to(path) as journal:
            for name in names:
                journal.judge(name, {"text": "x" * 40})
                journal.flush()

    run_virtual(main)


def names_in(path: Path) -> list[str]:
    return [json.loads(line)["name"] for line in path.read_bytes().splitlines()]


def test_a_disk_that_fills_up_leaves_whole_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "journal.ndjson"
    with room_for(250):
        note(path, "one", "two", "three", "four")

    assert names_in(path) == ["one", "two"]
    assert "--journal: cannot be written any more: File too large" in capsys.readouterr().err
    note(path, "five")
    assert names_in(path) == ["one", "two", "five"]


def test_a_line_that_was_torn_before_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "journal.ndjson"
    path.write_bytes(b'{"name":"one"}\n{"na')
    note(path, "two")

    lines = path.read_bytes().splitlines()
    assert lines[1] == b'{"na'
    assert json.loads(lines[2])["name"] == "two"
