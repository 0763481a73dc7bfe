"""How a server behaves when nothing is wrong: its dialect (protocol.md 0) and what moves its step loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from mockserver.pace import Pace

if TYPE_CHECKING:
    from scenarios.model import ServerSpec


@dataclass(frozen=True)
class Dialect:
    """Names and rules that differ between versions of the endpoint (protocol.md 0 and 18)."""

    letter: Literal["J", "I", "N", "C"]
    audio_delta: str
    audio_done: str
    transcript_delta: str
    transcript_done: str
    client_names_session: bool
    """`session.session_id` or `session.id` of the client is taken as the session's id."""
    incarnation: bool
    """Events about a session's end carry its `incarnation`; without resume it is always 0 (3.2)."""
    query_must_opt_in: bool
    """A URL without `duplex=1` reaches another handler; otherwise only `duplex=0` does (1.1)."""
    checks_config: bool
    """`invalid_session_config` exists (11.2); otherwise a setting of the wrong type is passed over."""
    native_flags: tuple[str, ...]
    """Keys of `extra_body`, one of which must be true for the native lane; none: every session is native."""
    barges_in: bool
    """`supports_barge_in`; `barge_in` cancels (9.3)."""
    knows_vad: bool
    """`turn_detection` may be a `server_vad` object (4.1)."""
    tells_modalities: bool
    """The capabilities name required and optional input modalities (4.4)."""
    audio_aliases: bool
    """`input.audio.append` and `push_chunk` are appends (5.7)."""
    commits_empty_alias: bool
    """`input.commit` is not checked for an empty buffer (5.4)."""
    commit_declares_silence: bool
    """`is_speech: false` on a commit makes it one of non-speech (5.4)."""
    reuses_items: bool
    """A commit of non-speech takes its item from an older commit (5.5, quirk 4)."""
    frames_without_audio: str
    """Code for an append of frames alone (5.3)."""
    listen_continues: bool
    """A listen decision while a response is open is followed by silence of the server's own (6.5)."""
    cancel_reason: str
    """`status_details.reason` of a response ended by `response.cancel`."""
    truncated_on_cancel: bool
    """`conversation.item.truncated` precedes a cancelled done group."""
    cancels_unknown_silently: bool
    """A cancel of an unknown response while nothing is active is ignored (9.1)."""
    checks_acks: bool
    """The errors of protocol.md 8.3 exist, `played_ms` is required, and `truncate` on an ack is dropped."""
    forgets_heard: bool
    """The ledger of a finished response goes once it was heard in full (8.2)."""
    raw_turn_event: str
    """Reply to a `turn.signal` that is none of the three events (9.3)."""
    cancels_on_close: bool
    """`session.close` ends an open response with a cancelled done group; otherwise silently."""
    closed_reason: str | None
    """Reason that `session.closed` gives at its top level for a normal close; None: none there, data under `event`."""
    closed_event: bool
    """`session.closed` has its data under `event`."""
    tells_shutdown: bool
    """`session.closed` with the reason `shutdown` precedes the end of the connection when the server stops (10.2)."""
    tells_idle: bool
    """An idle session is closed with `session.closed`; otherwise the socket is dropped without an event."""
    echoes_ids: bool
    """Every error carries the `event_id` of what it refuses; otherwise only those of early checks (3.1)."""
    tells_limits: bool
    """`resource_exhausted` names the limit, `input_backpressure` is a rate error, errors carry `retryable` (11)."""
    input_clock: bool
    """`extra_body.clock = "input"` is understood (6.7)."""
    stages_on_request: bool
    """`stage_metrics` come only where `extra_body.return_stage_metrics` asks for them (4.3)."""


DIALECT_J = Dialect(
    letter="J",
    audio_delta="response.audio.delta",
    audio_done="response.audio.done",
    transcript_delta="response.audio_transcript.delta",
    transcript_done="response.audio_transcript.done",
    client_names_session=True,
    incarnation=True,
    query_must_opt_in=True,
    checks_config=False,
    native_flags=("minicpmo45_native_duplex",),
    barges_in=False,
    knows_vad=False,
    tells_modalities=False,
    audio_aliases=True,
    commits_empty_alias=True,
    commit_declares_silence=False,
    reuses_items=True,
    frames_without_audio="bad_event",
    listen_continues=True,
    cancel_reason="barge_in",
    truncated_on_cancel=True,
    cancels_unknown_silently=True,
    checks_acks=False,
    forgets_heard=True,
    raw_turn_event="duplex.turn.event",
    cancels_on_close=True,
    closed_reason=None,
    closed_event=True,
    tells_shutdown=False,
    tells_idle=True,
    echoes_ids=False,
    tells_limits=False,
    input_clock=False,
    stages_on_request=False,
)
"""July 2026 tree."""
DIALECT_I = replace(
    DIALECT_J,
    letter="I",
    native_flags=("native_duplex", "minicpmo45_native_duplex"),
    barges_in=True,
    knows_vad=True,
    tells_modalities=True,
    commits_empty_alias=False,
    reuses_items=False,
    listen_continues=False,
    cancels_unknown_silently=False,
    raw_turn_event="turn.event",
    closed_reason="session_close",
    closed_event=False,
    stages_on_request=True,
)
"""Interim."""
DIALECT_N = replace(
    DIALECT_I,
    letter="N",
    audio_delta="response.output_audio.delta",
    audio_done="response.output_audio.done",
    transcript_delta="response.output_audio_transcript.delta",
    transcript_done="response.output_audio_transcript.done",
    client_names_session=False,
    incarnation=False,
    query_must_opt_in=False,
    checks_config=True,
    native_flags=(),
    audio_aliases=False,
    commit_declares_silence=True,
    frames_without_audio="invalid_input_modality",
    cancel_reason="client_cancelled",
    truncated_on_cancel=False,
    checks_acks=True,
    forgets_heard=False,
    cancels_on_close=False,
    closed_reason="client_close",
    closed_event=True,
    tells_shutdown=True,
    tells_idle=False,
    echoes_ids=True,
    tells_limits=True,
)
"""Engine-resident sessions."""
DIALECT_C = replace(DIALECT_N, letter="C", input_clock=True)
"""N with the opt-in input clock."""
DIALECTS: Mapping[str, Dialect] = {d.letter: d for d in (DIALECT_J, DIALECT_I, DIALECT_N, DIALECT_C)}


def _logical_names() -> Mapping[str, str]:
    names: dict[str, str] = {}
    for dialect in DIALECTS.values():
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


Continuation = Literal["after-segment", "cadence", "none"]
"""When the server feeds itself silence for an open reply (protocol.md 6.5).

after-segment: one chunk period after a speaking segment ended; the wait holds back the output behind it (6.6).
cadence: one chunk period after the last submission, and nothing is held back. none: never.
"""


PaddingListens = Literal["each", "first", "none"]
"""Which padded units, appended without speech after a commit, are told with a `response.listen` of their own while no
reply is open. each: every one (what the July server does). first: the first after a commit or a reply. none: none."""
Metrics = Literal["stage", "request"]
"""What replies tell of the engine. stage: `stage_metrics` (protocol.md 13.1). request: `response_request_metrics`
(13.2)."""


@dataclass(frozen=True)
class Profile:
    """A server as it is met in the wild."""

    name: str
    dialect: Dialect
    continuation: Continuation
    close_code: int | None
    """Close frame that ends a connection after `session.closed`; None: the TCP connection ends without one (1.4)."""
    close_tells_reason: bool = False
    """The close frame carries the session's close reason (1.4)."""
    max_sessions: int | None = None
    """Sessions at a time; None: as many as come. More are refused with `resource_exhausted` (11.2)."""
    disconnect_grace_s: float = 30.0
    """A session whose socket was lost keeps its slot for so long (12.1)."""
    idle_ttl_s: float = 300.0
    """Without lease activity for so long the engine expires a session (10.2)."""
    reaper_period_s: float = 5.0
    """How often the engine looks for sessions to expire (12.1)."""
    pace: Pace = field(default_factory=Pace)
    deltas_per_unit: int = 1
    """Audio deltas into which a unit's audio is cut, back to back; the text rides with the first (7.4, 7.5)."""
    listens_in_padding: PaddingListens = "each"
    metrics: tuple[Metrics, ...] = ()
    output_rate_hz: int = 24_000
    """Samples a second of reply audio, as each audio delta says (7.4)."""


PROFILES: Mapping[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile("july", DIALECT_J, "after-segment", close_code=None),
        Profile("input-driven", DIALECT_J, "none", close_code=1000),
        Profile("interim", DIALECT_I, "cadence", close_code=None),
        Profile("engine", DIALECT_N, "cadence", close_code=1000, close_tells_reason=True),
        Profile("input-clock", DIALECT_C, "cadence", close_code=1000, close_tells_reason=True),
        Profile(
            "below-real-time",
            DIALECT_J,
            "after-segment",
            close_code=None,
            pace=Pace(rtf=1.4, first_token_ms=400, jitter_ms=150),
            metrics=("stage",),
        ),
    )
}
"""Profiles by name. Scenarios use four of them.

july: the July 2026 tree. input-driven: the same names, but nothing except an append or a commit moves the model
(protocol.md 16.5); it ends connections with a close frame. engine: engine-resident sessions, the newest general
version. below-real-time: the July tree on hardware that cannot keep up; a unit takes longer than it lasts, so that
decisions and replies fall behind the input. interim and input-clock: dialects I and C, to try a client by hand.
"""


def scripted(spec: ServerSpec) -> Profile:
    """The profile that a scenario names, with what its `server` section puts in place of the profile's own."""
    profile = PROFILES[spec.profile]
    pace = {name: value for name, value in spec.pace if value is not None} if spec.pace is not None else {}
    own = {
        name: value
        for name in ("deltas_per_unit", "listens_in_padding", "metrics", "max_sessions", "output_rate_hz")
        if (value := getattr(spec, name)) is not None
    }
    if "metrics" in own:
        own["metrics"] = tuple(own["metrics"])
    return replace(profile, pace=replace(profile.pace, **pace), **own)
