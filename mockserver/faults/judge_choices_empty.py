"""`choices_empty` of the judge."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.judging import JudgeFault
from mockserver.judge_answers import Answer
from mockserver.judge_ledger import JudgeRequest
from scenarios.faults_judge import ChoicesEmpty as Spec


class ChoicesEmpty(JudgeFault):
    """Status 200, and no choice in it.

    Wire: `choices` is an empty list; or null, beside an error object with code 429, as gateways send it.
    Parameters: `choices` (empty, null).
    Survive: an error of its own name, no index error; where the body names a rate limit, try again.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        self._spec = spec

    def change(self, answer: Answer, entry: JudgeRequest) -> bool:
        answer.odd_choices, answer.content = True, None
        if self._spec.choices == "empty":
            answer.choices = []
        else:
            answer.choices = None
            raw = {"raw": "rate limited"}
            answer.error = {"message": "upstream refused the request", "code": 429, "metadata": raw}
        return True
