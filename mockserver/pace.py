"""How long the scripted model takes: for a unit, for the first token of a reply, and the jitter around it.

Units are worked through one after another (protocol.md 6.2), so a model that needs more than a second for one falls
behind its input; reading goes on all the same (17, rule 8).
"""

from __future__ import annotations

import random
from dataclasses import dataclass

UNIT_S = 1.0
"""Input of one unit (`chunk_period_ms` of every dialect)."""


@dataclass(frozen=True)
class Pace:
    """The model's speed, relative to real time."""

    rtf: float | None = None
    """Real-time factor: seconds of model time for one second of input, and of the reply made from it. None: a unit
    takes a fixed time (`decision_ms`)."""
    first_token_ms: int = 0
    """What the first unit of a reply takes beyond its unit's time; the units behind it wait."""
    jitter_ms: int = 0
    """The time of each unit is so much longer or shorter at most, by the seed; never below 0."""


class UnitTimes:
    """The times of one session's units, in seconds.

    Args:
        decision_s: time a unit takes where the pace has no real-time factor.
        chance: of the jitter; nothing is drawn without one, so that a pace without jitter changes no other draw. None:
            a fixed one.
    """

    def __init__(self, pace: Pace, decision_s: float, chance: random.Random | None) -> None:
        self._unit_s = decision_s if pace.rtf is None else pace.rtf * UNIT_S
        self._jitter_s = pace.jitter_ms / 1000
        if chance is None and self._jitter_s:
            chance = random.Random(0)  # made only for who needs it: that costs as much as a unit
        self._chance = chance
        self.first_token_s = pace.first_token_ms / 1000

    def next_s(self) -> float:
        """Model time of the next unit."""
        if self._chance is None or not self._jitter_s:
            return self._unit_s
        return max(0.0, self._unit_s + self._chance.uniform(-self._jitter_s, self._jitter_s))
