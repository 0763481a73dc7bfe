"""What the strategies roll: a thin layer over Hypothesis' `draw`, so that a drawn scenario reads as a story.

Every choice shrinks towards its first alternative, towards the smaller number and towards "no".
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Protocol, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")
Weighted = Sequence[tuple[int, T]]


@lru_cache(maxsize=1024)
def _whole(least: int, most: int) -> st.SearchStrategy[int]:
    """Kept, and not made anew for every roll: a case rolls hundreds of times."""
    return st.integers(least, most)


class Draw(Protocol):
    """Hypothesis' own `draw`, as a composite strategy is given it."""

    def __call__(self, strategy: st.SearchStrategy[T], label: object = None) -> T: ...


class Dice:
    """Choices with weights that a reader can add up: percentages and parts."""

    def __init__(self, draw: Any) -> None:
        self.draw: Draw = draw

    def number(self, least: int, most: int) -> int:
        """A whole number from `least` to `most`, both included."""
        return self.draw(_whole(least, most))

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
