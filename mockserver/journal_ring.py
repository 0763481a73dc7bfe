"""The last entries of the journal, within bounds, for whoever asks over HTTP."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import orjson

MAX_ENTRIES = 20_000
MAX_BYTES = 16 * 1024 * 1024
MAX_LINE_BYTES = 64 * 1024
"""The data of a longer line is left out of the ring; a file has it."""


def line_of(head: Mapping[str, Any], data: Mapping[str, Any]) -> bytes:
    """One line of JSON, whatever a client sent: what JSON cannot hold, such as bottomless nesting, is named instead."""
    try:
        return orjson.dumps({**head, "data": dict(data)}, default=str)
    except TypeError as error:
        return orjson.dumps({**head, "data": {"unwritable": str(error)}})


class JournalRing:
    """Lines by number, from 1; the oldest go when there are too many."""

    def __init__(self, max_entries: int = MAX_ENTRIES, max_bytes: int = MAX_BYTES) -> None:
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self.last = 0
        """Number of the newest line; 0: there was none."""

    @property
    def oldest(self) -> int:
        """Number of the oldest line that is still here; the next to come where there is none."""
        return self.last - len(self._lines) + 1

    def add(self, head: Mapping[str, Any], line: bytes) -> None:
        """One more line.

        Args:
            head: what the line holds beside `data`.
            line: all of it, as JSON.
        """
        if len(line) > MAX_LINE_BYTES:
            line = line_of(head, {"left_out": f"{len(line)} bytes"})
        self.last += 1
        # A copy: orjson shrinks a large buffer to the line, and 20,000 of these would pin 60 MB of heap around them.
        self._lines.append(bytes(memoryview(line)))
        self._bytes += len(line)
        while len(self._lines) > self._max_entries or self._bytes > self._max_bytes:
            self._bytes -= len(self._lines.popleft())

    def since(self, number: int, limit: int) -> bytes:
        """A JSON object: `entries` (those after a number, each with its `number`), `next` (what to ask for then),
        `missed` (how many of those asked for are gone), `last`."""
        first = max(number + 1, self.oldest)
        chosen = [
            self._lines[place - self.oldest] for place in range(first, min(first + limit, self.last + 1))
        ]
        numbered = [b'{"number":%d,%s' % (first + place, line[1:]) for place, line in enumerate(chosen)]
        missed = max(0, min(first, self.last + 1) - number - 1)
        told = {"next": max(number, first + len(chosen) - 1), "missed": missed, "last": self.last}
        return b'{"entries":[%s],%s' % (b",".join(numbered), orjson.dumps(told)[1:])

    def clear(self) -> None:
        """Forget every line; numbers go on."""
        self._lines.clear()
        self._bytes = 0
