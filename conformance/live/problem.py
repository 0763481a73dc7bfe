"""What can be wrong with a server before anything is spent: the layer that failed, what was found, what to try."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """One thing that preflight looked at."""

    layer: str
    found: str
    seconds: float = 0.0
    warns: bool = False
    """It works, and somebody should know."""


class Problem(Exception):
    """A layer failed; those behind it were not tried.

    Attributes:
        layer: such as `tls`.
        found: what was found, in a sentence.
        hint: what to try.
        usage: the command line is at fault, not the server: exit 2 instead of 4.
        refused: a session was asked for, and there was none.
    """

    def __init__(
        self, layer: str, found: str, hint: str, *, usage: bool = False, refused: bool = False
    ) -> None:
        super().__init__(f"{layer}: {found}; {hint}")
        self.layer = layer
        self.found = found
        self.hint = hint
        self.usage = usage
        self.refused = refused
