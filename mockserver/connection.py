"""One connection: frames in, events out in order, faults carried out, the journal kept.

Reading is never blocked by output: writing never waits, what the peer does not take stays in the transport's buffer.
There is one outbox, worked off in order, and one place that waits; bytes that a fault holds back on their way to the
client wait in `wire_out`.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, Literal, cast

from aiohttp import WSMessage, WSMsgType

from mockserver.alarm import Alarm
from mockserver.carrying import carry_out
from mockserver.connection_info import ConnectionInfo, How
from mockserver.far_end import far_end_closed
from mockserver.faults import FaultRun, FaultSet
from mockserver.faults.actions import Action, CloseReply, CloseTcp, Control, Encoded, Pong, Raw, Text
from mockserver.faults.mechanism import Step
from mockserver.incoming import Upgraded
from mockserver.journal import EntryKind, Journal, Tell
from mockserver.outbox import Outbox
from mockserver.reading import Ending, Reading
from mockserver.repeated_acks import MAX_ACK_BYTES
from mockserver.session_surface import SessionSurface
from mockserver.straight import Straight
from mockserver.telling import escaped
from mockserver.wire import End, Output, Received, Send, Unit, Violation, close_reason, encode
from mockserver.wire_out import WireOut

CLOSE_REPLY_S = 10.0
"""How long the client may take to answer a close frame."""
MAX_UNREAD_OUTPUT_BYTES = 64 * 1024 * 1024
"""A client that leaves more of the server's output unread is reset: what it sends must not fill the memory."""


class Connection:
    """Drives a session over an upgraded connection."""

    def __init__(
        self,
        upgraded: Upgraded,
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
        self._upgraded = upgraded
        self._transport = transport
        self._socket = cast(socket.socket, transport.get_extra_info("socket"))
        self.session = session
        self._journal = journal
        self._add: Callable[..., None] = journal.add
        self._released = False
        """What a fault, or a slow server behind us, had held up is journaled as after its end."""
        self._outbox = Outbox(self._do, self._go_on, self.shows)
        self._alarm = Alarm(self._on_timer)
        self._given_up: asyncio.TimerHandle | None = None
        """When the answer to our close frame is awaited no more."""
        self._unhandled: list[WSMessage] = []
        self._close_sent = False
        feed = partial(upgraded.incoming.take_read, upgraded.reader, transport)
        self._ending = Ending(transport.get_protocol(), feed)
        transport.set_protocol(self._ending)
        self.reading = Reading(transport, self._socket, self._ending)
        self.wire = WireOut(transport, self._socket)
        self._straight = Straight(session, info, journal, self.wire)

    # -- the life of a connection

    async def run(self) -> None:
        """Serve until the connection is over, whoever ends it."""
        now_s = self._loop.time()
        self._note("open", "open", {"query": dict(self.info.query), "sample": self.info.sample})
        self._outbox.asked(self.faults.opened(now_s))
        self._take(self.session.start(now_s), now_s)
        incoming = self._upgraded.incoming
        try:
            incoming.hand_to(self._on_message)
            self._on_lost(await incoming.over)
        finally:
            self._over()

    def release(self) -> None:
        """End the faults: read again, wait no more. What was held up until now is journaled as after the release."""
        if self.reading.held_back:
            self._add, self._released = self._add_after_release, True
        self._outbox.in_front(self.faults.release(self._loop.time()))
        self.wire.release()
        self._outbox.cut("end of the fault")
        self._go_on()

    def act(self, outputs: list[Output], steps: Sequence[Step] = ()) -> None:
        """Do what nothing on the wire asked for."""
        self._outbox.asked(steps)
        self._take(outputs, self._loop.time())

    def end_fault(self, run: FaultRun) -> None:
        """A fault is over, also where it acts now."""
        self.act([], [(run, action) for action in run.end(self._loop.time())])
        self._outbox.cut_where_over()

    def abort(self) -> None:
        """Drop the TCP connection; the server is stopping."""
        if not self.client_has_gone:
            self.ended("server", "reset")
        self._transport.abort()

    @property
    def client_has_gone(self) -> bool:
        """Its end of the connection is closed or reset, heard of or not (tcp_states.h: 1 is established)."""
        return (
            self._socket.fileno() == -1
            or self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != 1
            or far_end_closed(self._socket)
        )

    # -- in

    def _on_message(self, message: WSMessage) -> None:
        kind, payload, _ = message
        if self.reading.paused:
            self._unhandled.append(message)
        elif kind is WSMsgType.TEXT:
            now_s = self._loop.time()
            # Most events of a session are acks that repeat each other.
            if (
                len(payload) > MAX_ACK_BYTES
                or self.faults.runs
                or self._released
                or self.wire.end_asked
                or self._transport.is_closing()
                or self._ending.clogged
                or not self._straight.answer_again(payload, now_s)
            ):
                self._take(self.session.receive(payload, now_s), now_s)
        elif kind is WSMsgType.PING:
            self._answer(Pong(payload))
        elif kind is WSMsgType.BINARY:
            now_s = self._loop.time()
            self._take(self.session.receive_binary(len(payload), now_s), now_s)
        elif kind is WSMsgType.CLOSE:
            self._on_close_frame(int(payload or 1005))

    def _on_close_frame(self, code: int) -> None:
        self.info.client_close_code = code
        if not self._close_sent:
            self.ended("client", "close_frame")
            self.forget_unsent()
            self._answer(CloseReply(code))
        self._answer(CloseTcp())

    def _on_lost(self, error: BaseException) -> None:
        code = getattr(error, "code", None)
        if isinstance(code, int):  # aiohttp's WebSocketError: the client broke RFC 6455 or a limit
            rule = "frame-too-large" if code == 1009 else "bad-frame"
            self._forbidden(Violation("1.3", rule, str(error)))
            self.ended("server", "close_frame")
            self.wire.write(struct.pack("!H", code), WSMsgType.CLOSE)
            self.wire.close()
        self.ended("client", "fin" if self._ending.error is None else "rst")

    def _over(self) -> None:
        self._alarm.cancel()
        if self._given_up is not None:
            self._given_up.cancel()
        self._outbox.cut(str(self.info.how))
        self.session.lost(self._loop.time())
        self.wire.over()
        self.reading.let_go()
        info = self.info
        info.ended_s = self._loop.time()
        data = {"by": info.ended_by, "how": info.how, "client_close_code": info.client_close_code}
        self._note("end", "end", data)

    def ended(self, by: Literal["client", "server"], how: How) -> None:
        """The connection ends by this side's doing; the first account stands."""
        if self.info.ended_by is None:
            self.info.ended_by, self.info.how = by, how

    # -- time

    def _on_timer(self) -> None:
        now_s = self._loop.time()
        if self.faults.runs:
            self._outbox.asked(self.faults.on_timer(now_s))
            self._outbox.cut_where_over()
        self._take(self.session.on_timer(now_s), now_s)

    def _set_timer(self) -> None:
        due_s = self.session.next_timer_s()
        fault_s = self.faults.next_timer_s if self.faults.runs else None
        if fault_s is not None and (due_s is None or fault_s < due_s):
            due_s = fault_s
        # An alarm that is too early is left alone: it finds nothing due and arms the right one.
        if due_s is not None and self.info.ended_by is None:
            self._alarm.arm(due_s)

    # -- out

    def _take(self, outputs: list[Output], now_s: float) -> None:
        """Do what the session gave out, straight away where that is all there is, else through faults and outbox."""
        runs, outbox = self.faults.runs, self._outbox
        free = not (runs or outbox.steps or outbox.waiting is not None or self._released)
        left = self._straight.take(outputs, now_s) if free and self._can_send() else outputs
        if left:
            self._take_in_turn(left, now_s)
        if outbox.steps or self._ending.clogged:
            self._work_off()
        else:
            self.wire.flush()
        if runs or not self.session.nothing_before(self._alarm.at_s):
            self._set_timer()

    def _take_in_turn(self, outputs: list[Output], now_s: float) -> None:
        """Journal what is for the journal, pass the rest through the faults into the outbox."""
        faults = self.faults if self.faults.runs else None
        info = self.info
        for output in outputs:
            if isinstance(output, Received):
                info.received[output.name] += 1
                self._add(now_s, info.number, "received", output.name, output.data, output.tell)
                if faults is not None:
                    self._outbox.asked(faults.noted(output, now_s))
                    self._outbox.asked(faults.received(output.name, now_s))
            elif isinstance(output, (Send, End)):  # no union: one would be built anew for every event
                self._outbox.steps += [(None, output)] if faults is None else faults.outgoing(output, now_s)
            elif isinstance(output, Violation):
                self._forbidden(output)
            else:
                if isinstance(output, Unit):
                    info.units = output.index + 1
                    self._add(now_s, info.number, "unit", f"unit {output.index}", output.data)
                if faults is not None:
                    self._outbox.asked(faults.noted(output, now_s))

    def _do(self, run: FaultRun | None, action: Action) -> None:
        if isinstance(action, Send):
            self.send(action)
        elif isinstance(action, End):
            self.end(action.code, action.reason if action.told else "")
        elif isinstance(action, Control):
            self._control(action)
        else:
            assert run is not None
            self.wire.flush()
            carry_out(self, run, action)

    def _work_off(self) -> None:
        self._outbox.work_off()
        self.wire.flush()
        if self._ending.clogged and self._transport.get_write_buffer_size() > MAX_UNREAD_OUTPUT_BYTES:
            self._drop_unread()

    def handle_unhandled(self) -> None:
        """What was taken from the socket when reading stopped, as far as reading goes on."""
        while self._unhandled and not self.reading.paused:
            self._on_message(self._unhandled.pop(0))

    def _can_send(self) -> bool:
        return not self._close_sent and not self.wire.ended

    def shows(self, run: FaultRun) -> bool:
        """Whether the client can still notice what a fault does: no event follows a close frame of ours."""
        return not self.wire.ended and (run.fault.beside_events or not self._close_sent)

    def forget_unsent(self) -> None:
        """The client has sent a close frame: nothing may follow that but the answer."""
        self._outbox.cut(str(self.info.how))
        self._outbox.steps.clear()

    def send(self, send: Send, how: Encoded | None = None) -> None:
        """An event goes out, in its own form or in a fault's."""
        if not self._can_send():
            return
        event = send.event if how is not None and how.numbered else self.session.stamp(send)
        name: str = event["type"]
        self.info.session_id = self.session.id
        if how is not None and how.encode is not None:
            payload = how.encode(event)
        else:
            payload = encode(event) if send.payload is None else send.payload
        line = self.session.told(event) if how is None else escaped(self.session.told(event))
        for _ in range(1 if how is None else how.times):
            self.wire.write_text(payload)
            if self.wire.limited:
                self.wire.flush()
                if self.wire.cut:
                    return  # a part of it is no event
            self.info.sent[name] += 1
            self._note("sent", name, line)
        if self.faults.runs:
            self._outbox.prove()
            self._outbox.in_front(self.faults.sent(name, self._loop.time()))

    def send_bytes(self, action: Text | Raw) -> None:
        """What is no event goes out."""
        if not self._can_send():
            return
        if isinstance(action, Text):
            self.wire.write_text(action.payload)
            self._note("sent", "(text)", {"bytes": len(action.payload)})
        else:
            self.wire.raw(action.data)
            self._note("sent", "(raw)", {"bytes": len(action.data)})

    def _answer(self, output: Control) -> None:
        """A pong goes out past whatever waits; an end does not."""
        steps: list[Step] = [(None, output)]
        if self.faults.runs:
            steps = self.faults.control(output, self._loop.time())
        if isinstance(output, Pong):
            for run, action in steps:
                self._do(run, action)
            self.wire.flush()
            return
        self._outbox.in_front(steps)
        self._work_off()

    def _control(self, action: Control) -> None:
        if isinstance(action, Pong):
            self.wire.write(action.payload, WSMsgType.PONG)
        elif isinstance(action, CloseReply):
            payload = b"" if action.code == 1005 else struct.pack("!H", action.code)
            self.wire.write(payload, WSMsgType.CLOSE)
        else:
            self.wire.close()

    def end(self, code: int | None, reason: str = "") -> None:
        """A close frame goes out; without a code the TCP connection ends."""
        if self._close_sent:
            return
        if code is None:
            self.ended("server", "tcp_end")
            self._answer(CloseTcp())
            return
        self.ended("server", "close_frame")
        self.wire.write(struct.pack("!H", code) + close_reason(reason), WSMsgType.CLOSE)
        self._close_sent = True
        self._outbox.no_more_events("close_frame")
        self._alarm.cancel()
        self._given_up = self._loop.call_later(CLOSE_REPLY_S, self._answer, CloseTcp())

    def reset_by(self, run: FaultRun) -> None:
        """The TCP connection is reset by a fault."""
        if not self._transport.is_closing():
            self.ended("server", "reset")
            proof = self.wire.reset()
            if proof is not None:
                run.observe(proof)

    def _drop_unread(self) -> None:
        if not self._transport.is_closing():
            size = self._transport.get_write_buffer_size()
            self._forbidden(Violation("1.3", "output-unread", f"{size} bytes"))
            self.ended("server", "reset")
            self.wire.reset()

    def _go_on(self) -> None:
        """A wait is over."""
        self._work_off()
        self._set_timer()

    def _forbidden(self, found: Violation) -> None:
        self._note("violation", found.rule, asdict(found))

    def _note(self, kind: EntryKind, name: str, data: Mapping[str, Any]) -> None:
        self._add(self._loop.time(), self.info.number, kind, name, data)

    def _add_after_release(
        self, now_s: float, number: int, kind: EntryKind, name: str, data: Any, tell: Tell | None = None
    ) -> None:
        line = {**(data if tell is None else tell(data)), "after_release": True}
        self._journal.add(now_s, number, kind, name, line)
