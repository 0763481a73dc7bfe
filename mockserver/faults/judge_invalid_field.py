"""`invalid_field` of the judge."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.judging import JudgeFault, field_of, put, verdict_object
from mockserver.judge_answers import Answer
from mockserver.judge_ledger import JudgeRequest
from scenarios.faults_judge import InvalidField as Spec


class InvalidField(JudgeFault):
    """A required field of the verdict is there with a value that cannot be used.

    Wire: the model's verdict with `value` in `field`.
    Parameters: `field`, None is the first that the kind requires; `value`, any JSON. A reply without the field is
    left alone.
    Survive: ask once more and say that the field is invalid, not that it is missing; never clamp it.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        self._spec = spec

    def change(self, answer: Answer, entry: JudgeRequest) -> bool:
        verdict, name = verdict_object(answer), field_of(self._spec.field, entry)
        if verdict is None or name not in verdict:
            return False
        put(answer, verdict)
        before = answer.content
        put(answer, {**verdict, name: self._spec.value})
        return answer.content != before
