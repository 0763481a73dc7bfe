"""What a run can see of its client, so that what it cannot see is told as unobserved and never passed.

Every check and every invariant names what it needs. The client under test and the target have abilities; each one
that is missing has its reason, told to whoever reads the report (design.md 5, 8; docs/verdicts.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scenarios.faults import FaultBase


class Need(StrEnum):
    """What a check stands on."""

    WIRE = "wire"
    """The server's journal: what the client sent, and when."""
    TRANSPORT = "transport"
    """The client's own socket, or a figure of how much it takes."""
    FILES = "files"
    """What the client leaves on the disk (evaluation.md 12)."""
    METADATA = "metadata"
    """What the client says of its sessions beside the answers: `<id>.meta.json` (evaluation.md 12.1)."""
    JUDGE = "judge"
    """The judge's ledger."""
    LOG = "log"
    """What the client logs."""
    SERVER_CONTROL = "server-control"
    """The server does what the scenario scripts."""
    SEAM = "seam"
    """Faults that act inside the client."""
    OBSERVER = "observer"
    """The client's own steps and its Deadlines."""
    SETTINGS = "settings"
    """The client can be told what a scenario wants of it: deadlines, pace, when to stop."""
    LOOP = "loop"
    """The client's tasks and exceptions: it runs in this process, on the harness's loop."""


@dataclass(frozen=True)
class Abilities:
    """What can be seen in a run."""

    have: frozenset[Need]
    why_not: Mapping[Need, str]
    """The reason for each need that is missing, as the report tells it."""

    def __post_init__(self) -> None:
        """Raises ValueError: a need is neither there nor explained."""
        silent = sorted(frozenset(Need) - self.have - frozenset(self.why_not))
        if silent:
            raise ValueError(f"no reason says why these are missing: {', '.join(silent)}")

    def missing(self, needs: Iterable[Need]) -> Need | None:
        """The first of these needs, in the order of `Need`, that cannot be met; None: all can."""
        wanted = frozenset(needs) - self.have
        if not wanted:
            return None
        return next(need for need in Need if need in wanted)

    def without(self, why_not: Mapping[Need, str]) -> Abilities:
        """The same, less these, each with its reason; a reason that was there before is kept."""
        return Abilities(self.have - frozenset(why_not), {**why_not, **self.why_not})

    def including(self, need: Need) -> Abilities:
        """The same, and this one more."""
        return Abilities(self.have | {need}, self.why_not)


ALL = Abilities(frozenset(Need), {})
"""The shipped client against the mock server."""


def fault_needs(fault: FaultBase) -> frozenset[Need]:
    """What a fault needs to act, and to be seen to have acted."""
    from scenarios.faults import Layer, StopReading  # late: the exit codes alone lead here

    if fault.layer is Layer.SEAM:
        return frozenset({Need.SEAM})
    if fault.layer is Layer.JUDGE:
        return frozenset({Need.JUDGE, Need.SERVER_CONTROL})
    if isinstance(fault, StopReading) and fault.proof == "write_blocked":
        return frozenset({Need.SERVER_CONTROL, Need.TRANSPORT})
    return frozenset({Need.SERVER_CONTROL})
