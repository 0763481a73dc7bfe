"""Where a scenario writes what nobody keeps."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from conformance import scratch
from conformance.scratch import scratch_folder


def _in(folder: Path) -> bool:
    with scratch_folder("conformance-test-") as made:
        (made / "sub").mkdir()
        (made / "sub" / "file").write_text("x")
    assert not made.exists()
    return made.parent == folder


def test_a_folder_in_memory_is_taken_where_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(scratch, "MEMORY_FOLDER", tmp_path)
    monkeypatch.setattr(scratch, "ENOUGH_BYTES", 1)
    assert _in(tmp_path)

    free = os.statvfs(tmp_path)
    monkeypatch.setattr(scratch, "ENOUGH_BYTES", 2 * free.f_bavail * free.f_frsize + 1)
    assert _in(Path(tempfile.gettempdir()))


def test_who_says_where_is_heard_and_no_such_folder_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "MEMORY_FOLDER", tmp_path)
    monkeypatch.setattr(scratch, "ENOUGH_BYTES", 1)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert _in(Path(tempfile.gettempdir()))

    monkeypatch.delenv("TMPDIR")
    monkeypatch.setattr(scratch, "MEMORY_FOLDER", tmp_path / "missing")
    assert _in(Path(tempfile.gettempdir()))


def test_what_a_process_left_is_removed_and_nothing_that_is_held_or_not_ours(tmp_path: Path) -> None:
    left = tmp_path / "conformance-fuzz-abcd1234.scratch"
    others = [
        tmp_path / name
        for name in ("conformance-fuzz-abcd1234", "duplex-conformance-abcd1234.scratch", "my.scratch")
    ]
    for folder in (left, *others):
        (folder / "sub").mkdir(parents=True)
    link = tmp_path / "conformance-abcd1234.scratch"
    link.symlink_to(others[0], target_is_directory=True)
    made, lock = scratch._held("conformance-fuzz-", tmp_path)
    assert lock is not None

    scratch.remove_leftovers.cache_clear()
    scratch.remove_leftovers(tmp_path)

    assert not left.exists()
    assert [f for f in (made, link, *others) if not f.exists()] == []
    os.close(lock)
    scratch.remove_leftovers.cache_clear()
    scratch.remove_leftovers(tmp_path)
    assert not made.exists()


def test_the_folder_of_another_user_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = tmp_path / "conformance-fuzz-abcd1234.scratch"
    left.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: left.stat().st_uid + 1)

    scratch.remove_leftovers.cache_clear()
    scratch.remove_leftovers(tmp_path)

    assert left.exists()
