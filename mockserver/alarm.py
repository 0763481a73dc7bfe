"""The one timer of a connection, armed for what comes first."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable


def _nobody() -> None:
    """Whom a cancelled alarm calls."""


class Alarm:
    """Calls `ring` at a time, or earlier: whoever is called looks at what is due and arms it anew.

    An alarm that was armed before, for a later time, stays armed behind the one for now: most are for a decision that
    comes at once, and in front of the end of the session, which is far away.

    Attributes:
        at_s: when it rings next; not a number, so that nothing is before it: never.
    """

    def __init__(self, ring: Callable[[], None]) -> None:
        self.at_s = math.nan
        self._ring = ring
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._later: asyncio.TimerHandle | None = None
        self._later_s = math.nan

    def arm(self, at_s: float) -> None:
        """Ring at this time at the latest."""
        if self.at_s <= at_s:
            return
        if self._timer is not None:
            if self._later is None:
                self._later, self._later_s = self._timer, self.at_s
            else:
                self._timer.cancel()
        self._timer, self.at_s = self._loop.call_at(at_s, self._rings), at_s

    def cancel(self) -> None:
        """Never ring again."""
        for timer in (self._timer, self._later):
            if timer is not None:
                timer.cancel()
        self._timer = self._later = None
        self.at_s = self._later_s = math.nan
        self._ring = _nobody  # or the two of them would wait for the garbage collector

    def _rings(self) -> None:
        self._timer, self.at_s = self._later, self._later_s
        self._later, self._later_s = None, math.nan
        self._ring()
