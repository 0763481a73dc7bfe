"""`missing_field` of the judge."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.judging import JudgeFault, field_of, put, verdict_object
from mockserver.judge_answers import Answer
from mockserver.judge_ledger import JudgeRequest
from scenarios.faults_judge import MissingField as Spec


class MissingField(JudgeFault):
    """A required field of the verdict is left out.

    Wire: the model's verdict without `field`.
    Parameters: `field`; None is the first that the kind requires. A reply without it is left alone.
    Survive: ask once more and say which field is missing; never score it as zero.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        self._spec = spec

    def change(self, answer: Answer, entry: JudgeRequest) -> bool:
        verdict, name = verdict_object(answer), field_of(self._spec.field, entry)
        if verdict is None or name not in verdict:
            return False
        put(answer, {key: value for key, value in verdict.items() if key != name})
        return True
