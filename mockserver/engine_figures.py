"""What the server tells of its engine: stage metrics and request metrics of a reply (protocol.md 13).

The figures follow from the script and its pace, so the same seed gives the same ones: each word of a unit is a token,
the tokens of a unit are spread evenly over its model time, and time between units is nobody's.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mockserver.audio import OUTPUT_RATE_HZ
from mockserver.wire import Event

TOKENS_IN = 25
"""Tokens that the model reads a unit."""
TOKEN_MS = 40
"""Audio that one token of the talker becomes."""


@dataclass(frozen=True)
class Spent:
    """The model time behind one decided unit, milliseconds."""

    waited_ms: float
    """From the submission until the unit was told; the model time is part of it."""
    first_token_ms: float
    """What the reply's first token took beyond the unit's own time; 0 for later units."""
    unit_ms: float


@dataclass
class EngineFigures:
    """The figures of one response, cumulative over its units (13.1)."""

    _gaps_ms: list[float] = field(default_factory=list)
    _units: int = 0
    _tokens: int = 0
    _audio_ms: int = 0
    _ttft_ms: float = 0.0
    _gen_ms: float = 0.0

    def unit(self, text: str, audio_ms: int, spent: Spent) -> None:
        """One more unit of the reply."""
        tokens = _tokens(text)
        gap_ms = spent.unit_ms / tokens
        if not self._units:
            self._ttft_ms = spent.first_token_ms + gap_ms
        self._gaps_ms += [round(gap_ms, 3)] * (tokens if self._units else tokens - 1)
        self._units += 1
        self._tokens += tokens
        self._audio_ms += audio_ms
        self._gen_ms += spent.first_token_ms + spent.unit_ms

    def stages(self) -> Event:
        """`stage_metrics` so far: thinker, talker, vocoder."""
        thinker: Event = {
            "num_tokens_in": TOKENS_IN * self._units,
            "num_tokens_out": self._tokens,
            "vllm_ttft_ms": round(self._ttft_ms, 3),
            "vllm_itls_ms": list(self._gaps_ms),
            "stage_gen_time_ms": round(self._gen_ms, 3),
            "output_unit_count": self._units,
        }
        if self._gaps_ms:
            mean_ms = round(sum(self._gaps_ms) / len(self._gaps_ms), 3)
            thinker |= {"vllm_itl_ms": mean_ms, "vllm_tpot_ms": mean_ms}
        return {
            "0": thinker,
            "1": {"num_tokens_in": self._tokens, "num_tokens_out": self._audio_ms // TOKEN_MS},
            "2": {
                "audio_generated_frames": self._audio_ms * OUTPUT_RATE_HZ // 1000,
                "audio_duration_s": self._audio_ms / 1000,
                "output_unit_count": self._units,
            },
        }


def listening_stages(spent: Spent) -> Event:
    """`stage_metrics` of a `response.listen`: those of its unit alone (13.1)."""
    return {"0": {"num_tokens_in": TOKENS_IN, "num_tokens_out": 1, "vllm_ttft_ms": round(spent.unit_ms, 3)}}


def request_metrics(text: str, spent: Spent) -> Event:
    """`response_request_metrics` of a reply that begins with this unit; its request starts with the submission (13.2).

    Args:
        text: of the reply's first unit.
    """
    after_first_ms = spent.unit_ms - spent.unit_ms / _tokens(text)
    origin = "submission of the unit on which the reply begins"
    return {
        "source": "server_monotonic_request_start",
        "measurement_origin": {"ttft": origin, "ttfp": origin},
        "ttft_ms": round(spent.waited_ms - after_first_ms, 3),
        "ttfp_ms": round(spent.waited_ms, 3),
    }


def _tokens(text: str) -> int:
    return max(1, len(text.split()))
