"""The faults of a server: the socket they need, fresh runs for each connection in their scope, what became of them."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from collections.abc import Callable, Sequence

from mockserver.connection_info import ConnectionInfo
from mockserver.faults import Fault, FaultReport, FaultRun, FaultSet
from mockserver.journal import Journal
from scenarios.faults import FaultBase, StopReading
from scenarios.faults_transport import Buffered


def make_listener(
    address: tuple[str, int], faults: Sequence[FaultBase], *, mss_bytes: int | None = None
) -> socket.socket:
    """A bound socket that does not listen yet, its receive buffer as small as the faults ask for.

    Args:
        mss_bytes: TCP_MAXSEG, where the faults ask for a small buffer; None: the system's. A client whose own buffer
            nobody can make small holds less in small segments.
    Raises OSError: the address cannot be bound.
    """
    host = address[0]
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shrink(listener, faults) and mss_bytes is not None:
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, mss_bytes)
        listener.bind(address)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def shrink(listener: socket.socket, faults: Sequence[FaultBase]) -> bool:
    """Give a listening socket the receive buffer that faults ask for, if any does.

    Accepted sockets inherit it, and their handshake settles the window scale: connections from here on have it.

    Returns: whether one does.
    """
    sizes = [spec.buffer_bytes for spec in faults if isinstance(spec, Buffered) and spec.buffer_bytes]
    if sizes:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, min(sizes))
    return bool(sizes)


_SO_BUF_LOCK = 72
"""socket(7), Linux 5.14: 0 lets the kernel size the buffers again."""


def refit(listener: socket.socket, faults: Sequence[FaultBase]) -> None:
    """The same where other faults may have been armed before: without any that asks, the buffer is the system's."""
    if shrink(listener, faults):
        return
    with socket.socket(listener.family, socket.SOCK_STREAM) as fresh:
        usual = fresh.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    if listener.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == usual:
        return
    listener.setsockopt(
        socket.SOL_SOCKET, socket.SO_RCVBUF, usual // 2
    )  # the kernel doubles what it is given
    with contextlib.suppress(OSError):  # an older kernel leaves it at this size
        listener.setsockopt(socket.SOL_SOCKET, _SO_BUF_LOCK, 0)


def provable(fault: FaultBase) -> FaultBase:
    """The fault as a server alone can prove it: where nobody holds the client's socket, what is left unread proves a
    stall, and not a write that is pending there."""
    return fault.model_copy(update={"proof": "unread"}) if isinstance(fault, StopReading) else fault


MAX_ARMED = 1_000
"""Faults of one server, those included that were disarmed."""


class Armed:
    """The faults of one server.

    Args:
        faults: in the scenario's order.
        seed: of their chance, with sample, attempt and position.
        journal: told of each change of state.
    """

    def __init__(self, faults: Sequence[FaultBase], seed: int, journal: Journal) -> None:
        self.specs = list(faults)
        """All that were ever armed; a fault's position names it."""
        self.disarmed: set[int] = set()
        """Positions of those that no further connection gets."""
        self.runs: list[FaultRun] = []
        self._scripted = len(self.specs)
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
            self._run(index, info, who, make, info.opened_s)
            for index, spec in enumerate(self.specs)
            if in_scope(spec, info) and index not in self.disarmed
        ]
        self.runs += runs
        return FaultSet(runs)

    def arm(self, spec: FaultBase) -> int:
        """One more fault, for connections from here on.

        Returns: its position.
        Raises ValueError: there are too many.
        """
        if len(self.specs) >= MAX_ARMED:
            raise ValueError(f"{MAX_ARMED} faults were armed; reset the server first")
        self.specs.append(spec)
        return len(self.specs) - 1

    def onto(
        self,
        index: int,
        info: ConnectionInfo,
        who: str,
        make: Callable[[FaultBase, random.Random], Fault],
        now_s: float,
    ) -> FaultRun:
        """A run of an armed fault on a connection that is open; its `at_s` counts from now."""
        run = self._run(index, info, who, make, now_s)
        self.runs.append(run)
        return run

    def disarm(self, index: int) -> list[FaultRun]:
        """No further connection gets this fault.

        Returns: its runs so far.
        Raises ValueError: there is no such fault, or it is disarmed already.
        """
        if not 0 <= index < len(self.specs) or index in self.disarmed:
            armed = [str(place) for place in range(len(self.specs)) if place not in self.disarmed]
            raise ValueError(f"no fault {index} is armed; armed: {', '.join(armed) or 'none'}")
        self.disarmed.add(index)
        return [run for run in self.runs if run.index == index]

    @property
    def standing(self) -> list[FaultBase]:
        """Those that are not disarmed."""
        return [spec for index, spec in enumerate(self.specs) if index not in self.disarmed]

    def is_scripted(self, index: int) -> bool:
        """The fault was there from the start."""
        return index < self._scripted

    def forget(self, before: int) -> None:
        """Runs on connections with a lower number are forgotten."""
        self.runs = [run for run in self.runs if run.connection >= before]

    def reset(self) -> None:
        """Only what was there from the start is armed, and nothing has come of it yet."""
        del self.specs[self._scripted :]
        self.disarmed.clear()
        self.runs.clear()

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

    def _run(
        self,
        index: int,
        info: ConnectionInfo,
        who: str,
        make: Callable[[FaultBase, random.Random], Fault],
        from_s: float,
    ) -> FaultRun:
        spec = self.specs[index]
        fault = make(spec, random.Random(f"{self._seed}/{who}/{index}"))
        return FaultRun(spec, index, info.number, fault, from_s, self._changed)

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
