"""Connects what the server journals, what the client tells and what the loop knows of its sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from conformance.clock import SIDE
from conformance.outcome import FaultReport
from conformance.trace import Recorder
from conformance.witness import Looker, StallWitness, in_this_process
from scenarios.faults import Layer, StopReading
from scenarios.model import Scenario

if TYPE_CHECKING:
    from conformance.clients.scene import Attempt, ClientRun
    from conformance.clock import RealLoop, VirtualLoop
    from mockserver.app import MockServer
    from mockserver.faults import FaultRun
    from mockserver.journal import Entry
    from mockserver.proxy import ProxyServer


def session_name(attempt: Attempt | None, connection: int | None = None) -> str:
    """`split/id#attempt`, or `connection N` where the client does not say."""
    if attempt is not None:
        return f"{attempt[0]}/{attempt[1]}#{attempt[2]}"
    return f"connection {connection}" if connection is not None else ""


class Wiring:
    """One scenario's threads between server, client and trace."""

    def __init__(
        self,
        loop: VirtualLoop | RealLoop,
        recorder: Recorder,
    ) -> None:
        self.server: MockServer | ProxyServer | None = None
        self.client: ClientRun | None = None
        self._loop = loop
        self._recorder = recorder
        self._attempts: dict[int, Attempt] = {}
        self._sockets: dict[int, socket.socket] = {}
        self._names: dict[int, str] = {}
        self._ports: dict[int, int] = {}
        self._witnesses: list[tuple[StallWitness, FaultRun]] = []
        self._shared: dict[tuple[str, object, object], Mapping[str, Any]] = {}
        self._labels: dict[tuple[str, str], str] = {}

    def on_connect(self, sock: socket.socket) -> None:
        """Called by the loop in the connecting task: whose socket is this? A proxy's own are the server's."""
        if SIDE.get() == "server":
            return
        port = int(sock.getsockname()[1])
        self._sockets[port] = sock
        attempt = self._current_attempt()
        if attempt is not None:
            self._attempts[port] = attempt

    def identify(self, peer: tuple[str, int]) -> Attempt | None:
        """(split, id, attempt) of a connection by the client's address; asked once a connection, in their order."""
        assert self.client is not None
        number, port = len(self._ports) + 1, peer[1]
        self._ports[number] = port
        told = self._attempts.get(port) or self.client.nth_attempt(number)
        if told is not None:
            self._attempts[port] = told
        return told

    def on_journal(self, entry: Entry) -> None:
        """Everything the server saw and did, as it happens."""
        if entry.connection not in self._names:
            attempt = self._attempts.get(self._ports[entry.connection])
            self._names[entry.connection] = session_name(attempt, entry.connection)
        side = "fault" if entry.kind == "fault" else "server"
        what = self._label(entry.kind, entry.name)
        data = self._recorder.relative(entry.data) if side == "fault" else entry.data
        self._recorder.add(self._names.get(entry.connection, ""), side, what, data)
        if entry.kind == "fault" and entry.data.get("state") == "triggered":
            self._watch(entry)

    def on_client_step(self, step: str, fields: Mapping[str, Any]) -> None:
        """What the client itself tells."""
        # Most of a run's records are acks that say the same: one mapping serves them all.
        key = (step, fields["type"], fields["detail"]) if step in ("sent", "received") else None
        told = self._shared.get(key) if key is not None else None
        if told is None:
            told = {name: value for name, value in fields.items() if name not in ("split", "id", "attempt")}
            if key is not None:
                self._shared[key] = told
        self._recorder.add(session_name(self._current_attempt()), "client", step, told)

    def _current_attempt(self) -> Attempt | None:
        assert self.client is not None
        return self.client.current_attempt()

    def _label(self, kind: str, name: str) -> str:
        label = self._labels.get((kind, name))
        if label is None:
            label = self._labels[kind, name] = name if kind == "fault" else f"{kind} {name}"
        return label

    def on_seam(self, name: str, state: str, evidence: dict[str, Any]) -> None:
        """What a seam did."""
        self._recorder.add(
            session_name(self._current_attempt()),
            "fault",
            name,
            {"state": state, **self._recorder.relative(evidence)},
        )

    def open_sockets(self) -> list[str]:
        """Whose sockets that the client connected are not closed, in the order of their connecting."""
        return [self.session_of(port) for port, sock in self._sockets.items() if sock.fileno() != -1]

    def session_of(self, port: int) -> str:
        """Whose connection that is, by the port of the client's end."""
        return session_name(self._attempts.get(port)) or "a socket outside every attempt"

    def stop_witnesses(self) -> None:
        """Look at no socket any more."""
        for witness, run in self._witnesses:
            witness.stop()
            if run.state != "observed":
                run.evidence.setdefault("waiting_bytes", witness.most_bytes)

    def fault_reports(self, scenario: Scenario) -> list[FaultReport]:
        """What the server's faults did, by their position in the scenario."""
        assert self.server is not None
        apart = (Layer.SEAM, Layer.JUDGE)
        positions = [i for i, fault in enumerate(scenario.faults) if fault.layer not in apart]
        # On a live server the path to it plays how scripted replies end as well: faults behind the scenario's own.
        positions += range(len(scenario.faults), len(scenario.faults) + len(scenario.server.reply))
        reports: list[FaultReport] = []
        for report in self.server.fault_reports():
            reports.append(
                FaultReport(
                    report.name,
                    positions[report.index],
                    report.connection,
                    report.state,
                    self._recorder.relative(report.evidence),
                )
            )
        return reports

    def _watch(self, entry: Entry) -> None:
        assert self.server is not None
        index = int(entry.data["index"])
        run = next(r for r in self.server.fault_runs if (r.connection, r.index) == (entry.connection, index))
        fault = run.spec
        if not isinstance(fault, StopReading) or fault.proof != "write_blocked":
            return
        looker = self._looker(self._ports.get(entry.connection, -1))
        if looker is None:
            return
        witness = StallWitness(looker, run.observe)
        self._witnesses.append((witness, run))
        witness.start()

    def _looker(self, port: int) -> Looker | None:
        """Looks at the connection of a client's port; None: nobody can."""
        assert self.client is not None
        sock = self._sockets.get(port)
        if sock is not None:
            return in_this_process(sock, lambda: self._transport_of(sock), lambda: self._server_socket(port))
        server = self._server_socket(port)
        return self.client.looker(port, server) if server is not None else None

    def _transport_of(self, sock: socket.socket) -> asyncio.WriteTransport | None:
        for transport in self._loop.open_transports("client"):
            if transport.get_extra_info("socket").fileno() == sock.fileno():
                return transport if isinstance(transport, asyncio.WriteTransport) else None
        return None

    def _server_socket(self, client_port: int) -> socket.socket | None:
        """The server's end of a connection, by the port of the client's."""
        for transport in self._loop.open_transports("server"):
            peer = transport.get_extra_info("peername")
            if peer is not None and peer[1] == client_port:
                found: socket.socket = transport.get_extra_info("socket")
                return found
        return None
