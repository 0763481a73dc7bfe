"""`slicer`."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.actions import Action, Slice, Unshape
from mockserver.faults.mechanism import Fault
from scenarios.faults_transport import Slicer as Spec


class Slicer(Fault):
    """What the server writes arrives in small pieces.

    Wire: the byte stream is cut into pieces of the average size, more or less the variation, anywhere: inside
        headers, characters, base64; a pause stands between two. (Toxiproxy's `slicer`, downstream.) Observed when
        a write went out in several pieces.
    Parameters: `average_size_bytes`, `size_variation_bytes` (bytes, evenly spread, from the seed), `delay_s`
        (seconds between two pieces).
    Survive: nothing to do for a client whose library joins the stream; one that reads frames itself must.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        self._spec = spec

    def begin(self, now_s: float) -> list[Action]:
        spec = self._spec
        return [Slice(spec.average_size_bytes, spec.size_variation_bytes, spec.delay_s, self.chance)]

    def finish(self, now_s: float) -> list[Action]:
        return [Unshape()]
