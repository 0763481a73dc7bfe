"""What a right client makes of a session, derived from what was seen: the model that judges drawn scenarios.

A drawn scenario has no expectation of its own. These rules say what follows from evaluation.md for any session, each
only where it is beyond doubt, and name the check that a scenario of the catalogue would have failed. They are written
from the specification and share nothing with the client.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from conformance.fuzz.attempts import Attempt
from conformance.fuzz.oracle_close import CLOSE_RULES
from conformance.fuzz.oracle_judge import check_judge
from conformance.fuzz.oracle_session import SESSION_RULES, teardown_over_s
from conformance.fuzz.oracle_stream import STREAM_RULES, drain_over_s
from conformance.observation import Observation
from conformance.outcome import Finding

Rule = Callable[[Observation, list[Attempt]], Iterator[Finding]]

RULES: tuple[Rule, ...] = (*SESSION_RULES, *CLOSE_RULES, *STREAM_RULES)
"""In the order their findings are told."""


def check_model(observation: Observation, of_samples: Iterable[list[Attempt]]) -> Iterator[Finding]:
    """Findings of every rule over every sample; a cancelled sample and a hang say nothing more."""
    if observation.watchdog_fired or observation.livelock or observation.client_error is not None:
        return
    if any(report.name == "slow_disk" for report in observation.faults):
        return  # its loop stands still for whole writes: what was late and what was made late is not told apart
    for attempts in of_samples:
        if not attempts or attempts[-1].ended_s is None:
            continue
        for rule in RULES:
            yield from rule(observation, attempts)
    yield from check_judge(observation)


def longest_right_s(observation: Observation, of_samples: Iterable[list[Attempt]]) -> float:
    """What a right client takes at most where this one took its time: the scenario's own length and its bounds.

    What was waited in vain is taken away: the rest of a teardown behind its deadlines, of a drain behind its quiet. Of
    samples side by side each is looked at by itself: none is begun later because another ends earlier.
    """
    in_vain_s: list[float] = []
    ends_s: list[float] = []
    for attempts in of_samples:
        over_s = [teardown_over_s(observation, a) + drain_over_s(observation, a) for a in attempts]
        in_vain_s.append(sum(over_s))
        ends_s += [attempt.ended_s - sum(over_s) for attempt in attempts[-1:] if attempt.ended_s is not None]
    longest_s = observation.client_s - sum(in_vain_s)
    if observation.scenario.client.concurrency > 1:
        longest_s = max(longest_s, *ends_s)
    return math.ceil(longest_s * 10) / 10


def statement(finding: Finding) -> dict[str, Any] | None:
    """The `expect` of the catalogue that would find the same; None: the invariants find it by themselves.

    Only where the finding says all of it: what cannot be put into one literal is left to a person. What
    `finishes_within_s` must be, the performance says: `longest_right_s`.
    """
    if finding.id == "sample.outcome" and finding.expected.startswith("published"):
        return {"sample": {"outcome": "published"}}
    if finding.id == "sample.outcome" and finding.expected.startswith("failed"):
        return {"sample": {"outcome": "failed"}}
    if finding.id == "sample.attempts" and "tried once more" in finding.expected:
        return {"sample": {"attempts": 2}}
    if finding.id == "sample.attempts":
        return {"sample": {"outcome": "failed", "attempts": 1}}
    if finding.id in ("metadata.ack_timeout", "metadata.close_timeout"):
        return {
            "metadata": {finding.id.removeprefix("metadata."): None if "null" in finding.expected else "set"}
        }
    return None
