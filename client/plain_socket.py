"""The library's client connection, with what nearly every event does made cheap: a write that the socket takes at once,
and a whole message that is read while nobody waits behind an earlier one. All else is the library's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode
from websockets.protocol import Event, State

from client.bounds import FRAME_CHARGE, Budget, SessionTooLarge

Take = Callable[[str | bytes], None]
_DATA = (Opcode.TEXT, Opcode.BINARY, Opcode.CONT)


class WrittenAtOnce:
    """The library's `send_context()` where nothing is in the way.

    The library's is an asynchronous generator, which costs more than the write. What turns out not to be plain is
    passed on to it.
    """

    __slots__ = ("_socket",)

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    async def __aenter__(self) -> None:
        """The caller gives the protocol its frame."""

    async def __aexit__(self, *error: Any) -> bool | None:
        socket = self._socket
        state = socket.protocol.state
        transport = getattr(socket, "transport", None)
        if error[0] is None and state is State.OPEN and transport is not None and not transport.is_closing():
            socket.send_data()
            if not socket.paused:
                return None
        # What the caller did, such as a close frame, may have changed the state already: the library's context, which
        # is entered only now, looks at it once more and goes on from there.
        rest = ClientConnection.send_context(socket, expected_state=state)
        await rest.__aenter__()
        return await rest.__aexit__(*error)


def _over() -> None:
    """Nothing is left to abort."""


class ConnectHere(connect):
    """The library's, to the host that was named and no other: a redirect is a refusal.

    The library follows one wherever it leads, in some versions with the key among its headers.
    """

    def process_redirect(self, exc: Exception) -> Exception | str:
        """What is raised for an answer that is no upgrade."""
        return exc


class PlainClientConnection(ClientConnection):
    """One connection of the client."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._take: Take | None = None
        self._failure: Exception | None = None
        self.budget = Budget()
        self._nobody_listens = False

    def send_context(self, *, expected_state: State = State.OPEN) -> Any:
        """As the library's."""
        if expected_state is State.OPEN and self.protocol.state is State.OPEN:
            return WrittenAtOnce(self)
        return super().send_context(expected_state=expected_state)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As the library's."""
        self._made_of = transport
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """As the library's, and from here on there is nothing to abort.

        asyncio's transport, closed behind what it still had to write, forgets its loop when that has gone, not that it
        is over: to abort it then, as the library does with a connection that is not open, raises an AttributeError.
        """
        super().connection_lost(exc)
        self._made_of.abort = _over  # type: ignore[attr-defined]

    async def listen(self, take: Take) -> None:
        """Give each message to `take`, in order, until the connection ends.

        Once this has ended, what still comes is dropped: a queue that nobody empties would stop the reading, and the
        end of the connection, which lies behind it, would never be seen.

        Raises: as `recv()`, and what `take` raises.
        """
        try:
            self._take = take
            while True:
                message = await self.recv()
                if self._failure is not None:
                    raise self._failure
                take(message)
        except ConnectionClosed:
            if self._failure is not None:
                raise self._failure from None
            raise
        finally:
            self._take, self._nobody_listens = None, True

    def process_event(self, event: Event) -> None:
        """As the library's, but for a message that can be handed on here."""
        if type(event) is Frame and not self._paid(event):
            return
        if self._nobody_listens and type(event) is Frame and event.opcode in _DATA:
            return
        if self._take is None or not self._handed_on(self._take, event):
            super().process_event(event)

    def _paid(self, frame: Frame) -> bool:
        """Charge a frame, a ping or a piece of a message too. False: one too many; the connection is dropped."""
        try:
            self.budget.charge(len(frame.data) + FRAME_CHARGE)
        except SessionTooLarge as flood:
            self._take, self._failure, self._nobody_listens = None, self._failure or flood, True
            self.transport.abort()
            return False
        return True

    def _handed_on(self, take: Take, event: Event) -> bool:
        """False: it has to be queued, being no whole message, or behind one, or not UTF-8, or one too many."""
        if type(event) is not Frame or not event.fin or len(self.recv_messages.frames):
            return False
        data = bytes(event.data)
        message: str | bytes = data
        if event.opcode is Opcode.TEXT:
            try:
                message = data.decode()
            except UnicodeDecodeError:
                return False
        elif event.opcode is not Opcode.BINARY:
            return False
        try:
            take(message)
        except Exception as error:  # noqa: BLE001 - it belongs to the task that listens, not to the transport
            self._take, self._failure = None, error
            return False
        return True
