"""How a server behaves when nothing is wrong: its dialect (protocol.md 0) and what moves its step loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Dialect:
    """Names and rules that differ between versions of the endpoint (protocol.md 0 and 18)."""

    letter: str
    audio_delta: str
    audio_done: str
    transcript_delta: str
    transcript_done: str
    client_names_session: bool
    """`session.session_id` or `session.id` of the client is taken as the session's id."""
    query_must_opt_in: bool
    """A URL without `duplex=1` reaches another handler."""
    native_flags: tuple[str, ...]
    """Keys of `extra_body`, one of which must be true for the native lane; none: every session is native."""
    cancel_reason: str
    """`status_details.reason` of a response ended by `response.cancel`."""
    truncated_on_cancel: bool
    """`conversation.item.truncated` precedes a cancelled done group."""
    cancels_on_close: bool
    """`session.close` ends an open response with a cancelled done group; otherwise silently."""
    closed_flat: bool
    """`session.closed` carries `session_id` and `reason` at its top level."""
    tells_idle: bool
    """An idle session is closed with `session.closed`; otherwise the socket is dropped without an event."""
    checks_acks: bool
    """The errors of protocol.md 8.3 exist."""


DIALECT_J = Dialect(
    letter="J",
    audio_delta="response.audio.delta",
    audio_done="response.audio.done",
    transcript_delta="response.audio_transcript.delta",
    transcript_done="response.audio_transcript.done",
    client_names_session=True,
    query_must_opt_in=True,
    native_flags=("minicpmo45_native_duplex",),
    cancel_reason="barge_in",
    truncated_on_cancel=True,
    cancels_on_close=True,
    closed_flat=False,
    tells_idle=True,
    checks_acks=False,
)
DIALECT_N = Dialect(
    letter="N",
    audio_delta="response.output_audio.delta",
    audio_done="response.output_audio.done",
    transcript_delta="response.output_audio_transcript.delta",
    transcript_done="response.output_audio_transcript.done",
    client_names_session=False,
    query_must_opt_in=False,
    native_flags=(),
    cancel_reason="client_cancelled",
    truncated_on_cancel=False,
    cancels_on_close=False,
    closed_flat=True,
    tells_idle=False,
    checks_acks=True,
)


def _logical_names() -> Mapping[str, str]:
    names: dict[str, str] = {}
    for dialect in (DIALECT_J, DIALECT_N):
        names[dialect.audio_delta] = "audio.delta"
        names[dialect.audio_done] = "audio.done"
        names[dialect.transcript_delta] = "transcript.delta"
        names[dialect.transcript_done] = "transcript.done"
    return names


LOGICAL_NAMES = _logical_names()
"""Wire name, of either family, to logical name."""


def logical(name: str) -> str:
    """The logical name of an event (protocol.md 0, name map); a name without one stands for itself."""
    return LOGICAL_NAMES.get(name, name)


@dataclass(frozen=True)
class Profile:
    """A server as it is met in the wild."""

    name: str
    dialect: Dialect
    silence_continuation: bool
    """The server feeds itself silence while a reply is open, one chunk period after a segment ended
    (protocol.md 6.5),
    and the wait for it holds back the output behind it (6.6)."""
    close_code: int | None
    """Close frame that ends a connection after `session.closed`; None: the TCP connection ends without one (1.4)."""


PROFILES: Mapping[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile("july", DIALECT_J, silence_continuation=True, close_code=None),
        Profile("input-driven", DIALECT_J, silence_continuation=False, close_code=1000),
        Profile("engine", DIALECT_N, silence_continuation=True, close_code=1000),
    )
}
"""Profiles by the name a scenario uses.

july: the July 2026 tree. input-driven: the same names, but nothing except an append or a commit moves the model
(protocol.md 16.5); it ends connections with a close frame. engine: engine-resident sessions, dialect N.
"""
