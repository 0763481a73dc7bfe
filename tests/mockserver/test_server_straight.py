"""What goes straight to the wire is what would have gone there through handlers, faults and outbox."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.clock import run_virtual
from mockserver.profiles import PROFILES
from mockserver.repeated_acks import MAX_ACK_BYTES, MAX_REMEMBERED
from mockserver.session import ServerSession
from mockserver.wire import Output, Received, Send, Violation, encode
from scenarios.faults import NoSessionClosed, On
from scenarios.model import Reply
from tests.mockserver.conftest import QUERY, SESSION, pcm

REPLIES = [
    Reply(starts_at_unit=0, units=2, text="One two."),
    Reply(starts_at_unit=3, units=2, text="Three four."),
]
SECOND = {
    "type": "input_audio_buffer.append",
    "audio": pcm(1000),
    "duration_ms": 1000,
    "input_audio_format": "pcm16",
    "sample_rate_hz": 16000,
}


class Both:
    """One session that is always asked to receive, and its twin that answers by itself what it can."""

    def __init__(self, profile: str, replies: Sequence[Reply] = REPLIES) -> None:
        self.now_s = 0.0
        self.again = 0
        self.told: list[list[Any]] = [[], []]
        self.twins = [
            ServerSession(PROFILES[profile], replies, query=QUERY, ids=random.Random(7), decision_s=0.05)
            for _ in range(2)
        ]
        for told, session in zip(self.told, self.twins, strict=True):
            told += _lines(session, session.start(0.0))
        self.send({"type": "session.update", "session": SESSION})

    def send(self, event: dict[str, Any]) -> None:
        text = orjson.dumps(event)
        plain, quick = self.twins
        self.told[0] += _lines(plain, plain.receive(text, self.now_s))
        answer = quick.answer_again(text, self.now_s)
        if answer is None:
            self.told[1] += _lines(quick, quick.receive(text, self.now_s))
        else:
            self.again += 1
            self.told[1] += [("playback.ack", event), answer]

    def wait(self, seconds: float) -> None:
        until_s = self.now_s + seconds
        for told, session in zip(self.told, self.twins, strict=True):
            now_s = self.now_s
            while (due_s := session.next_timer_s()) is not None and due_s <= until_s:
                now_s = max(now_s, due_s)
                told += [now_s, *_lines(session, session.on_timer(now_s))]
        self.now_s = until_s

    def late(self, seconds: float) -> None:
        """Time goes on, and what is due by then is not done yet."""
        self.now_s += seconds

    def ack(self, reply: int, **fields: Any) -> None:
        ids = list(self.twins[0].ledger.known)
        named = ids[reply] if reply < len(ids) else f"nobody-{reply}"
        names = {"response_id": named, "item_id": f"item_{named}"}
        self.send({"type": "playback.ack", **names, "played_ms": 960, "committed_ms": 960, **fields})

    def same(self) -> None:
        assert self.told[0] == self.told[1]
        assert self.twins[0].next_timer_s() == self.twins[1].next_timer_s()


def _lines(session: ServerSession, outputs: list[Output]) -> list[Any]:
    lines: list[Any] = []
    for output in outputs:
        if isinstance(output, Send):
            lines.append(encode(session.stamp(output)))
        elif isinstance(output, Received):
            data = orjson.loads(output.data) if isinstance(output.data, bytes) else output.data
            lines.append((output.name, data))
        else:
            lines.append(output)
    return lines


STEPS: dict[str, Callable[[Both], None]] = {
    "the same ack": lambda both: both.ack(0),
    "of the second reply": lambda both: both.ack(1),
    "of what never was": lambda both: both.ack(9),
    "more": lambda both: both.ack(0, played_ms=1920, committed_ms=1920),
    "less": lambda both: both.ack(0, played_ms=10, committed_ms=10),
    "cut": lambda both: both.ack(0, committed_ms=480, truncate=True),
    "another item": lambda both: both.ack(0, item_id="item_x"),
    "unnamed": lambda both: both.send({"type": "playback.ack", "played_ms": 960}),
    "by its alias": lambda both: both.send({"type": "audio.playback_ack", "audio_ms": 480}),
    "a second": lambda both: both.send(SECOND),
    "commit": lambda both: both.send({"type": "input_audio_buffer.commit", "final": True}),
    "cancel": lambda both: both.send({"type": "response.cancel"}),
    "barge in": lambda both: both.send({"type": "turn.signal", "event": "barge_in"}),
    "no wait": lambda both: both.wait(0.05),
    "late": lambda both: both.late(0.05),
    "wait": lambda both: both.wait(1.0),
}


@given(
    profile=st.sampled_from(sorted(PROFILES)),
    steps=st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.sampled_from([1, 1, 3])), max_size=30),
)
@settings(max_examples=150)
def test_an_ack_answered_again_is_answered_as_if_it_had_been_received(
    profile: str, steps: list[tuple[str, int]]
) -> None:
    both = Both(profile)
    for name in ("a second", "wait"):
        STEPS[name](both)
    for name, times in steps:
        for _ in range(times):
            STEPS[name](both)
            both.same()


@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_the_third_of_the_same_acks_is_answered_from_memory_until_something_changes(profile: str) -> None:
    both = Both(profile)
    for name in ("a second", "wait", "wait", "wait", "the same ack", "the same ack"):
        STEPS[name](both)
    assert both.again == 0
    STEPS["the same ack"](both)
    assert both.again == 1
    STEPS["more"](both)
    STEPS["the same ack"](both)
    assert both.again == 1
    STEPS["the same ack"](both)
    assert both.again == 2
    both.twins[1].epoch += 1
    both.twins[0].epoch += 1
    STEPS["the same ack"](both)
    assert both.again == 2
    both.same()


@pytest.mark.parametrize(("profile", "violations"), [("july", 8), ("engine", 16)])
def test_what_is_a_violation_or_an_error_is_never_answered_from_memory(profile: str, violations: int) -> None:
    both = Both(profile)
    for name in ("a second", "wait"):
        STEPS[name](both)
    for _ in range(4):
        for step in ("of what never was", "another item"):
            STEPS[step](both)
    assert both.again == 0
    found = [line for line in both.told[1] if isinstance(line, Violation)]
    assert len(found) == violations
    both.same()


SILENT = [Reply(starts_at_unit=0, units=2, text="One two.", audio_ms=0)]
SAME = ["the same ack"] * 3
CHANGES: dict[str, tuple[str, Sequence[Reply], list[str]]] = {
    "the reply ended": ("july", SILENT, ["a second", "wait", *SAME, "wait", "the same ack", "less"]),
    "an input was committed": ("engine", REPLIES, ["a second", "wait", "wait", *SAME, "a second", "commit"]),
    "a position was cut": ("july", REPLIES, ["a second", "wait", *SAME, "cut", "the same ack", "less"]),
    "a unit is due": ("july", REPLIES, ["a second", "wait", "wait", "wait", *SAME, "a second", "late"]),
}
"""What makes another answer of the same ack, each alone: profile, script, steps."""


@pytest.mark.parametrize(("profile", "replies", "steps"), CHANGES.values(), ids=CHANGES.keys())
def test_an_ack_is_received_anew_when(profile: str, replies: Sequence[Reply], steps: list[str]) -> None:
    both = Both(profile, replies)
    for name in steps:
        STEPS[name](both)
    assert both.again > 0
    STEPS["the same ack"](both)
    both.same()


def test_memory_is_bounded() -> None:
    both = Both("july")
    for name in ("a second", "wait", "more"):
        STEPS[name](both)
    for place in range(5 * MAX_REMEMBERED):
        both.ack(0, played_ms=place, committed_ms=0)
        both.ack(0, played_ms=0, committed_ms=0, note="x" * (MAX_ACK_BYTES + place))
    assert 0 < len(both.twins[1].acks.answers) <= MAX_REMEMBERED
    both.same()


def test_a_closed_session_answers_nothing_again() -> None:
    both = Both("july")
    for name in ("a second", "wait", "the same ack", "the same ack", "the same ack"):
        STEPS[name](both)
    both.send({"type": "session.close"})
    STEPS["the same ack"](both)
    assert both.again == 1
    both.same()


def test_the_short_way_writes_and_notes_what_the_way_through_faults_does(serve: Any, bare: Any) -> None:
    """The same client against a server without a fault, and one whose only fault waits for a trigger in vain."""

    async def played(*faults: Any) -> tuple[list[bytes], list[Any]]:
        async with serve(*faults, reply=REPLIES[0]) as server, bare(server.url) as client:
            raw: list[bytes] = []
            receive = client.socket.recv
            client.socket.recv = lambda: _kept(receive, raw)
            await client.open()
            await client.send("input_audio_buffer.append", audio="%", format="none")
            await client.append()
            for _ in range(8):
                await asyncio.sleep(0.25)
                await client.send(
                    "playback.ack", response_id="r", item_id="item_r", played_ms=1, committed_ms=1
                )
                rid = next(
                    (e["response_id"] for _, e in client.events if e["type"] == "response.created"), ""
                )
                await client.send(
                    "playback.ack", response_id=rid, item_id=f"item_{rid}", played_ms=960, committed_ms=960
                )
            await client.send("input_audio_buffer.commit", final=True)
            await asyncio.sleep(5)
            await client.socket.ping()
            await client.send("session.close")
            await client.ended()
            (info,) = server.connections
            entries = [(e.t_s, e.seq, e.kind, e.name, e.data) for e in server.journal.entries]
            return raw, [entries, info.sent, info.received, info.units, info.session_id]

    straight = run_virtual(lambda: played())
    in_turn = run_virtual(lambda: played(NoSessionClosed(on=On(received="input.cancel"))))
    assert straight == in_turn
    assert len(straight[0]) > 40


async def _kept(receive: Any, raw: list[bytes]) -> Any:
    message = await receive(decode=False)
    raw.append(message)
    return message
