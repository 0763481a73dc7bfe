"""Rules of the model that look at the judging."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from conformance.observation import Observation
from conformance.outcome import Finding

if TYPE_CHECKING:
    from mockserver.judge_ledger import JudgeRequest


def check_judge(observation: Observation) -> Iterator[Finding]:
    """Findings of the judging."""
    judged = observation.judged
    if judged is None or not judged.finished:
        return
    for facts in judged.samples:
        of: dict[tuple[Any, ...], list[JudgeRequest]] = {}
        for request in facts.requests:
            if not request.beside and request.kind is not None:
                of.setdefault((request.kind, request.judgement, request.mode), []).append(request)
        for (kind, judgement, _), requests in of.items():
            yield from _asked_again(facts, f"{kind} judgement {judgement}", requests)
        yield from _first_lines(facts)


def _asked_again(facts: Any, what: str, requests: list[JudgeRequest]) -> Iterator[Finding]:
    """A whole reply without a usable verdict is asked for once more, and shown (R52, R53)."""
    last = requests[-1]
    unusable = last.answered and last.verdict.standing in ("missing", "invalid")
    if not unusable or any(request.reask for request in requests):
        return
    again = [
        r for r in facts.requests if r.number > last.number and r.kind == last.kind and last.text in r.text
    ]
    told = f"{what}: {last.verdict.standing}, {last.verdict.detail}; "
    if again:
        told += f"asked again in request {again[0].number} as if it had never been said"
        yield Finding("judge.reasks", ("R53",), "a re-ask shows the judge's own reply", told, facts.name)
        return
    expected = "a reply without a usable verdict is asked for once more"
    yield Finding("judge.requests", ("R52",), expected, told + "not asked again", facts.name)


def _first_lines(facts: Any) -> Iterator[Finding]:
    """The trace says of an unusable reply what was wrong with it (R55, R58)."""
    if len(facts.trace) != len(facts.requests):
        return  # told by the ledger's own invariant
    unusable = [r for r in facts.requests if r.answered and r.verdict.standing in ("missing", "invalid")]
    silent = sum(1 for line in facts.trace if line.get("error") in (None, ""))
    if unusable and silent > len(facts.requests) - len(unusable):
        told = f"{silent} line(s) without an error; {len(unusable)} of {len(facts.requests)} replies were unusable"
        yield Finding("judge.trace", ("R55", "R58"), "each unusable reply has its error", told, facts.name)
