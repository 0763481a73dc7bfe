"""How answers are judged: the same for every sample of an evaluation (evaluation.md 16, 21)."""

from __future__ import annotations

import math
import ssl
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import urlsplit

from client.masking import bare_url

VideoMode = Literal["video_url", "frame-sample"]
Overflow = Literal["error", "reduce"]

VIDEO_MODES: Final = ("video_url", "frame-sample")
OVERFLOWS: Final = ("error", "reduce")
_COMPLETIONS: Final = "/chat/completions"


@dataclass(frozen=True)
class JudgeSettings:
    """Everything but the sample. `check()` refuses what cannot work, before anything is sent."""

    base_url: str = field(repr=False)
    """http or https; see `completions_url`."""
    model: str
    api_key: str = field(default="EMPTY", repr=False)
    """Sent as a bearer token; never in a log, a trace or a file."""
    timeout_s: float = 600.0
    """For one request, connect to last byte."""
    video_mode: VideoMode = "video_url"
    """How the content judgement sees the clip first; frames are its fallback."""
    fps: float = 2.0
    """Frames a second of a temporal window."""
    modalities: tuple[str, ...] | None = None
    """Sent as `modalities` when given."""
    content_frame_limit: int = 16
    frame_overflow: Overflow = "error"
    """`reduce`: halve the content frames after an explicit context-length refusal."""
    window_size_s: float = 10.0
    """Seconds after an event in which a reminder counts (evaluation.md 18)."""
    temperature: float = 0.1
    max_tokens: int = 1200
    transport_retries: int = 3
    """Further tries of one request after HTTP 429, 5xx or a broken connection."""
    backoff_s: float = 1.0
    """First pause between tries; doubled each time, jittered."""
    longest_backoff_s: float = 30.0
    longest_retry_after_s: float = 300.0
    """A judge that asks for a longer pause than this is not waited for."""
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    """Of an https judge; None: the system's certificates are trusted."""

    def check(self) -> None:
        """Raises ValueError: naming the setting, what was found and what is allowed."""
        completions_url(self.base_url)
        _one_of("judge video mode", self.video_mode, VIDEO_MODES)
        _one_of("judge frame overflow", self.frame_overflow, OVERFLOWS)
        if not self.model:
            raise ValueError("judge model: found nothing; allowed: the name the judge endpoint knows")
        if not (self.api_key.isascii() and self.api_key.isprintable()):
            raise ValueError("judge api key: found control or non-ASCII characters; allowed: plain text")
        for name in ("timeout_s", "fps", "window_size_s", "backoff_s", "longest_backoff_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"judge {name}: found {value!r}; allowed: a finite number above 0")
        if self.content_frame_limit < 1:
            raise ValueError(f"content frame limit: found {self.content_frame_limit}; allowed: 1 or more")
        if self.transport_retries < 0:
            raise ValueError(f"transport retries: found {self.transport_retries}; allowed: 0 or more")


def completions_url(base_url: str) -> str:
    """Where requests go: `<base>/v1/chat/completions`, with whatever part of that the base already has.

    Raises ValueError: no http or https URL with a host, or one with credentials, which stand in the header.
    Source: evaluation.md 16.1.
    """
    wanted = (
        "allowed: http:// or https:// and a host, with a port of 1 to 65535 or none, no user and no password"
    )
    found = f"judge base URL: found {bare_url(base_url)!r}"
    try:
        parts = urlsplit(base_url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError as error:
        raise ValueError(f"{found} ({error}); {wanted}") from None
    if not usable:
        raise ValueError(f"{found}; {wanted}")
    if "@" in parts.netloc:
        raise ValueError(f"{found} with a user or a password; {wanted}: the judge takes a key")
    path = parts.path.rstrip("/")
    if path.endswith(_COMPLETIONS):
        pass
    elif path.endswith("/v1"):
        path += _COMPLETIONS
    else:
        path += "/v1" + _COMPLETIONS
    return parts._replace(path=path, fragment="").geturl()


def _one_of(what: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{what}: found {value!r}; allowed: {', '.join(allowed)}")
