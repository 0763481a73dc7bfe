"""A scripted judge in front of a live answer: its script is played in the judge's place, and counted by the script.

The answer has as many sentences as the live server says. Where they are more than the scripted ones, the script's last
reply that fits is given once more; what a statement counts is then counted without those judgements.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scenarios.faults_judge import Stall
from scenarios.model import Scenario

if TYPE_CHECKING:
    from conformance.judging import Judged, JudgedFacts
    from conformance.observation import Observation
    from mockserver.judge_ledger import JudgeRequest

PATIENCE_S = 20.0
"""What a client is told to give a judge that stalls: ten minutes would be spent waiting."""
COUNTED = frozenset(
    {
        "judge.requests",
        "judge.reasks",
        "judge.transport_retries",
        "judge.scored",
        "judge.reason",
        "judge.trace",
    }
)
"""Statements that hold of a played script whatever the words of the answer."""
BY_THE_CLOCK = ("PR_event_reminder", "PR_post_event_reminder")
"""Splits of which it depends on when something was said whether the judge is asked at all."""


def hastened(scenario: Scenario) -> Scenario:
    """The same with a judge that stalls for seconds, not minutes; what is said of its time says the new one."""
    spec = scenario.judge
    stalls = [fault for fault in scenario.faults if isinstance(fault, Stall)]
    if spec is None or not stalls or spec.timeout_s <= PATIENCE_S:
        return scenario
    part = PATIENCE_S / spec.timeout_s
    faults = [
        fault.model_copy(update={"delay_s": fault.delay_s * part})
        if isinstance(fault, Stall) and fault.delay_s is not None
        else fault
        for fault in scenario.faults
    ]
    expect = scenario.expect
    wanted = expect.judge.sample if expect.judge is not None else None
    if wanted is not None and wanted.reason == {"contains": f"{spec.timeout_s:g}"}:
        told = wanted.model_copy(update={"reason": {"contains": f"{PATIENCE_S:g}"}})
        assert expect.judge is not None
        expect = expect.model_copy(update={"judge": expect.judge.model_copy(update={"sample": told})})
    judge = spec.model_copy(update={"timeout_s": PATIENCE_S})
    return scenario.model_copy(update={"judge": judge, "faults": faults, "expect": expect})


def played(judged: Judged | None) -> tuple[str, ...]:
    """What of the judge was played in its place, in words; empty: nothing."""
    if judged is None or not judged.spec.is_scripted:
        return ()
    told = {
        "script": "by the scenario's script",
        "again": "by its last reply once more",
        "heuristic": "by a plausible verdict, since the script has none of the kind",
        "fault": "by a fault",
    }
    counts = {name: sum(entry.source == name for entry in judged.ledger) for name in told}
    parts = ", ".join(f"{count} {told[name]}" for name, count in counts.items() if count)
    return (f"the judge: {len(judged.ledger)} request(s)" + (f", answered {parts}" if parts else ""),)


def by_the_script(observation: Observation) -> Observation:
    """What was observed, without the judgements of sentences that the scripted answer does not have."""
    judged = observation.judged
    if judged is None:
        return observation
    within = sentences_of("".join(reply.text for reply in observation.scenario.server.reply))
    beyond = {
        _judgement(entry)
        for entry in judged.ledger
        if entry.kind == "temporal" and not entry.beside and entry.judgement > within
    }
    if not beyond:
        return observation
    return replace(
        observation,
        judged=replace(
            judged,
            ledger=[entry for entry in judged.ledger if _judgement(entry) not in beyond],
            samples=[_without(facts, beyond) for facts in judged.samples],
        ),
    )


def sentences_of(text: str) -> int:
    """How many a text has, by their marks."""
    return len([part for part in re.split(r"[.!?\u3002\uff01\uff1f]+", text) if part.strip()])


def _judgement(entry: JudgeRequest) -> tuple[Any, ...]:
    return entry.sample, entry.kind, entry.beside, entry.judgement


def _without(facts: JudgedFacts, beyond: set[tuple[Any, ...]]) -> JudgedFacts:
    left = [_judgement(entry) not in beyond for entry in facts.requests]
    mine = {judgement for judgement in map(_judgement, facts.requests) if judgement in beyond}
    trace = facts.trace
    if len(trace) == len(left):  # one line a request, in their order; where not, the invariants say so
        trace = tuple(line for line, kept in zip(trace, left, strict=True) if kept)
    requests = tuple(entry for entry, kept in zip(facts.requests, left, strict=True) if kept)
    return replace(facts, requests=requests, trace=trace, score=_shorter(facts.score, len(mine)))


def _shorter(score: Any, rows: int) -> Any:
    """A score file without its last rows."""
    part = score.get("temporal") if isinstance(score, dict) else None
    if not isinstance(part, dict) or not isinstance(part.get("sentences"), list):
        return score
    return {**score, "temporal": {**part, "sentences": part["sentences"][: -rows or None]}}


def script_played(observation: Observation) -> bool:
    """Whether the script could be played whole, for samples whose judging does not go by the clock.

    An answer with fewer sentences than the scripted one leaves replies of the script unasked for.
    """
    judged = observation.judged
    if judged is None or not judged.spec.is_scripted:
        return False
    within = sentences_of("".join(reply.text for reply in observation.scenario.server.reply))
    texts = {facts.name: facts.text for facts in observation.samples}
    return all(
        facts.split not in BY_THE_CLOCK and sentences_of(texts.get(facts.name, "")) >= within
        for facts in judged.samples
    )
