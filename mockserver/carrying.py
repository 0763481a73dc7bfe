"""What faults answer, carried out on their connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mockserver.faults import FaultRun
from mockserver.faults.actions import (
    Action,
    CloseFrame,
    Encoded,
    HalfClose,
    Number,
    Observed,
    PauseReading,
    Raw,
    Reset,
    ResumeReading,
    Script,
    Shape,
    SlowReading,
    Text,
    Unshape,
)

if TYPE_CHECKING:
    from mockserver.connection import Connection


def carry_out(connection: Connection, run: FaultRun, action: Action) -> None:
    """Do what a fault asks for; waits, sends and ends of the session are the connection's own."""
    if isinstance(action, Observed):
        if connection.shows(run):
            run.observe(action.evidence)
    elif isinstance(action, PauseReading | SlowReading):
        connection.reading.hold(run, action, run.observe)
    elif isinstance(action, ResumeReading):
        proof = connection.reading.let_go(None if action.all else run)
        if action.all and proof is not None:
            run.observe(proof)
        connection.handle_unhandled()
    elif isinstance(action, Encoded):
        connection.send(action.send, action)
    elif isinstance(action, Number):
        connection.session.stamp(action.send)
    elif isinstance(action, Text | Raw):
        connection.send_bytes(action)
    elif isinstance(action, CloseFrame):
        connection.end(action.code, action.reason)
    elif isinstance(action, HalfClose):
        connection.wire.half_close(lambda proof: _half_closed(connection, run, proof))
    elif isinstance(action, Reset):
        connection.reset_by(run)
    elif isinstance(action, Shape):
        connection.wire.add(run, action, run.observe, lambda: connection.ended("server", "tcp_end"))
    elif isinstance(action, Unshape):
        connection.wire.remove(run)
    else:
        assert isinstance(action, Script), action
        connection.session.direct(action)


def _half_closed(connection: Connection, run: FaultRun, proof: Mapping[str, Any]) -> None:
    connection.ended("server", "tcp_end")
    run.observe(proof)
