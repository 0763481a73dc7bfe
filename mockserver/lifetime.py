"""What ends a session by the clock: no opening frame, no client frame, no lease activity (protocol.md 10.2, 12.1)."""

from __future__ import annotations

import math
from typing import Literal

from mockserver.profiles import Profile

OPENING_FRAME_S = 10.0
"""The first frame must have come by then."""
LEASE_EVENTS = frozenset(
    {
        "input_audio_buffer.append",
        "input_audio_buffer.commit",
        "input.commit",
        "input.cancel",
        "playback.ack",
        "response.cancel",
        "barge_in",
        "turn.signal",
        "session.heartbeat",
    }
)
"""Client events that reach the engine and so keep the session's lease; model output does too."""


class Lifetime:
    """The timers of one session. Times are loop times in seconds."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._accepted_s = 0.0
        self.frame_s = 0.0
        """When a client frame was read last, of whatever kind."""
        self.lease_s = 0.0
        """When something reached the engine last, or came out of it."""

    def accepted(self, now_s: float) -> None:
        """The connection was accepted."""
        self._accepted_s = self.frame_s = self.lease_s = now_s

    @property
    def opening_ends_s(self) -> float:
        """When the opening frame must have come."""
        return self._accepted_s + OPENING_FRAME_S

    def ends_s(self, idle_timeout_s: float) -> float:
        """When an open session ends if nothing happens."""
        return min(self.frame_s + idle_timeout_s, self._expires_s())

    def over(self, now_s: float, idle_timeout_s: float) -> Literal["idle", "expired"] | None:
        """Why an open session ends now; None: it does not."""
        if now_s >= self.frame_s + idle_timeout_s:
            return "idle"
        return "expired" if now_s >= self._expires_s() else None

    def _expires_s(self) -> float:
        """The engine looks once a period: an expiry is noticed up to that late."""
        period_s = self._profile.reaper_period_s
        ends_s = self.lease_s + self._profile.idle_ttl_s
        return self._accepted_s + math.ceil((ends_s - self._accepted_s) / period_s) * period_s
