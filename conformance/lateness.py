"""How late the loop of a run on the real clock was: a machine with too little of itself is not the client's failure."""

from __future__ import annotations

import asyncio

TICK_S = 0.05
LATE_S = 0.1
"""Nobody is blamed for a figure of a loop that was later than this."""
NOT_OF_TIME = frozenset(
    {
        "client-crashed",
        "exception-never-retrieved",
        "judge-request-text",
        "judge-violation",
        "padded-unit",
        "path-escape",
        "sample-conservation",
        "secret-in-artifact",
        "torn-artifact",
        "wire-violation",
    }
)
"""Findings that no lateness of a loop explains."""


class Lateness:
    """Looks at a loop again and again.

    Attributes:
        worst_s: by how much a timer came late, at most.
    """

    def __init__(self) -> None:
        self.worst_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look from now on."""
        due_s = loop.time() + TICK_S
        self._timer = loop.call_at(due_s, self._look, loop, due_s)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self, loop: asyncio.AbstractEventLoop, due_s: float) -> None:
        self.worst_s = max(self.worst_s, loop.time() - due_s)
        self.begin(loop)


def excuse(worst_s: float, findings: list[str]) -> str:
    """Why findings of these names are nobody's failure, in words; empty: they are the client's."""
    if worst_s < LATE_S or not findings or NOT_OF_TIME & set(findings):
        return ""
    told = ", ".join(dict.fromkeys(findings))
    return (
        f"our own loop was late, by {worst_s:.2f} s at worst, which is enough to explain {told}: "
        "run it again with fewer sessions at a time (--max-sessions) or on a machine that does less"
    )
