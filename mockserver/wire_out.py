"""The way from the session to the client's socket: frames joined to writes, and what faults do to the bytes.

Without a fault bytes go straight to the transport. With one they pass its stages and wait here, in one queue with one
timer, which the release of the faults empties at once: nothing on its way is lost, and no wait is deaf.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType

from mockserver.faults.actions import Delay, Limit, RateLimit, Shape, Slice
from mockserver.framing import frame_header

RATE_STEP_S = 0.1
"""A rate lets through what fits into this time at once."""
HELD_BACK_S = 0.1
"""A rate has bitten when bytes waited for this long."""
CUT_SHORT_S = 1.0
"""Bytes whose wait was cut short, by the end of the fault or of the connection, prove it when they waited this long."""

_HEADER = struct.Struct("!BBH").pack
_TEXT = int(WSMsgType.TEXT)
_WHOLE_TEXT = 0x80 | _TEXT

Bitten = Callable[[dict[str, Any]], None]
"""Takes the evidence when bytes that a fault touched have left."""


@dataclass(slots=True)
class Piece:
    """Bytes on their way, or the end of the way.

    Attributes:
        born_s: loop time at which they were written.
        due_s: loop time at which they leave.
        end: done in place of bytes, when everything before has left.
        marks: whom to tell of what once they have left.
    """

    born_s: float
    due_s: float
    data: bytes
    end: Callable[[], None] | None = None
    marks: list[tuple[Bitten, dict[str, Any]]] = field(default_factory=list)


@dataclass
class Stage:
    """One fault on the way, with what it remembers of the bytes before."""

    shape: Shape
    bitten: Bitten
    close: Callable[[], None]
    free_at_s: float = 0.0
    passed_bytes: int = 0
    closed: bool = False

    def passes(self, piece: Piece) -> list[Piece]:
        """What becomes of a piece."""
        if isinstance(self.shape, Delay):
            return self._delayed(piece, self.shape)
        if isinstance(self.shape, RateLimit):
            return self._in_parts(piece, max(1, int(self.shape.bytes_per_s * RATE_STEP_S)), self.shape)
        if isinstance(self.shape, Slice):
            return self._sliced(piece, self.shape)
        return self._limited(piece, self.shape)

    def _delayed(self, piece: Piece, shape: Delay) -> list[Piece]:
        held_s = shape.seconds
        if shape.jitter_s:
            held_s += shape.chance.uniform(-shape.jitter_s, shape.jitter_s)
        due_s = max(piece.due_s + held_s, self.free_at_s)
        self.free_at_s = due_s
        if piece.data:
            evidence = {"delayed_s": round(due_s - piece.due_s, 6), "bytes": len(piece.data)}
            piece.marks.append((self.bitten, evidence))
        piece.due_s = due_s
        return [piece]

    def _in_parts(self, piece: Piece, step_bytes: int, shape: RateLimit) -> list[Piece]:
        parts: list[Piece] = []
        for start in range(0, len(piece.data) or 1, step_bytes):
            part = Piece(piece.born_s, piece.due_s, piece.data[start : start + step_bytes])
            part.due_s = max(piece.due_s, self.free_at_s)
            self.free_at_s = part.due_s + len(part.data) / shape.bytes_per_s
            held_s = part.due_s - piece.due_s
            if held_s >= HELD_BACK_S:
                evidence = {"held_back_s": round(held_s, 6), "bytes_per_s": shape.bytes_per_s}
                part.marks.append((self.bitten, evidence))
            parts.append(part)
        parts[-1].end, parts[-1].marks = piece.end, parts[-1].marks + piece.marks
        return parts

    def _sliced(self, piece: Piece, shape: Slice) -> list[Piece]:
        parts: list[Piece] = []
        start = 0
        while start < len(piece.data) or not parts:
            size = shape.average_bytes + shape.chance.randint(-shape.variation_bytes, shape.variation_bytes)
            part = Piece(piece.born_s, max(piece.due_s, self.free_at_s), piece.data[start : start + size])
            self.free_at_s = part.due_s + shape.delay_s
            start += size
            parts.append(part)
        if len(parts) > 1:
            evidence = {"pieces": len(parts), "bytes": len(piece.data)}
            parts[1].marks.append((self.bitten, evidence))
        parts[-1].end, parts[-1].marks = piece.end, parts[-1].marks + piece.marks
        return parts

    def _limited(self, piece: Piece, shape: Limit) -> list[Piece]:
        if self.closed:
            return []
        left = shape.limit_bytes - self.passed_bytes
        self.passed_bytes += len(piece.data)
        if len(piece.data) <= left:
            return [piece]
        self.closed = True
        evidence = {"passed_bytes": shape.limit_bytes, "cut_bytes": len(piece.data) - left}
        mark: tuple[Bitten, dict[str, Any]] = (self.bitten, evidence)
        return [Piece(piece.born_s, piece.due_s, piece.data[:left], self.close, [*piece.marks, mark])]


class WireOut:
    """Frames out over one transport.

    Attributes:
        ended: no byte follows any more: the TCP connection ends, or this direction of it.
    """

    def __init__(self, transport: asyncio.Transport, sock: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport = transport
        self._sock = sock
        self._frames: list[bytes] = []
        self._stages: dict[Hashable, Stage] = {}
        self._queue: deque[Piece] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self.end_asked = False
        """The end is on its way."""

    @property
    def ended(self) -> bool:
        """Whether no byte follows any more."""
        return self.end_asked or self._transport.is_closing() or self.cut

    @property
    def limited(self) -> bool:
        """So many bytes pass, and no more."""
        return any(isinstance(stage.shape, Limit) for stage in self._stages.values())

    @property
    def cut(self) -> bool:
        """The limit has been reached; the end comes behind what passed."""
        return any(stage.closed for stage in self._stages.values())

    @property
    def _established(self) -> bool:
        """The peer has not ended the connection yet (tcp_states.h)."""
        return self._sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == 1

    def write(self, payload: bytes, opcode: WSMsgType) -> None:
        """A frame, written with what else belongs to this step by `flush`: one system call for a group of events."""
        self._frames += (frame_header(len(payload), opcode), payload)

    def write_text(self, payload: bytes) -> None:
        """The same of a text: nearly all are."""
        length = len(payload)
        if 125 < length < 65536:
            self._frames += (_HEADER(_WHOLE_TEXT, 126, length), payload)
        else:
            self._frames += (frame_header(length, _TEXT), payload)

    def write_alone(self, payload: bytes) -> None:
        """A text that is all there is to this step."""
        if self._frames or self._stages or self._queue or not 125 < len(payload) < 65536:
            self.write_text(payload)
            self.flush()
        else:
            self._transport.write(_HEADER(_WHOLE_TEXT, 126, len(payload)) + payload)

    def raw(self, data: bytes) -> None:
        """Bytes past all framing."""
        self._frames.append(data)

    def flush(self) -> None:
        """Let go what was written."""
        if not self._frames:
            return
        data = b"".join(self._frames)
        self._frames.clear()
        if self.end_asked:
            return
        if not self._stages and not self._queue:
            self._transport.write(data)
        else:
            self._pass(Piece(now_s := self._loop.time(), now_s, data))

    def close(self) -> None:
        """End the TCP connection behind everything written."""
        self._finally(self._transport.close)

    def half_close(self, done: Callable[[Mapping[str, Any]], None]) -> None:
        """End this direction (FIN) behind everything written, then call `done` with the proof.

        Nothing happens when the peer has ended the connection meanwhile.
        """

        def end() -> None:
            if not self._transport.is_closing() and self._established:
                self._transport.write_eof()
                done({"half_closed": "FIN", "tcp_state": "established", "at_s": self._loop.time()})

        self._finally(end)

    def reset(self) -> Mapping[str, Any] | None:
        """Reset the TCP connection, now; what waits is lost.

        Returns: the proof; None: the peer had ended the connection itself.
        """
        established = self._established
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._queue.clear()
        self._transport.abort()
        proof = {"reset": "SO_LINGER 0", "tcp_state": "established", "at_s": self._loop.time()}
        return proof if established else None

    # -- faults on the way

    def add(self, key: Hashable, shape: Shape, bitten: Bitten, cut: Callable[[], None]) -> None:
        """From here on bytes pass this as well, behind what they pass already.

        Args:
            key: of the fault.
            bitten: told when bytes that it touched have left.
            cut: called when a limit ends the connection, just before it does.
        """

        def close() -> None:
            cut()
            self._transport.close()

        self.flush()
        self._stages[key] = Stage(shape, bitten, close)

    def remove(self, key: Hashable) -> None:
        """A fault is over; what waits goes out at once."""
        if self._stages.pop(key, None) is not None:
            self._let_go(everything=True)

    def release(self) -> None:
        """All of them are over."""
        self._stages.clear()
        self._let_go(everything=True)

    def over(self) -> None:
        """The connection is gone: nothing leaves any more."""
        while self._queue:
            self._prove_cut(self._queue.popleft())
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- inside

    def _finally(self, end: Callable[[], None]) -> None:
        self.flush()
        if not self.ended:
            self.end_asked = True
            self._pass(Piece(now_s := self._loop.time(), now_s, b"", end))

    def _pass(self, piece: Piece) -> None:
        if not self._stages and not self._queue:
            self._leave(piece)
            return
        pieces = [piece]
        for stage in self._stages.values():
            pieces = [passed for one in pieces for passed in stage.passes(one)]
        self._queue += pieces
        self._let_go()

    def _let_go(self, *, everything: bool = False) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now_s = self._loop.time()
        while self._queue and (everything or self._queue[0].due_s <= now_s):
            piece = self._queue.popleft()
            if piece.due_s > now_s:
                self._prove_cut(piece)
            self._leave(piece)
        if self._queue:
            self._timer = self._loop.call_at(self._queue[0].due_s, self._let_go)

    def _prove_cut(self, piece: Piece) -> None:
        """The wait of this piece ends before its time: it proves what it did so far, and nothing later."""
        held_s = self._loop.time() - piece.born_s
        marks, piece.marks = piece.marks, []
        if held_s >= CUT_SHORT_S:
            for bitten, _ in marks:
                bitten({"held_back_s": round(held_s, 6), "cut_short": True})

    def _leave(self, piece: Piece) -> None:
        if self._transport.is_closing():
            return
        if piece.data:
            self._transport.write(piece.data)
        for bitten, evidence in piece.marks:
            bitten({**evidence, "at_s": self._loop.time()})
        if piece.end is not None:
            self.end_asked = True
            piece.end()
