"""What a session is made with: the same for every sample of a run."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from client.deadlines import Deadlines
from client.media import ReferenceVoice

PACES = ("realtime", "as-fast-as-possible")


@dataclass(frozen=True)
class SessionSettings:
    """Everything but the sample (evaluation.md 3, 4)."""

    url: str = field(repr=False)
    """ws, wss, http or https; the duplex query is added (protocol.md 1.1)."""
    model: str
    ref_audio: ReferenceVoice
    deadlines: Deadlines = field(default_factory=Deadlines)
    pace: str = "realtime"
    """`realtime`, or `as-fast-as-possible` (then the clock of the artifacts is `invalid`)."""
    unit_ms: int = 1000
    """Audio of one append; never more than the server's chunk period (protocol.md 5.1)."""
    fps: float = 1.0
    """Frames a second the sample was prepared with; metadata only."""
    instructions: str = "Streaming Omni Conversation."
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent with the upgrade; their values never reach a log or an artifact."""
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    """Whom to trust behind wss or https; None: the system's trust store."""
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    mix: str = "question"
    clock: str = "media"

    def check(self) -> None:
        """Raises ValueError: an unsupported value; called before a socket is opened (evaluation.md 4.3)."""
        wanted = {
            "mix": (self.mix, ("question",)),
            "clock": (self.clock, ("media",)),
            "pace": (self.pace, PACES),
        }
        for name, (value, known) in wanted.items():
            if value not in known:
                raise ValueError(f"{name}: wanted one of {', '.join(known)}, got {value!r}")
        if not self.model.strip():
            raise ValueError(f"model: wanted the name the server knows, got {self.model!r}")
        if self.unit_ms <= 0:
            raise ValueError(f"unit_ms: wanted a positive number of milliseconds, got {self.unit_ms!r}")

    @property
    def artifact_clock(self) -> str:
        """`media`, or `invalid` when the clip was not paced: such answers have no usable times."""
        return self.clock if self.pace == "realtime" else "invalid"
