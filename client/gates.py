"""What a run is gated on: the guard, floors of the means, a maximum of retries (evaluation.md 19.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from client.run_result import RunResult
from client.summary import Verdict, floor_verdicts, guard_verdict, retries_verdict, strict_verdicts

GuardForm = Literal["off", "basic", "strict"]


@dataclass(frozen=True)
class Gates:
    """What has to hold of a whole run."""

    guard: GuardForm = "basic"
    """basic: every request was successful. strict: and every sample was generated, written, on the media clock and
    scored."""
    floors: Mapping[str, float] = field(default_factory=dict)
    """Least means, by name (client.summary.REFERENCE_FLOORS); they belong to a judge."""
    max_retries: int | None = None
    """Most retries; None: any number."""
    excluded: Sequence[str] = ()
    """Ids that must not be among the samples."""
    refused: int = 0
    """Rows that were asked for and could not be run: no request of theirs was successful."""


def gate(result: RunResult, gates: Gates) -> list[Verdict]:
    """The verdicts on a run that has ended and, where it was to be, been judged; they are kept in its result."""
    verdicts: list[Verdict] = []
    if gates.guard != "off":
        verdicts.append(guard_verdict(result.completed, result.requested + gates.refused))
    if gates.guard == "strict":
        metadata = [record.metadata for record in result.samples if record.metadata is not None]
        verdicts += strict_verdicts(
            selected=[f"{record.split}/{record.id}" for record in result.samples],
            excluded=gates.excluded,
            finished=result.published,
            artifact_errors=len(result.artifact_errors),
            clocks=[str(told.get("clock")) for told in metadata],
            accuracy=result.accuracy,
        )
    if gates.max_retries is not None:
        verdicts.append(retries_verdict(result.duplex_retry_count, gates.max_retries))
    verdicts += floor_verdicts(result.accuracy or {}, gates.floors)
    result.verdicts = [verdict.to_json() for verdict in verdicts]
    return verdicts
