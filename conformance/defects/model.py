"""What a defect is, and what counts as its catch."""

from __future__ import annotations

from dataclasses import dataclass

from conformance.defects.rewrite import Rewrite


@dataclass(frozen=True)
class Defect:
    """A historical bug put back on purpose: a small, named change of the client's behaviour."""

    name: str
    """The id of docs/defects.md."""
    about: str
    """What the client does, in a sentence."""
    rewrites: tuple[Rewrite, ...]
    breaks: tuple[str, ...]
    """The requirements it breaks; a catch names one of them. None: what it breaks has no number, see `rule`."""
    findings: tuple[str, ...]
    """Findings that count as its catch, named beforehand; anything else that fails is not a catch."""
    first: tuple[str, ...] = ()
    """Scenarios most likely to catch it; tried first."""
    rule: str = ""
    """The section of evaluation.md or protocol.md that it breaks, when no requirement says so."""

    @property
    def of_the_judge(self) -> bool:
        """It sits in the judge's client: only scenarios with a judge can catch it by more than accident.

        The others never are: a session is the subject of the scenarios without a judge.
        """
        return all(rewrite.function.startswith("client.judge.") for rewrite in self.rewrites)


@dataclass(frozen=True)
class Catch:
    """A scenario that passed with the reference client and failed with the defect, for the defect's own reason."""

    scenario: str
    finding: str
    """The first finding that counts."""
    requirements: tuple[str, ...]
    """What that finding names and the defect breaks."""
    covers: tuple[str, ...] = ()
    """What all findings that count name and the defect breaks."""
    all_findings: tuple[str, ...] = ()
    """Ids of everything that was found, what counts and what follows from it."""


@dataclass(frozen=True)
class DefectResult:
    """What the catalogue made of one defect."""

    name: str
    breaks: tuple[str, ...]
    catches: tuple[Catch, ...]
    missed_reason: str = ""
    """When nothing caught it: what the scenarios said instead, or why it could not be put in."""
    others: tuple[str, ...] = ()
    """Scenarios that failed for another reason, with that reason."""
    ran: int = 0
    """Scenarios that were run; the others never come to its place."""

    @property
    def caught(self) -> bool:
        """At least one scenario caught it by name."""
        return bool(self.catches)
