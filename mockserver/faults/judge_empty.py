"""`empty` of the judge."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.judging import JudgeFault
from mockserver.judge_answers import Answer
from mockserver.judge_ledger import JudgeRequest
from scenarios.faults_judge import Empty as Spec


class Empty(JudgeFault):
    """The reply is complete and says nothing.

    Wire: `finish_reason` `stop`, content an empty string or null.
    Parameters: `content` (text, null).
    Survive: reject it as incomplete, never as a zero.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        self._spec = spec

    def change(self, answer: Answer, entry: JudgeRequest) -> bool:
        answer.content = "" if self._spec.content == "text" else None
        return True
