"""`fenced` of the judge."""

from __future__ import annotations

from typing import ClassVar

import orjson

from mockserver.faults.judging import JudgeFault, verdict_object
from mockserver.judge_answers import Answer
from mockserver.judge_ledger import JudgeRequest
from scenarios.faults_judge import Fenced as Spec


class Fenced(JudgeFault):
    """The verdict stands in a Markdown fence with a remark before and after it.

    Wire: the model's own verdict, indented, in ```json, with text around it.
    Parameters: none. A reply that is no verdict is left alone, and the fault is not observed.
    Survive: take the object; nothing is asked again.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        """It has no parameters of its own."""

    def change(self, answer: Answer, entry: JudgeRequest) -> bool:
        verdict = verdict_object(answer)
        if verdict is None:
            return False
        inside = orjson.dumps(verdict, option=orjson.OPT_INDENT_2).decode()
        answer.content = (
            f"Sure, here is my evaluation.\n\n```json\n{inside}\n```\n\nIt was a close call on the colours."
        )
        return True
