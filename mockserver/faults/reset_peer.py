"""`reset_peer`."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.actions import Action, Reset
from mockserver.faults.mechanism import Fault
from scenarios.faults import ResetPeer as Spec


class ResetPeer(Fault):
    """The peer resets the TCP connection.

    Wire: a RST instead of a closing handshake; what the server had not yet written is lost. Without a trigger
    at once after the
        upgrade.
    Parameters: none.
    Survive: treat it as a lost connection at once: no write, no ack, no close on the dead socket; keep what a
    finished reply gave.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        pass

    def begin(self, now_s: float) -> list[Action]:
        return [Reset()]
