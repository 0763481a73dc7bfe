"""`truncated` of the judge."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.judging import JudgeFault
from mockserver.judge_answers import Answer
from mockserver.judge_ledger import JudgeRequest
from scenarios.faults_judge import Truncated as Spec


class Truncated(JudgeFault):
    """The reply is cut short.

    Wire: the first `keep_characters` of the reply, `finish_reason` `length`.
    Parameters: `keep_characters` (count; None: all but the last, so that a score can be read in what is left). A
    reply that is not longer than that is left alone.
    Survive: reject it whatever it holds, trace the finish reason, and do not ask for it again: the same limit
    would cut it again. Content may fall back to frames.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        self._spec = spec

    def change(self, answer: Answer, entry: JudgeRequest) -> bool:
        text = answer.content or ""
        keep = len(text) - 1 if self._spec.keep_characters is None else self._spec.keep_characters
        if keep < 0 or keep >= len(text):
            return False
        answer.content, answer.finish_reason = text[:keep], "length"
        return True
