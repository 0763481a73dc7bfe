"""What the long measurements share: busy loops beside them, and a state file that lets them be interrupted."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Processes that take the cores away for as long as the block lasts."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


class State:
    """Figures on disk, written at most once a few seconds; a run that is interrupted goes on from them."""

    def __init__(self, path: Path | None, fresh: dict[str, Any]) -> None:
        """Args: path: of the file; None: nothing is kept. fresh: the figures of a run that begins."""
        self.path = path
        self.figures = fresh
        if path is not None and path.exists():
            self.figures = {**fresh, **json.loads(path.read_text("utf-8"))}
        self._written_s = 0.0

    def save(self, *, now: bool = False) -> None:
        """Write the figures, whole or not at all."""
        if self.path is None or (not now and time.monotonic() - self._written_s < 5.0):
            return
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(self.figures), encoding="utf-8")
        part.replace(self.path)
        self._written_s = time.monotonic()


class Ticker:
    """Prints a line now and then."""

    def __init__(self, every_s: float = 10.0) -> None:
        self.every_s = every_s
        self.begun_s = time.monotonic()
        self._last_s = self.begun_s

    def tell(self, line: str, *, now: bool = False) -> None:
        """Print the line if the last one is long enough ago."""
        at_s = time.monotonic()
        if now or at_s - self._last_s >= self.every_s:
            self._last_s = at_s
            print(f"{at_s - self.begun_s:8.0f} s  {line}", flush=True)
