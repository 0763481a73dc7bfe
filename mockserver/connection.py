"""One connection: frames in, events out in order, faults carried out, the journal kept.

Reading is never blocked by output: writing never waits, what the peer does not take stays in the transport's buffer.
There is one outbox, worked off in order, and one place that waits; bytes that a fault holds back on their way to the
client wait in `wire_out`.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Literal, cast

from aiohttp import WSMessage, WSMsgType, web

from mockserver.connection_info import ConnectionInfo, How
from mockserver.faults import FaultRun, FaultSet
from mockserver.faults.actions import (
    Action,
    CloseFrame,
    CloseReply,
    CloseTcp,
    Control,
    Encoded,
    HalfClose,
    Number,
    Observed,
    PauseReading,
    Pong,
    Raw,
    Reset,
    ResumeReading,
    Script,
    Shape,
    SlowReading,
    Text,
    Unshape,
    Wait,
)
from mockserver.faults.mechanism import Step
from mockserver.journal import EntryKind, Journal
from mockserver.reading import Ending, Reading
from mockserver.session_surface import SessionSurface
from mockserver.telling import escaped
from mockserver.wire import End, Output, Received, Send, Unit, Violation, close_reason, encode
from mockserver.wire_out import WireOut

CLOSE_REPLY_S = 10.0
"""How long the client may take to answer a close frame."""
MAX_UNREAD_OUTPUT_BYTES = 64 * 1024 * 1024
"""A client that leaves more of the server's output unread is reset: what it sends must not fill the memory."""
WITHHELD_FOR_S = 1.0
"""A wait cut short by the client has bitten when it lasted this long."""


class Connection:
    """Drives a session over an upgraded connection."""

    def __init__(
        self,
        websocket: web.WebSocketResponse,
        transport: asyncio.Transport,
        *,
        info: ConnectionInfo,
        session: SessionSurface,
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
        self._unhandled: list[WSMessage] = []
        self._close_sent = False
        self._ending = Ending(transport.get_protocol())
        transport.set_protocol(self._ending)
        self._reading = Reading(transport, self._socket, self._ending)
        self._wire = WireOut(transport, self._socket)
        self._after_release = False

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
                if self._reading.paused:
                    self._unhandled.append(message)
                else:
                    self._on_message(message)
        finally:
            self._over()

    def release(self) -> None:
        """End the faults: read again, wait no more. What was held up until now is journaled as after the release."""
        now_s = self._loop.time()
        self._after_release = self._reading.held_back
        self._outbox.extendleft(reversed(self.faults.release(now_s)))
        self._wire.release()
        self._end_wait()

    def abort(self) -> None:
        """Drop the TCP connection; the server is stopping."""
        self._transport.abort()

    # -- in

    def _on_message(self, message: WSMessage) -> None:
        if message.type is WSMsgType.TEXT:
            self._take(self._session.receive(message.data, self._loop.time()))
        elif message.type is WSMsgType.PING:
            self._answer(Pong(message.data))
        elif message.type is WSMsgType.BINARY:
            self._take(self._session.receive_binary(len(message.data), self._loop.time()))
        elif message.type is WSMsgType.CLOSE:
            self._on_close_frame(int(message.data or 1005))

    def _on_close_frame(self, code: int) -> None:
        self.info.client_close_code = code
        if not self._close_sent:
            self._ended("client", "close_frame")
            self._cut_wait()
            self._outbox.clear()  # nothing may follow a close frame
            self._answer(CloseReply(code))
        self._answer(CloseTcp())

    def _on_lost(self, error: Exception) -> None:
        code = getattr(error, "code", None)
        if isinstance(code, int):  # aiohttp's WebSocketError: the client broke RFC 6455 or a limit
            rule = "frame-too-large" if code == 1009 else "bad-frame"
            self._forbidden(Violation("1.3", rule, str(error)))
            self._ended("server", "close_frame")
            self._wire.write(struct.pack("!H", code), WSMsgType.CLOSE)
            self._wire.close()
        self._ended("client", "fin" if self._ending.error is None else "rst")

    def _over(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._cut_wait()
        self._session.lost(self._loop.time())
        self._wire.over()
        self._reading.let_go()
        info = self.info
        info.ended_s = self._loop.time()
        data = {"by": info.ended_by, "how": info.how, "client_close_code": info.client_close_code}
        self._note("end", "end", data)

    def _ended(self, by: Literal["client", "server"], how: How) -> None:
        if self.info.ended_by is None:
            self.info.ended_by, self.info.how = by, how

    # -- time

    def _on_timer(self) -> None:
        self._timer = None
        now_s = self._loop.time()
        self._outbox += self.faults.on_timer(now_s)
        self._take(self._session.on_timer(now_s))

    def _set_timer(self) -> None:
        armed = self._timer
        if armed is not None and not self.faults.runs and self._session.nothing_before(armed.when()):
            return
        due_s = self._session.next_timer_s()
        fault_s = self.faults.next_timer_s if self.faults.runs else None
        if fault_s is not None and (due_s is None or fault_s < due_s):
            due_s = fault_s
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
            if isinstance(output, (Send, End)):  # no union: one would be built anew for every event
                if faults is not None:
                    self._outbox += faults.outgoing(output, now_s)
                elif isinstance(output, Send) and not self._outbox and self._waiting is None:
                    self._send(output)
                else:
                    self._outbox.append((None, output))
            elif isinstance(output, Received):
                self.info.received[output.name] += 1
                self._note("received", output.name, output.data, now_s)
                if faults is not None:
                    self._outbox += faults.noted(output, now_s)
                    self._outbox += faults.received(output.name, now_s)
            elif isinstance(output, Violation):
                self._forbidden(output)
            else:
                if isinstance(output, Unit):
                    self.info.units = output.index + 1
                    self._note("unit", f"unit {output.index}", output.data)
                if faults is not None:
                    self._outbox += faults.noted(output, now_s)
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
                self._end(action.code, action.reason if action.told else "")
            elif isinstance(action, Control):
                self._control(action)
            else:
                assert run is not None
                self._wire.flush()
                self._carry_out(run, action)
        self._wire.flush()
        if self._transport.get_write_buffer_size() > MAX_UNREAD_OUTPUT_BYTES:
            self._drop_unread()

    def _carry_out(self, run: FaultRun, action: Action) -> None:
        if isinstance(action, Observed):
            if not self._wire.ended:
                run.observe(action.evidence)
        elif isinstance(action, PauseReading | SlowReading):
            self._reading.hold(run, action, run.observe)
        elif isinstance(action, ResumeReading):
            proof = self._reading.let_go(None if action.all else run)
            if action.all and proof is not None:
                run.observe(proof)
            self._handle_unhandled()
        elif isinstance(action, Encoded):
            self._send(action.send, action)
        elif isinstance(action, Number):
            self._session.stamp(action.send)
        elif isinstance(action, Text | Raw):
            self._send_bytes(action)
        elif isinstance(action, CloseFrame):
            self._end(action.code, action.reason)
        elif isinstance(action, HalfClose):
            self._wire.half_close(lambda proof: self._half_closed(run, proof))
        elif isinstance(action, Reset):
            self._reset(run)
        elif isinstance(action, Shape):
            self._wire.add(run, action, run.observe, lambda: self._ended("server", "tcp_end"))
        elif isinstance(action, Unshape):
            self._wire.remove(run)
        else:
            assert isinstance(action, Script), action
            self._session.direct(action)

    def _handle_unhandled(self) -> None:
        while self._unhandled and not self._reading.paused:
            self._on_message(self._unhandled.pop(0))

    def _send(self, send: Send, how: Encoded | None = None) -> None:
        if self._wire.ended or self._close_sent:
            return
        event = send.event if how is not None and how.numbered else self._session.stamp(send)
        name: str = event["type"]
        self.info.session_id = self._session.id
        if how is not None and how.encode is not None:
            payload = how.encode(event)
        else:
            payload = encode(event) if send.payload is None else send.payload
        line = self._session.told(event) if how is None else escaped(self._session.told(event))
        for _ in range(1 if how is None else how.times):
            self._wire.write(payload, WSMsgType.TEXT)
            self.info.sent[name] += 1
            self._note("sent", name, line)
        if self.faults.runs:
            self._outbox.extendleft(reversed(self.faults.sent(name, self._loop.time())))

    def _send_bytes(self, action: Text | Raw) -> None:
        if self._wire.ended or self._close_sent:
            return
        if isinstance(action, Text):
            self._wire.write(action.payload, WSMsgType.TEXT)
            self._note("sent", "(text)", {"bytes": len(action.payload)})
        else:
            self._wire.raw(action.data)
            self._note("sent", "(raw)", {"bytes": len(action.data)})

    def _answer(self, output: Control) -> None:
        """A pong goes out past whatever waits; an end does not."""
        steps: list[Step] = [(None, output)]
        if self.faults.runs:
            steps = self.faults.control(output, self._loop.time())
        waiting = self._waiting
        if isinstance(output, Pong):
            self._waiting, behind, self._outbox = None, self._outbox, deque(steps)
            self._work_off()
            self._waiting, self._outbox = waiting, behind
            return
        self._outbox.extendleft(reversed(steps))
        self._work_off()

    def _control(self, action: Control) -> None:
        if isinstance(action, Pong):
            self._wire.write(action.payload, WSMsgType.PONG)
        elif isinstance(action, CloseReply):
            payload = b"" if action.code == 1005 else struct.pack("!H", action.code)
            self._wire.write(payload, WSMsgType.CLOSE)
        else:
            self._wire.close()

    def _end(self, code: int | None, reason: str = "") -> None:
        if self._close_sent:
            return
        if code is None:
            self._ended("server", "tcp_end")
            self._answer(CloseTcp())
            return
        self._ended("server", "close_frame")
        self._wire.write(struct.pack("!H", code) + close_reason(reason), WSMsgType.CLOSE)
        self._close_sent = True
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(CLOSE_REPLY_S, self._answer, CloseTcp())

    def _half_closed(self, run: FaultRun, proof: Mapping[str, Any]) -> None:
        self._ended("server", "tcp_end")
        run.observe(proof)

    def _reset(self, run: FaultRun) -> None:
        if not self._transport.is_closing():
            self._ended("server", "reset")
            proof = self._wire.reset()
            if proof is not None:
                run.observe(proof)

    def _drop_unread(self) -> None:
        if not self._transport.is_closing():
            size = self._transport.get_write_buffer_size()
            self._forbidden(Violation("1.3", "output-unread", f"{size} bytes"))
            self._ended("server", "reset")
            self._wire.reset()

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
        run, since_s, handle = self._waiting
        handle.cancel()
        self._waiting = None
        waited_s = self._loop.time() - since_s
        if run is not None and waited_s >= WITHHELD_FOR_S:
            run.observe({"withheld_s": waited_s, "cut_by": self.info.how})

    def _forbidden(self, found: Violation) -> None:
        self._note("violation", found.rule, asdict(found))

    def _note(self, kind: EntryKind, name: str, data: Mapping[str, Any], now_s: float | None = None) -> None:
        if self._after_release:
            data = {**data, "after_release": True}
        self._journal.add(self._loop.time() if now_s is None else now_s, self.info.number, kind, name, data)
