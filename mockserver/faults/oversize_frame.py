"""`oversize_frame`."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.actions import Action, Observed, Raw
from mockserver.faults.moments import Injected
from mockserver.framing import frame_header
from scenarios.faults_transport import OversizeFrame as Spec

_TEXT = 0x1


class OversizeFrame(Injected):
    """A text frame larger than the client takes.

    Wire: the header of one frame that announces `size_bytes`, and the first `sent_bytes` of its payload; what is
        sent after it counts as the rest. Without a trigger right after `session.updated`.
    Parameters: `size_bytes` (bytes announced; a client takes 64 MiB, protocol.md 1.3), `sent_bytes` (bytes).
    Survive: refuse it by its header (close 1009), do not gather it in memory, fail the sample with the reason.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self._spec = spec

    def act(self, now_s: float) -> list[Action]:
        size, sent = self._spec.size_bytes, min(self._spec.sent_bytes, self._spec.size_bytes)
        payload = b'{"type":"scripted.oversize","padding":"'.ljust(sent, b"x")[:sent]
        data = frame_header(size, _TEXT) + payload
        return [Raw(data), Observed({"sent": "frame", "size_bytes": size, "sent_bytes": sent, "at_s": now_s})]
