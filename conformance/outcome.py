"""What came of a scenario: findings, fault reports and the outcome (data; nothing here prints or decides)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from conformance.abilities import Need


class Outcome(StrEnum):
    """What became of a scenario on a target (design.md section 8)."""

    PASS = "pass"
    FAIL = "fail"
    INERT = "inert"
    NOT_OBSERVABLE = "not-observable"
    INDETERMINATE = "indeterminate"
    HARNESS_ERROR = "harness-error"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Finding:
    """A requirement seen broken."""

    id: str
    """Name of the check or invariant, such as `unbounded-await` or `metadata.ack_timeout`."""
    requirements: tuple[str, ...]
    """Ids such as `R5`."""
    expected: str
    actual: str
    sample: str | None = None
    """`split/id`, when the finding belongs to one sample."""
    deadline: str | None = None
    """The deadline that should have acted, by its name in the client's Deadlines, with its seconds."""
    details: tuple[str, ...] = ()
    """More lines: stacks, journal excerpts."""


@dataclass(frozen=True)
class Unobserved:
    """Something that this client, or this target, cannot show: neither passed nor failed."""

    id: str
    """The check, the invariant or the fault."""
    what: Literal["statement", "fault", "setting", "invariant"]
    need: Need
    reason: str
    """Why the need cannot be met here."""
    sample: str | None = None

    def told(self) -> str:
        """One line for people."""
        return f"{self.what} {self.id} needs {self.need}: {self.reason}"


@dataclass(frozen=True)
class FaultReport:
    """What a fault did on one connection."""

    name: str
    index: int
    """Position in the scenario's list of faults."""
    connection: int | None
    state: str
    """armed, triggered or observed."""
    evidence: dict[str, Any]


@dataclass(frozen=True)
class ScenarioResult:
    """One scenario on one target."""

    id: str
    title: str
    requires: tuple[str, ...]
    outcome: Outcome
    findings: tuple[Finding, ...] = ()
    faults: tuple[FaultReport, ...] = ()
    reason: str = ""
    """Why it is inert, not observable, indeterminate, skipped or a harness error."""
    virtual_s: float = 0.0
    """Loop time the scenario took."""
    real_s: float = 0.0
    """Wall time the scenario took."""
    last_events: tuple[str, ...] = ()
    """The last events of both sides on one time line, ready to print (only kept for what did not pass)."""
    reproduce: str = ""
    """One command that runs this scenario again the same way."""
    output: tuple[str, ...] = ()
    """Last lines that a program of others printed (only kept for what did not pass)."""
    trace_path: str | None = None
    expected: tuple[str, ...] = ()
    """Why its failure is expected, an entry each; empty: it is not."""
    warnings: tuple[Finding, ...] = ()
    """What a reader should know; it fails nothing."""
    unobserved: tuple[Unobserved, ...] = ()
    """Statements, faults and invariants that could not be observed here, each with its reason."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What a probe read off the server, by the names of scenarios.probing.FACTS."""
    device: tuple[Mapping[str, Any], ...] = ()
    """On a live server: what each session cost and went for (conformance.live.bill.DeviceUse)."""
    injected: tuple[str, ...] = ()
    """On a live server: what was played in a peer's place beside the scenario's faults, in words."""
    away: str = ""
    """On a live server: why it could not be reached."""
    no_slot: str = ""
    """On a live server: in what words it refused a session for want of a slot, though it was waited for one."""
    unconfirmed: int = 0
    """On a live server: sessions whose end it never confirmed; it may still hold their slots."""
    answers: tuple[str, ...] = ()
    """On a live server: of each session that it left something unanswered in, what and since when."""


Kind = Literal["passed", "failed", "expected", "skipped"]

KINDS: dict[Outcome, Kind] = {
    Outcome.PASS: "passed",
    Outcome.FAIL: "failed",
    Outcome.INERT: "failed",
    Outcome.INDETERMINATE: "failed",
    Outcome.HARNESS_ERROR: "failed",
    Outcome.NOT_OBSERVABLE: "skipped",
    Outcome.SKIPPED: "skipped",
}
"""What should have told something and did not counts as failed; what never could is skipped."""


def kind_of(result: ScenarioResult) -> Kind:
    """How a result counts: a failure that is expected is neither passed nor failed."""
    kind = KINDS[result.outcome]
    return "expected" if kind == "failed" and result.expected else kind


@dataclass(frozen=True)
class RunReport:
    """A whole run."""

    results: tuple[ScenarioResult, ...]
    seed: int
    target: str
    clock: str
    client: str
    real_s: float
    interrupted: bool = False
    stopped_early: str = ""
    """Why scenarios that were chosen did not run, other than an interrupt; empty: all did."""
    complaints: tuple[str, ...] = ()
    """What fails the run beside its results: stale expected failures, flakes past their day."""
    environment: dict[str, str] = field(default_factory=dict)
    """Versions of Python and of the libraries in use."""
    live: Mapping[str, Any] | None = None
    """Of a run on a live server: masked configuration, what preflight measured, the bill, its metrics."""
