"""The `no_socket` seam: the client finds no socket to abort."""

from __future__ import annotations

import sys
from typing import Any

from client.connection import Connection
from conformance.outcome import FaultReport
from conformance.seams.base import Opened, Proof, SeamContext, in_scope
from scenarios.faults_seam import NoSocket

_ATTRIBUTE = "_socket"


class NoSocketSeam:
    """The attribute that holds the socket of the built-in client's connection is gone when it aborts.

    It is the one seam that touches the client itself: the mistake it stands for, an attribute that moved under the code
    that forces the end, lies in a client's own wrapper (R16).

    Wire: nothing by itself; the connection stays open until its peer ends it.
    Parameters: none.
    Survive: say so in the log, and go on without the socket.
    """

    def __init__(self, fault: NoSocket, index: int, context: SeamContext) -> None:
        self.fault = fault
        self.context = context
        self.proof = Proof(fault, index, context)
        self._opened = Opened()
        self._released = False

    def install(self) -> None:
        """Hide the attribute behind a descriptor that answers everybody but `abort()`."""
        seam = self

        def get(connection: Connection) -> Any:
            if sys._getframe(1).f_code.co_name == "abort" and seam._hides(connection):
                raise AttributeError(_ATTRIBUTE)
            try:
                return connection.__dict__[_ATTRIBUTE]
            except KeyError:
                raise AttributeError(_ATTRIBUTE) from None

        def put(connection: Connection, value: Any) -> None:
            seam._opened.number(connection)
            connection.__dict__[_ATTRIBUTE] = value

        setattr(Connection, _ATTRIBUTE, property(get, put))

    def release(self) -> None:
        """Show the attribute again."""
        self._released = True

    def remove(self) -> None:
        """Take the descriptor away; what it stored is the plain attribute."""
        if isinstance(Connection.__dict__.get(_ATTRIBUTE), property):
            delattr(Connection, _ATTRIBUTE)

    def report(self) -> FaultReport:
        """State and evidence."""
        return self.proof.report()

    def _hides(self, connection: Connection) -> bool:
        number = self._opened.number(connection)
        if self._released or not in_scope(self.fault, self.context.attempt(), number):
            return False
        self.proof.triggered(number)
        self.proof.missed("abort")
        return True
