"""`think_block` of the judge."""

from __future__ import annotations

from typing import ClassVar

import orjson

from mockserver.faults.judging import JudgeFault, verdict_object
from mockserver.judge_answers import Answer
from mockserver.judge_ledger import JudgeRequest
from scenarios.faults_judge import ThinkBlock as Spec


class ThinkBlock(JudgeFault):
    """The judge thinks aloud first, and its thoughts hold a draft of the verdict.

    Wire: `after`: `<think>`, a draft with every score at 0, `</think>`, then the verdict. `inside`: the verdict
    stands in the block and prose follows it. `in_field`: it stands in `reasoning_content`, the content is prose.
    Parameters: `verdict` (after, inside, in_field). A reply that is no verdict is left alone.
    Survive: only the content counts, think blocks taken out; a verdict that stands nowhere else is none, and the
    reply is asked for once more.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        self._spec = spec

    def change(self, answer: Answer, entry: JudgeRequest) -> bool:
        verdict = verdict_object(answer)
        if verdict is None or answer.content is None:
            return False
        prose = "I have weighed the answer against the clip."
        if self._spec.verdict == "after":
            draft = {key: 0 if isinstance(value, int | float) else value for key, value in verdict.items()}
            answer.content = f"<think>First: {orjson.dumps(draft).decode()}. No.</think>\n{answer.content}"
        elif self._spec.verdict == "inside":
            answer.content = f"<think>I would say {answer.content}.</think>\n{prose}"
        else:
            answer.extra["reasoning_content"] = f"I would say {answer.content}."
            answer.content = prose
        return True
