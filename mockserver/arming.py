"""The faults of a server: the socket they need, fresh runs for each connection in their scope, what became of them."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable, Sequence

from mockserver.connection_info import ConnectionInfo
from mockserver.faults import Fault, FaultReport, FaultRun, FaultSet
from mockserver.journal import Journal
from scenarios.faults import FaultBase
from scenarios.faults_transport import Buffered


def make_listener(address: tuple[str, int], faults: Sequence[FaultBase]) -> socket.socket:
    """A bound socket that does not listen yet, its receive buffer as small as the faults ask for.

    Raises OSError: the address cannot be bound.
    """
    host = address[0]
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sizes = [spec.buffer_bytes for spec in faults if isinstance(spec, Buffered) and spec.buffer_bytes]
        if sizes:
            # Accepted sockets inherit it, and the handshake settles the window scale: before listen.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, min(sizes))
        listener.bind(address)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


class Armed:
    """The faults of one server.

    Args:
        faults: in the scenario's order.
        seed: of their chance, with sample, attempt and position.
        journal: told of each change of state.
    """

    def __init__(self, faults: Sequence[FaultBase], seed: int, journal: Journal) -> None:
        self.specs = list(faults)
        self.runs: list[FaultRun] = []
        self._seed = seed
        self._journal = journal

    def for_connection(
        self, info: ConnectionInfo, who: str, make: Callable[[FaultBase, random.Random], Fault]
    ) -> FaultSet:
        """Fresh runs of the faults in whose scope a connection is.

        Args:
            who: names sample and attempt, or the connection; seeds their chance.
            make: a fresh fault from its spec.
        """
        runs = [
            FaultRun(
                spec,
                index,
                info.number,
                make(spec, random.Random(f"{self._seed}/{who}/{index}")),
                info.opened_s,
                self._changed,
            )
            for index, spec in enumerate(self.specs)
            if in_scope(spec, info)
        ]
        self.runs += runs
        return FaultSet(runs)

    def reports(self) -> list[FaultReport]:
        """What each fault did on each connection in its scope; without a connection where there was none."""
        reports = [run.report() for run in self.runs]
        reached = {report.index for report in reports}
        reports += [
            FaultReport(spec.name, index, None, "armed", {"reason": "no connection was in its scope"}, False)
            for index, spec in enumerate(self.specs)
            if index not in reached
        ]
        return sorted(reports, key=lambda report: (report.index, report.connection or 0))

    def _changed(self, run: FaultRun) -> None:
        now_s = asyncio.get_running_loop().time()
        data = {"index": run.index, "state": run.state, **run.evidence}
        self._journal.add(now_s, run.connection, "fault", run.name, data)


def in_scope(spec: FaultBase, info: ConnectionInfo) -> bool:
    """Whether a fault is armed on a connection."""
    return (
        (spec.attempt is None or spec.attempt == info.attempt)
        and (spec.sample is None or (info.sample is not None and spec.sample == info.sample[1]))
        and (spec.connection is None or spec.connection == info.number)
    )
