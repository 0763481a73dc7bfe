"""Case number N of a seed, always the same: whatever ran before it, however the work is spread.

The rolls follow from seed and number alone: no state is shared between cases, processes and machines, and a seed that
somebody wrote down means the same cases after an update of Hypothesis.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from conformance.fuzz.dice import Dice
from conformance.fuzz.hostile import hostile_client
from conformance.fuzz.strategies import roll_scenario


@dataclass(frozen=True)
class Kinds:
    """What a campaign draws."""

    media: bool = True
    judge: bool = True
    seams: bool = True
    server: bool = False
    """Hostile clients against the mock server instead of scenarios against a client."""

    @property
    def flags(self) -> str:
        """What `conformance fuzz` must be told to draw these, each flag behind a blank; empty: nothing."""
        told = ((self.server, "--server"), (not self.media, "--no-media"), (not self.judge, "--no-judge"))
        return "".join(f" {flag}" for said, flag in told if said)


def draw(kinds: Kinds, seed: int, number: int) -> dict[str, Any]:
    """Data of a case; equal for equal arguments."""
    dice = Dice.seeded(f"conformance fuzz {seed} {number}")
    if kinds.server:
        return hostile_client(dice)
    return roll_scenario(dice, media=kinds.media, judge=kinds.judge, seams=kinds.seams)
