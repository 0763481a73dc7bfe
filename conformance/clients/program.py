"""A program of others as a process: started, its output kept within bounds, ended with all it started."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from typing import IO

KEPT_BYTES = 64 * 1024
"""Of the beginning and of the end of each output, that much is kept."""
TERM_S = 2.0
"""Between asking a program's group to end and ending it."""
USUAL = (
    "CONDA_PREFIX",
    "HF_HOME",
    "HOME",
    "LANG",
    "LD_LIBRARY_PATH",
    "LOGNAME",
    "PATH",
    "PYTHONHOME",
    "PYTHONPATH",
    "TMPDIR",
    "TZ",
    "USER",
    "VIRTUAL_ENV",
)
"""Variables that a program needs to start at all; no credentials are among them."""


def program_environment(ours: Mapping[str, str], more: tuple[str, ...]) -> dict[str, str]:
    """What a program gets of our environment: the usual ones, the locale, and those asked for by name."""
    return {
        name: text for name, text in ours.items() if name in USUAL or name.startswith("LC_") or name in more
    }


class KeptOutput:
    """The beginning and the end of what a program prints."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def add(self, data: bytes) -> None:
        """Take what was read."""
        room = KEPT_BYTES - len(self._head)
        self._head += data[:room]
        self._tail += data[room:] if room > 0 else data
        if len(self._tail) > 2 * KEPT_BYTES:
            self._cut()

    def _cut(self) -> None:
        over = len(self._tail) - KEPT_BYTES
        self._dropped += over
        del self._tail[:over]

    def text(self) -> str:
        """All that is kept, with a line that says how much is not."""
        if len(self._tail) > KEPT_BYTES:
            self._cut()
        gap = f"\n[{self._dropped} bytes left out]\n".encode() if self._dropped else b""
        return (bytes(self._head) + gap + bytes(self._tail)).decode("utf-8", "replace")

    def last_lines(self, count: int) -> list[str]:
        """The last lines that are not empty."""
        return [line for line in self.text().splitlines() if line.strip()][-count:]


class Program:
    """A running process with its output. Its group is its own, and ends with it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.stdout, self.stderr = KeptOutput(), KeptOutput()
        self._loop = asyncio.get_running_loop()
        self._open: list[IO[bytes]] = []
        for pipe, kept in ((process.stdout, self.stdout), (process.stderr, self.stderr)):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            self._open.append(pipe)
            self._loop.add_reader(pipe.fileno(), self._read, pipe, kept)

    def _read(self, pipe: IO[bytes], kept: KeptOutput) -> None:
        try:
            data = os.read(pipe.fileno(), KEPT_BYTES)
        except BlockingIOError:
            return
        if data:
            kept.add(data)
        else:
            self._close(pipe)

    def _close(self, pipe: IO[bytes]) -> None:
        if pipe in self._open:
            self._open.remove(pipe)
            self._loop.remove_reader(pipe.fileno())
            pipe.close()

    async def ended(self) -> None:
        """Wait until the process has ended; it is not reaped yet, so its group cannot be another's."""
        await self._loop.run_in_executor(None, _wait_unreaped, self.process.pid)

    async def end(self) -> int:
        """End it and all of its group, read what is left to read, and reap it.

        Returns: its exit status; of a program that ended by itself its own, else minus the signal.
        """
        exited = asyncio.ensure_future(self.ended())
        try:
            done, _ = await asyncio.wait({exited}, timeout=0.05)
            if not done:
                self._signal(signal.SIGTERM)
                done, _ = await asyncio.wait({exited}, timeout=TERM_S)
        finally:  # cancelled once more, too, where a loop ends in a hurry
            self._signal(signal.SIGKILL)  # whatever it has left in its group, too
        if not done:
            await exited
        for pipe in list(self._open):
            kept = self.stdout if pipe is self.process.stdout else self.stderr
            with contextlib.suppress(BlockingIOError):  # someone who left the group holds the other end
                while pipe in self._open and (data := os.read(pipe.fileno(), KEPT_BYTES)):
                    kept.add(data)
            self._close(pipe)
        return self.process.wait()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


def _wait_unreaped(pid: int) -> None:
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
