"""How many sessions a server takes, and how long one outlives its socket (protocol.md 10.2, 12.1).

No session is resumed here, so all that is left of one whose socket was lost is its slot: it is kept for the grace.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field


@dataclass
class Slots:
    """The slots of one server.

    Args:
        limit: sessions at a time; None: as many as come.
        grace_s: for how long a lost session keeps its slot.
    """

    limit: int | None = None
    grace_s: float = 30.0
    _held: set[object] = field(default_factory=set)
    _lost_s: deque[float] = field(default_factory=deque)

    @property
    def several(self) -> bool:
        """More than one session at a time."""
        return self.limit is None or self.limit > 1

    def take(self, session: object, now_s: float) -> bool:
        """A session opens; false when every slot is in use."""
        if self.limit is not None and self.in_use(now_s) >= self.limit:
            return False
        self._held.add(session)
        return True

    def free(self, session: object) -> None:
        """A session ended: closed, expired, or failed. Nothing happens when it holds no slot."""
        self._held.discard(session)

    def lost(self, session: object, now_s: float) -> None:
        """The socket of a session was lost. Nothing happens when it holds no slot."""
        if session in self._held:
            self._held.remove(session)
            self._lost_s.append(now_s)
            self._look(now_s)

    def in_use(self, now_s: float) -> int:
        """Slots of sessions that live, or whose grace is not over."""
        self._look(now_s)
        return len(self._held) + len(self._lost_s)

    def _look(self, now_s: float) -> None:
        """Forget those whose grace is over; they stand in the order of their loss."""
        while self._lost_s and now_s >= self._lost_s[0] + self.grace_s:
            self._lost_s.popleft()
