"""The folder a run writes into: held by one run, resumed, never mixed (evaluation.md 12)."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import orjson

from client.settings import SessionSettings

log = logging.getLogger(__name__)

LOCK = ".run.lock"


class RunError(ValueError):
    """A run cannot start: settings, names or the response root. Nothing has been written but the lock."""


class Named(Protocol):
    """Anything with the name of a sample."""

    @property
    def split(self) -> str: ...
    @property
    def id(self) -> str: ...


def finished_metadata(root: Path, split: str, sample_id: str) -> Mapping[str, Any] | None:
    """Metadata of a sample whose answer is there and whole; None: it has to be run."""
    try:
        sentences = orjson.loads((root / split / f"{sample_id}.json").read_bytes())
        metadata = orjson.loads((root / split / f"{sample_id}.meta.json").read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, orjson.JSONDecodeError) as error:
        log.warning("%s/%s: an answer that cannot be read, so it is run again: %s", split, sample_id, error)
        return None
    return metadata if isinstance(sentences, list) and isinstance(metadata, dict) else None


def refuse_score(path: Path) -> None:
    """Keep a score that stands where an answer would be written: this is a score root. Raises OSError: saying so."""
    try:
        found = orjson.loads(path.read_bytes())
    except (FileNotFoundError, orjson.JSONDecodeError):
        return
    if isinstance(found, dict) and "family" in found:
        raise OSError(errno.EEXIST, "found a score where the answer would be written", str(path))


def comparable(session: SessionSettings) -> dict[str, Any]:
    """Metadata that must agree for an earlier run's answers to stand beside ours."""
    return {
        "model": session.model,
        "ref_audio_sha256": session.ref_audio.sha256,
        "pace": session.pace,
        "mix": session.mix,
        "fps": session.fps,
        "unit_ms": session.unit_ms,
    }


def check_same_settings(
    root: Path, sample: Named, metadata: Mapping[str, Any], session: SessionSettings
) -> None:
    """Refuse to resume beside answers of another model, voice or pace: the folder would mix two things.

    Raises RunError: naming what differs.
    """
    ours = comparable(session)
    other = [name for name in ours if name in metadata and metadata[name] != ours[name]]
    if other:
        seen = ", ".join(f"{name} {metadata[name]!r} (now {ours[name]!r})" for name in other)
        raise RunError(
            f"{root}: {sample.split}/{sample.id} was finished with {seen}; "
            "allowed: the same settings, another response root, or overwriting"
        )


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """Hold a response root or score root for one run. The lock goes with the process, however that ends.

    Raises RunError: another run holds it, or the folder cannot be used.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        handle = os.open(root / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise RunError(f"{root}: cannot be used as output folder ({error.strerror or error})") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RunError(
                f"{root}: another run is writing here; allowed: one run at a time, or another folder"
            ) from error
        except OSError as error:
            raise RunError(f"{root}: cannot be locked ({error.strerror or error})") from error
        yield
    finally:
        os.close(handle)


def new_run_folder(root: Path) -> Path:
    """Make `run-<number>` below a response root: one an invocation, never reused, so stale answers are never judged.

    Raises RunError: the root cannot be used.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        numbers = [int(path.name[4:]) for path in run_folders(root)]
        folder = root / f"run-{max(numbers, default=0) + 1:04d}"
        folder.mkdir()
    except OSError as error:
        raise RunError(f"{root}: cannot be used as response root ({error.strerror or error})") from error
    return folder


def run_folders(root: Path) -> list[Path]:
    """The run folders below a response root, oldest first. Raises OSError."""
    found = [path for path in root.glob("run-*") if path.name[4:].isdecimal() and path.is_dir()]
    return sorted(found, key=lambda path: int(path.name[4:]))


def resumed_folder(root: Path, name: str) -> Path:
    """The run folder to go on with: by its name, or the latest for `last`.

    Raises RunError: there is none of that name.
    """
    folders = run_folders(root) if root.is_dir() else []
    if name == "last" and folders:
        return folders[-1]
    for folder in folders:
        if folder.name == Path(name).name:
            return folder
    seen = ", ".join(folder.name for folder in folders) or "none"
    raise RunError(f"{root}: no run {name!r} to resume; found: {seen}; allowed: last, or one of these")
