"""Each fault: what a bare client sees on the wire, its proof, and that an ineffective one proves nothing."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from conformance.clock import VirtualLoop, run_virtual
from mockserver.app import MockServer
from mockserver.faults import FAULTS, Fault, FaultReport
from scenarios.faults import FAULTS as SPECS
from scenarios.faults import (
    ErrorEvent,
    FaultBase,
    LateSessionClosed,
    Layer,
    NeverDone,
    NoSessionClosed,
    NoSessionCreated,
    NoTransport,
    On,
    ResetPeer,
    StopReading,
)
from scenarios.model import Reply

REPLY = Reply(starts_at_unit=0, units=2, text="One two.")
AT_COMMIT = On(received="input_audio_buffer.commit")


def only(server: MockServer) -> FaultReport:
    (report,) = server.fault_reports()
    return report


async def session(client: Any, *, close: bool = True) -> None:
    """A short session: one unit, a commit, five seconds, a close."""
    await client.open()
    await client.append()
    await asyncio.sleep(1)
    await client.send("input_audio_buffer.commit", final=True)
    await asyncio.sleep(5)
    if close:
        await client.send("session.close")


# -- the mechanism


def test_the_server_plays_every_fault_of_transport_session_and_response() -> None:
    layers = (Layer.TRANSPORT, Layer.SESSION, Layer.RESPONSE)
    assert set(FAULTS) == {name for name, spec in SPECS.items() if spec.layer in layers}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_every_fault_says_what_it_does_and_how_to_survive_it(fault: type[Fault]) -> None:
    assert fault.__doc__ is not None
    for part in ("Wire:", "Parameters:", "Survive:"):
        assert part in fault.__doc__


def test_a_seam_is_not_played_by_the_server() -> None:
    with pytest.raises(ValueError, match="no_transport"):
        MockServer(profile="july", replies=[], faults=[NoTransport()])


@pytest.mark.parametrize(
    ("scope", "bitten"),
    [
        ({}, [1, 2]),
        ({"connection": 2}, [2]),
        ({"attempt": 1}, [1]),
        ({"sample": "b"}, [2]),
        ({"sample": "c"}, [None]),
    ],
)
def test_a_fault_is_armed_only_in_its_scope(
    serve: Any, bare: Any, scope: Any, bitten: list[int | None]
) -> None:
    async def main() -> list[FaultReport]:
        known = iter([("S", "a", 1), ("S", "b", 2)])
        async with serve(NoSessionCreated(**scope), identify=lambda _: next(known)) as server:
            for _ in range(2):
                async with bare(server.url) as client:
                    await client.open()
            return list(server.fault_reports())

    reports = run_virtual(main)
    assert [r.connection for r in reports] == bitten
    assert all(r.state == ("armed" if r.connection is None else "observed") for r in reports)
    assert [r.could_have_bitten for r in reports] == [c is not None for c in bitten]


def test_a_fault_triggers_on_the_nth_occurrence(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        async with (
            serve(ErrorEvent(on=On(received="session.heartbeat", nth=3))) as server,
            bare(server.url) as client,
        ):
            await client.open()
            for _ in range(4):
                await client.send("session.heartbeat")
            await asyncio.sleep(0.1)
            return client.names[2:]

    ack = "session.heartbeat_ack"
    assert run_virtual(main) == [ack, ack, "error", ack, ack]


def test_a_trigger_takes_logical_names(serve: Any, bare: Any) -> None:
    fault = ErrorEvent(on=On(sent="audio.delta"))

    async def main() -> Any:
        async with serve(fault, reply=REPLY) as server, bare(server.url) as client:
            await session(client)
            await client.ended()
            return client.names

    names = run_virtual(main)
    assert names[names.index("response.audio.delta") + 1] == "error"


def test_a_fault_by_the_clock_begins_and_ends_at_its_times(serve: Any, bare: Any) -> None:
    """Paused from 2 to 5 s: what is sent at 3 s is read at 5 s."""

    async def main() -> Any:
        async with (
            serve(StopReading(at_s=2, for_s=3, buffer_bytes=None)) as server,
            bare(server.url) as client,
        ):
            await client.open()
            await asyncio.sleep(3)
            await client.send("session.heartbeat")
            await asyncio.sleep(5)
            return client.times("session.heartbeat_ack"), only(server).state

    times, state = run_virtual(main)
    assert times == [pytest.approx(1005, abs=0.001)]
    assert state == "triggered"


def test_faults_compose(serve: Any, bare: Any) -> None:
    """An error behind the last delta, a done group that never comes, and a late close."""
    faults = [
        ErrorEvent(on=On(sent="transcript.delta", nth=2)),
        NeverDone(),
        LateSessionClosed(delay_s=10),
    ]

    async def main() -> Any:
        async with serve(*faults, reply=REPLY) as server, bare(server.url) as client:
            await session(client)
            await client.ended()
            return client, server.fault_reports(), server.journal.of("fault")

    client, reports, entries = run_virtual(main)
    assert "response.done" not in client.names
    assert client.names[-2:] == ["error", "session.closed"]
    assert client.times("session.closed") == [pytest.approx(1016.01, abs=0.001)]
    assert [r.state for r in reports] == ["observed"] * 3
    assert [e.data["state"] for e in entries if e.name == "never_done"] == ["triggered", "observed"]


def test_sequence_numbers_have_no_gap_and_follow_the_wire_whatever_is_injected_or_withheld(
    serve: Any, bare: Any
) -> None:
    async def main() -> Any:
        faults = (ErrorEvent(on=On(sent="response.speak")), NeverDone())
        async with serve(*faults, reply=REPLY) as server, bare(server.url) as client:
            await session(client)
            await client.ended()
            return client.events

    numbers = [e["server_event_seq"] for _, e in run_virtual(main)[1:]]
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_fault_observed_before_it_was_triggered_is_a_bug(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        async with serve(StopReading(on=AT_COMMIT)) as server, bare(server.url) as client:
            await client.open()
            with pytest.raises(ValueError, match="before it was triggered"):
                server.fault_runs[0].observe({})

    run_virtual(main)


# -- stop_reading


async def _stalls(client: Any) -> int:
    """Units a client gets rid of before a write takes over a second; 30 if none does."""
    for count in range(30):
        writing = asyncio.create_task(client.append(frame_bytes=24_000))
        done, _ = await asyncio.wait({writing}, timeout=1.1)
        if not done:
            writing.cancel()
            await asyncio.wait({writing}, timeout=1)
            return count
        await asyncio.sleep(1)
    return 30


def _stopped(serve: Any, bare: Any, fault: StopReading, sndbuf_bytes: int | None) -> Any:
    async def main() -> Any:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.client_sndbuf_bytes = sndbuf_bytes
        reply = Reply(starts_at_unit=0, units=40, text="x")
        async with serve(fault, reply=reply) as server, bare(server.url) as client:
            await client.open()
            await client.append()
            await asyncio.sleep(0.5)
            await client.send("input_audio_buffer.commit", final=True)
            units = await _stalls(client)
            deltas = len(client.times("response.audio.delta"))
            return units, deltas, only(server), server.connections[0].received["input_audio_buffer.append"]

    return run_virtual(main)


def test_a_stopped_peer_blocks_the_first_unit_and_goes_on_talking(serve: Any, bare: Any) -> None:
    units, deltas, report, appends = _stopped(serve, bare, StopReading(on=AT_COMMIT, buffer_bytes=4096), 4096)

    assert units == 0
    assert deltas >= 2
    assert appends == 1
    assert report.state == "triggered"  # a write that is pending is seen from the client's end only


def test_unread_bytes_prove_themselves(serve: Any, bare: Any) -> None:
    fault = StopReading(on=AT_COMMIT, buffer_bytes=4096, proof="unread")
    _, _, report, _ = _stopped(serve, bare, fault, 4096)

    assert report.state == "observed"
    assert report.evidence["unread_s"] >= 1
    assert report.evidence["unread_bytes"] > 0


def test_with_the_systems_buffers_a_stop_does_not_stall_a_short_clip(serve: Any, bare: Any) -> None:
    units, _, report, appends = _stopped(serve, bare, StopReading(on=AT_COMMIT, buffer_bytes=None), None)

    assert units == 30
    assert appends == 1
    assert report.state == "triggered"


def test_a_stop_with_nothing_sent_after_it_leaves_nothing_unread_and_proves_nothing(
    serve: Any, bare: Any
) -> None:
    async def main() -> Any:
        async with serve(StopReading(on=AT_COMMIT, proof="unread")) as server, bare(server.url) as client:
            await session(client, close=False)
            return only(server)

    assert run_virtual(main).state == "triggered"


def test_a_peer_that_leaves_without_a_byte_proves_nothing(serve: Any, bare: Any) -> None:
    """The end of a connection makes its socket readable, too."""

    async def main() -> Any:
        async with serve(StopReading(on=AT_COMMIT, proof="unread")) as server:
            async with bare(server.url, pings=False) as client:
                await session(client, close=False)
            await asyncio.sleep(5)
            return only(server)

    assert run_virtual(main).state == "triggered"


def test_a_stop_at_an_event_that_never_comes_stays_armed(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        async with serve(StopReading(on=On(sent="response.done"))) as server, bare(server.url) as client:
            await session(client)
            await client.ended()
            return only(server)

    assert run_virtual(main).state == "armed"


def test_reading_stays_paused_although_somebody_resumes_it(serve: Any, bare: Any) -> None:
    fault = StopReading(on=On(received="session.heartbeat"), buffer_bytes=None, proof="unread")

    async def main() -> Any:
        async with serve(fault) as server, bare(server.url) as client:
            await client.open()
            await client.send("session.heartbeat")
            await asyncio.sleep(1)
            transports = [connection._transport for connection in server._live]
            for transport in transports:
                transport.resume_reading()
            await client.send("session.heartbeat")
            await asyncio.sleep(3)
            info = server.connections[0]
            before, report = info.received["session.heartbeat"], only(server)
            server.release_faults()
            await asyncio.sleep(1)
            return len(transports), before, info.received["session.heartbeat"], report

    resumed, before, after, report = run_virtual(main)
    assert (resumed, before, after) == (1, 1, 2)
    assert report.state == "observed"


def test_pings_are_not_answered_while_reading_is_stopped(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        fault = StopReading(on=On(received="session.update"))
        async with serve(fault) as server, bare(server.url) as client:
            await client.open()
            await client.ended()
            return asyncio.get_running_loop().time(), client.closed

    ended_s, closed = run_virtual(main)
    assert ended_s == pytest.approx(1050, abs=0.1)  # ping at 20 s, 20 s of patience, 10 s for a close
    assert closed.sent.code == 1011


# -- reset_peer


UPGRADE = (
    b"GET /v1/realtime?duplex=1 HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


async def _read_to_the_end(loop: asyncio.AbstractEventLoop, sock: socket.socket) -> None:
    while await loop.sock_recv(sock, 65536):
        pass


def test_a_reset_reaches_the_client_as_a_reset(serve: Any) -> None:
    async def main() -> Any:
        loop = asyncio.get_running_loop()
        async with serve(ResetPeer()) as server:
            port = int(server.url.split(":")[2].split("/")[0])
            with socket.socket() as sock:
                sock.setblocking(False)
                await loop.sock_connect(sock, ("127.0.0.1", port))
                await loop.sock_sendall(sock, UPGRADE)
                with pytest.raises(ConnectionResetError):
                    await _read_to_the_end(loop, sock)
            return only(server), server.connections[0]

    report, info = run_virtual(main)
    assert report.state == "observed"
    assert (info.ended_by, info.how) == ("server", "reset")


def test_a_reset_behind_an_event_lets_the_event_through(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        async with (
            serve(ResetPeer(on=On(sent="response.done")), reply=REPLY) as server,
            bare(server.url) as client,
        ):
            await session(client, close=False)
            return client.names, client.closed, only(server)

    names, closed, report = run_virtual(main)
    assert names[-1] == "response.done"
    assert isinstance(closed.__cause__, ConnectionResetError)
    assert report.state == "observed"


def test_a_reset_after_the_peer_has_gone_proves_nothing(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        async with serve(ResetPeer(at_s=5)) as server:
            async with bare(server.url) as client:
                await client.open()
            await asyncio.sleep(10)
            return only(server)

    assert run_virtual(main).state == "armed"


def test_a_reset_of_a_peer_that_had_ended_the_connection_unseen_proves_nothing(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        async with serve(StopReading(at_s=1), ResetPeer(at_s=5)) as server:
            async with bare(server.url) as client:
                await client.open()
                await asyncio.sleep(2)
            await asyncio.sleep(10)
            return server.fault_reports()[1]

    assert run_virtual(main).state == "triggered"


# -- faults of the session


def test_no_session_created_answers_nothing_and_keeps_the_socket(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        async with serve(NoSessionCreated()) as server, bare(server.url) as client:
            await session(client)
            await asyncio.sleep(200)  # pings are answered all the while
            return client.names, client.closed, only(server)

    names, closed, report = run_virtual(main)
    assert (names, closed) == ([], None)
    assert (report.state, report.evidence["withheld"]) == ("observed", "session.created")


def test_no_session_created_without_an_update_proves_nothing(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        async with serve(NoSessionCreated()) as server, bare(server.url):
            await asyncio.sleep(5)
            return only(server)

    assert run_virtual(main).state == "armed"


def test_late_session_closed_comes_late_and_the_end_behind_it(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        async with serve(LateSessionClosed(delay_s=19.9)) as server, bare(server.url) as client:
            await session(client)
            await client.ended()
            return client.times("session.closed"), asyncio.get_running_loop().time(), only(server)

    times, ended_s, report = run_virtual(main)
    assert times == [pytest.approx(1006.01 + 19.9, abs=0.001)]
    assert ended_s == pytest.approx(times[0], abs=0.001)
    assert report.state == "observed"


@pytest.mark.parametrize(("patience_s", "state"), [(5.0, "observed"), (0.1, "triggered")])
def test_a_wait_cut_by_the_client_counts_when_it_lasted_a_second(
    serve: Any, bare: Any, patience_s: float, state: str
) -> None:
    async def main() -> Any:
        async with serve(LateSessionClosed(delay_s=19.9)) as server:
            async with bare(server.url) as client:
                await session(client)
                await asyncio.sleep(patience_s)
            await asyncio.sleep(0.1)
            return only(server)

    assert run_virtual(main).state == state


@pytest.mark.parametrize("fault", [LateSessionClosed(delay_s=3), NoSessionClosed()])
def test_a_fault_of_the_close_proves_nothing_when_no_close_comes(
    serve: Any, bare: Any, fault: FaultBase
) -> None:
    async def main() -> Any:
        async with serve(fault) as server, bare(server.url) as client:
            await session(client, close=False)
            return only(server)

    assert run_virtual(main).state == "armed"


def test_no_session_closed_keeps_the_socket_open(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        async with serve(NoSessionClosed()) as server, bare(server.url) as client:
            await session(client)
            await asyncio.sleep(500)
            return client.names, client.closed, only(server)

    names, closed, report = run_virtual(main)
    assert "session.closed" not in names
    assert closed is None
    assert report.state == "observed"


def test_releasing_the_faults_ends_a_wait(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        async with serve(LateSessionClosed(delay_s=500)) as server, bare(server.url) as client:
            await session(client)
            await asyncio.sleep(1)
            server.release_faults()
            await client.ended()
            return asyncio.get_running_loop().time()

    assert run_virtual(main) == pytest.approx(1007, abs=0.1)


@pytest.mark.parametrize("shape", ["nested", "flat"])
@pytest.mark.parametrize("code", ["runtime_append_failed", "playback_ack_too_late", None])
def test_error_event_has_its_code_and_shape_and_the_session_goes_on(
    serve: Any, bare: Any, shape: Any, code: str | None
) -> None:
    async def main() -> Any:
        async with (
            serve(ErrorEvent(code=code, message="told", shape=shape)) as server,
            bare(server.url) as client,
        ):
            await session(client)
            await client.ended()
            return client.events, only(server)

    events, report = run_virtual(main)
    error = events[2][1]
    if shape == "nested":
        assert (error["error"]["code"], error["error"]["message"]) == (code, "told")
    else:
        assert (error["code"], error["error"]) == (code, "told")
    assert events[-1][1]["type"] == "session.closed"
    assert report.state == "observed"


def test_error_event_at_an_event_that_never_comes_stays_armed(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        async with serve(ErrorEvent(on=On(sent="response.done"))) as server, bare(server.url) as client:
            await session(client)
            await client.ended()
            return only(server), client.names

    report, names = run_virtual(main)
    assert report.state == "armed"
    assert "error" not in names


def test_never_done_withholds_the_whole_done_group(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        async with serve(NeverDone(), reply=REPLY) as server, bare(server.url) as client:
            await session(client)
            await client.ended()
            return client.names, only(server)

    names, report = run_virtual(main)
    assert names.count("response.audio_transcript.delta") == 2
    assert names[-2:] == ["response.audio_transcript.delta", "session.closed"]
    assert (report.state, report.evidence["withheld"]) == ("observed", "response.done")


def test_never_done_without_a_reply_proves_nothing(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        async with serve(NeverDone()) as server, bare(server.url) as client:
            await session(client)
            await client.ended()
            return only(server)

    assert run_virtual(main).state == "armed"
