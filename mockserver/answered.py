"""What of a client a server was seen to answer: that, and nothing that a system does by itself, shows that it reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

ANSWERS: Mapping[str, str] = {
    "session.created": "session.update",
    "input_audio_buffer.committed": "input_audio_buffer.commit",
    "playback.acknowledged": "playback.ack",
    "session.closed": "session.close",
    "pong": "ping",
}
"""Of a server's event or frame, the client's one that it answers (protocol.md 1.4, 4, 5.5, 8.2, 10.1)."""
ASKS = frozenset(ANSWERS.values())
ACK = "playback.ack"
CLOSE = "session.close"
"""Nothing comes after it but its answer: a connection that is over without one has none."""
ACK_TOO_LATE = "playback_ack_too_late"
"""Code of an error that answers an ack as well (protocol.md 8.2)."""
PATIENCE_S = 1.0
"""What was sent less than this before the end may still have been on its way."""


@dataclass
class Answered:
    """Counts by the client's event; times are those of one clock, in seconds."""

    sent: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    asked_s: dict[str, float] = field(default_factory=dict)
    """When the latest of each was sent."""
    last: str = ""
    """The latest that was answered."""
    last_s: float | None = None
    """When its answer came."""
    heard_s: float | None = None
    """When the server's latest event came, an answer or not."""

    def ask(self, name: str, now_s: float) -> None:
        """Something of the client went out."""
        if name in ASKS:
            self.sent[name] += 1
            self.asked_s[name] = now_s

    def hear(self, name: str, now_s: float) -> None:
        """An event, or a pong, of the server came."""
        self.heard_s = now_s
        asked = ANSWERS.get(name)
        if asked is not None and self.answered[asked] < self.sent[asked]:
            self.answered[asked] += 1
            self.last, self.last_s = asked, now_s

    def unanswered(self, end_s: float) -> list[str]:
        """What got no answer though there was time for one, a name each; acks are counted apart.

        Args:
            end_s: when the connection was over, or now.
        """
        return [
            name
            for name in sorted(self.sent)
            if self.answered[name] < self.sent[name]
            and (name == CLOSE or end_s - self.asked_s[name] >= PATIENCE_S)
        ]

    def deaf(self, end_s: float) -> bool:
        """From some moment on the server answered nothing any more, though it was asked."""
        since_s = self.last_s if self.last_s is not None else float("-inf")
        return any(self.asked_s[name] > since_s for name in self.unanswered(end_s))

    def told(self, since_s: float, end_s: float) -> str:
        """In one line, with times from `since_s` on."""
        acks = f"{self.answered[ACK]} of {self.sent[ACK]} acks answered"
        left = [name for name in self.unanswered(end_s) if name != ACK]
        silent = f"; {', '.join(left)} unanswered" if left else ""
        if not self.deaf(end_s):
            last = "" if self.last_s is None else f"; last {self.last}, at t {self.last_s - since_s:.2f} s"
            return f"the server answered: {acks}{silent}{last}"
        when = "at all" if self.last_s is None else f"after t {self.last_s - since_s:.2f} s"
        began_s = since_s if self.last_s is None else self.last_s
        on = self.heard_s is not None and self.heard_s - began_s >= PATIENCE_S
        return f"the server answered nothing {when} ({acks}{silent}){', though it went on sending' if on else ''}"
