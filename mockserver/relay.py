"""A session that another server holds: what the client says goes there untouched, what it says comes out as events.

Frames are forwarded as they are. Events are read beside that, for the journal and for faults, which see them as they
see those of our own sessions; only what a fault changes is written anew.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import WSMsgType

from mockserver.appends import read_append
from mockserver.capabilities import Config, read_config
from mockserver.directing import Ignoring
from mockserver.faults.actions import Expire, Ignore, Script
from mockserver.playback import Ledger
from mockserver.profiles import DIALECT_J, DIALECT_N, Dialect
from mockserver.seen import Seen, response_id
from mockserver.strict import StrictReader
from mockserver.telling import told_received, told_relayed
from mockserver.wire import Event, Output, Received, Refusal, Send, Violation, decode, told_value

if TYPE_CHECKING:
    from mockserver.seen import SeenResponse

UNREADABLE = "(unreadable)"
"""Name of a text frame of the server that is no event."""


def _type_of(data: bytes) -> str:
    try:
        return str(decode(data)["type"])
    except (Refusal, UnicodeDecodeError):
        return UNREADABLE


@dataclass
class RelayedInput:
    """As far as faults look at it."""

    commits: int = 0


class Relay:
    """What is known of a session on another server (`mockserver.session_surface.SessionSurface`).

    Args:
        query: of the client's URL.
        ids: source of the ids of injected events.
        forward: takes frames for the server; never waits.
        lost: called when the client's connection is over.
        opened_s: loop time.
        dialect: where it is known beforehand; otherwise told from the events.
    """

    def __init__(
        self,
        *,
        query: Mapping[str, str],
        ids: random.Random,
        forward: Callable[[bytes, WSMsgType], None],
        lost: Callable[[], None],
        opened_s: float,
        dialect: Dialect | None = None,
    ) -> None:
        self.id = ""
        self.epoch = 0
        self.turn_id = 0
        self.seen = Seen(opened_s)
        self.input = RelayedInput()
        self.ignored: frozenset[str] = frozenset()
        self._ignoring = Ignoring()
        self._query = query
        self._ids = ids
        self._forward = forward
        self._lost = lost
        self._dialect = dialect
        self._last_id: object = ""
        self._config: Config | None = None
        self._strict = StrictReader(dialect or DIALECT_J)
        self._ledger = Ledger()

    # -- what faults look at

    @property
    def dialect(self) -> Dialect:
        """As given, or as the server's spelling says; J until it has spoken."""
        if self._dialect is not None:
            return self._dialect
        return DIALECT_N if self.seen.family == "response.output_audio" else DIALECT_J

    @property
    def response(self) -> SeenResponse | None:
        """The open reply."""
        return self.seen.open_response

    @property
    def last_response_id(self) -> str | None:
        """Of the last reply created."""
        return next(reversed(self.seen.responses), None)

    # -- the session surface

    def start(self, now_s: float) -> list[Output]:
        """Nothing: the server has been connected before the client's upgrade was answered."""
        return []

    def receive(self, text: str | bytes, now_s: float) -> list[Output]:
        """A text frame of the client: forwarded first, then told."""
        data = text.encode() if isinstance(text, str) else text
        if self.ignored:
            name = _type_of(data)
            if name in self.ignored:
                return [Received(name, {"ignored": True})]
        self.pass_on(data)
        return self.tell(data, now_s)

    def pass_on(self, data: bytes) -> None:
        """A text frame goes to the server as it is."""
        self._forward(data, WSMsgType.TEXT)

    def tell(self, data: bytes, now_s: float) -> list[Output]:
        """What a frame that was passed on says, for the journal and for faults."""
        try:
            event = decode(data)
        except (Refusal, UnicodeDecodeError) as error:
            return [Received(UNREADABLE, {"bytes": len(data)}), Violation("1.3", "unreadable", str(error))]
        return self._told_received(event["type"], event, now_s)

    def answer_again(self, text: bytes, now_s: float) -> bytes | None:
        """Never: the answers are another server's."""
        return None

    def receive_binary(self, length_bytes: int, now_s: float) -> list[Output]:
        """Told; the frame itself is forwarded with the other frames that are no events."""
        return [
            Received("(binary)", {"bytes": length_bytes}),
            Violation("1.3", "binary-frame", f"{length_bytes} bytes"),
        ]

    def on_timer(self, now_s: float) -> list[Output]:
        """Only faults have timers here."""
        return []

    def next_timer_s(self) -> float | None:
        """None of its own."""
        return None

    def nothing_before(self, at_s: float) -> bool:
        """Never anything."""
        return True

    def lost(self, now_s: float) -> list[Output]:
        """The client's connection is over; the session on the server is still to be ended."""
        self._lost()
        return []

    def stamp(self, send: Send) -> Event:
        """An injected event gets an id of its own, also as the second half of one of the server's.

        It takes no place in the server's sequence, and may lack one (3.1).
        """
        event = send.event
        if send.payload is None and event.get("event_id") in (None, self._last_id):
            event["event_id"] = f"event_{self._ids.getrandbits(128):032x}"
            event.pop("server_event_seq", None)
        self._last_id = event.get("event_id")
        return event

    def told(self, event: Event) -> Mapping[str, Any]:
        """The journal's line for an event that goes out."""
        return told_relayed(event)

    def direct(self, action: Script) -> None:
        """Drop events of the client on their way; what a server does by itself cannot be directed from here."""
        if isinstance(action, Expire):
            return  # for the client alone: the session of the server is ended by itself
        if not isinstance(action, Ignore):
            raise TypeError(f"{type(action).__name__} cannot be carried out in front of a server")
        self.ignored = self._ignoring.after(action)

    # -- the server's side

    def from_server(self, data: bytes, now_s: float) -> Send:
        """A text frame of the server, with the event in it."""
        try:
            event = orjson.loads(data)
        except orjson.JSONDecodeError:
            event = None
        if type(event) is not dict or type(event.get("type")) is not str:
            return Send({"type": UNREADABLE, "bytes": len(data)}, sequenced=False, payload=data)
        self.seen.take(event, now_s)
        name = event["type"]
        if name == "session.created":
            self.id = self.seen.session_id
        elif name == "response.created":
            created = response_id(event)
            if created is not None and created not in self._ledger.known:
                self._ledger.open(created)
        return Send(event, sequenced=False, payload=data)

    # -- inside

    def _told_received(self, name: str, event: Event, now_s: float) -> list[Output]:
        seen = self.seen
        seen.answers.ask(name, now_s)
        if name == "input_audio_buffer.append":
            seen.appends += 1
            seen.first_append_s = seen.first_append_s or now_s
            seen.last_append_s = now_s
            return self._told_append(event)
        line: list[Output] = [Received(name, told_received(event))]
        if name == "session.update":
            seen.asked = True
            return line + self._read_config(event)
        if name == "input_audio_buffer.commit":
            seen.commit_s = seen.commit_s or now_s
            self.input.commits += 1
            return line + self._strict.commit(event)
        if name == "playback.ack":
            return [*line, *self._strict.ack(event, self._ledger)]
        if name == "session.close":
            seen.close_s = now_s
        return line

    def _read_config(self, event: Event) -> list[Output]:
        session = event.get("session")
        asked = session if isinstance(session, dict) else event
        try:
            self._config = read_config(
                asked, dialect=self.dialect, query_model=self._query.get("model"), native_default=True
            )
        except Refusal as refusal:
            return [Violation(refusal.section, refusal.code, refusal.message)]
        return list(self._strict.session(asked))

    def _told_append(self, event: Event) -> list[Output]:
        after_commit = self.input.commits > 0
        if self._config is None:
            return [Received("input_audio_buffer.append", {"before": "session.update"})]
        try:
            read = read_append(event, self._config)
        except Refusal as refusal:
            return [
                Received("input_audio_buffer.append", {"unreadable": told_value(refusal.message)}),
                Violation(refusal.section, refusal.code, refusal.message),
            ]
        if after_commit:
            read.told["after_commit"] = True
        outputs: list[Output] = [Received("input_audio_buffer.append", read.told)]
        outputs += self._strict.append(
            event, read, after_commit=after_commit, silence_rms=self._config.silence_rms
        )
        for problem in (read.audio_problem, read.frames_problem):
            if problem is not None:
                outputs.append(Violation(problem.section, problem.code, problem.message))
        return outputs
