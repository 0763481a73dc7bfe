"""Names that are defined elsewhere, kept here as data because scenarios import nothing of ours.

Tests keep them in step with the client and docs/protocol.md.
"""

from __future__ import annotations

CLIENT_EVENTS: frozenset[str] = frozenset(
    {
        "barge_in",
        "conversation.item.create",
        "conversation.item.delete",
        "conversation.item.retrieve",
        "conversation.item.truncate",
        "input.cancel",
        "input.text.append",
        "input_audio_buffer.append",
        "input_audio_buffer.clear",
        "input_audio_buffer.commit",
        "output_audio_buffer.clear",
        "playback.ack",
        "response.cancel",
        "response.create",
        "session.close",
        "session.event_ack",
        "session.heartbeat",
        "session.resume",
        "session.update",
        "turn.signal",
    }
)
"""What a client sends, in canonical spelling (protocol.md 4 to 12); an alias counts as what it stands for."""

SERVER_EVENTS: frozenset[str] = frozenset(
    {
        "audio.delta",
        "audio.done",
        "conversation.item.added",
        "conversation.item.created",
        "conversation.item.deleted",
        "conversation.item.done",
        "conversation.item.input_audio_transcription.completed",
        "conversation.item.retrieved",
        "conversation.item.truncated",
        "error",
        "input_audio_buffer.cleared",
        "input_audio_buffer.committed",
        "input_audio_buffer.processed",
        "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped",
        "output_audio_buffer.cleared",
        "overlap.decision",
        "playback.acknowledged",
        "rate_limits.updated",
        "response.content_part.added",
        "response.content_part.done",
        "response.created",
        "response.done",
        "response.listen",
        "response.output_item.added",
        "response.output_item.done",
        "response.output_text.delta",
        "response.output_text.done",
        "response.speak",
        "session.closed",
        "session.created",
        "session.expired",
        "session.heartbeat_ack",
        "session.replaced",
        "session.resumed",
        "session.resync_required",
        "session.updated",
        "transcript.delta",
        "transcript.done",
    }
)
"""What a server sends (protocol.md 4 to 12), by logical name where the dialects differ (protocol.md 0)."""

DIALECT_SPELLINGS: dict[str, str] = {
    f"response.{family}.{suffix}": f"{logical}.{suffix}"
    for logical, families in (
        ("audio", ("audio", "output_audio")),
        ("transcript", ("audio_transcript", "output_audio_transcript")),
    )
    for family in families
    for suffix in ("delta", "done")
}
"""One dialect's spelling to the logical name a trigger must use, so that a scenario runs on every profile."""

DEADLINES: tuple[str, ...] = (
    "connect_s",
    "created_s",
    "write_s",
    "ack_period_s",
    "ack_s",
    "close_s",
    "grace_s",
    "drain_slack_s",
    "settle_s",
    "request_s",
)
"""Fields of the client's deadlines that `client.deadlines` may override, in seconds."""

METADATA_KEYS: frozenset[str] = frozenset(
    {
        "ack_timeout",
        "anomalies",
        "clock",
        "close",
        "close_error",
        "close_timeout",
        "drain_timeout",
        "error",
        "fps",
        "frame_transport",
        "id",
        "instructions",
        "late_sentences",
        "missed_deadlines",
        "mix",
        "model",
        "pace",
        "padding",
        "ref_audio_sha256",
        "response_done",
        "retry_count",
        "server_errors",
        "split",
        "stream_timeout",
        "turn_detection",
        "unit_ms",
        "unknown",
    }
)
"""Keys of a sample's metadata (evaluation.md 12.1) and what our client adds."""

ANOMALIES: frozenset[str] = frozenset(
    {
        "audio_rate_changed",
        "audio_without_data",
        "binary_frame",
        "committed_twice",
        "damaged_base64",
        "delta_after_done",
        "delta_of_unknown_response",
        "done_of_unknown_response",
        "duplicate_event",
        "event_after_session_closed",
        "event_before_session_created",
        "odd_audio_bytes",
        "playback_ack_too_late",
        "response_created_twice",
        "response_done_twice",
        "response_done_without_id",
        "response_without_id",
        "second_event_family",
        "session_created_twice",
        "text_cut_in_character",
        "text_without_data",
        "unasked_commit",
        "unknown_event",
        "unknown_field",
        "unreadable_frame",
        "unusable_audio_rate",
        "unusable_chunk_period",
    }
)
"""Oddities of a server that the client counts in a sample's metadata (docs/writing-scenarios.md tells each)."""

RUN_KEYS: frozenset[str] = frozenset(
    {
        "artifact_errors",
        "cancelled",
        "completed",
        "duplex_request_metrics",
        "duplex_retried_samples",
        "duplex_retry_count",
        "duplex_session_metrics",
        "duplex_stream_rtf",
        "duplex_stream_ttfp_ms",
        "duplex_stream_ttft_ms",
        "duration",
        "e2els",
        "errors",
        "failed",
        "finished",
        "itls",
        "mean_audio_duration_s",
        "mean_audio_rtf",
        "mean_audio_ttfp_ms",
        "mean_duplex_client_ttfp_ms",
        "mean_duplex_client_ttft_ms",
        "mean_duplex_response_ttfp_ms",
        "mean_duplex_response_ttft_ms",
        "mean_e2el_ms",
        "mean_itl_ms",
        "mean_tpot_ms",
        "mean_ttft_ms",
        "median_audio_duration_s",
        "median_audio_rtf",
        "median_audio_ttfp_ms",
        "median_duplex_client_ttfp_ms",
        "median_duplex_client_ttft_ms",
        "median_duplex_response_ttfp_ms",
        "median_duplex_response_ttft_ms",
        "median_e2el_ms",
        "median_itl_ms",
        "median_tpot_ms",
        "median_ttft_ms",
        "num_duplex_client_ttfp_ms_samples",
        "num_duplex_client_ttft_ms_samples",
        "num_duplex_response_ttfp_ms_samples",
        "num_duplex_response_ttft_ms_samples",
        "omni_duplex_eval",
        "p99_audio_duration_s",
        "p99_audio_rtf",
        "p99_audio_ttfp_ms",
        "p99_duplex_client_ttfp_ms",
        "p99_duplex_client_ttft_ms",
        "p99_duplex_response_ttfp_ms",
        "p99_duplex_response_ttft_ms",
        "p99_e2el_ms",
        "p99_itl_ms",
        "p99_tpot_ms",
        "p99_ttft_ms",
        "published",
        "published_now",
        "requested",
        "response_root",
        "samples",
        "settings",
        "skipped_finished",
        "start_times",
        "stopped",
        "total_output_tokens",
        "ttfts",
        "verdicts",
    }
)
"""Keys of a run's result (evaluation.md 19)."""

DIAGNOSTIC_KEYS: frozenset[str] = frozenset(
    {
        "action",
        "anomalies",
        "attempt",
        "close",
        "deadlines",
        "errors",
        "id",
        "last_events",
        "open_responses",
        "partial_text",
        "phase",
        "reason",
        "row",
        "server_errors",
        "socket_evidence",
        "split",
        "timeouts",
        "traceback",
        "unknown",
    }
)
"""Keys of `attempts/<split>/<id>/<N>.json` (design.md 7)."""

FLOORS: tuple[str, ...] = (
    "rtd.mean_content_score",
    "rtd.mean_avg_temporal_score",
    "pr.mean_all_success",
)
"""Means that a floor may be set for (evaluation.md 19.1)."""

VERDICTS: frozenset[str] = frozenset(
    {
        "guard",
        "retries",
        "strict: artifact errors",
        "strict: clock",
        "strict: excluded ids",
        "strict: generated",
        "strict: scored",
        *(f"floor {name}" for name in FLOORS),
    }
)
"""Names of a run's verdicts, as `run_result.json` has them."""

MATCHER_KEYS: tuple[str, ...] = ("contains", "not_contains", "at_least", "at_most", "one_of")
"""Keys of a matcher in mapping form; several in one mapping must all hold."""

REQUIREMENTS: frozenset[str] = frozenset(f"R{number}" for number in range(1, 64))
"""Ids of docs/requirements.yaml."""

ACCURACY_KEYS: frozenset[str] = frozenset(
    {
        "error",
        "errors",
        "evaluated",
        "failed",
        "judge_model",
        "pr",
        "pr.mean_all_success",
        "pr.samples",
        "protocol_pin",
        "rtd",
        "rtd.mean_avg_temporal_score",
        "rtd.mean_content_score",
        "rtd.samples",
        "samples",
        "score_root",
        "skipped",
        "status",
        "total",
    }
)
"""Keys of the accuracy object (evaluation.md 19); a dot leads into an object."""

TRACE_KEYS: frozenset[str] = frozenset(
    {
        "error",
        "finish_reason",
        "index",
        "judge_retry",
        "kind",
        "mode",
        "raw",
        "transport_retry",
    }
)
"""Keys of a line of the judge's trace (evaluation.md 16.8)."""

PACED_PROFILES: frozenset[str] = frozenset({"below-real-time"})
"""Profiles whose pace has a real-time factor, so that `decision_ms` would say nothing."""

REQUEST_METRICS_PROFILES: frozenset[str] = frozenset({"engine", "interim", "input-clock"})
"""Profiles of a dialect that has `response_request_metrics` (protocol.md 13.2)."""
