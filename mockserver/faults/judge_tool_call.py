"""`tool_call` of the judge."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.judging import JudgeFault
from mockserver.judge_answers import Answer
from mockserver.judge_ledger import JudgeRequest
from scenarios.faults_judge import ToolCall as Spec


class ToolCall(JudgeFault):
    """The verdict comes as arguments of a tool call that nobody offered.

    Wire: content null, the model's reply as the arguments of `submit_score`, `finish_reason` `tool_calls`.
    Parameters: none.
    Survive: arguments of an unasked tool call are no verdict.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        """It has no parameters of its own."""

    def change(self, answer: Answer, entry: JudgeRequest) -> bool:
        function = {"name": "submit_score", "arguments": answer.content or "{}"}
        answer.extra["tool_calls"] = [{"id": "call_1", "type": "function", "function": function}]
        answer.content, answer.finish_reason = None, "tool_calls"
        return True
