"""One response of the server, created to done, and what a session must know of it (protocol.md 7)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from client.sentences import mended
from client.wire import printable

DEFAULT_OUTPUT_RATE_HZ: Final = 24_000
MAX_OUTPUT_RATE_HZ: Final = 1_000_000
LISTENING: Final = "listening"
"""Status of a response that a `response.listen` with its id ended before it said anything (protocol.md 6.4)."""
_MAX_DURATION_MS: Final = 1e12


@dataclass(slots=True)
class ResponseRecord:
    """One response, created to done. Times are the loop's seconds."""

    id: str
    created_s: float
    late: bool
    """Begun in padded silence after the input's own replies had ended (design.md 7): kept apart, not scored."""
    families: dict[str, str] = field(default_factory=dict)
    """Group of delta names -> event family first seen; the other one is ignored from there on (protocol.md 0)."""
    status: str | None = None
    """None while open; then completed, failed, cancelled, incomplete or what the server said."""
    reason: str = ""
    after_close: bool = False
    """Its `response.done` answers our own `session.close`."""
    audio_bytes: int = 0
    audio_deltas: int = 0
    rate_hz: int = DEFAULT_OUTPUT_RATE_HZ
    audio_duration_ms: float = 0.0
    """Largest cumulative `metadata.audio_duration_ms`; 0 when the server never said."""
    first_text_s: float | None = None
    first_audio_s: float | None = None
    last_audio_s: float | None = None
    stage_metrics: dict[str, Any] | None = None
    """Latest figures of the engine's stages; cumulative (protocol.md 13.1)."""
    request_metrics: dict[str, Any] | None = None
    """The server's own `response_request_metrics` (protocol.md 13.2)."""
    half: str = ""
    """First half of a character that its latest text delta ended in the middle of."""

    @property
    def played_ms(self) -> int:
        """Milliseconds of audio received, rounded down: what a playback ack says (evaluation.md 5)."""
        return self.audio_bytes * 1000 // (self.rate_hz * 2)

    @property
    def label(self) -> str:
        """How texts name an open response."""
        return f"{printable(self.id, 200)} ({self.audio_deltas} deltas, {self.played_ms} ms)"

    def whole_text(self, text: str) -> str:
        """`text` with the half character before it, and without one at its end: that waits for the next delta.

        Deltas of several responses may come in turns; halves are rejoined within their response.
        """
        text = self.half + text
        self.half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return mended(text[:-1] if self.half else text)

    def take_metadata(self, metadata: dict[str, Any]) -> None:
        """Keep what the metadata of an audio delta says of its duration."""
        duration = metadata.get("audio_duration_ms")
        if isinstance(duration, int | float) and self.audio_duration_ms < duration < _MAX_DURATION_MS:
            self.audio_duration_ms = duration
