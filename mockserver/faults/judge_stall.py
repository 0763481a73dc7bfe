"""`stall` of the judge."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.judging import JudgeFault
from mockserver.judge_answers import Hold
from mockserver.judge_ledger import JudgeRequest
from scenarios.faults_judge import Stall as Spec


class Stall(JudgeFault):
    """The request is read and the answer does not come; the socket stays open.

    Wire: nothing, for `delay_s` or for ever; then the model's answer.
    Parameters: `delay_s` (seconds; None: for ever).
    Survive: give up at the request's own timeout (evaluation.md 16.1), trace the request, go on with the other
    samples.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        self._spec = spec

    def instead(self, entry: JudgeRequest) -> Hold:
        return Hold(self._spec.delay_s)
