"""One connection: frames in, events out in order, faults carried out, the journal kept.

Reading is never blocked by output: writing never waits, what the peer does not take stays in the transport's buffer.
There is one outbox, worked off in order, and one place that waits.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from aiohttp import WSMessage, WSMsgType, web

from mockserver.faults import FaultRun, FaultSet
from mockserver.faults.actions import Observed, PauseReading, Reset, ResumeReading, Wait
from mockserver.faults.mechanism import Step
from mockserver.journal import Journal
from mockserver.reading import HeldReading
from mockserver.session import ServerSession
from mockserver.telling import told
from mockserver.wire import End, Output, Received, Send, Unit, encode

CLOSE_REPLY_S = 10.0
"""How long the client may take to answer a close frame."""
WITHHELD_FOR_S = 1.0
"""A wait cut short by the client has bitten when it lasted this long."""
_ESTABLISHED = 1


@dataclass
class ConnectionInfo:
    """What the server knows of a connection."""

    number: int
    """From 1 in order of acceptance."""
    sample: tuple[str, str] | None
    """(split, id), where somebody could tell."""
    attempt: int
    """Of its sample, from 1; the connection's number where nobody could tell."""
    query: Mapping[str, str]
    opened_s: float
    ended_s: float | None = None
    ended_by: Literal["client", "server"] | None = None
    """Who ended it first; None while it is open."""
    how: Literal["close_frame", "fin", "rst", "tcp_end", "reset"] | None = None
    """close_frame: of the one who ended it. fin, rst: the client's TCP end or reset. tcp_end: ours, without a close
    frame. reset: our RST."""
    client_close_code: int | None = None
    """Code of the client's close frame, also when it answers ours; 1005 when it had none."""
    session_id: str = ""
    received: Counter[str] = field(default_factory=Counter)
    """Client events by type."""
    sent: Counter[str] = field(default_factory=Counter)
    """Server events by type."""
    units: int = 0
    """Decided units."""


class Connection:
    """Drives a session over an upgraded connection."""

    def __init__(
        self,
        websocket: web.WebSocketResponse,
        transport: asyncio.Transport,
        *,
        info: ConnectionInfo,
        session: ServerSession,
        faults: FaultSet,
        journal: Journal,
    ) -> None:
        self.info = info
        self.faults = faults
        self._loop = asyncio.get_running_loop()
        self._websocket = websocket
        self._transport = transport
        self._socket = cast(socket.socket, transport.get_extra_info("socket"))
        self._session = session
        self._journal = journal
        self._outbox: deque[Step] = deque()
        self._waiting: tuple[FaultRun | None, float, asyncio.TimerHandle] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._held: HeldReading | None = None
        self._unhandled: list[WSMessage] = []
        self._close_sent = False
        self._frames: list[bytes] = []
        self._ending = _Ending(transport.get_protocol())
        transport.set_protocol(self._ending)

    # -- the life of a connection

    async def run(self) -> None:
        """Serve until the connection is over, whoever ends it."""
        now_s = self._loop.time()
        self._note("open", "open", {"query": dict(self.info.query), "sample": self.info.sample})
        self._outbox += self.faults.opened(now_s)
        self._take(self._session.start(now_s))
        # Not `WebSocketResponse.receive`: it loses frames that were read together with the end of the connection.
        reader = self._websocket._reader
        assert reader is not None
        try:
            while True:
                try:
                    message = cast(WSMessage, await reader.read())
                except Exception as error:  # noqa: BLE001 - the reader ends in one of many kinds; each is noted
                    self._on_lost(error)
                    return
                # Outside the inner try: a bug of this server is never taken for the client's end.
                if self._held is None:
                    self._on_message(message)
                else:
                    self._unhandled.append(message)
        finally:
            self._over()

    def release(self) -> None:
        """End the faults: read again, wait no more."""
        now_s = self._loop.time()
        self._outbox.extendleft(reversed(self.faults.release(now_s)))
        self._end_wait()

    def abort(self) -> None:
        """Drop the TCP connection; the server is stopping."""
        self._transport.abort()

    # -- in

    def _on_message(self, message: WSMessage) -> None:
        if message.type is WSMsgType.TEXT:
            self._take(self._session.receive(message.data, self._loop.time()))
        elif message.type is WSMsgType.PING:
            self._write(message.data, WSMsgType.PONG)
            self._flush()
        elif message.type is WSMsgType.BINARY:
            self._take(self._session.receive_binary(len(message.data), self._loop.time()))
        elif message.type is WSMsgType.CLOSE:
            self._on_close_frame(int(message.data or 1005))

    def _on_close_frame(self, code: int) -> None:
        self.info.client_close_code = code
        if not self._close_sent:
            self._ended("client", "close_frame")
            reply = b"" if code == 1005 else struct.pack("!H", code)
            self._write(reply, WSMsgType.CLOSE)
            self._flush()
        self._transport.close()

    def _on_lost(self, error: Exception) -> None:
        code = getattr(error, "code", None)
        if isinstance(code, int):  # aiohttp's WebSocketError: the client broke RFC 6455 or a limit
            rule = "frame-too-large" if code == 1009 else "bad-frame"
            self._note("violation", rule, {"section": "1.3", "rule": rule, "detail": str(error)})
            self._ended("server", "close_frame")
            self._write(struct.pack("!H", code), WSMsgType.CLOSE)
            self._flush()
            self._transport.close()
        self._ended("client", "fin" if self._ending.error is None else "rst")

    def _over(self) -> None:
        for handle in (self._timer, self._waiting[2] if self._waiting else None):
            if handle is not None:
                handle.cancel()
        self._cut_wait()
        if self._held is not None:
            self._held.release()
            self._held = None
        info = self.info
        info.ended_s = self._loop.time()
        data = {"by": info.ended_by, "how": info.how, "client_close_code": info.client_close_code}
        self._note("end", "end", data)

    def _ended(
        self, by: Literal["client", "server"], how: Literal["close_frame", "fin", "rst", "tcp_end", "reset"]
    ) -> None:
        if self.info.ended_by is None:
            self.info.ended_by, self.info.how = by, how

    # -- time

    def _on_timer(self) -> None:
        self._timer = None
        now_s = self._loop.time()
        self._outbox += self.faults.on_timer(now_s)
        self._take(self._session.on_timer(now_s))

    def _set_timer(self) -> None:
        due_s = self._session.next_timer_s()
        fault_s = self.faults.next_timer_s if self.faults.runs else None
        if fault_s is not None and (due_s is None or fault_s < due_s):
            due_s = fault_s
        armed = self._timer
        # An armed timer that is too early is left alone: it finds nothing due and arms the right one.
        if due_s is None or self.info.ended_by is not None or (armed is not None and armed.when() <= due_s):
            return
        if armed is not None:
            armed.cancel()
        self._timer = self._loop.call_at(due_s, self._on_timer)

    # -- out

    def _take(self, outputs: list[Output]) -> None:
        """Journal what is for the journal, pass the rest through the faults into the outbox, and work it off."""
        faults = self.faults if self.faults.runs else None
        now_s = self._loop.time()
        for output in outputs:
            if isinstance(output, Send | End):
                if faults is None:
                    self._outbox.append((None, output))
                else:
                    self._outbox += faults.outgoing(output, now_s)
            elif isinstance(output, Received):
                self.info.received[output.name] += 1
                self._note("received", output.name, output.data)
                if faults is not None:
                    self._outbox += faults.received(output.name, now_s)
            elif isinstance(output, Unit):
                self.info.units = output.index + 1
                self._note("unit", f"unit {output.index}", output.data)
            else:
                data = {"section": output.section, "rule": output.rule, "detail": output.detail}
                self._note("violation", output.rule, data)
        self._work_off()
        self._set_timer()

    def _work_off(self) -> None:
        outbox = self._outbox
        while outbox and self._waiting is None:
            run, action = outbox.popleft()
            if isinstance(action, Send):
                self._send(action)
            elif isinstance(action, Wait):
                handle = self._loop.call_later(action.seconds, self._end_wait)
                self._waiting = (run, self._loop.time(), handle)
            elif isinstance(action, End):
                self._end(action)
            else:
                assert run is not None
                self._flush()
                self._carry_out(run, action)
        self._flush()

    def _carry_out(self, run: FaultRun, action: PauseReading | ResumeReading | Reset | Observed) -> None:
        if isinstance(action, Observed):
            if not self._transport.is_closing():
                run.observe(action.evidence)
        elif isinstance(action, Reset):
            self._reset(run)
        elif isinstance(action, PauseReading):
            if self._held is None and not self._transport.is_closing():
                self._held = HeldReading(self._transport, self._socket, run.observe if action.look else None)
        elif self._held is not None:
            self._held.release()
            self._held = None
            unhandled, self._unhandled = self._unhandled, []
            for message in unhandled:
                self._on_message(message)

    def _send(self, send: Send) -> None:
        if self._transport.is_closing():
            return
        event = self._session.stamp(send)
        name: str = event["type"]
        self._write(encode(event), WSMsgType.TEXT)
        self.info.sent[name] += 1
        self.info.session_id = self._session.id
        self._note("sent", name, told(event))
        if self.faults.runs:
            self._outbox.extendleft(reversed(self.faults.sent(name, self._loop.time())))

    def _write(self, payload: bytes, opcode: WSMsgType) -> None:
        """Written with what else belongs to this step, by `_flush`: one system call for a group of events."""
        self._frames.append(_frame(payload, opcode))

    def _flush(self) -> None:
        if self._frames:
            frames, self._frames = self._frames, []
            if not self._transport.is_closing():
                self._transport.write(b"".join(frames))

    def _end(self, end: End) -> None:
        if end.code is None:
            self._ended("server", "tcp_end")
            self._flush()
            self._transport.close()
            return
        self._ended("server", "close_frame")
        self._close_sent = True
        self._write(struct.pack("!H", end.code), WSMsgType.CLOSE)
        self._timer = self._replaced_timer(self._loop.call_later(CLOSE_REPLY_S, self._transport.close))

    def _replaced_timer(self, handle: asyncio.TimerHandle) -> asyncio.TimerHandle:
        if self._timer is not None:
            self._timer.cancel()
        return handle

    def _reset(self, run: FaultRun) -> None:
        if self._transport.is_closing():
            return
        state = self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._ended("server", "reset")
        self._transport.abort()
        if state == _ESTABLISHED:  # a peer that had ended the connection itself was not reset by us
            run.observe({"reset": "SO_LINGER 0", "tcp_state": "established", "at_s": self._loop.time()})

    # -- the one place that waits

    def _end_wait(self) -> None:
        if self._waiting is not None:
            self._waiting[2].cancel()
            self._waiting = None
        self._work_off()
        self._set_timer()

    def _cut_wait(self) -> None:
        """The connection is over; a wait that the client sat through for a while has bitten."""
        if self._waiting is None:
            return
        run, since_s, _ = self._waiting
        self._waiting = None
        waited_s = self._loop.time() - since_s
        if run is not None and waited_s >= WITHHELD_FOR_S:
            run.observe({"withheld_s": waited_s, "cut_by": self.info.how})

    def _note(
        self,
        kind: Literal["open", "received", "sent", "unit", "fault", "violation", "end"],
        name: str,
        data: Mapping[str, Any],
    ) -> None:
        self._journal.add(self._loop.time(), self.info.number, kind, name, data)


class _Ending(asyncio.Protocol):
    """Stands between the transport and aiohttp's protocol, and keeps what the connection was lost with."""

    def __init__(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = cast(asyncio.Protocol, protocol)
        self.error: Exception | None = None
        self.data_received = self._protocol.data_received  # type: ignore[method-assign]
        self.pause_writing = self._protocol.pause_writing  # type: ignore[method-assign]
        self.resume_writing = self._protocol.resume_writing  # type: ignore[method-assign]

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self.error = exc
        self._protocol.connection_lost(exc)


def _frame(payload: bytes, opcode: WSMsgType) -> bytes:
    """One unfragmented frame of a server (RFC 6455 5.2): final, unmasked, uncompressed."""
    first, length = 0x80 | opcode, len(payload)
    if length < 126:
        return struct.pack("!BB", first, length) + payload
    if length < 1 << 16:
        return struct.pack("!BBH", first, 126, length) + payload
    return struct.pack("!BBQ", first, 127, length) + payload
