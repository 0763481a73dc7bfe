"""The faults of one judge: made from their specs, composed in the scenario's order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mockserver.faults.judge_choices_empty import ChoicesEmpty
from mockserver.faults.judge_empty import Empty
from mockserver.faults.judge_fenced import Fenced
from mockserver.faults.judge_http_status import HttpStatus
from mockserver.faults.judge_invalid_field import InvalidField
from mockserver.faults.judge_missing_field import MissingField
from mockserver.faults.judge_prose import Prose
from mockserver.faults.judge_refusal import Refusal
from mockserver.faults.judge_stall import Stall
from mockserver.faults.judge_think_block import ThinkBlock
from mockserver.faults.judge_tool_call import ToolCall
from mockserver.faults.judge_truncated import Truncated
from mockserver.faults.judging import JudgeFault, JudgeFaultRun
from mockserver.judge_answers import Answer, Hold, HttpError
from mockserver.judge_ledger import JudgeRequest
from scenarios.faults_base import FaultBase
from scenarios.faults_judge import JudgeFault as Spec

JUDGE_FAULTS: Mapping[str, Callable[[Any], JudgeFault]] = {
    fault.name: fault
    for fault in (
        Prose,
        Fenced,
        ThinkBlock,
        MissingField,
        InvalidField,
        Truncated,
        Empty,
        HttpStatus,
        Stall,
        ChoicesEmpty,
        ToolCall,
        Refusal,
    )
}
"""Faults the judge plays, by name; each is made from its spec."""


class JudgeFaultSet:
    """All faults of one judge.

    Args:
        specs: in the scenario's order.
        changed: called at each change of state of one.
    Raises ValueError: one that the judge does not play.
    """

    def __init__(self, specs: Sequence[FaultBase], changed: Callable[[JudgeFaultRun], None]) -> None:
        self.runs: list[JudgeFaultRun] = []
        for index, spec in enumerate(specs):
            if not isinstance(spec, Spec) or spec.name not in JUDGE_FAULTS:
                known = ", ".join(sorted(JUDGE_FAULTS))
                raise ValueError(f"the judge does not play {spec.name!r}; it plays: {known}")
            self.runs.append(JudgeFaultRun(spec, index, JUDGE_FAULTS[spec.name](spec), changed))

    def take(self, entry: JudgeRequest) -> list[JudgeFaultRun]:
        """The faults that act on a request, in order; each has counted it."""
        return [run for run in self.runs if run.takes(entry)]


def in_front(
    taken: Sequence[JudgeFaultRun], entry: JudgeRequest
) -> tuple[JudgeFaultRun, HttpError | Hold] | None:
    """What the first fault in front of the model does with a request, if there is one."""
    for run in taken:
        instead = run.fault.instead(entry)
        if instead is not None:
            return run, instead
    return None


def change(taken: Sequence[JudgeFaultRun], answer: Answer, entry: JudgeRequest) -> list[JudgeFaultRun]:
    """Let each fault change the answer; those that found something to change."""
    return [run for run in taken if run.fault.change(answer, entry)]
