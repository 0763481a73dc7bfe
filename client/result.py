"""What came of an attempt, and how its errors are told apart (evaluation.md 12.1, 13)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from client.connection import CloseKind
from client.responses import LISTENING, ResponseRecord
from client.wire import printable


@dataclass
class SampleResult:
    """One attempt that got as far as a session."""

    split: str
    id: str
    timed_sentences: list[dict[str, Any]]
    """`{"sentence", "start", "end"}`, seconds of the input clock."""
    metadata: dict[str, Any]
    """The content of `<id>.meta.json`."""
    server_errors: list[str]
    errors: list[str]
    """Entries in the order of evaluation.md 13; a server's message may itself contain `; `."""
    response_done: bool
    completed_replies: int
    """Replies of the input that ended completed."""
    drain_timeout: str | None = None
    close_timeout: str | None = None
    ack_timeout: str | None = None
    stream_timeout: str | None = None
    close_error: str | None = None
    broken: str | None = None
    """The connection or session ended in the middle; in `errors` too."""
    close: CloseKind = "none"
    late_sentences: list[dict[str, Any]] = field(default_factory=list)
    session_id: str | None = None
    """The server's name of the session."""
    responses: Sequence[ResponseRecord] = ()
    audio_bytes: int = 0
    """Reply audio, PCM16 mono, all responses together."""
    audio_sample_rate_hz: int = 24_000
    stream_start_s: float | None = None
    """Loop time of the first append."""
    media_clock_ms: int = 0
    """Input sent in all, padding included."""
    socket_evidence: dict[str, Any] = field(default_factory=dict)
    """Verdict and samples of the client's own socket, taken while a write was stuck (`evidence.as_json`)."""

    @property
    def error(self) -> str:
        """All entries in one line; empty when clean."""
        return "; ".join(self.errors)

    @property
    def success(self) -> bool:
        """A reply is complete and nothing was reported (evaluation.md 13)."""
        return self.response_done and not self.errors


def error_entries(
    *,
    server_errors: Sequence[str],
    drain_timeout: str | None,
    close_timeout: str | None,
    stream_timeout: str | None,
    broken: str | None,
    response_done: bool,
    responses: Sequence[ResponseRecord],
) -> list[str]:
    """The error list, in order. `ack_timeout` is never in it (R4); `close_timeout` only while no reply is complete.

    An unfinished response is the client's observation, not the session's report: it is left out when a timeout or a
    lost connection explains it; the timeout's text names the response instead (design.md 7).
    """
    entries = list(server_errors)
    entries += [text for text in (drain_timeout, stream_timeout) if text is not None]
    if close_timeout is not None and not response_done:
        entries.append(close_timeout)
    entries += [failed_response(r) for r in responses if is_failed(r)]
    unfinished = [printable(r.id, 200) for r in responses if r.status is None or r.after_close]
    if unfinished and drain_timeout is None and stream_timeout is None and broken is None:
        entries.append(f"responses never done: {', '.join(unfinished)}")
    if broken is not None:
        entries.append(broken)
    return entries


def is_failed(response: ResponseRecord) -> bool:
    """Whether a response ended other than completed, and not as the answer to our own `session.close`."""
    return response.status not in (None, "completed", LISTENING) and not response.after_close


def failed_response(response: ResponseRecord) -> str:
    """The error entry of a response that did not complete."""
    return f"response {printable(response.id, 200)} ended {response.status}" + (
        f" ({response.reason})" if response.reason else ""
    )


def recorded_timeouts(result: SampleResult) -> list[str]:
    """The timeouts that make a lone stall (evaluation.md 14, rows 6 to 8).

    A stuck write while streaming counts only when no reply was completed; `ack_timeout` never does.
    """
    stream = result.stream_timeout if not result.completed_replies else None
    return [text for text in (result.drain_timeout, stream, result.close_timeout) if text is not None]


def reported_errors(result: SampleResult) -> list[str]:
    """What the session itself said: the entries minus the recorded timeouts, compared as whole entries (R24, R25)."""
    reported = list(result.errors)
    for timeout in recorded_timeouts(result):
        if timeout in reported:
            reported.remove(timeout)
    return reported


def failure_text(result: SampleResult) -> str:
    """Why an unsuccessful attempt failed; never empty (R30, R31)."""
    return result.error or "no completed response"
