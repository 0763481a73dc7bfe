"""A re-ask says what was wrong with the reply: what the trace says of that reply stands in the next request (R54)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from conformance.outcome import Finding

if TYPE_CHECKING:
    from conformance.judging import JudgedFacts
    from conformance.observation import Observation


def judge_reask_reason(observation: Observation) -> Iterator[Finding]:
    """Trace and re-ask give the same parse error. Asked of our own client: another may say it in other words."""
    if observation.judged is None or observation.outside:
        return
    for facts in observation.judged.samples:
        yield from _reasons(facts)


def _reasons(facts: JudgedFacts) -> Iterator[Finding]:
    requests, lines = facts.all_requests, facts.trace
    if len(requests) != len(lines):
        return  # told by the ledger: which line is of which request is not known then
    for number, entry in enumerate(requests):
        if not entry.reask or entry.repeats:
            continue
        same = [
            line
            for request, line in zip(requests[:number], lines, strict=False)
            if (request.kind, request.judgement) == (entry.kind, entry.judgement) and request.answered
        ]
        error = same[-1].get("error") if same else None
        if isinstance(error, str) and " ".join(error.split()) not in " ".join(entry.complaint.split()):
            yield Finding(
                "judge-reask-reason",
                ("R54",),
                f"the re-ask says what was wrong: {error!r}",
                f"it says {entry.complaint[:200]!r}",
                facts.name,
            )
