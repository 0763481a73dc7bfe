"""Faults of the session and of replies: what a client that is not ours sees, the proof, and what proves nothing."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlencode

import orjson
import pybase64
import pytest
import websockets

from conformance.clock import run_virtual
from conformance.trace import Record, comparable
from mockserver.app import MockServer
from mockserver.faults import FaultReport
from scenarios.faults import ErrorEvent, FaultBase, NeverDone, On
from scenarios.faults_response import (
    DamagedAudio,
    ExtraReplyInPadding,
    FreezeTail,
    LateDeltas,
    ListenPerPaddedUnit,
    SplitText,
    Status,
    WrongResponseId,
)
from scenarios.faults_session import (
    DropEvent,
    DuplicateEvent,
    GarbageEvent,
    IgnoreCancel,
    IgnoreClose,
    JournalOverflow,
    LateSessionCreated,
    Reorder,
    SessionExpired,
    SessionReplaced,
    UnknownEvent,
)
from scenarios.model import Reply

REPLY = Reply(starts_at_unit=0, units=3, text="One two three.")
HEARTBEAT = On(received="session.heartbeat")
AUDIO, TRANSCRIPT = "response.audio.delta", "response.audio_transcript.delta"


async def session(client: Any) -> None:
    """One unit, a commit, nine seconds, a close, the end."""
    await client.open()
    await client.append()
    await asyncio.sleep(1)
    with contextlib.suppress(websockets.ConnectionClosed):
        await client.send("input_audio_buffer.commit", final=True)
        await asyncio.sleep(9)
        await client.send("session.close")
    await client.ended()


async def padded(client: Any) -> None:
    """One unit, a commit, five units of silence, a second each."""
    await client.open()
    await client.append()
    await asyncio.sleep(1)
    await client.send("input_audio_buffer.commit", final=True)
    for number in range(5):
        silence = pybase64.b64encode(bytes(32_000)).decode()
        end_ms = 2000 + 1000 * number
        await client.send(
            "input_audio_buffer.append", audio=silence, duration_ms=1000, audio_end_ms=end_ms, is_speech=False
        )
        await asyncio.sleep(1)


def played(
    serve: Any,
    bare: Any,
    *faults: FaultBase,
    talk: Callable[[Any], Awaitable[None]] = session,
    reply: Reply | None = REPLY,
    **how: Any,
) -> tuple[Any, FaultReport, MockServer]:
    """What a bare client got, and what the first fault proved."""

    async def main() -> Any:
        async with serve(*faults, reply=reply, **how) as server:
            async with bare(server.url) as client:
                await talk(client)
            await asyncio.sleep(0.01)
            return client, server.fault_reports()[0], server

    return run_virtual(main)  # type: ignore[no-any-return]


def of(client: Any, name: str) -> list[dict[str, Any]]:
    return [event for _, event in client.events if event["type"] == name]


def text_of(client: Any) -> str:
    return "".join(event["delta"] for event in of(client, TRANSCRIPT))


def texts_of(serve: Any, *faults: FaultBase, reply: Reply = REPLY) -> tuple[list[str], FaultReport, Any]:
    """The text frames of a whole session as they came, undecoded."""

    async def main() -> Any:
        async with serve(*faults, reply=reply) as server:
            query = urlencode({"duplex": "1", "autostart": "0"})
            async with websockets.connect(f"{server.url}?{query}", proxy=None, max_size=None) as socket:
                extra = {"auto_response": True, "minicpmo45_native_duplex": True}
                opening = {"type": "session.update", "session": {"ref_audio": "data:,", "extra_body": extra}}
                await socket.send(json.dumps(opening))
                audio = pybase64.b64encode(b"\x00\x10" * 16_000).decode()
                await socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))
                await asyncio.sleep(1)
                await socket.send(json.dumps({"type": "input_audio_buffer.commit"}))
                texts = []
                with contextlib.suppress(websockets.ConnectionClosed):
                    asyncio.get_running_loop().call_later(8, socket.transport.abort)
                    async for text in socket:
                        texts.append(str(text))
            return texts, server.fault_reports()[0], server

    return run_virtual(main)  # type: ignore[no-any-return]


# -- the session


def test_a_late_session_created_is_created_all_the_same(serve: Any, bare: Any) -> None:
    client, report, _ = played(serve, bare, LateSessionCreated(delay_s=5))

    assert client.times("session.created") == [pytest.approx(1005, abs=0.01)]
    assert client.times("session.updated") == client.times("session.created")
    assert (report.state, report.evidence["withheld"]) == ("observed", "session.created")


def test_a_close_that_is_dropped_leaves_the_session_as_it_is(serve: Any, bare: Any) -> None:
    async def talk(client: Any) -> None:
        await client.open()
        await client.append()
        await asyncio.sleep(0.5)
        await client.send("session.close")
        await asyncio.sleep(5)
        await client.send("session.heartbeat")
        await asyncio.sleep(0.1)

    client, report, server = played(serve, bare, IgnoreClose(), talk=talk)
    assert client.names[-1] == "session.heartbeat_ack"
    assert "session.closed" not in client.names
    assert of(client, "response.done")[0]["response"]["status"] == "completed", "it goes on talking"
    assert (report.state, report.evidence["ignored"]) == ("observed", "session.close")
    assert server.journal.of("received", "session.close")[0].data == {"ignored": True}


def test_a_close_is_heeded_again_when_the_fault_is_over(serve: Any, bare: Any) -> None:
    async def talk(client: Any) -> None:
        await client.open()
        await client.send("session.close")
        await asyncio.sleep(3)
        await client.send("session.close")
        await client.ended()

    client, _, _ = played(serve, bare, IgnoreClose(at_s=0, for_s=2), talk=talk)
    assert client.times("session.closed") == [pytest.approx(1003, abs=0.02)]


@pytest.mark.parametrize("name", ["response.cancel", "output_audio_buffer.clear", "input.cancel"])
def test_a_cancel_that_is_dropped_leaves_the_reply_as_it_is(serve: Any, bare: Any, name: str) -> None:
    async def talk(client: Any) -> None:
        await client.open()
        await client.append()
        await asyncio.sleep(0.5)
        await client.send(name)
        await asyncio.sleep(5)

    client, report, _ = played(serve, bare, IgnoreCancel(), talk=talk)
    assert text_of(client) == "One two three."
    assert of(client, "response.done")[0]["response"]["status"] == "completed"
    assert (report.state, report.evidence["ignored"]) == ("observed", name)


def test_a_cancel_of_nothing_proves_nothing(serve: Any, bare: Any) -> None:
    async def talk(client: Any) -> None:
        await client.open()
        await client.send("response.cancel")
        await client.send("session.heartbeat")
        await asyncio.sleep(0.1)

    client, report, _ = played(serve, bare, IgnoreCancel(), talk=talk)
    assert client.names[-1] == "session.heartbeat_ack"
    assert report.state == "triggered"


def test_an_expired_session_says_so_and_closes(serve: Any, bare: Any) -> None:
    client, report, _ = played(serve, bare, SessionExpired(on=On(sent="transcript.delta")))

    expired = client.events[-1][1]
    assert client.names[-2:] == [TRANSCRIPT, "session.expired"]
    assert (expired["reason"], expired["incarnation"]) == ("idle_ttl_expired", 0)
    assert expired["session_id"] == client.events[0][1]["session"]["id"]
    assert "server_event_seq" not in expired
    assert client.closed.rcvd.code == 1000
    assert report.state == "observed"


def test_a_replaced_session_says_so_and_closes(serve: Any, bare: Any) -> None:
    client, report, _ = played(serve, bare, SessionReplaced(on=On(sent="transcript.delta")))

    replaced = client.events[-1][1]
    assert client.names[-2:] == [TRANSCRIPT, "session.replaced"]
    assert (replaced["attachment_generation"], replaced["session_id"]) == (
        1,
        client.events[0][1]["session"]["id"],
    )
    assert "server_event_seq" not in replaced
    assert client.closed.rcvd.code == 1000
    assert report.state == "observed"


def test_behind_an_overflow_nothing_has_a_sequence_number(serve: Any, bare: Any) -> None:
    client, report, _ = played(serve, bare, JournalOverflow(on=On(sent="response.created")))

    place = client.names.index("session.resync_required")
    events = [event for _, event in client.events]
    assert client.names[place - 1] == "response.created"
    assert events[place]["reason"] == "journal_overflow"
    assert all("server_event_seq" in event for event in events[1:place])
    assert not any("server_event_seq" in event for event in events[place:])
    assert "response.done" in client.names[place:]
    assert len({event["event_id"] for event in events}) == len(events)
    assert report.state == "observed"


def test_an_overflow_without_a_trigger_follows_the_opening(serve: Any, bare: Any) -> None:
    client, _, _ = played(serve, bare, JournalOverflow())

    assert client.names[:3] == ["session.created", "session.updated", "session.resync_required"]


def test_a_duplicate_is_the_same_event(serve: Any, bare: Any) -> None:
    client, report, _ = played(serve, bare, DuplicateEvent(event="transcript.delta", nth=2, times=3))

    deltas = of(client, TRANSCRIPT)
    assert [delta["delta"] for delta in deltas] == ["One ", "two ", "two ", "two ", "three."]
    assert len({delta["event_id"] for delta in deltas}) == 3
    assert deltas[1] == deltas[2] == deltas[3]
    assert (report.state, report.evidence["times"]) == ("observed", 3)


@pytest.mark.parametrize("by", [1, 3])
def test_an_overtaken_event_keeps_its_number(serve: Any, bare: Any, by: int) -> None:
    client, report, _ = played(serve, bare, Reorder(event="response.created", by=by))
    plain, _, _ = played(serve, bare, ErrorEvent(on=HEARTBEAT))

    at = plain.names.index("response.created")
    expected = plain.names[:at] + plain.names[at + 1 : at + 1 + by] + plain.names[at : at + 1]
    assert client.names == expected + plain.names[at + 1 + by :]
    numbers = [event["server_event_seq"] for _, event in client.events[1:]]
    assert sorted(numbers) == list(range(1, len(numbers) + 1))
    assert numbers != sorted(numbers)
    assert report.state == "observed"


def test_an_event_that_nothing_follows_is_not_overtaken(serve: Any, bare: Any) -> None:
    client, report, _ = played(serve, bare, Reorder(event="session.closed"))

    assert client.names[-1] == "session.closed"
    assert report.state == "triggered"


def test_a_dropped_event_leaves_a_gap(serve: Any, bare: Any) -> None:
    client, report, _ = played(serve, bare, DropEvent(event="transcript.delta", nth=2))

    assert text_of(client) == "One three."
    numbers = [event["server_event_seq"] for _, event in client.events[1:]]
    assert len(set(range(1, numbers[-1] + 1)) - set(numbers)) == 1
    assert (report.state, report.evidence["dropped"]) == ("observed", TRANSCRIPT)


def test_every_event_of_a_name_can_be_dropped(serve: Any, bare: Any) -> None:
    client, _, _ = played(serve, bare, DropEvent(event="transcript.delta", nth=None))

    assert text_of(client) == ""


@pytest.mark.parametrize(
    ("fault", "frame"),
    [
        (GarbageEvent(text="{not json"), "{not json"),
        (GarbageEvent(text=""), ""),
        (GarbageEvent(text="null"), "null"),
        (GarbageEvent(event=[1, "two"]), '[1,"two"]'),
        (GarbageEvent(event=5), "5"),
        (GarbageEvent(event={"no": "type"}), '{"no":"type"}'),
        (GarbageEvent(event={"type": 7}), '{"type":7}'),
    ],
    ids=lambda value: str(value)[:30] if isinstance(value, str) else "",
)
def test_garbage_is_sent_as_it_is(serve: Any, fault: FaultBase, frame: str) -> None:
    texts, report, _ = texts_of(serve, fault)

    assert texts[2] == frame
    assert json.loads(texts[3])["type"] == "input_audio_buffer.speech_started"
    assert report.state == "observed"


def test_garbage_can_name_the_open_reply(serve: Any) -> None:
    wrong = {"type": AUDIO, "response_id": "$response_id", "item_id": "$item_id", "delta": 5}
    texts, _, _ = texts_of(serve, GarbageEvent(event=wrong, times=2, on=On(sent="response.speak")))

    events = [json.loads(text) for text in texts]
    at = [event.get("type") for event in events].index("response.speak")
    reply_id = events[at]["response_id"]
    assert (
        events[at + 1] == events[at + 2] == {**wrong, "response_id": reply_id, "item_id": f"item_{reply_id}"}
    )


def test_an_unknown_event_is_well_formed(serve: Any, bare: Any) -> None:
    fault = UnknownEvent(fields={"session": "$session_id", "n": [1]}, times=2)
    client, report, _ = played(serve, bare, fault)

    first, second = of(client, "response.thought.delta")
    assert first["session"] == client.events[0][1]["session"]["id"]
    assert second["server_event_seq"] == first["server_event_seq"] + 1
    assert client.names[2:4] == ["response.thought.delta"] * 2
    assert report.state == "observed"


@pytest.mark.parametrize("fault", [UnknownEvent(type="x"), GarbageEvent(text="x"), SessionExpired()])
def test_an_event_of_the_protocol_is_not_unknown_and_garbage_is_one_thing(fault: FaultBase) -> None:
    assert fault.model_dump(exclude_unset=True) is not None
    with pytest.raises(ValueError, match="is an event of the protocol"):
        UnknownEvent(type="response.done")
    with pytest.raises(ValueError, match="neither"):
        GarbageEvent()
    with pytest.raises(ValueError, match="both"):
        GarbageEvent(text="x", event=1)


# -- replies


def test_a_frozen_tail_stands_still_and_loses_no_delta(serve: Any, bare: Any) -> None:
    client, report, _ = played(serve, bare, FreezeTail())

    assert text_of(client) == "One "
    assert of(client, "response.done")[0]["response"]["status"] == "cancelled", "by session.close"
    numbers = [event["server_event_seq"] for _, event in client.events[1:]]
    assert numbers == list(range(1, len(numbers) + 1))
    assert (report.state, report.evidence["withheld"]) == ("observed", "silence")


def test_padding_moves_a_frozen_tail(serve: Any, bare: Any) -> None:
    client, report, _ = played(serve, bare, FreezeTail(), talk=padded)

    assert text_of(client) == "One two three."
    assert [round(t - 1000, 1) for t in client.times(TRANSCRIPT)] == [0.1, 1.1, 2.1]
    assert report.state == "observed"


def test_silence_comes_back_when_the_freeze_is_over(serve: Any, bare: Any) -> None:
    async def talk(client: Any) -> None:
        await client.open()
        await client.append()
        await client.append()
        await asyncio.sleep(8)

    client, _, _ = played(serve, bare, FreezeTail(at_s=0, for_s=0.03), talk=talk)
    assert text_of(client) == "One two three."


def test_a_reply_that_the_clip_itself_moves_is_not_frozen(serve: Any, bare: Any) -> None:
    """Silence is due after each of its units, and the next unit of the clip comes first."""

    async def talk(client: Any) -> None:
        await client.open()
        for _ in range(4):
            await client.append()
            await asyncio.sleep(1)
        await client.send("input_audio_buffer.commit", final=True)
        await asyncio.sleep(3)

    client, report, _ = played(serve, bare, FreezeTail(), talk=talk)
    assert text_of(client) == "One two three."
    assert report.state == "triggered"


def test_a_reply_that_the_residual_ends_is_not_frozen(serve: Any, bare: Any) -> None:
    async def talk(client: Any) -> None:
        await client.open()
        await client.append()
        await asyncio.sleep(0.9)
        await client.append(500)
        await client.send("input_audio_buffer.commit", final=True)
        await asyncio.sleep(3)

    reply = Reply(starts_at_unit=0, units=2, text="One two.")
    client, report, _ = played(serve, bare, FreezeTail(), talk=talk, reply=reply)
    assert text_of(client) == "One two."
    assert report.state == "triggered"


@pytest.mark.parametrize("how", [{"reply": None}, {"profile": "input-driven"}])
def test_without_a_reply_or_silence_there_is_nothing_to_freeze(serve: Any, bare: Any, how: Any) -> None:
    _, report, _ = played(serve, bare, FreezeTail(), **how)

    assert report.state == "triggered"


def test_a_reply_that_ends_with_the_clip_is_not_frozen(serve: Any, bare: Any) -> None:
    reply = Reply(starts_at_unit=0, units=1, text="One.")
    _, report, _ = played(serve, bare, FreezeTail(), reply=reply)

    assert report.state == "triggered"


@pytest.mark.parametrize("status", ["failed", "cancelled", "incomplete"])
def test_a_status_is_told_by_every_event_that_has_one(serve: Any, bare: Any, status: Any) -> None:
    client, report, _ = played(serve, bare, Status(status=status, reason="why"))

    done = of(client, "response.done")[0]["response"]
    assert (done["status"], done["output"][0]["status"]) == (status, status)
    assert done["status_details"] == {"type": status, "reason": "why"}
    assert of(client, "response.output_item.done")[0]["item"]["status"] == status
    assert of(client, "conversation.item.done")[-1]["item"]["status"] == status
    assert text_of(client) == "One two three."
    assert (report.state, report.evidence["status"]) == ("observed", status)


def test_late_deltas_follow_the_done_group(serve: Any, bare: Any) -> None:
    client, report, _ = played(serve, bare, LateDeltas(count=2))

    at = client.names.index("rate_limits.updated")
    assert client.names[at + 1 : at + 5] == [AUDIO, TRANSCRIPT] * 2
    reply_id = of(client, "response.done")[0]["response_id"]
    assert {event["response_id"] for _, event in client.events[at + 1 : at + 5]} == {reply_id}
    assert report.state == "observed"


def test_an_extra_reply_begins_on_its_padded_unit(serve: Any, bare: Any) -> None:
    reply = Reply(starts_at_unit=0, units=1, text="One.")
    fault = ExtraReplyInPadding(after_units=2, units=2, text="Nobody asked.")
    client, report, _ = played(serve, bare, fault, talk=padded, reply=reply)

    assert [round(t - 1000, 1) for t in client.times("response.created")] == [0.1, 2.1]
    assert text_of(client) == "One.Nobody asked."
    assert len(of(client, "response.done")) == 2
    assert (report.state, report.evidence["padded_units"]) == ("observed", 2)


def test_padded_units_of_an_open_reply_do_not_count_for_an_extra_one(serve: Any, bare: Any) -> None:
    fault = ExtraReplyInPadding(after_units=2, text="Nobody asked.")
    client, report, _ = played(serve, bare, fault, talk=padded, profile="input-driven")

    assert [round(t - 1000, 1) for t in client.times("response.created")] == [0.1, 4.1]
    assert report.state == "observed"


def test_without_padding_no_extra_reply_begins(serve: Any, bare: Any) -> None:
    client, report, _ = played(serve, bare, ExtraReplyInPadding())

    assert len(of(client, "response.created")) == 1
    assert report.state == "armed"


def test_each_padded_unit_is_told_with_a_listen(serve: Any, bare: Any) -> None:
    reply = Reply(starts_at_unit=0, units=4, text="One two three four.")
    client, report, _ = played(serve, bare, ListenPerPaddedUnit(), talk=padded, reply=reply)
    plain, _, _ = played(serve, bare, ErrorEvent(on=HEARTBEAT), talk=padded, reply=reply)

    assert len(of(plain, "response.listen")) == 2
    assert len(of(client, "response.listen")) == 4
    assert text_of(client) == text_of(plain)
    assert report.state == "observed"


def test_a_commit_that_begins_the_listens_is_one_that_they_come_after(serve: Any, bare: Any) -> None:
    reply = Reply(starts_at_unit=0, units=4, text="One two three four.")
    fault = ListenPerPaddedUnit(on=On(received="input_audio_buffer.commit"))
    client, report, _ = played(serve, bare, fault, talk=padded, reply=reply)

    assert len(of(client, "response.listen")) == 4
    assert report.state == "observed"


def test_with_nothing_open_a_listen_is_the_servers_own(serve: Any, bare: Any) -> None:
    _, report, _ = played(serve, bare, ListenPerPaddedUnit(), talk=padded, reply=None)

    assert report.state == "armed"


@pytest.mark.parametrize(
    ("event", "wrong"),
    [("both_deltas", 6), ("audio.delta", 3), ("transcript.delta", 3), ("response.done", 1)],
)
def test_a_wrong_id_is_on_the_chosen_events_alone(serve: Any, bare: Any, event: Any, wrong: int) -> None:
    client, report, _ = played(serve, bare, WrongResponseId(event=event, response_id="resp-x"))

    changed = [e for _, e in client.events if e.get("response_id") == "resp-x"]
    assert len(changed) == wrong
    assert all(e.get("item_id", "item_resp-x") == "item_resp-x" for e in changed)
    assert all(e.get("response", {"id": "resp-x"})["id"] == "resp-x" for e in changed)
    assert report.state == "observed"


def _decodes(text: str) -> int | None:
    try:
        return len(pybase64.b64decode(text, validate=True))
    except ValueError:
        return None


@pytest.mark.parametrize(
    ("kind", "decoded"), [("bad_base64", None), ("bad_padding", None), ("odd_bytes", 46_079), ("empty", 0)]
)
def test_one_audio_delta_is_damaged(serve: Any, bare: Any, kind: Any, decoded: int | None) -> None:
    client, report, server = played(serve, bare, DamagedAudio(kind=kind, nth=2))

    assert [_decodes(delta["delta"]) for delta in of(client, AUDIO)] == [46_080, decoded, 46_080]
    assert text_of(client) == "One two three."
    told = [entry.data["audio_bytes"] for entry in server.journal.of("sent", AUDIO)]
    assert told == [46_080, decoded, 46_080]
    assert (report.state, report.evidence["damaged"]) == ("observed", kind)


def test_a_changed_rate_stays_changed(serve: Any, bare: Any) -> None:
    client, report, _ = played(serve, bare, DamagedAudio(kind="rate_change", rate_hz=16_000, nth=2))

    assert [delta["sample_rate_hz"] for delta in of(client, AUDIO)] == [24_000, 16_000, 16_000]
    assert report.state == "observed"


@pytest.mark.parametrize(
    ("where", "text", "ends_with"),
    [
        ("surrogate_pair", "ok \N{THUMBS UP SIGN} done", "\\ud83d"),
        ("grapheme", "cafe\N{COMBINING ACUTE ACCENT} noir", "cafe"),
        ("grapheme", "see \N{THUMBS UP SIGN}\N{EMOJI MODIFIER FITZPATRICK TYPE-4} now", "\\ud83d\\udc4d"),
    ],
)
def test_a_character_is_cut_between_two_deltas(serve: Any, where: Any, text: str, ends_with: str) -> None:
    reply = Reply(starts_at_unit=0, units=1, text=text)
    texts, report, server = texts_of(serve, SplitText(where=where), reply=reply)

    frames = [frame for frame in texts if json.loads(frame)["type"] == TRANSCRIPT]
    halves = [json.loads(frame)["delta"] for frame in frames]
    assert len(halves) == 2
    assert json.dumps(halves[0])[1:-1].endswith(ends_with)
    assert "".join(halves).encode("utf-16", "surrogatepass").decode("utf-16") == text
    assert json.loads(next(t for t in texts if '"response.audio_transcript.done"' in t))["transcript"] == text
    assert report.state == "observed"
    records = [Record(0, "", 0, "server", e.name, e.data) for e in server.journal.entries]
    assert comparable(records), "the journal can be written"
    assert orjson.dumps([dict(e.data) for e in server.journal.entries if e.name == TRANSCRIPT])


@pytest.mark.parametrize("where", ["surrogate_pair", "grapheme"])
def test_a_text_of_plain_letters_cannot_be_cut(serve: Any, bare: Any, where: Any) -> None:
    client, report, _ = played(serve, bare, SplitText(where=where))

    assert text_of(client) == "One two three."
    assert report.state == "armed"


@pytest.mark.parametrize(
    "fault",
    [
        Status(status="failed"),
        LateDeltas(),
        WrongResponseId(),
        DamagedAudio(),
        SplitText(),
        ListenPerPaddedUnit(),
        DuplicateEvent(event="response.done"),
        DropEvent(event="transcript.delta"),
        Reorder(event="audio.delta"),
    ],
    ids=lambda fault: fault.name,
)
def test_without_a_reply_a_fault_of_replies_stays_armed(serve: Any, bare: Any, fault: FaultBase) -> None:
    _, report, _ = played(serve, bare, fault, reply=None)

    assert report.state == "armed"


@pytest.mark.parametrize(
    ("kinds", "states"),
    [
        (("bad_padding", "odd_bytes"), ["observed", "armed"]),
        (("bad_base64", "odd_bytes"), ["observed", "armed"]),
        (("odd_bytes", "odd_bytes"), ["observed", "armed"]),
        (("empty", "bad_padding"), ["observed", "armed"]),
        (("odd_bytes", "bad_padding"), ["observed", "observed"]),
    ],
)
def test_audio_that_is_damaged_already_is_damaged_no_further_or_otherwise(
    serve: Any, bare: Any, kinds: tuple[Any, ...], states: list[str]
) -> None:
    async def main() -> Any:
        async with serve(*(DamagedAudio(kind=kind, nth=None) for kind in kinds), reply=REPLY) as server:
            async with bare(server.url) as client:
                await session(client)
            return client, [report.state for report in server.fault_reports()]

    client, seen = run_virtual(main)
    assert len(of(client, AUDIO)) == 3
    assert text_of(client) == "One two three."
    assert seen == states


def test_faults_of_events_compose(serve: Any, bare: Any) -> None:
    faults = (
        DamagedAudio(kind="odd_bytes", nth=1),
        WrongResponseId(event="transcript.delta", nth=1),
        DuplicateEvent(event="audio.delta", nth=1),
        NeverDone(),
    )

    async def main() -> Any:
        async with serve(*faults, reply=REPLY) as server:
            async with bare(server.url) as client:
                await session(client)
            return client, [report.state for report in server.fault_reports()]

    client, states = run_virtual(main)
    assert [_decodes(delta["delta"]) for delta in of(client, AUDIO)][:3] == [46_079, 46_079, 46_080]
    assert of(client, TRANSCRIPT)[0]["response_id"] == "resp-of-nobody"
    assert states == ["observed"] * 4
