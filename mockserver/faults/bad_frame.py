"""`bad_frame`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from mockserver.faults.actions import Action, Observed, Raw
from mockserver.faults.moments import Injected
from mockserver.framing import frame
from scenarios.faults_transport import BadFrame as Spec

_CONTINUATION, _TEXT, _CLOSE, _PING = 0x0, 0x1, 0x8, 0x9
_FIN = 0x80
_EVENT = b'{"type":"scripted.bad_frame"}'

FRAMES: Mapping[str, bytes] = {
    "masked": bytes([_FIN | _TEXT, 0x80 | len(_EVENT), 0, 0, 0, 0]) + _EVENT,
    "reserved_bit": frame(_EVENT, _TEXT, first_bits=_FIN | 0x40),
    "unknown_opcode": frame(_EVENT, 0x3),
    "long_control": frame(bytes(126), _PING),
    "fragmented_control": frame(b"", _PING, first_bits=0),
    "orphan_continuation": frame(_EVENT, _CONTINUATION),
    "interrupted_message": frame(_EVENT, _TEXT, first_bits=0) + frame(_EVENT, _TEXT),
    "short_close": frame(b"\x03", _CLOSE),
}
"""The bytes of each kind (RFC 6455 5.1, 5.2, 5.4, 5.5)."""


class BadFrame(Injected):
    """A frame that RFC 6455 forbids.

    Wire: `masked`: a server must not mask; `reserved_bit`: RSV1 without an extension; `unknown_opcode`: 3;
        `long_control`: a ping of 126 bytes; `fragmented_control`: a ping without FIN; `orphan_continuation`: of
        nothing; `interrupted_message`: a new message inside one; `short_close`: a close frame of one byte.
        Without a trigger right after `session.updated`.
    Parameters: `kind`.
    Survive: fail the connection with 1002 and name it; the sample fails.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self._kind = spec.kind

    def act(self, now_s: float) -> list[Action]:
        return [Raw(FRAMES[self._kind]), Observed({"sent": self._kind, "at_s": now_s})]
