"""What an invariant is: a plain function, what it needs, and the findings it can tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from conformance.abilities import Need
from conformance.observation import Observation
from conformance.outcome import Finding


@dataclass(frozen=True)
class Invariant:
    """Something that holds in every scenario without being named (design.md 8)."""

    check: Callable[[Observation], Iterator[Finding]]
    needs: frozenset[Need]
    findings: tuple[str, ...]
    """Ids of its findings; the first one names it."""

    @property
    def id(self) -> str:
        """Its name in reports."""
        return self.findings[0]


def invariant(
    check: Callable[[Observation], Iterator[Finding]], *needs: Need, findings: tuple[str, ...] = ()
) -> Invariant:
    """An invariant; its finding is named as the function is, with dashes, where nothing else is said."""
    return Invariant(check, frozenset(needs), findings or (check.__name__.replace("_", "-"),))
