"""`refusal` of the judge."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.judging import JudgeFault
from mockserver.judge_answers import Answer
from mockserver.judge_ledger import JudgeRequest
from scenarios.faults_judge import Refusal as Spec


class Refusal(JudgeFault):
    """The judge refuses.

    Wire: content null, the reason in `refusal`, `finish_reason` `stop`.
    Parameters: `text`.
    Survive: no score, and the refusal is named as the reason; never a zero.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        self._spec = spec

    def change(self, answer: Answer, entry: JudgeRequest) -> bool:
        answer.content = None
        answer.extra["refusal"] = self._spec.text
        return True
