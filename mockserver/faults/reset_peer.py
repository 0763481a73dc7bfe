"""`reset_peer`."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.actions import Action, Reset, Wait
from mockserver.faults.mechanism import Fault
from scenarios.faults import ResetPeer as Spec

DELIVERY_S = 0.001
"""A reset behind a sent event leaves it this long: a RST also takes what lies undelivered in the socket."""


class ResetPeer(Fault):
    """The peer resets the TCP connection.

    Wire: a RST instead of a closing handshake; what the server had not yet written is lost. Without a trigger
        at once after the upgrade; at a received event before its answers; behind a sent event 1 ms later, with
        nothing in between.
    Parameters: none.
    Survive: treat it as a lost connection at once: no write, no ack, no close on the dead socket; keep what a
        finished reply gave.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        self._behind_event = spec.on is not None and spec.on.sent is not None

    def begin(self, now_s: float) -> list[Action]:
        return [Wait(DELIVERY_S), Reset()] if self._behind_event else [Reset()]
