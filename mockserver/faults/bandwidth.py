"""`bandwidth`."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.actions import Action, RateLimit, Unshape
from mockserver.faults.mechanism import Fault
from scenarios.faults_transport import Bandwidth as Spec


class Bandwidth(Fault):
    """The way to the client is narrow.

    Wire: so many bytes pass a second, in steps of 0.1 s; the rest waits in order. (Toxiproxy's `bandwidth`,
        downstream.) Observed when bytes waited for over 0.1 s: a way that is wide enough holds nothing back.
    Parameters: `bytes_per_s` (bytes a second).
    Survive: a reply that takes longer to arrive than to be said is complete all the same; wait for it as long as
        something comes.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        self._bytes_per_s = spec.bytes_per_s

    def begin(self, now_s: float) -> list[Action]:
        return [RateLimit(self._bytes_per_s)]

    def finish(self, now_s: float) -> list[Action]:
        return [Unshape()]
