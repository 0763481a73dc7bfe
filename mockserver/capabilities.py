"""Opening a session: what the client asks for, what the server grants and tells (protocol.md 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mockserver.audio import INPUT_FORMATS, OUTPUT_FORMATS
from mockserver.profiles import Dialect
from mockserver.wire import Event, Refusal, told_value

CHUNK_PERIOD_MS = 1000
MAX_NUMBER = 2.0**53
"""No setting of a session is larger; larger ones are cut to it."""
SERVER_OWNED = frozenset(
    {
        "duplex_stage_sampling_params",
        "duplex_stage_max_tokens",
        "duplex_stage0_max_tokens",
        "duplex_scheduler_token_id",
        "duplex_first_append_context_tokens",
        "ref_audio_data",
        "ref_audio_format",
        "ref_audio_sample_rate_hz",
    }
)
"""Keys of `extra_body` that a client must not send (protocol.md 4.3)."""
OVERLAP_POLICIES = frozenset({"listen_only", "barge_in_on_speech"})

_TRUE = (
    "supports_session_adapter",
    "supports_model_native_turn_policy",
    "supports_external_turn_signal",
    "supports_client_commit",
    "supports_playback_ack",
    "supports_input_append",
    "supports_model_internal_state",
    "supports_stage_resumption",
    "supports_core_resumable_request",
    "supports_stage_connector_handoff",
    "supports_independent_io_streams",
    "supports_realtime_endpoint",
    "supports_session_lease",
    "supports_audio_truncate",
    "requires_model_runner_kv",
    "requires_native_stage_role",
)
_FALSE = (
    "supports_session_resume",  # this server does not resume, says so, and gives no token (protocol.md 12.6)
    "supports_replace_latest_chunk",
    "supports_reencode_context",
    "supports_rollback_to_checkpoint",
    "supports_turn_commit_only",
    "supports_kv_lease",
    "supports_core_kv_lease",
    "supports_scheduler_native_append",
)


def capabilities(dialect: Dialect, *, native: bool, several: bool) -> Event:
    """The `capabilities` object of a session (protocol.md 4.4).

    Args:
        several: the server takes more than one session at a time.
    """
    told: Event = {
        **dict.fromkeys(_TRUE, True),
        **dict.fromkeys(_FALSE, False),
        "supports_barge_in": dialect.barges_in,
        "supports_multi_session": several,
        "supports_multi_session_same_replica": several,
        "session_admission_mode": "engine_managed",
        "implementation_level": "model_native_duplex" if native else "serving_session_adapter",
        "adapter_patterns": ["scheduler_data_plane"],
        "input_modes": ["append_audio_chunk"],
        "signal_sources": ["model_native", "client_event", "server_policy"],
        "stage_handoff_transport": "scheduler_data_plane",
        "chunk_period_ms": CHUNK_PERIOD_MS,
        "target_barge_in_latency_ms": None,
    }
    if dialect.tells_modalities:
        told["required_input_modalities"] = ["audio"]
        told["optional_input_modalities"] = ["video"]
    return told


def format_name(value: Any) -> str | None:
    """The spelling in a format field, which is a string or `{type, rate}`; None where there is none."""
    if isinstance(value, dict):  # no Mapping: to ask that costs more than the rest of this
        value = value.get("type")
    return value.lower() if isinstance(value, str) else None


def given(*values: Any) -> Any:
    """The first that is not null; 0 and the like are what somebody asked for."""
    return next((value for value in values if value is not None), None)


def _rate_of(value: Any) -> Any:
    return value.get("rate") if isinstance(value, dict) else None


@dataclass
class Config:
    """What a session was asked for, after defaults."""

    raw: Event
    """The client's session object, echoed."""
    model: str | None
    modalities: list[str]
    ref_audio: str | None
    input_format: str
    input_rate_hz: Any
    output_format: str
    idle_timeout_s: float
    silence_rms: float
    auto_response: bool
    native: bool
    force_listen_count: int
    session_id: str | None
    extra: Event
    clock: str | None
    """`input`, where the dialect has the input clock and the client asked for it (6.7)."""
    silence_off: bool
    """The client switched the server's own silence off (4.3, C)."""
    overlap_policy: str
    voice: Any
    speed: Any

    @property
    def decides(self) -> bool:
        """Appended audio reaches the model and is decided unit by unit."""
        return self.native and self.auto_response


def _object(value: Any) -> Event:
    return value if isinstance(value, dict) else {}


def _number(source: Mapping[str, Any], key: str, default: float) -> float:
    value = source.get(key)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return default
    return float(max(-MAX_NUMBER, min(MAX_NUMBER, value)))


def read_config(session: Event, *, dialect: Dialect, query_model: str | None, native_default: bool) -> Config:
    """A client's session object, checked.

    Args:
        query_model: `model` of the URL, the default.
        native_default: the native flag where `extra_body` has none (a default session takes it from the URL).
    Raises Refusal: with the codes of protocol.md 4.1 to 4.3; `fatal` where the handshake ends with it.
    """
    extra = _object(session.get("extra_body"))
    audio = _object(session.get("audio"))
    audio_in, audio_out = _object(audio.get("input")), _object(audio.get("output"))
    asked_in = session.get("input_audio_format") or audio_in.get("format")
    asked_out = (
        session.get("output_audio_format") or session.get("response_format") or audio_out.get("format")
    )
    name_in, name_out = format_name(asked_in) or "pcm16", format_name(asked_out) or "pcm16"
    if name_in not in INPUT_FORMATS or name_out not in OUTPUT_FORMATS:
        bad = name_in if name_in not in INPUT_FORMATS else name_out
        raise Refusal(
            "unsupported_audio_format",
            f"Unsupported audio format: {told_value(bad)}",
            section="4.1",
            echoes=True,
        )
    _refuse_detection(session.get("turn_detection", audio_in.get("turn_detection")), dialect)
    _refuse_keys(session, extra)
    modalities = _modalities(session, dialect)
    candidates = (session.get("ref_audio"), extra.get("ref_audio"), extra.get("tts_ref_audio"))
    ref_audio = next((value for value in candidates if isinstance(value, str) and value), None)
    count = extra.get("force_listen_count")
    clock = extra.get("clock") if dialect.input_clock else None
    if clock not in (None, "input"):
        raise Refusal("input_clock_unsupported", 'clock must be "input"', section="6.7", fatal=True)
    named = session.get("session_id") or session.get("id")
    model = session.get("model")
    return Config(
        raw=session,
        model=model if isinstance(model, str) else query_model,
        modalities=modalities,
        ref_audio=ref_audio,
        input_format=name_in,
        input_rate_hz=given(
            session.get("sample_rate_hz"),
            session.get("sample_rate"),
            audio_in.get("sample_rate_hz"),
            _rate_of(asked_in),
            16_000,
        ),
        output_format=name_out,
        idle_timeout_s=_number(session, "idle_timeout_s", 300.0),
        silence_rms=_number(extra, "overlap_silence_rms", _number(session, "overlap_silence_rms", 0.003)),
        auto_response=extra.get("auto_response") is True or extra.get("full_duplex") is True,
        native=not dialect.native_flags
        or any(extra[key] is True for key in dialect.native_flags if key in extra)
        or (native_default and not any(key in extra for key in dialect.native_flags)),
        force_listen_count=count if isinstance(count, int) and count > 0 else 0,
        session_id=named if isinstance(named, str) and dialect.client_names_session else None,
        extra=extra,
        clock=clock,
        silence_off=dialect.input_clock and extra.get("silence_continuation") is False,
        overlap_policy=_overlap_policy(session, extra, dialect),
        voice=given(session.get("voice"), audio_out.get("voice")),
        speed=given(session.get("speed"), audio_out.get("speed")),
    )


def _modalities(session: Event, dialect: Dialect) -> list[str]:
    asked = session.get("modalities") or session.get("output_modalities") or ["text", "audio"]
    if isinstance(asked, list) and all(isinstance(name, str) for name in asked):
        return list(asked)
    if dialect.checks_config:
        raise Refusal(
            "invalid_session_config", "modalities must be a list of strings", section="4.1", fatal=True
        )
    return ["text", "audio"]


def _refuse_keys(session: Event, extra: Event) -> None:
    for key in SERVER_OWNED & extra.keys():
        raise Refusal(
            "invalid_duplex_runtime_config", f"{key} is owned by the server", section="4.3", fatal=True
        )
    for source in (session, extra):
        if "ref_audio_path" in source or "tts_ref_audio_path" in source:
            raise Refusal("unsupported_ref_audio_path", "paths are refused", section="4.2", fatal=True)


def _overlap_policy(session: Event, extra: Event, dialect: Dialect) -> str:
    asked = extra.get("overlap_policy", session.get("overlap_policy"))
    known = OVERLAP_POLICIES | ({"auto"} if dialect.letter == "J" else set())
    return asked if isinstance(asked, str) and asked in known else "listen_only"


def _refuse_detection(detection: Any, dialect: Dialect) -> None:
    if detection is None:
        return
    asked = detection if isinstance(detection, dict) else {}
    known = dialect.knows_vad and asked.get("type") == "server_vad"
    if known and asked.get("interrupt_response") is not False:
        # a dialect may have it; this server listens to what the client says of speech, and says so
        raise Refusal(
            "server_vad_unavailable", "no voice activity detector is loaded", section="4.1", harmless=True
        )
    raise Refusal(
        "unsupported_turn_detection",
        "turn_detection is not supported" if dialect.knows_vad else "turn_detection must be null",
        section="4.1",
        param="turn_detection",
        echoes=True,
    )


def session_object(config: Config, state: Event, told_capabilities: Event) -> Event:
    """The `session` of `session.created` and `session.updated`: the server's keys, then what else the client sent.

    Args:
        state: `id`, `epoch`, `turn_id`, `playback` and the like, which change while the session lives.
    """
    raw, extra = config.raw, config.extra

    def overlap_ms(name: str, default: float) -> int:
        return int(_number(extra, name, _number(raw, name, default)))

    told: Event = {
        "id": state["id"],
        "state": "open",
        **{key: value for key, value in state.items() if key not in ("id", "playback")},
        "model": config.model,
        "modalities": config.modalities,
        "instructions": raw.get("instructions"),
        "voice": config.voice,
        "response_format": "pcm",
        "temperature": raw.get("temperature"),
        "max_tokens": raw.get("max_tokens"),
        "speed": config.speed,
        "idle_timeout_s": config.idle_timeout_s,
        "overlap_policy": config.overlap_policy,
        "overlap_short_ack_ms": overlap_ms("overlap_short_ack_ms", 700),
        "overlap_barge_in_ms": overlap_ms("overlap_barge_in_ms", 1200),
        "overlap_silence_rms": config.silence_rms,
        "playback_commit_policy": "ack_only",
        "playback": state["playback"],
        "capabilities": told_capabilities,
        "input_audio_format": raw.get("input_audio_format", "pcm16"),
        "output_audio_format": raw.get("output_audio_format", "pcm16"),
        "turn_detection": None,
        "object": "realtime.session",
        "type": "realtime",
        "output_modalities": config.modalities,
        "audio": {
            "input": {
                "format": {"type": "audio/pcm", "rate": config.input_rate_hz},
                "sample_rate_hz": config.input_rate_hz,
            },
            "output": {"format": {"type": "audio/pcm"}},
        },
        "input_audio_transcription": raw.get("input_audio_transcription"),
        "tracing": raw.get("tracing"),
    }
    for key, value in raw.items():
        # a `session.update` without a `session` object is its own session object: its envelope is not echoed
        if key not in told and key not in ("extra_body", "event_id", "session_id"):
            told[key] = value
    return told
