"""Hostile input: the server answers or closes, in bounded time and memory, and never with a trace (protocol.md 11)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import struct
import time
import warnings
from typing import Any

import orjson
import pybase64
import pytest
import websockets

from conformance.clock import run_virtual
from mockserver.connection import MAX_UNREAD_OUTPUT_BYTES
from mockserver.inbound import MAX_QUEUED_UNITS
from mockserver.profiles import PROFILES
from mockserver.session import HANDLERS
from mockserver.wire import ALIASES, Received
from scenarios.model import Reply

TWO = Reply(starts_at_unit=0, units=2, text="One two.")


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


UNREADABLE = {
    "deep": nested(100_000),
    "deep-object": '{"a":' * 50_000 + "1" + "}" * 50_000,
    "nan": '{"type":"session.heartbeat","x":NaN}',
    "infinity": '{"type":"session.heartbeat","x":-Infinity}',
    "overflow": '{"type":"session.heartbeat","x":1e999}',
    "lone-surrogate": '{"type":"\\ud800"}',
    "lone-low-surrogate": '{"type":"session.heartbeat","x":"\\udc00"}',
    "open-string": '{"type":"session.heart',
    "trailing": '{"type":"session.heartbeat"} {}',
    "bom": '\ufeff{"type":"session.heartbeat"}',
    "nul": "\x00",
    "empty": "",
}


@pytest.mark.parametrize("text", UNREADABLE.values(), ids=UNREADABLE.keys())
@pytest.mark.parametrize("profile", ["july", "engine"])
def test_what_is_not_json_costs_itself_only(talk: Any, profile: str, text: str) -> None:
    t = talk(profile=profile).open().forget().send_text(text)

    assert (t.errors, t.ends) == (["invalid_json"], [])
    assert t.forget().send("session.heartbeat").names == ["session.heartbeat_ack"]


@pytest.mark.parametrize("depth", [200, *range(244, 256), 300, 1000])
@pytest.mark.parametrize(
    "event",
    [
        '{"type":"session.update","session":{"metadata":%s}}',
        '{"type":"session.update","metadata":%s}',
        '{"type":"conversation.item.create","item":{"content":[{"x":%s}]}}',
        '{"type":"conversation.item.create","item":{"role":%s}}',
        '{"type":"turn.signal","event":%s}',
        '{"type":"input_audio_buffer.append","audio":"AAAA","audio_start_ms":%s,"is_speech":true}',
        '{"type":"input_audio_buffer.append","audio":%s,"format":%s}',
        '{"type":"input_audio_buffer.append","audio":"AAA=","video_frames":%s,"vad":%s}',
        '{"type":"input_audio_buffer.commit","audio_end_ms":%s}',
        '{"type":"playback.ack","response_id":%s,"item_id":%s,"played_ms":%s}',
        '{"type":"session.event_ack","server_event_seq":%s}',
        '{"type":"response.cancel","response_id":%s,"event_id":%s}',
        '{"type":"no.such","x":%s}',
        '{"type":"session.close","reason":%s}',
    ],
)
def test_deep_values_are_taken_refused_or_dropped_and_what_is_sent_can_be_written(
    talk: Any, depth: int, event: str
) -> None:
    for profile in ("july", "engine"):
        t = talk(TWO, profile=profile).open().append().until(0.1)
        t.send_text(event.replace("%s", nested(depth))).until(5)

        for answer in t.events:
            orjson.dumps(answer)  # raises where a client's value came back too deep
        orjson.dumps([output.line for _, output in t.outputs if isinstance(output, Received)])
        assert t.session.state == ("closed" if "close" in event else "open")


def test_a_deep_opening_is_refused(talk: Any) -> None:
    t = talk().send_text('{"type":"session.update","session":{"metadata":' + nested(900) + "}}")

    assert (t.errors, len(t.ends)) == (["bad_event"], 1)


HUGE = (10**30, -(10**30), 2**64 - 1, 2**63, 1e300, -1e300, 5e-324, -0.0)


@pytest.mark.parametrize("number", HUGE)
@pytest.mark.parametrize(
    "event",
    [
        {"type": "playback.ack", "played_ms": 0, "committed_ms": 0},
        {"type": "input_audio_buffer.append", "audio": "AAA=", "sample_rate_hz": 0},
        {"type": "input_audio_buffer.append", "audio": "AQE=", "audio_start_ms": 0, "audio_end_ms": 0},
        {"type": "input_audio_buffer.append", "audio": "AQE=", "speech_probability": 0},
        {"type": "input_audio_buffer.commit", "audio_end_ms": 0},
        {"type": "session.event_ack", "server_event_seq": 0},
        {"type": "session.update", "session": {"idle_timeout_s": 0, "overlap_short_ack_ms": 0}},
        {
            "type": "session.update",
            "session": {"extra_body": {"overlap_silence_rms": 0, "force_listen_count": 0}},
        },
        {"type": "session.update", "session": {"overlap_barge_in_ms": 0, "sample_rate_hz": 0}},
    ],
    ids=lambda event: event["type"],
)
def test_huge_numbers_are_taken_or_refused(talk: Any, number: float, event: dict[str, Any]) -> None:
    text = json.dumps(event).replace(": 0", f": {number!r}")
    t = talk(TWO).open().append().until(0.1)
    t.send_text(text).append().until(5)

    for answer in t.events:
        orjson.dumps(answer)
    assert t.session.state in ("open", "closed")


def test_every_value_in_every_field_of_every_event_is_survived(talk: Any) -> None:
    """A seeded walk over what handlers read: each field gets every kind of JSON value."""
    values = [None, True, 0, -1, 2**63, 1e300, "", "x", "item_", [], ["/9gx"], {}, {"type": "x"}, [[None]]]
    fields = [
        "session", "item", "item_id", "response_id", "response", "event", "payload", "audio", "delta", "format",
        "sample_rate_hz", "video_frames", "max_slice_nums", "vad", "is_speech", "speech_probability", "text",
        "duration_ms", "audio_end_ms", "played_ms", "committed_ms", "truncate", "server_event_seq", "reason",
        "event_id", "content_index", "previous_item_id", "final", "force_listen", "extra_body", "modalities",
        "turn_detection", "instructions", "idle_timeout_s", "voice", "ref_audio", "model", "input_audio_format",
        "output_audio_format", "session_id",
    ]  # fmt: skip
    chance = random.Random(3)
    names = [name for name in (*HANDLERS, *ALIASES, "session.resume") if "close" not in name]
    for profile in PROFILES:
        t = talk(TWO, profile=profile).open(extra_body={"auto_response": True, "clock": "input"})
        for _ in range(1500):
            event = {field: chance.choice(values) for field in chance.sample(fields, 4)}
            name = chance.choice(names)
            if name == "session.update":
                event = {"session": event} if chance.random() < 0.5 else event
            t.forget().send(name, **event).until(t.now_s + 0.01)
            for answer in t.events:
                orjson.dumps(answer)
            if t.session.state != "open":
                t = talk(TWO, profile=profile).open(extra_body={"auto_response": True, "clock": "input"})


@pytest.mark.parametrize("kind", ["type", "format", "event_id"])
def test_a_long_value_comes_back_short(talk: Any, kind: str) -> None:
    long = "x" * 1_000_000
    t = talk().open().forget()
    if kind == "type":
        t.send(long)
    elif kind == "format":
        t.append(format=long)
    else:
        t.send("response.cancel", response_id=long)

    assert len(orjson.dumps(t.events)) < 2_000
    assert sum(len(repr(getattr(output, "data", ""))) for _, output in t.outputs) < 5_000


@pytest.mark.slow
def test_a_hundred_thousand_tiny_frames_are_answered_in_bounded_time(serve: Any, bare: Any) -> None:
    """A client that reads: each frame has its answer, and the session lives."""
    count = 100_000

    async def main() -> Any:
        async with serve() as server, bare(server.url) as client:
            await client.open()
            # the fastest way to send them: one frame, many times over, past the library
            transport = client.socket.transport
            for _ in range(count // 1000):
                transport.write(b"\x81\x82\x00\x00\x00\x00{}" * 1000)
                await asyncio.sleep(0.001)
            await client.send("session.heartbeat")
            await asyncio.sleep(1)
            server.journal.entries.clear()
            return client.names, server.connections[0]

    began_s = time.process_time()
    names, info = run_virtual(main)
    assert names.count("error") == count
    assert names[-1] == "session.heartbeat_ack"
    assert info.ended_by is None or info.ended_by == "client"
    assert time.process_time() - began_s < 60


def test_a_client_that_sends_and_never_reads_is_dropped_when_its_answers_pile_up(
    serve: Any, bare: Any
) -> None:
    async def main() -> Any:
        async with serve() as server, bare(server.url, pings=False) as client:
            await client.open()
            client.socket.transport.pause_reading()
            item = "x" * 1_000_000
            with contextlib.suppress(websockets.ConnectionClosed):
                for _ in range(MAX_UNREAD_OUTPUT_BYTES // 2_000_000):
                    await client.send(
                        "conversation.item.create", item={"content": [{"type": "t", "x": item}]}
                    )
            await asyncio.sleep(1)
            return server.connections[0], server.journal.of("violation")

    info, violations = run_virtual(main)
    assert (info.ended_by, info.how) == ("server", "reset")
    assert violations[-1].name == "output-unread"


def test_a_burst_of_frames_in_one_packet_does_not_stop_other_sessions(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        async with serve() as server, bare(server.url) as hostile, bare(server.url) as other:
            await hostile.open()
            await other.open()
            hostile.socket.transport.write(b"\x81\x82\x00\x00\x00\x00{}" * 20_000)
            await other.send("session.heartbeat")
            await asyncio.sleep(0.5)
            return other.times("session.heartbeat_ack")[0] - other.times("session.updated")[0]

    assert run_virtual(main) < 0.1


def test_names_that_nobody_knows_are_not_counted_apart(talk: Any) -> None:
    t = talk().open().forget()
    for number in range(50):
        t.send(f"made.up.{number}" + "x" * 10_000)

    received = [out for _, out in t.outputs if isinstance(out, Received)]
    assert {out.name for out in received} == {"(unknown)"}
    assert all(len(out.data["type"]) < 200 for out in received)
    assert received[7].data["type"].startswith("made.up.7")


# -- what a client can have kept


def test_items_of_the_client_are_refused_once_they_fill_the_memory(talk: Any) -> None:
    t = talk().open()
    item = {"content": [{"type": "input_text", "text": "x" * 7_000_000}]}
    for _ in range(6):
        t.send("conversation.item.create", item=item)

    assert t.errors == ["input_backpressure"] * 2


def test_hints_of_one_input_have_an_end_and_the_next_input_begins_anew(talk: Any) -> None:
    t = talk().open()
    for _ in range(3):
        t.append(text="x" * 400_000, is_speech=True)
    assert t.errors == ["input_backpressure"]

    t.send("input_audio_buffer.clear").append(text="x" * 400_000, is_speech=True)
    assert t.errors == ["input_backpressure"]


def test_sessions_are_not_merged_beyond_the_size_of_an_event(talk: Any) -> None:
    t = talk().open()
    for number in range(3):
        t.send("session.update", session={f"made_up_{number}": "x" * 6_000_000})

    assert t.errors == ["event_too_large"]


def test_units_that_the_model_has_not_decided_have_an_end(talk: Any) -> None:
    t = talk().open()
    for _ in range(MAX_QUEUED_UNITS + 3):
        t.append()

    assert t.errors == ["input_backpressure"] * 3


@pytest.mark.parametrize(("sample", "speech"), [(1e38, True), (float("inf"), True), (float("nan"), False)])
def test_floats_that_are_no_sound_are_measured_without_a_warning(
    talk: Any, sample: float, speech: bool
) -> None:
    audio = pybase64.b64encode(struct.pack("<2f", sample, sample)).decode()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        t = talk().open(input_audio_format="pcm_f32le").append(audio=audio)

    assert ("input_audio_buffer.speech_started" in t.names) is speech
