"""What the strategies roll, with Hypothesis or from a seed, so that a drawn scenario reads as a story.

Every choice shrinks towards its first alternative, towards the smaller number and towards "no".
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")
Weighted = Sequence[tuple[int, T]]


@lru_cache(maxsize=1024)
def _whole(least: int, most: int) -> st.SearchStrategy[int]:
    """Kept, and not made anew for every roll: a case rolls hundreds of times."""
    return st.integers(least, most)


class Dice:
    """Choices with weights that a reader can add up: percentages and parts."""

    def __init__(self, number: Callable[[int, int], int]) -> None:
        self.number = number
        """A whole number from the first to the second, both included."""

    @classmethod
    def drawn(cls, draw: Any) -> Dice:
        """Rolled by Hypothesis: `draw` is what a composite strategy is given."""
        return cls(lambda least, most: draw(_whole(least, most)))

    @classmethod
    def seeded(cls, seed: str) -> Dice:
        """The same rolls for the same seed, with any version of Hypothesis and of Python."""
        bits = random.Random(seed).getrandbits

        def number(least: int, most: int) -> int:
            span = most - least + 1
            assert span > 0, f"nothing to roll from {least} to {most}"
            while (rolled := bits(span.bit_length())) >= span:  # each number as often as the others
                pass
            return least + rolled

        return cls(number)

    def chance(self, percent: int) -> bool:
        """True so many times in a hundred."""
        return self.number(0, 99) >= 100 - percent

    def pick(self, choices: Sequence[T]) -> T:
        """One of them, all alike."""
        return choices[self.number(0, len(choices) - 1)]

    def weighted(self, choices: Weighted[T]) -> T:
        """One of them, by parts: `[(3, "often"), (1, "seldom")]`."""
        left = self.number(0, sum(parts for parts, _ in choices) - 1)
        for parts, choice in choices:
            if left < parts:
                return choice
            left -= parts
        raise AssertionError("the parts add up to what was drawn from")

    def text(self, alphabet: str, most: int) -> str:
        """At least one character of the alphabet, at most so many."""
        return "".join(self.pick(alphabet) for _ in range(self.number(1, most)))
