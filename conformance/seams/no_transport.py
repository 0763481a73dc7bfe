"""The `no_transport` seam: the client's socket hides its transport."""

from __future__ import annotations

import sys
from typing import Any

from websockets.asyncio.client import ClientConnection

from conformance.outcome import FaultReport
from conformance.seams.base import Opened, Proof, SeamContext, in_scope
from scenarios.faults import NoTransport

_SLOT = "_conformance_hidden_transport"


class NoTransportSeam:
    """The socket's `transport` attribute is gone for everybody but the library itself.

    Wire: nothing by itself; it takes away the client's only way to abort a connection without a handshake.
    Parameters: none.
    Survive: say so in the log, and still bound the close.
    """

    def __init__(self, fault: NoTransport, index: int, context: SeamContext) -> None:
        self.fault = fault
        self.context = context
        self.proof = Proof(fault, index, context)
        self._opened = Opened()
        self._asked: dict[int, str] = {}
        self._released = False

    def install(self) -> None:
        """Hide the attribute behind a descriptor that answers only callers inside the library."""
        seam = self

        def get(connection: ClientConnection) -> Any:
            caller = sys._getframe(1).f_globals.get("__name__", "")
            if not caller.startswith(("websockets.", "conformance.")) and seam._hides(connection):
                raise AttributeError("transport")
            try:
                return connection.__dict__[_SLOT]
            except KeyError:
                raise AttributeError("transport") from None

        def put(connection: ClientConnection, value: Any) -> None:
            seam._opened.number(connection)
            connection.__dict__[_SLOT] = value

        ClientConnection.transport = property(get, put)  # type: ignore[assignment]

    def release(self) -> None:
        """Show the attribute again; a connection that the client left open for want of it is proof too.

        Asking alone proves nothing: a client may look at its transport while all is well. Asked for by something that
        calls itself an abort, it was missed.
        """
        if not self._released:
            for connection in self._opened.connections:
                if id(connection) in self._asked and not connection.connection_lost_waiter.done():
                    self.proof.observed(hidden_from=self._asked[id(connection)], left_open=True)
        self._released = True

    def remove(self) -> None:
        """Restore the library; connections made meanwhile get their plain attribute back."""
        if isinstance(ClientConnection.__dict__.get("transport"), property):
            del ClientConnection.transport  # type: ignore[misc]
        for connection in self._opened.connections:
            if _SLOT in connection.__dict__:
                connection.__dict__["transport"] = connection.__dict__.pop(_SLOT)

    def report(self) -> FaultReport:
        """State and evidence."""
        return self.proof.report()

    def _hides(self, connection: ClientConnection) -> bool:
        key, number = id(connection), self._opened.number(connection)
        if self._released or not in_scope(self.fault, self.context.attempt(), number):
            return False
        self.proof.triggered(number)
        caller = sys._getframe(2)
        self._asked[key] = str(caller.f_globals.get("__name__", ""))
        if "abort" in caller.f_code.co_name:
            self.proof.missed(f"{self._asked[key]}.{caller.f_code.co_name}")
        return True
