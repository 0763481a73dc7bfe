"""Case number N of a seed, always the same: whatever ran before it, however the work is spread.

Hypothesis draws from a buffer of bytes (`fuzz_one_input`, its interface for fuzzers of others), and the buffer follows
from seed and number alone: no state is shared between cases, processes and machines, and Hypothesis' database is not
used.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conformance.fuzz.hostile import hostile_client
from conformance.fuzz.strategies import scenario_data

BUFFER_BYTES = 4096
"""Enough for nearly every scenario; one that wants more is drawn again from more."""
MOST_BYTES = 1 << 20
ATTEMPTS = 20
"""Buffers that are tried; a draw takes fewer of them than one in a thousand beyond the first."""


@dataclass(frozen=True)
class Kinds:
    """What a campaign draws."""

    media: bool = True
    judge: bool = True
    seams: bool = True
    server: bool = False
    """Hostile clients against the mock server instead of scenarios against a client."""


def _strategy(kinds: Kinds) -> st.SearchStrategy[dict[str, Any]]:
    if kinds.server:
        return hostile_client()
    return scenario_data(media=kinds.media, judge=kinds.judge, seams=kinds.seams)


class Drawer:
    """Draws scenario data by seed and number."""

    def __init__(self, kinds: Kinds) -> None:
        self._drawn: dict[str, Any] | None = None

        @settings(database=None, deadline=None, suppress_health_check=list(HealthCheck))
        @given(_strategy(kinds))
        def take(data: dict[str, Any]) -> None:
            self._drawn = data

        given_test: Any = take
        self._draw: Callable[[bytes], bytes | None] = given_test.hypothesis.fuzz_one_input

    def draw(self, seed: int, number: int) -> dict[str, Any]:
        """Data of the case; equal for equal arguments."""
        size = BUFFER_BYTES
        for attempt in range(ATTEMPTS):
            self._drawn = None
            source = random.Random(f"conformance fuzz {seed} {number} {attempt}")
            self._draw(source.randbytes(size))
            if self._drawn is not None:
                return self._drawn
            size = min(2 * size, MOST_BYTES)
        raise RuntimeError(f"seed {seed}, case {number}: nothing drawn from {ATTEMPTS} buffers")
