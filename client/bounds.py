"""What one session may receive and keep: a server that floods costs its own sample, not the process with all others.

Each frame is charged with its bytes and a fixed part, so a flood of empty ones counts too. What is kept, and copied
into results and files, is charged more: a character of text may become a sentence with its times, an open response is
acked four times a second. 900 s of 24 kHz reply audio come to some 58 MB.
"""

from __future__ import annotations

from typing import Final

MAX_SESSION_BYTES: Final = 256 * 1024 * 1024
FRAME_CHARGE: Final = 256
TEXT_CHARGE: Final = 256
"""A character of the model's text: 1 Mi characters a session at most."""
ERROR_CHARGE: Final = 64
"""A character of an error text."""
RESPONSE_CHARGE: Final = 128 * 1024
"""A response, besides the characters of its id, which every ack repeats: 2048 responses a session at most."""


class SessionTooLarge(Exception):
    """A session sent more than one may; the text says how much and what is allowed."""

    def __init__(self, charged: int) -> None:
        super().__init__(
            f"session too large: found {charged} bytes charged for what the server sent and this client keeps; "
            f"allowed: {MAX_SESSION_BYTES}"
        )


class Budget:
    """What a session was charged so far."""

    __slots__ = ("charged",)

    def __init__(self) -> None:
        self.charged = 0

    def charge(self, size: int) -> None:
        """Charge some more. Raises SessionTooLarge."""
        self.charged += size
        if self.charged > MAX_SESSION_BYTES:
            raise SessionTooLarge(self.charged)
