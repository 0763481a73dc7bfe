"""A report's file, whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def publish(path: Path, content: bytes) -> None:
    """Write bytes through a temporary file beside the target and an atomic rename.

    A run that is killed leaves the old file or the new one; a CI system never reads half of one. A target
    that is no regular file (`/dev/stdout`, a pipe) is written to directly, since a rename would replace it.

    Raises OSError: the folder cannot be made or written; no half-written file is left.
    """
    if path.exists() and not path.is_file():
        path.write_bytes(content)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:64]}.", suffix=".part")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        temporary.chmod(0o644)  # mkstemp makes it private; a CI system's collector may be another user
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
