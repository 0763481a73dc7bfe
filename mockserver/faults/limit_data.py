"""`limit_data`."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.actions import Action, Limit, Unshape
from mockserver.faults.mechanism import Fault
from scenarios.faults_transport import LimitData as Spec


class LimitData(Fault):
    """The connection ends once so many bytes have passed.

    Wire: the byte that would exceed the limit is not sent, and neither is what follows; the TCP connection ends
        (FIN) without a close frame, mostly inside a frame. (Toxiproxy's `limit_data`, downstream.) Observed when
        the limit has cut something off.
    Parameters: `limit_bytes` (bytes to the client, counted from the trigger or the upgrade).
    Survive: a lost connection; nothing of the torn frame counts, what came before does.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        self._limit_bytes = spec.limit_bytes

    def begin(self, now_s: float) -> list[Action]:
        return [Limit(self._limit_bytes)]

    def finish(self, now_s: float) -> list[Action]:
        return [Unshape()]
