"""Is the network at rest: has everything that was written reached a peer that still reads?

Loopback TCP usually delivers inside the call that writes, but not always: a softirq is put off under load, a
window of 4096 bytes waits for a probe timer, a segment that did not fit is sent again after 200 ms. To jump
then would let a timer overtake data that was already on its way, and no two runs would agree.

Each thing awaited here ends with an event on a registered socket: the loop waits in `poll()`, never sleeps.

Nearly always there is nothing to wait for, and that is known without the kernel: what the transports of one end were
given to write has been read by those of the other, byte for byte. Only where this count says otherwise (`settled`) are
sockets looked at and asked.
"""

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass

from conformance.clock.sockets import HasSocketCalls, acknowledge_now, tcp_info, unacked_bytes

Address = tuple[str, int]
Pair = tuple[Address, Address]
"""Local and remote address of one end of a connection."""

LOOK_S = 0.005
"""Real time between two looks for an acknowledgement."""
_LOOKS = 60
# States (linux/tcp_states.h) in which the peer's FIN or RST has not arrived yet.
_OPEN_FOR_PEER = (1, 4, 5)  # ESTABLISHED, FIN_WAIT1, FIN_WAIT2


@dataclass(eq=False, slots=True)
class Endpoint:
    """One end of a TCP connection of this loop, while its transport lives.

    Attributes:
        peer: the other end; None where it is not of this loop, or not yet.
        unread_bytes: what its transport was given to write and the peer's has not read yet; the end of the stream
            counts as one more.
        kept_back_bytes: of these, what its transport has not handed to the kernel yet.
        hand_over: has its transport hand the kernel what that takes of them.
        ended: no byte follows.
        resumed: its transport was paused once and read on: it may be a slow reader, and will make room.
        closed: its socket is closed, or about to be.
    """

    sock: HasSocketCalls
    fd: int
    pair: Pair
    peer: "Endpoint | None" = None
    unread_bytes: int = 0
    kept_back_bytes: Callable[[], int] = int
    hand_over: Callable[[], object] = int
    ended: bool = False
    closed: bool = False
    resumed: bool = False

    @property
    def in_kernel_bytes(self) -> int:
        """Bytes that the kernel has taken and the peer's transport has not read yet."""
        return self.unread_bytes - self.ended - self.kept_back_bytes()


def pair_of(sock: socket.socket) -> Pair | None:
    """Both addresses of a connected TCP socket; None for another kind, or when it is gone already."""
    if sock.family not in (socket.AF_INET, socket.AF_INET6) or sock.type != socket.SOCK_STREAM:
        return None
    try:
        local, remote = sock.getsockname(), sock.getpeername()
    except OSError:  # reset before the transport was made
        return None
    return (local[0], local[1]), (remote[0], remote[1])


class Network:
    """The connections of one loop, and which of them must be looked at before the clock may jump."""

    def __init__(self, is_reading: Callable[[int], bool], wants_to_write: Callable[[int], bool]) -> None:
        """Args: two questions about a descriptor that only the selector can answer."""
        self._is_reading = is_reading
        self._wants_to_write = wants_to_write
        self._by_pair: dict[Pair, Endpoint] = {}
        self._listening: set[int] = set()
        # Dictionaries as ordered sets. Only what was touched since it was last seen at rest is looked at: to
        # look at every socket before every jump is 18 % of a run.
        self._written: dict[Endpoint, None] = {}
        self._ended: dict[Endpoint, None] = {}
        self._connecting: dict[Pair, asyncio.Future[None]] = {}
        self._alone: dict[Endpoint, None] = {}
        self._unread_bytes = 0
        self._miscounted = False
        self._owed = False
        self._looks = 0
        self.fds: set[int] = set()
        """Descriptors on which nothing can happen but what is counted here."""

    def opened(self, sock: socket.socket) -> Endpoint | None:
        """A transport was made for `sock`; None when it is not TCP."""
        pair = pair_of(sock)
        if pair is None:
            return None
        end = Endpoint(sock, sock.fileno(), pair)
        self._by_pair[pair] = end
        self._connecting.pop(pair, None)
        self.fds.add(end.fd)
        peer = self._by_pair.get((pair[1], pair[0]))
        if peer is None:
            self._alone[end] = None
        else:
            end.peer, peer.peer = peer, end
            self._alone.pop(peer, None)
        return end

    def closing(self, end: Endpoint) -> None:
        """The socket of `end` is about to be closed: its peer must see the end before the clock moves."""
        if self._by_pair.get(end.pair) is end:
            del self._by_pair[end.pair]
        self._written.pop(end, None)
        self._ended.pop(end, None)
        self._alone.pop(end, None)
        self.fds.discard(end.fd)
        self.half_closed(end)
        end.closed = True
        if end.peer is not None:
            self._forget_unread(end.peer)  # nobody will read it
            if end.peer.closed:
                self._forget_unread(end)

    def half_closed(self, end: Endpoint) -> None:
        """No byte will follow from `end`: the peer has an end of stream to see."""
        if not end.ended:
            end.ended = True
            self._count(end, 1)
        if end.peer is not None and not end.peer.closed:
            self._ended[end.peer] = None

    def written(self, end: Endpoint, size_bytes: int) -> None:
        """The transport of `end` was given bytes. (Those that it keeps back keep `end` from coming to rest.)"""
        self._written[end] = None
        self._count(end, size_bytes)

    def read(self, end: Endpoint, size_bytes: int) -> None:
        """The transport of `end` has read bytes, or the end of the stream (1)."""
        peer = end.peer
        if peer is None:
            return  # of another process: `end` is alone
        peer.unread_bytes -= size_bytes
        self._unread_bytes -= size_bytes
        if peer.unread_bytes < 0:  # somebody wrote past the transport: the count is worth nothing any more
            self._miscounted = True

    def _count(self, end: Endpoint, size_bytes: int) -> None:
        if not end.closed and (end.peer is None or not end.peer.closed):
            end.unread_bytes += size_bytes
            self._unread_bytes += size_bytes

    def _forget_unread(self, end: Endpoint) -> None:
        self._unread_bytes -= end.unread_bytes
        end.unread_bytes = 0

    def listens(self, port: int, fd: int) -> None:
        self._listening.add(port)
        self.fds.add(fd)

    def stops_listening(self, port: int, fd: int) -> None:
        self._listening.discard(port)
        self.fds.discard(fd)

    def connects(self, sock: socket.socket, address: Address, outcome: asyncio.Future[None]) -> None:
        """`sock` is being connected: a listener of this loop must have accepted it before the clock moves."""
        if address[1] in self._listening:
            local = sock.getsockname()
            self._connecting[(address[0], address[1]), (local[0], local[1])] = outcome

    def settled(self) -> bool:
        """Was all read that was ever written, every end of a stream seen and every connection accepted?

        Then nothing can happen on `fds` before somebody writes again. False says only that the kernel must be asked.
        """
        if self._unread_bytes or self._ended or self._connecting or self._alone or self._miscounted:
            return False
        self._written.clear()
        return True

    def moving(self) -> bool:
        """Is anything on its way to a peer in this process that would read it?

        What has come to rest is forgotten; what a peer that does not read holds up is asked about again.
        """
        if not (self._written or self._ended or self._connecting):
            self._owed = False
            return False
        moving = self._owed = False
        for end in list(self._written):
            moves = self._moves(end)
            if moves is None:
                del self._written[end]
            moving = moving or moves is True
        for end in list(self._ended):
            if end.sock.fileno() == -1 or tcp_info(end.sock).state not in _OPEN_FOR_PEER:
                del self._ended[end]
            else:
                moving = moving or self._is_reading(end.fd)
        for pair, outcome in list(self._connecting.items()):
            failed = outcome.done() and (outcome.cancelled() or outcome.exception() is not None)
            if failed or pair[0][1] not in self._listening:
                del self._connecting[pair]
            else:
                moving = True
        return moving

    def owes_acknowledgement(self) -> bool:
        """Does a slow reader's kernel hold back, as far as `moving` saw, the acknowledgement that lets a writer go on?

        It does for 40 ms of real time, at most for 200, and nothing makes it say so while bytes lie unread. That it has
        is no event unless there is room now, so it is looked at again and again. A peer that never reads on is not
        waited for: a stall would cost five times as much.
        """
        self._looks = self._looks + 1 if self._owed else 0
        return self._owed and self._looks < _LOOKS

    def acknowledge_all(self) -> None:
        for end in self._by_pair.values():
            if end.sock.fileno() != -1:
                acknowledge_now(end.sock)

    def give_up(self) -> list[str]:
        """Forget what is on its way (until it is written to again) and name it."""
        names = [f"bytes from {end.pair[0]} to {end.pair[1]}" for end in self._written]
        names += [f"the end of {end.pair[1]} to {end.pair[0]}" for end in self._ended]
        names += [f"the connection of {pair[1]} to {pair[0]}" for pair in self._connecting]
        self._written.clear()
        self._ended.clear()
        self._connecting.clear()
        return names

    def _moves(self, end: Endpoint) -> bool | None:
        """True: on its way to a reader. False: held up by a peer that does not read. None: at rest."""
        peer = end.peer
        if peer is None or peer.closed:  # another process, a listener that has yet to accept, or gone
            local, remote = end.pair
            return True if (remote, local) in self._connecting else None
        if end.sock.fileno() == -1 or peer.sock.fileno() == -1:  # closed behind its transport's back
            return None
        sent, got = tcp_info(end.sock), tcp_info(peer.sock)
        in_flight = sent.bytes_sent - sent.bytes_retransmitted - got.bytes_received
        # A transport with bytes left in user space waits for acknowledgements that the peer's kernel may put
        # off by 40 ms. Nothing is unsent then, nothing in flight, and still the writer is about to go on.
        blocked = self._wants_to_write(end.fd)
        if sent.bytes_unsent == 0 and in_flight <= 0 and not blocked:
            return None
        if not self._is_reading(peer.fd):
            if blocked and peer.resumed and in_flight <= 0 and unacked_bytes(end.sock) > sent.bytes_unsent:
                self._owed = True
            return False
        if blocked:
            acknowledge_now(peer.sock)
        return True
