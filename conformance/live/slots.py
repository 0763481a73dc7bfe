"""A server without a free slot: it is asked again with growing pauses, and it is never the client's failure."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from conformance.outcome import ScenarioResult


class NoSlot(Exception):
    """The server had no free session slot; in its words."""


SLOT_WAIT_S = 60.0
"""How long a scenario waits for a slot where nothing else is said."""
FIRST_PAUSE_S = 2.0
LONGEST_PAUSE_S = 16.0
IN_A_ROW = 3
"""So many scenarios, one after the other, that waited in vain: the run stops."""


@dataclass
class Patience:
    """Plays a scenario until the server has a slot for it, or the wait is over.

    Attributes:
        earlier: what came of it each time it found none.
    """

    wait_s: float = SLOT_WAIT_S
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    tell: Callable[[str], None] = lambda text: None
    earlier: list[ScenarioResult] = field(default_factory=list)

    def play(self, once: Callable[[], ScenarioResult]) -> ScenarioResult:
        """The last result, with what the earlier ones cost."""
        since_s = self.clock()
        pause_s = FIRST_PAUSE_S
        while True:
            result = once()
            left_s = self.wait_s - (self.clock() - since_s)
            if not result.no_slot:
                return self.joined(result)
            if left_s <= 0:
                told = (
                    f"{result.reason} ({len(self.earlier) + 1} time(s) within {self.clock() - since_s:.0f} s)"
                )
                return self.joined(replace(result, reason=told))
            self.earlier.append(result)
            pause_s = min(pause_s, left_s)
            self.tell(f"{result.id}: {result.no_slot}; asked again in {pause_s:.0f} s")
            self.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def joined(self, result: ScenarioResult) -> ScenarioResult:
        """A result with what was spent, and left open, before it."""
        return replace(
            result,
            device=(*(use for one in self.earlier for use in one.device), *result.device),
            unconfirmed=sum(one.unconfirmed for one in self.earlier) + result.unconfirmed,
        )
