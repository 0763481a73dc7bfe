"""`prose` of the judge."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.judging import JudgeFault
from mockserver.judge_answers import Answer
from mockserver.judge_ledger import JudgeRequest
from scenarios.faults_judge import Prose as Spec


class Prose(JudgeFault):
    """The judge answers in plain words, without an object and without a score.

    Wire: the reply's content is `text`; `finish_reason` stays.
    Parameters: `text`.
    Survive: ask once more, with the reply echoed and the format told; a second such reply leaves the judgement
    unscored.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        self._spec = spec

    def change(self, answer: Answer, entry: JudgeRequest) -> bool:
        answer.content = self._spec.text
        return True
