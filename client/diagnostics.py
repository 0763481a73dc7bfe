"""What a failed or retried attempt leaves behind (design.md 7): nothing about a failure is thrown away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from client.evidence import as_json
from client.masking import masked
from client.record import AttemptRecord
from client.result import SampleResult
from client.sentences import timed_sentences


@dataclass(frozen=True)
class AttemptDiagnostics:
    """The content of `attempts/<split>/<id>/<N>.json`; times are the loop's seconds."""

    split: str
    id: str
    attempt: int
    row: int
    """Row of evaluation.md 14."""
    action: str
    """What the gate decided: retry or fail."""
    reason: str
    phase: str
    """How far the attempt came."""
    timeouts: dict[str, str | None]
    deadlines: list[dict[str, Any]]
    server_errors: list[str]
    errors: list[str]
    close: str
    partial_text: str
    """What the model had said."""
    open_responses: list[str]
    anomalies: dict[str, int]
    unknown: list[str]
    """The first events and fields that the protocol does not know."""
    last_events: list[dict[str, Any]]
    socket_evidence: dict[str, Any]
    traceback: str | None

    @classmethod
    def of(
        cls,
        record: AttemptRecord,
        row: int,
        action: str,
        reason: str,
        result: SampleResult | None,
        traceback: str | None,
    ) -> AttemptDiagnostics:
        """Gather what the attempt's trail, its session and its result still hold."""
        live = record.conversation
        session = live.session if live is not None else None
        texts = [delta for delta, _ in session.texts] if session is not None else []
        return cls(
            split=record.split,
            id=record.id,
            attempt=record.attempt,
            row=row,
            action=action,
            reason=reason,
            phase=record.phase,
            timeouts=asdict(live.timeouts) if live is not None else {},
            deadlines=list(record.deadlines),
            server_errors=list(session.server_errors) if session is not None else [],
            errors=list(result.errors) if result is not None else [],
            close=live.connection.close_kind(session_closed=live.session.closed)
            if live is not None
            else "none",
            partial_text=" ".join(item["sentence"] for item in timed_sentences(texts)),
            open_responses=[r.label for r in session.open_responses()] if session is not None else [],
            anomalies=dict(sorted(session.anomalies.items())) if session is not None else {},
            unknown=sorted(session.strange) if session is not None else [],
            last_events=record.last_events(),
            socket_evidence=as_json(live.connection.samples if live is not None else (), record.answer),
            traceback=traceback,
        )

    def masked(self, headers: Mapping[str, str]) -> AttemptDiagnostics:
        """The same without the values of the request headers."""
        if not headers:
            return self
        return replace(self, **{key: _masked(value, headers) for key, value in asdict(self).items()})

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def _masked(value: Any, headers: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return masked(value, headers)
    if isinstance(value, list):
        return [_masked(item, headers) for item in value]
    if isinstance(value, dict):
        return {key: _masked(item, headers) for key, item in value.items()}
    return value
