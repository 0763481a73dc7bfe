"""How many sessions a server takes, and how long one outlives its socket (protocol.md 10.2, 12.1).

No session is resumed here, so all that is left of one whose socket was lost is its slot and its id: they are kept for
the grace.
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
    _held: dict[object, str] = field(default_factory=dict)
    _lost: deque[tuple[float, str]] = field(default_factory=deque)

    @property
    def several(self) -> bool:
        """More than one session at a time."""
        return self.limit is None or self.limit > 1

    def take(self, session: object, session_id: str, now_s: float) -> bool:
        """A session opens; false when every slot is in use."""
        if self.limit is not None and self.in_use(now_s) >= self.limit:
            return False
        self._held[session] = session_id
        return True

    def has(self, session_id: str, now_s: float) -> bool:
        """Whether a session of this id is there."""
        self._look(now_s)
        return session_id in self._held.values() or any(lost_id == session_id for _, lost_id in self._lost)

    def free(self, session: object) -> None:
        """A session ended: closed, expired, or failed. Nothing happens when it holds no slot."""
        self._held.pop(session, None)

    def lost(self, session: object, now_s: float) -> None:
        """The socket of a session was lost. Nothing happens when it holds no slot."""
        if session in self._held:
            self._lost.append((now_s, self._held.pop(session)))
            self._look(now_s)

    def in_use(self, now_s: float) -> int:
        """Slots of sessions that live, or whose grace is not over."""
        self._look(now_s)
        return len(self._held) + len(self._lost)

    def _look(self, now_s: float) -> None:
        """Forget those whose grace is over; they stand in the order of their loss."""
        while self._lost and now_s >= self._lost[0][0] + self.grace_s:
            self._lost.popleft()
