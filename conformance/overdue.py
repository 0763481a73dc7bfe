"""Which deadline of the client should have acted: in a hang, in a wait that ran over, for a timeout not told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from conformance.observation import Observation
from conformance.outcome import Finding

if TYPE_CHECKING:
    from client.deadlines import Deadlines

TOLD_BY: Mapping[str, str] = {
    "metadata.ack_timeout": "final_ack",
    "metadata.close_timeout": "closing",
    "metadata.stream_timeout": "streaming",
    "metadata.drain_timeout": "draining",
}
"""The phase whose deadline a key of the metadata tells of."""
ABOUT_TIME = (
    "finishes_within_s",
    "sample.outcome",
    "sample.error",
    "sample.close",
    "sample.attempts",
    "run.",
    "metadata.",
)
"""Findings that a wait without its bound explains."""
MARGIN_S = 0.5
"""A phase that lasted so much longer than its bound ran over it."""


def covering(phase: str, deadlines: Deadlines, clip_s: float) -> tuple[str, float]:
    """Name and seconds of the deadline that bounds a phase of the client (evaluation.md 10); else the request's."""
    window_s = clip_s + deadlines.drain_slack_s
    bounds = {
        "connecting": ("connect_s", deadlines.connect_s),
        "configuring": ("created_s", deadlines.created_s),
        "streaming": ("write_s", deadlines.write_s),
        "committed": ("write_s", deadlines.write_s),
        "draining": ("the drain window", window_s),
        "pad_join": ("grace_s", deadlines.grace_s),
        "ack_join": ("grace_s", deadlines.grace_s),
        "final_ack": ("ack_s", deadlines.ack_s),
        "closing": ("close_s + grace_s", deadlines.close_s + deadlines.grace_s),
        "forcing": ("grace_s", deadlines.grace_s),
    }
    return bounds.get(phase, ("request_s", deadlines.request_s))


def longest_wait(observation: Observation) -> str:
    """The deadline that should have covered the wait that the client hangs in."""
    if observation.phase == "judging" and observation.judged is not None:
        return f"the judge's timeout_s ({observation.judged.spec.timeout_s:g} s), while judging"
    name, seconds = covering(observation.phase, observation.deadlines, _clip_s(observation, None))
    return f"{name} ({seconds:g} s), in phase {observation.phase or 'unknown'}"


def with_deadline(observation: Observation, finding: Finding) -> Finding:
    """The finding with the deadline that should have acted, where there is one to name and none is named yet."""
    if finding.deadline is not None:
        return finding
    phase = TOLD_BY.get(finding.id)
    if phase is not None and finding.actual == "None":
        name, seconds = covering(phase, observation.deadlines, _clip_s(observation, finding.sample))
        return replace(finding, deadline=f"{name} ({seconds:g} s), in phase {phase}")
    if finding.id.startswith(ABOUT_TIME):
        overrun = _overrun(observation, finding.sample)
        return replace(finding, deadline=overrun) if overrun else finding
    return finding


def _overrun(observation: Observation, sample: str | None) -> str | None:
    """The phase of a session that ran furthest over its bound, as the client told of its phases; None: none did."""
    assert observation.recorder is not None
    since: dict[str, tuple[str, float]] = {}
    worst: tuple[float, str] | None = None
    for record in observation.recorder.records:
        if record.side != "client" or record.what not in ("attempt_started", "phase", "attempt_ended"):
            continue
        if sample is not None and not record.session.startswith(f"{sample}#"):
            continue
        phase, start_s = since.pop(record.session, ("", record.t_s))
        if record.what != "attempt_ended":
            since[record.session] = (str(record.data.get("name", "connecting")), record.t_s)
        if phase in ("", "streaming", "settled"):
            continue  # a stream lasts as long as its clip; each of its writes has the bound
        clip_s = _clip_s(observation, record.session.partition("#")[0])
        name, seconds = covering(phase, observation.deadlines, clip_s)
        over_s = record.t_s - start_s - seconds
        if over_s > MARGIN_S and (worst is None or over_s > worst[0]):
            worst = (
                over_s,
                f"{name} ({seconds:g} s), in phase {phase}, which lasted {record.t_s - start_s:.1f} s",
            )
    return None if worst is None else worst[1]


def _clip_s(observation: Observation, sample: str | None) -> float:
    lengths = [p.video_duration_s for p in observation.prepared if sample in (None, f"{p.split}/{p.id}")]
    return max(lengths, default=0.0)
