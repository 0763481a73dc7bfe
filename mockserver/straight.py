"""The short way from the session to the wire, where no fault acts on the connection and nothing waits in front.

Nearly all sessions are such ones. What the session gives out is stamped, framed and noted here in one go, and an ack
that says what the one before said does not even pass through the session's handlers. The connection's outbox is for
connections with faults, and for the end of all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import orjson

from mockserver.connection_info import ConnectionInfo
from mockserver.journal import Journal
from mockserver.repeated_acks import ACK, ACKNOWLEDGED
from mockserver.session_surface import SessionSurface
from mockserver.telling import MAX_KEPT_BYTES, told_frame, told_text
from mockserver.wire import Output, Received, Send, Unit, Violation
from mockserver.wire_out import WireOut


class Straight:
    """One connection's. Whoever calls it has seen that the way is free."""

    def __init__(
        self, session: SessionSurface, info: ConnectionInfo, journal: Journal, wire: WireOut
    ) -> None:
        self._session = session
        self._info = info
        self._wire = wire
        self._add: Callable[..., None] = journal.add
        self._note_later: Callable[[tuple[Any, ...]], None] | None = journal.later
        self._tell_frame = partial(told_frame, session.told)

    def take(self, outputs: list[Output], now_s: float) -> list[Output]:
        """Write and note, in order; frames are left for the wire's `flush`.

        Returns: the first output that is not for here, such as the end, and all behind it.
        """
        info, session, add, later = self._info, self._session, self._add, self._note_later
        number = info.number
        for place, output in enumerate(outputs):
            if isinstance(output, Received):
                info.received[output.name] += 1
                if later is not None:
                    later((now_s, number, "received", output.name, output.data, output.tell))
                else:
                    add(now_s, number, "received", output.name, output.data, output.tell)
            elif isinstance(output, Send):
                event = session.stamp(output)
                name = event["type"]
                payload = orjson.dumps(event) if output.payload is None else output.payload
                info.sent[name] += 1
                self._wire.write_text(payload)
                if later is not None and len(payload) <= MAX_KEPT_BYTES:
                    later((now_s, number, "sent", name, payload, self._tell_frame))
                else:
                    add(now_s, number, "sent", name, session.told(event))
            elif isinstance(output, Unit):
                info.units = output.index + 1
                add(now_s, number, "unit", f"unit {output.index}", output.data)
            elif isinstance(output, Violation):
                add(now_s, number, "violation", output.rule, asdict(output))
            else:
                info.session_id = session.id
                return outputs[place:]
        info.session_id = session.id
        return []

    def answer_again(self, text: bytes, now_s: float) -> bool:
        """Answer an ack that says what was said before; false: it is no such thing, and nothing has happened."""
        answer = self._session.answer_again(text, now_s)
        if answer is None:
            return False
        info, later = self._info, self._note_later
        number = info.number
        info.received[ACK] += 1
        info.sent[ACKNOWLEDGED] += 1
        if later is not None:
            later((now_s, number, "received", ACK, text, told_text))
            later((now_s, number, "sent", ACKNOWLEDGED, answer, self._tell_frame))
        else:
            self._add(now_s, number, "received", ACK, text, told_text)
            self._add(now_s, number, "sent", ACKNOWLEDGED, answer, self._tell_frame)
        self._wire.write_alone(answer)
        return True
