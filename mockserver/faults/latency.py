"""`latency`."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.actions import Action, Delay, Unshape
from mockserver.faults.mechanism import Fault
from scenarios.faults_transport import Latency as Spec


class Latency(Fault):
    """What the server writes arrives late.

    Wire: each write is held back for the latency, more or less the jitter; nothing overtakes, nothing is lost,
        and pongs and the end of the connection are held back as well. (Toxiproxy's `latency`, downstream.)
        Observed when the first bytes have arrived late.
    Parameters: `latency_s` (seconds), `jitter_s` (seconds, evenly spread, from the seed).
    Survive: measure deadlines generously against a round trip; stamp text when it arrives.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        self._spec = spec

    def begin(self, now_s: float) -> list[Action]:
        return [Delay(self._spec.latency_s, self._spec.jitter_s, self.chance)]

    def finish(self, now_s: float) -> list[Action]:
        return [Unshape()]
