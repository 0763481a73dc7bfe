"""What faults of the judge share: which requests they fit, their states and proofs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import orjson

from mockserver.faults.mechanism import FaultReport, State
from mockserver.judge_answers import Answer, Hold, HttpError
from mockserver.judge_ledger import JudgeRequest
from mockserver.judge_reading import REQUIRED_FIELDS
from scenarios.faults_judge import JudgeFault as Spec


class JudgeFault:
    """One scripted misbehaviour of the judge.

    A subclass says in its docstring what happens on the wire, its parameters with units, and how a client
    survives it. It waits for nothing and touches no socket.
    """

    name: ClassVar[str]
    """As in `scenarios.faults_judge`."""

    def instead(self, entry: JudgeRequest) -> HttpError | Hold | None:
        """What the endpoint does in place of asking the model; None: it asks."""
        return None

    def change(self, answer: Answer, entry: JudgeRequest) -> bool:
        """Change the model's answer; false: there was nothing in it to change."""
        return False


@dataclass
class JudgeFaultRun:
    """One fault of the judge: which requests it fitted, and how far it got.

    Attributes:
        changed: called at each change of state, for whoever keeps the time line.
    """

    spec: Spec
    index: int
    fault: JudgeFault
    changed: Callable[[JudgeFaultRun], None]
    state: State = "armed"
    evidence: dict[str, Any] = field(default_factory=dict)
    requests: int = 0

    @property
    def name(self) -> str:
        """Of the fault."""
        return self.spec.name

    def takes(self, entry: JudgeRequest) -> bool:
        """Whether it acts on a request; one that it takes counts, and triggers it."""
        spec = self.spec
        fits = (
            spec.kind in (None, entry.kind)
            and spec.mode in (None, entry.mode)
            and (spec.sample is None or (entry.sample is not None and spec.sample == entry.sample[1]))
            and spec.judgement in (None, entry.judgement)
            and spec.request in (None, entry.request)
            and (spec.count is None or self.requests < spec.count)
        )
        if fits:
            self.requests += 1
            if self.state == "armed":
                self.state = "triggered"
                self.changed(self)
        return fits

    def observe(self, entry: JudgeRequest, **more: Any) -> None:
        """What it made of a request has reached the client; the first one is told."""
        self.evidence["requests"] = self.requests
        if self.state == "observed":
            return
        self.state = "observed"
        self.evidence |= {
            "request": entry.number,
            "sample": "/".join(entry.sample) if entry.sample else None,
            "kind": entry.kind,
            **more,
        }
        self.changed(self)

    def report(self) -> FaultReport:
        """For whoever judges."""
        return FaultReport(self.name, self.index, None, self.state, dict(self.evidence), True)


def verdict_object(answer: Answer) -> dict[str, Any] | None:
    """The verdict as an object, where the answer is nothing but one."""
    try:
        found = orjson.loads(answer.content or "")
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def field_of(spec_field: str | None, entry: JudgeRequest) -> str | None:
    """The field that a fault means in a request: its own, or the first that the kind requires; None: the kind has no
    such field."""
    assert entry.kind is not None, "malformed requests reach no fault"
    required = REQUIRED_FIELDS[entry.kind]
    if spec_field is None:
        return required[0]
    return spec_field if spec_field in required else None


def put(answer: Answer, verdict: Mapping[str, Any]) -> None:
    """Make the answer this object."""
    answer.content = orjson.dumps(verdict).decode()
