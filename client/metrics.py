"""Latencies and rates of responses, sessions and runs, each with its origin (evaluation.md 20).

Milliseconds unless a name says otherwise, rounded to 3 decimals; ratios to 6. What was not measured is null or absent,
never 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from client.responses import ResponseRecord
from client.result import SampleResult
from client.wire import printable

Row = dict[str, Any]

PER_RESPONSE: Final = ("ttft_ms", "ttfp_ms", "rtf", "tpot_ms")
PER_SESSION: Final = ("stream_ttft_ms", "stream_ttfp_ms", "stream_rtf")
_CLIENT: Final = "client_monotonic_receive"
_SERVER: Final = "server_request_start_and_client_receive"
_THINKER: Final = "0"
_MS_DIGITS: Final = 3
_RATIO_DIGITS: Final = 6
_MOST: Final = 1e12
"""Beyond it, a server's figure is none: a mean of such could overflow."""
_NAME_SHOWN: Final = 200
_FLAT: Final = {
    "duplex_response_ttft_ms": "ttft_ms",
    "duplex_response_ttfp_ms": "ttfp_ms",
    "duplex_client_ttft_ms": "client_ttft_ms",
    "duplex_client_ttfp_ms": "client_ttfp_ms",
}
_REQUEST_FIGURES: Final = {
    "ttft_ms": ("ttft_s", 1000.0),
    "tpot_ms": ("tpot_s", 1000.0),
    "e2el_ms": ("e2el_s", 1000.0),
    "audio_ttfp_ms": ("audio_ttfp_s", 1000.0),
    "audio_rtf": ("audio_rtf", 1.0),
    "audio_duration_s": ("audio_duration_s", 1.0),
}


@dataclass(frozen=True)
class SampleMetrics:
    """The figures of one sample: JSON as it stands in `duplex_metrics.json`, and those of the request."""

    rows: list[Row] = field(default_factory=list)
    """One a response."""
    session: Row = field(default_factory=dict)
    request: Row = field(default_factory=dict)
    """`e2el_s`, `ttft_s`, `tpot_s`, `itls_s`, `audio_ttfp_s`, `audio_rtf`, `audio_duration_s`, `output_tokens`,
    `generated_text`; null where not measured."""

    def to_json(self) -> Row:
        """Plain data."""
        return {"rows": self.rows, "session": self.session, "request": self.request}

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> SampleMetrics:
        """Read back; what is missing is empty."""
        return cls(told.get("rows") or [], told.get("session") or {}, told.get("request") or {})


def sample_metrics(result: SampleResult, *, request_index: int, latency_s: float) -> SampleMetrics:
    """All figures of a sample's reported attempt.

    Args:
        request_index: its place in the order asked for, from 0.
        latency_s: of the reported attempt, start to return (R27).
    """
    rows = [
        response_row(response, result, request_index)
        for response in result.responses
        if response.audio_bytes or response.stage_metrics or response.request_metrics
    ]
    session = session_row(result, rows, request_index)
    return SampleMetrics(rows, session, request_figures(result, session, latency_s))


def response_row(response: ResponseRecord, result: SampleResult, request_index: int) -> Row:
    """One response. The server's own ttft and ttfp win where it gives them; the client's are told beside them."""
    told = response.request_metrics or {}
    client_ttft_ms = _since_ms(response.first_text_s, response.created_s)
    client_ttfp_ms = _since_ms(response.first_audio_s, response.created_s)
    served = {name: _usable(told.get(name)) for name in ("ttft_ms", "ttfp_ms")}
    generation_ms = _since_ms(response.last_audio_s, response.created_s)
    duration_ms = audio_duration_ms(response)
    row = {
        "session_id": printable(result.session_id, _NAME_SHOWN) or None,
        "sample_id": result.id,
        "split": result.split,
        "request_index": request_index,
        "response_id": printable(response.id, _NAME_SHOWN),
        "ttft_ms": _rounded(served["ttft_ms"] if served["ttft_ms"] is not None else client_ttft_ms),
        "ttfp_ms": _rounded(served["ttfp_ms"] if served["ttfp_ms"] is not None else client_ttfp_ms),
        "client_ttft_ms": _rounded(client_ttft_ms),
        "client_ttfp_ms": _rounded(client_ttfp_ms),
        "audio_generation_ms": _rounded(generation_ms),
        "audio_duration_ms": _rounded(duration_ms),
        "rtf": _ratio(generation_ms, duration_ms),
        "measurement_origin": _origins(served, told),
        "source": _SERVER if any(value is not None for value in served.values()) else _CLIENT,
        "late": response.late,
    }
    tpot_ms = _usable(_thinker(response).get("vllm_tpot_ms"))
    return {**row, "tpot_ms": _rounded(tpot_ms)} if tpot_ms else row


def audio_duration_ms(response: ResponseRecord) -> float:
    """Milliseconds of a response's audio: what the server says it has sent, else its bytes."""
    return response.audio_duration_ms or response.audio_bytes * 1000.0 / (2 * response.rate_hz)


def session_row(result: SampleResult, rows: Sequence[Row], request_index: int) -> Row:
    """One session: spreads over its responses, and the window since the first append where there was audio."""
    spoken = [response for response in result.responses if response.audio_bytes]
    row: Row = {
        "session_id": printable(result.session_id, _NAME_SHOWN) or None,
        "sample_id": result.id,
        "split": result.split,
        "request_index": request_index,
        "audio_turn_count": len(spoken),
    }
    for name in PER_RESPONSE:
        values = [row[name] for row in rows if row.get(name) is not None]
        row[name] = spread([v for v in values if v > 0] if name == "tpot_ms" else values, _digits(name))
    if not spoken or result.stream_start_s is None:
        return row
    texts = [r.first_text_s for r in result.responses if r.first_text_s is not None]
    generation_ms = _since_ms(max(r.last_audio_s or 0.0 for r in spoken), result.stream_start_s)
    duration_ms = sum(audio_duration_ms(response) for response in spoken)
    return {
        **row,
        "stream_ttft_ms": _rounded(_since_ms(min(texts, default=None), result.stream_start_s)),
        "stream_ttfp_ms": _rounded(
            _since_ms(min(r.first_audio_s or 0.0 for r in spoken), result.stream_start_s)
        ),
        "stream_audio_generation_ms": _rounded(generation_ms),
        "stream_audio_duration_ms": _rounded(duration_ms),
        "stream_rtf": _ratio(generation_ms, duration_ms),
    }


def request_figures(result: SampleResult, session: Row, latency_s: float) -> Row:
    """What a serving benchmark keeps of a request; seconds."""
    tokens = [_count(_thinker(response).get("num_tokens_out")) for response in result.responses]
    intervals = [_intervals_ms(response) for response in result.responses if response.stage_metrics]
    itls_ms = [gap for of_one in intervals for gap in of_one or ()]
    complete = bool(itls_ms) and all(of_one is not None for of_one in intervals)
    tpot_ms = sum(itls_ms) / len(itls_ms) if complete else _weighted_tpot_ms(result.responses)
    bytes_a_second = 2 * result.audio_sample_rate_hz
    return {
        "e2el_s": round(latency_s, 6),
        "ttft_s": _seconds(_mean_of(session, "ttft_ms")),
        "audio_ttfp_s": _seconds(_mean_of(session, "ttfp_ms")),
        "audio_rtf": _mean_of(session, "rtf"),
        "tpot_s": _seconds(tpot_ms),
        "itls_s": [round(gap / 1000.0, 6) for gap in itls_ms] if complete else [],
        "output_tokens": sum(tokens),
        "audio_duration_s": round(result.audio_bytes / bytes_a_second, 6),
        "generated_text": " ".join(item["sentence"] for item in result.timed_sentences),
    }


def run_metrics(samples: Iterable[SampleMetrics]) -> Row:
    """The keys of a run over its successful samples: rows, sessions, spreads, flat keys (evaluation.md 19, 20)."""
    kept = list(samples)
    rows = [row for sample in kept for row in sample.rows]
    sessions = [sample.session for sample in kept if sample.session]
    told: Row = {"duplex_request_metrics": rows, "duplex_session_metrics": sessions}
    for name in PER_SESSION:
        told[f"duplex_{name}"] = spread(_finite(session.get(name) for session in sessions), _digits(name))
    for flat, name in _FLAT.items():
        told.update(flat_keys(flat, _finite(row.get(name) for row in rows)))
    return told


def request_statistics(requests: Sequence[Row]) -> Row:
    """Mean, median and 99th percentile of the requests' figures; null where nothing was measured."""
    told: Row = {}
    for name, (key, scale) in _REQUEST_FIGURES.items():
        values = [value * scale for value in _finite(request.get(key) for request in requests)]
        told.update({f"{which}_{name}": value for which, value in _three(values, _digits(name)).items()})
    gaps = [gap * 1000.0 for request in requests for gap in request.get("itls_s") or ()]
    told.update({f"{which}_itl_ms": value for which, value in _three(gaps).items()})
    return {**told, "total_output_tokens": sum(request.get("output_tokens") or 0 for request in requests)}


def spread(values: Sequence[float], digits: int = _MS_DIGITS) -> Row | None:
    """Count, mean, median and 99th percentile, nearest rank; None for no value."""
    if not values:
        return None
    three = _three(values, digits)
    return {"count": len(values), "mean": three["mean"], "p50": three["median"], "p99": three["p99"]}


def flat_keys(name: str, values: Sequence[float]) -> Row:
    """`num_<name>_samples`, `mean_<name>`, `median_<name>`, `p99_<name>`."""
    return {
        f"num_{name}_samples": len(values),
        **{f"{which}_{name}": value for which, value in _three(values).items()},
    }


def nearest_rank(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed: index ceil(share * n) - 1."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _three(values: Sequence[float], digits: int = _MS_DIGITS) -> dict[str, float | None]:
    if not values:
        return {"mean": None, "median": None, "p99": None}
    return {
        "mean": round(math.fsum(values) / len(values), digits),
        "median": round(nearest_rank(values, 0.5), digits),
        "p99": round(nearest_rank(values, 0.99), digits),
    }


def _digits(name: str) -> int:
    """Decimals of a figure by its name: 3 of milliseconds, 6 of ratios and seconds."""
    return _MS_DIGITS if name.endswith("_ms") else _RATIO_DIGITS


def _origins(served: Mapping[str, float | None], told: Mapping[str, Any]) -> dict[str, str]:
    """For ttft and ttfp: from when they count, in words."""
    said = told.get("measurement_origin")
    said = said if isinstance(said, Mapping) else {}
    return {
        short: printable(said.get(short, "server request start"), _NAME_SHOWN)
        if served[f"{short}_ms"] is not None
        else "response.created received"
        for short in ("ttft", "ttfp")
    }


def _thinker(response: ResponseRecord) -> Mapping[str, Any]:
    stage = (response.stage_metrics or {}).get(_THINKER)
    return stage if isinstance(stage, dict) else {}


def _intervals_ms(response: ResponseRecord) -> list[float] | None:
    """Gaps between all tokens of a response; None where some are missing."""
    gaps = _thinker(response).get("vllm_itls_ms")
    tokens = _count(_thinker(response).get("num_tokens_out"))
    if not isinstance(gaps, list) or len(gaps) < tokens - 1:
        return None
    usable = [gap for gap in map(_usable, gaps) if gap is not None]
    return usable if len(usable) == len(gaps) else None


def _weighted_tpot_ms(responses: Iterable[ResponseRecord]) -> float | None:
    pairs = []
    for response in responses:
        tpot_ms = _usable(_thinker(response).get("vllm_tpot_ms"))
        tokens = _count(_thinker(response).get("num_tokens_out"))
        if tpot_ms and tokens:
            pairs.append((tpot_ms, tokens))
    total = sum(tokens for _, tokens in pairs)
    return math.fsum(tpot_ms * tokens for tpot_ms, tokens in pairs) / total if total else None


def _mean_of(session: Row, name: str) -> float | None:
    value = session.get(name)
    return value["mean"] if isinstance(value, dict) else None


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MOST else 0


def _usable(value: Any) -> float | None:
    """A number that is not negative and can be one of these figures."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= _MOST else None


def _finite(values: Iterable[Any]) -> list[float]:
    return [value for value in map(_usable, values) if value is not None]


def _since_ms(at_s: float | None, origin_s: float) -> float | None:
    return None if at_s is None else max(0.0, (at_s - origin_s) * 1000.0)


def _ratio(part: float | None, whole: float) -> float | None:
    ratio = None if part is None or whole <= 0 else _usable(part / whole)
    return None if ratio is None else round(ratio, _RATIO_DIGITS)


def _rounded(value_ms: float | None) -> float | None:
    return None if value_ms is None else round(value_ms, _MS_DIGITS)


def _seconds(value_ms: float | None) -> float | None:
    return None if value_ms is None else round(value_ms / 1000.0, 6)
