"""What ends a session without the client, and how many sessions there may be (protocol.md 10.2, 12.1)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from conformance.clock import run_virtual
from mockserver.admission import Slots
from mockserver.profiles import PROFILES
from scenarios.faults_session import SessionExpired
from scenarios.model import Reply

EXTRA = {"auto_response": True, "minicpmo45_native_duplex": True}
TWO = Reply(starts_at_unit=0, units=2, text="One two.")


# -- by the clock


@pytest.mark.parametrize("profile", ["july", "interim", "input-driven"])
def test_an_idle_session_is_told_its_timeout(talk: Any, profile: str) -> None:
    t = talk(profile=profile).open(extra_body={**EXTRA, "native_duplex": True}).forget().until(300)

    closed = t.of("session.closed")[0]
    assert closed.get("reason", closed.get("event", {}).get("reason")) == "timeout"


def test_an_idle_session_of_the_engine_is_dropped_as_if_its_client_had_gone(talk: Any) -> None:
    t = talk(profile="engine").open().forget().until(300)

    assert t.names == []
    assert [(end.code, end.told) for end in t.ends] == [(None, False)]
    assert (t.session.slots.in_use(329.9), t.session.slots.in_use(330)) == (1, 0)


@pytest.mark.parametrize("profile", ["july", "engine"])
def test_any_frame_and_no_output_keeps_an_idle_session(talk: Any, profile: str) -> None:
    t = talk(Reply(starts_at_unit=0, units=400, text="x"), profile=profile).open().append()
    t.until(299).send("session.event_ack", server_event_seq=1).until(598.9)
    assert t.ends == []

    assert len(t.until(599).ends) == 1


@pytest.mark.parametrize(("profile", "incarnation"), [("july", 0), ("engine", None)])
def test_a_session_without_lease_activity_expires_with_1000(
    talk: Any, profile: str, incarnation: int | None
) -> None:
    t = talk(profile=profile).open(idle_timeout_s=1e6).until(297)
    t.send("conversation.item.retrieve", item_id="x").until(299.9)  # a frame, and no lease
    assert "session.expired" not in t.names

    t.until(300)

    event = t.of("session.expired")[0]
    assert (event["reason"], event["session_id"]) == ("idle_ttl_expired", t.session.id)
    assert event.get("incarnation") == incarnation
    assert "server_event_seq" not in event
    assert [end.code for end in t.ends] == [1000]


def test_the_engine_looks_every_five_seconds(talk: Any) -> None:
    t = talk().open(idle_timeout_s=1e6).until(1).send("session.heartbeat").until(304.9)
    assert t.ends == []

    assert t.until(305).names[-1] == "session.expired"


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("session.heartbeat", {}),
        ("playback.ack", {"played_ms": 1}),
        ("turn.signal", {"event": "x"}),
        ("input_audio_buffer.append", {"audio": "AAA="}),
    ],
)
def test_what_reaches_the_engine_keeps_the_lease(talk: Any, name: str, fields: Any) -> None:
    t = talk().open(idle_timeout_s=1e6).until(100).send(name, **fields).until(399)

    assert t.ends == []


def test_model_output_keeps_the_lease(talk: Any) -> None:
    t = talk(Reply(starts_at_unit=0, units=400, text="x")).open(idle_timeout_s=1e6).append().until(600)

    assert t.ends == []


def test_a_timeout_that_an_update_shortens_holds_from_then_on(serve: Any, bare: Any) -> None:
    async def main() -> float:
        async with serve(profile="july") as server, bare(server.url, pings=False) as client:
            await client.open()
            await client.send("session.update", session={"idle_timeout_s": 3})
            await client.ended()
            return client.times("session.closed")[0] - client.times("session.updated")[-1]

    assert run_virtual(main) == pytest.approx(3.0, abs=0.01)


def test_the_profile_sets_the_times(talk: Any) -> None:
    short = replace(PROFILES["engine"], idle_ttl_s=7.0, reaper_period_s=2.0)

    assert talk(profile=short).open().until(8).names[-1] == "session.expired"


# -- how many


def test_the_limit_is_told_and_a_closed_session_makes_room_at_once(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        async with serve(profile="engine", max_sessions=1) as server:
            async with bare(server.url) as first:
                await first.open()
                async with bare(server.url) as second:
                    await second.open()
                    await second.ended()
                await first.send("session.close")
                await first.ended()
                async with bare(server.url) as third:
                    await third.open()
            return first.events[0][1], second, third.names

    created, second, third = run_virtual(main)
    assert created["session"]["capabilities"]["supports_multi_session"] is False
    assert second.names == ["error"]
    assert second.events[0][1]["error"]["code"] == "resource_exhausted"
    assert "limit=1" in second.events[0][1]["error"]["message"]
    assert second.closed.rcvd.code == 1000
    assert third == ["session.created", "session.updated"]


def test_a_refused_handshake_takes_no_slot(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        async with serve(max_sessions=1) as server:
            async with bare(server.url) as first:
                await first.send("session.update", session={"modalities": ["audio"]})
                await first.ended()
            async with bare(server.url) as second:
                await second.open()
            return first.names, second.names

    assert run_virtual(main) == (["error"], ["session.created", "session.updated"])


@pytest.mark.parametrize("profile", ["july", "engine"])
def test_a_session_whose_socket_was_lost_keeps_its_slot_for_thirty_seconds(
    serve: Any, bare: Any, profile: str
) -> None:
    async def main() -> Any:
        names = []
        async with serve(profile=profile, max_sessions=1) as server:
            async with bare(server.url) as first:
                await first.open()
            for wait_s in (0.1, 29.0, 1.0):
                await asyncio.sleep(wait_s)
                async with bare(server.url) as other:
                    await other.open()
                    names.append(other.names[0])
            return names

    assert run_virtual(main) == ["error", "error", "session.created"]


def test_the_close_frame_of_the_engine_tells_the_reason(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        async with serve(profile="engine") as server, bare(server.url) as client:
            await client.open()
            await client.send("session.close", reason="ended by hand " + "é" * 100)
            await client.ended()
            return client.closed

    closed = run_virtual(main)
    assert closed.rcvd.code == 1000
    assert closed.rcvd.reason == "ended by hand " + "é" * 54


def test_other_close_frames_tell_no_reason(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        async with serve(profile="input-driven") as server, bare(server.url) as client:
            await client.open()
            await client.send("session.close", reason="ended by hand")
            await client.ended()
            return client.closed

    assert run_virtual(main).rcvd.reason == ""


def test_the_alias_of_the_endpoint_exists_in_the_engine_only(serve: Any, bare: Any) -> None:
    async def main(profile: str) -> Any:
        async with serve(profile=profile) as server:
            client = bare(server.url.replace("/v1/realtime", "/v1/duplex"))
            try:
                async with client:
                    await client.open()
            except Exception as error:  # noqa: BLE001 - whatever the library says of a 404
                return str(error)
            return client.names[0]

    assert run_virtual(lambda: main("engine")) == "session.created"
    assert "404" in run_virtual(lambda: main("july"))


def test_slots_of_lost_sessions_are_forgotten_when_their_grace_is_over() -> None:
    slots = Slots(grace_s=30.0)
    for number in range(5_000):
        slots.take(number, str(number), float(number))
        slots.lost(number, float(number))

    assert len(slots._lost) == 30  # nobody asked for a slot meanwhile
    assert slots.in_use(4_999.0) == 30
    assert slots.in_use(5_029.0) == 0


def test_an_id_is_in_use_until_its_session_is_closed_or_its_grace_is_over() -> None:
    slots = Slots(grace_s=30.0)
    slots.take("first", "mine", 0.0)
    slots.take("second", "other", 0.0)
    assert slots.has("mine", 0.0)
    slots.free("second")
    assert not slots.has("other", 0.0)
    slots.lost("first", 1.0)
    assert slots.has("mine", 30.9)
    assert not slots.has("mine", 31.0)


def test_a_session_that_a_fault_expired_holds_no_slot(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        async with serve(SessionExpired(connection=1), max_sessions=1, profile="interim") as server:
            async with bare(server.url) as first:
                await first.open()
                await first.ended()
            async with bare(server.url) as second:
                await second.open()
                return first, second.names

    first, second = run_virtual(main)
    assert first.events[-1][1]["type"] == "session.expired"
    assert first.events[-1][1]["incarnation"] == 0
    assert second == ["session.created", "session.updated"]
