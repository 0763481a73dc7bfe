"""Faults of the connection: what a client that is not ours sees, the proof, and what proves nothing."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlencode

import pytest
import websockets

from conformance.clock import VirtualLoop, run_virtual
from mockserver.app import MockServer
from mockserver.faults import FaultReport
from mockserver.wire_out import RATE_STEP_S
from scenarios.faults import ErrorEvent, FaultBase, LateSessionClosed, On, StopReading
from scenarios.faults_session import DuplicateEvent
from scenarios.faults_transport import (
    BadFrame,
    Bandwidth,
    CloseCode,
    HalfClose,
    InvalidUtf8,
    Latency,
    LimitData,
    NeverUpgrade,
    NoCloseReply,
    NoPong,
    OversizeFrame,
    RefuseUpgrade,
    ResumeReading,
    Slicer,
    SlowClose,
    SlowReading,
)
from scenarios.model import Reply

REPLY = Reply(starts_at_unit=0, units=2, text="One two.")
AT_COMMIT = On(received="input_audio_buffer.commit")
HEARTBEAT = On(received="session.heartbeat")
QUERY = urlencode({"duplex": "1", "autostart": "0"})


def only(server: MockServer) -> FaultReport:
    (report,) = server.fault_reports()
    return report


def played(
    serve: Any, bare: Any, *faults: FaultBase, talk: Callable[[Any], Awaitable[Any]], **how: Any
) -> tuple[Any, FaultReport, Any]:
    """What a bare client got, what the first fault proved, and the server's view of the connection."""

    async def main() -> Any:
        async with serve(*faults, reply=REPLY, **how) as server:
            async with bare(server.url) as client:
                await talk(client)
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.01)
            return client, server.fault_reports()[0], server.connections[0]

    return run_virtual(main)  # type: ignore[no-any-return]


async def whole_session(client: Any) -> None:
    """One unit, a commit, five seconds, a close, the end."""
    await client.open()
    await client.append()
    await asyncio.sleep(1)
    await client.send("input_audio_buffer.commit", final=True)
    await asyncio.sleep(5)
    await client.send("session.close")
    await client.ended()


async def heartbeats(client: Any, count: int = 3, *, every_s: float = 1.0) -> None:
    """Open, then ask for an answer now and then."""
    await client.open()
    for _ in range(count):
        await client.send("session.heartbeat")
        await asyncio.sleep(every_s)


# -- reading


def test_reading_resumes_at_an_event_and_nothing_was_lost(serve: Any, bare: Any) -> None:
    faults = (
        ResumeReading(at_s=4),
        StopReading(on=HEARTBEAT, buffer_bytes=None),
    )
    client, report, info = played(serve, bare, *faults, talk=lambda c: heartbeats(c, 6))

    assert [round(t - 1000) for t in client.times("session.heartbeat_ack")] == [0, 4, 4, 4, 4, 5]
    assert info.received["session.heartbeat"] == 6
    assert report.state == "observed"
    assert report.evidence["held_s"] == pytest.approx(4, abs=0.1)
    assert report.evidence["unread_bytes"] > 0


def test_resuming_what_was_never_held_proves_nothing(serve: Any, bare: Any) -> None:
    _, report, _ = played(serve, bare, ResumeReading(at_s=1), talk=heartbeats)

    assert report.state == "triggered"


def test_a_rate_far_above_any_read_holds_nobody_back(serve: Any, bare: Any) -> None:
    client, report, _ = played(serve, bare, SlowReading(bytes_per_s=10**15), talk=heartbeats)

    assert len(client.times("session.heartbeat_ack")) == 3
    assert report.state == "triggered"


def test_resuming_takes_a_trigger() -> None:
    with pytest.raises(ValueError, match="no trigger"):
        ResumeReading()


def _uploads(serve: Any, bare: Any, fault: SlowReading, *, sndbuf_bytes: int | None) -> Any:
    """Ten appends of about 75 kB, as fast as they go: seconds they took, and the fault's proof."""

    async def main() -> Any:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.client_sndbuf_bytes = sndbuf_bytes
        async with serve(fault) as server, bare(server.url) as client:
            await client.open()
            started_s = loop.time()
            for _ in range(10):
                await client.append(frame_bytes=24_000)
            await client.send("session.heartbeat")
            await asyncio.sleep(20)
            seconds = client.times("session.heartbeat_ack")[0] - started_s
            return seconds, only(server), server.connections[0].received

    return run_virtual(main)


def test_a_slow_reader_reads_at_its_rate(serve: Any, bare: Any) -> None:
    seconds, report, received = _uploads(serve, bare, SlowReading(bytes_per_s=100_000), sndbuf_bytes=4096)

    assert seconds == pytest.approx(7.5, rel=0.1)
    assert received["input_audio_buffer.append"] == 10
    assert report.state == "observed"
    assert report.evidence["unread_s"] >= 1


def test_a_reader_fast_enough_proves_nothing(serve: Any, bare: Any) -> None:
    seconds, report, _ = _uploads(serve, bare, SlowReading(bytes_per_s=10**9), sndbuf_bytes=4096)

    assert seconds < 1
    assert report.state == "triggered"


def test_a_pause_beats_a_rate_and_leaves_it_behind(serve: Any, bare: Any) -> None:
    faults = (
        StopReading(at_s=1, for_s=2, buffer_bytes=None),
        SlowReading(bytes_per_s=100, buffer_bytes=None),
    )

    client, _, info = played(serve, bare, *faults, talk=lambda c: heartbeats(c, 10))
    times = client.times("session.heartbeat_ack")
    assert not [t for t in times if 1001.2 < t < 1003]
    assert times[-1] > 1005, "some 360 bytes at 64 bytes a second, and two seconds of nothing"
    assert info.received["session.heartbeat"] == 10


# -- the way to the client


@pytest.mark.parametrize("jitter_s", [0.0, 0.4])
def test_latency_delays_every_event_and_keeps_their_order(serve: Any, bare: Any, jitter_s: float) -> None:
    async def talk(client: Any) -> None:
        await client.open()
        await asyncio.sleep(2)
        await heartbeats(client, 5)
        await asyncio.sleep(3)

    client, report, _ = played(serve, bare, Latency(latency_s=0.5, jitter_s=jitter_s), talk=talk)
    times = client.times("session.heartbeat_ack")
    late = [round(t % 1 - 0.02, 3) for t in times]
    assert client.names[:2] == ["session.created", "session.updated"]
    assert client.times("session.created")[0] >= 1000.5 - jitter_s
    assert times == sorted(times)
    assert len(times) == 5
    assert (set(late) == {0.5}) is (jitter_s == 0)
    assert report.state == "observed"


def test_latency_for_a_while_lets_go_what_it_held(serve: Any, bare: Any) -> None:
    fault = Latency(latency_s=100, on=HEARTBEAT, for_s=4)
    client, report, _ = played(serve, bare, fault, talk=lambda c: heartbeats(c, 6))

    assert [round(t - 1000) for t in client.times("session.heartbeat_ack")] == [4, 4, 4, 4, 4, 5]
    assert report.evidence["cut_short"] is True


def test_released_faults_hold_nothing_back(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        async with serve(Latency(latency_s=1000)) as server, bare(server.url) as client:
            await client.open()
            await asyncio.sleep(5)
            before = list(client.names)
            server.release_faults()
            await asyncio.sleep(0.1)
            return before, client.names, only(server)

    before, after, report = run_virtual(main)
    assert (before, after) == ([], ["session.created", "session.updated"])
    assert (report.state, report.evidence["held_back_s"]) == ("observed", pytest.approx(5, abs=0.02))


def test_the_same_seed_gives_the_same_jitter(serve: Any, bare: Any) -> None:
    fault = Latency(latency_s=1, jitter_s=1)
    first, second = (
        played(serve, bare, fault, talk=lambda c: heartbeats(c, 9))[0].times("session.heartbeat_ack")
        for _ in range(2)
    )

    assert first == second


def test_a_narrow_way_takes_its_time(serve: Any, bare: Any) -> None:
    """A reply of two units has about 125 kB of audio."""
    fault = Bandwidth(bytes_per_s=50_000, on=AT_COMMIT)
    client, report, info = played(serve, bare, fault, talk=whole_session)

    assert client.names[-1] == "session.closed"
    assert client.times("response.done")[0] - client.times("response.speak")[0] >= 2
    assert info.how == "tcp_end"
    assert report.state == "observed"
    assert report.evidence["held_back_s"] >= RATE_STEP_S


def test_a_way_that_is_wide_enough_proves_nothing(serve: Any, bare: Any) -> None:
    _, report, _ = played(serve, bare, Bandwidth(bytes_per_s=10**9), talk=whole_session)

    assert report.state == "triggered"


def test_a_sliced_stream_is_the_same_stream(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        loop = asyncio.get_running_loop()
        async with serve(Slicer(average_size_bytes=5, size_variation_bytes=4)) as server:
            with await _upgraded(server) as sock:
                await loop.sock_sendall(sock, _text(b'{"type":"session.heartbeat"}'))
                pieces = []
                while b"bad_event" not in b"".join(pieces):
                    pieces.append(await loop.sock_recv(sock, 65536))
            return pieces, only(server)

    pieces, report = run_virtual(main)
    sizes = [len(piece) for piece in pieces]
    assert max(sizes) <= 9
    assert min(sizes) < 5 < max(sizes)
    assert len(pieces) > 5
    assert report.state == "observed"


def test_a_client_sees_nothing_of_slices(serve: Any, bare: Any) -> None:
    fault = Slicer(average_size_bytes=512, delay_s=0.0001, on=AT_COMMIT)
    client, report, _ = played(serve, bare, fault, talk=whole_session)
    plain, _, _ = played(serve, bare, ErrorEvent(on=On(received="session.close", nth=2)), talk=whole_session)

    assert client.names == plain.names
    assert report.state == "observed"


def test_slices_larger_than_everything_prove_nothing(serve: Any, bare: Any) -> None:
    _, report, _ = played(serve, bare, Slicer(average_size_bytes=10**9), talk=heartbeats)

    assert report.state == "triggered"


@pytest.mark.parametrize("limit_bytes", [0, 100, 3000])
def test_data_beyond_the_limit_does_not_come(serve: Any, limit_bytes: int) -> None:
    async def main() -> Any:
        loop = asyncio.get_running_loop()
        async with serve(LimitData(limit_bytes=limit_bytes)) as server:
            with await _upgraded(server) as sock:
                await loop.sock_sendall(sock, _text(b'{"type":"session.heartbeat"}') * 50)
                data = b""
                while piece := await loop.sock_recv(sock, 65536):
                    data += piece
            await asyncio.sleep(0.01)
            return data, only(server), server.connections[0]

    data, report, info = run_virtual(main)
    # the first error of a handshake ends the session by itself, after some 200 bytes
    assert len(data) == min(limit_bytes, len(data))
    if limit_bytes <= 100:
        assert len(data) == limit_bytes
        assert (report.state, info.ended_by, info.how) == ("observed", "server", "tcp_end")
    else:
        assert report.state == "triggered"


@pytest.mark.parametrize("slower", [(), (Latency(latency_s=0.5),)])
def test_what_a_limit_cuts_off_was_not_sent(serve: Any, bare: Any, slower: tuple[FaultBase, ...]) -> None:
    limit = LimitData(limit_bytes=9000)
    client, report, info = played(
        serve, bare, limit, DuplicateEvent(event="transcript.delta"), *slower, talk=spoken
    )

    assert client.names[-1] == "response.speak"
    assert sum(info.sent.values()) == len(client.names)
    assert report.state == "observed"


async def spoken(client: Any) -> None:
    """One unit, which has a reply."""
    await client.open()
    await client.append()
    await asyncio.sleep(2)


def test_a_limit_cuts_a_frame_and_a_client_loses_the_connection(serve: Any, bare: Any) -> None:
    client, report, info = played(
        serve, bare, LimitData(limit_bytes=30_000, on=AT_COMMIT), talk=whole_session_lost
    )

    assert client.closed.rcvd is None
    assert "response.done" not in client.names
    assert (report.state, info.how) == ("observed", "tcp_end")


async def whole_session_lost(client: Any) -> None:
    """As `whole_session`, but the connection does not live that long."""
    await client.open()
    await client.append()
    await asyncio.sleep(1)
    with contextlib.suppress(websockets.ConnectionClosed):
        await client.send("input_audio_buffer.commit", final=True)
    await client.ended()


# -- ends


def test_half_closed_the_server_reads_on(serve: Any) -> None:
    async def main() -> Any:
        loop = asyncio.get_running_loop()
        async with serve(HalfClose(at_s=1)) as server:
            with await _upgraded(server) as sock:
                assert await loop.sock_recv(sock, 65536) == b""
                for _ in range(5):
                    await loop.sock_sendall(sock, _text(b'{"type":"session.heartbeat"}'))
                    await asyncio.sleep(0.1)
                received = sum(server.connections[0].received.values())
            return received, only(server), loop.time()

    received, report, ended_s = run_virtual(main)
    assert received >= 1
    assert (report.state, report.evidence["half_closed"]) == ("observed", "FIN")
    assert ended_s < 1002


def test_half_closed_after_the_client_has_gone_proves_nothing(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        async with serve(HalfClose(at_s=5)) as server:
            async with bare(server.url) as client:
                await client.open()
            await asyncio.sleep(10)
            return only(server)

    assert run_virtual(main).state == "armed"


@pytest.mark.parametrize("profile", ["july", "input-driven"])
def test_a_slow_close_comes_after_everything_else(serve: Any, bare: Any, profile: str) -> None:
    async def main() -> Any:
        loop = asyncio.get_running_loop()
        async with serve(SlowClose(delay_s=7), profile=profile) as server, bare(server.url) as client:
            await whole_session(client)
            return client.times("session.closed")[0], loop.time(), client.closed, only(server)

    closed_s, ended_s, closed, report = run_virtual(main)
    assert ended_s - closed_s == pytest.approx(7, abs=0.01)
    assert (closed.rcvd is not None) is (profile == "input-driven")
    assert report.state == "observed"


def test_a_close_frame_of_the_client_does_not_put_a_slow_close_off(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        loop = asyncio.get_running_loop()
        async with serve(SlowClose(delay_s=7)) as server, bare(server.url) as client:
            await client.open()
            await client.send("session.close")
            await asyncio.sleep(3)
            await client.socket.close()
            return loop.time(), client.closed

    ended_s, closed = run_virtual(main)
    assert ended_s == pytest.approx(1007, abs=0.05)
    assert closed.sent is not None


def test_nothing_follows_the_answer_to_a_close_frame(serve: Any, bare: Any) -> None:
    async def talk(client: Any) -> None:
        await client.open()
        await client.send("session.close")
        await asyncio.sleep(3)
        await client.socket.close()

    client, report, info = played(serve, bare, LateSessionClosed(delay_s=60), talk=talk)
    assert info.sent["session.closed"] == 0
    assert (client.closed.rcvd.code, info.how) == (1000, "close_frame")
    assert report.evidence["withheld_s"] == pytest.approx(3, abs=0.01)


def test_a_slow_close_that_the_client_did_not_sit_through_proves_nothing(serve: Any, bare: Any) -> None:
    async def talk(client: Any) -> None:
        await client.open()
        await client.send("session.close")
        await asyncio.sleep(0.1)

    _, report, _ = played(serve, bare, SlowClose(delay_s=7), talk=talk)
    assert report.state == "triggered"


def test_a_close_frame_without_a_reply(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        loop = asyncio.get_running_loop()
        async with serve(NoCloseReply()) as server, bare(server.url) as client:
            await client.open()
            started_s = loop.time()
            await client.socket.close()
            return loop.time() - started_s, client.closed, only(server)

    seconds, closed, report = run_virtual(main)
    assert seconds == pytest.approx(10, abs=0.1), "the library's own time-out"
    assert closed.rcvd is None
    assert (report.state, report.evidence["unanswered"]) == ("observed", "close frame")


def test_a_client_that_sends_no_close_frame_misses_no_reply(serve: Any, bare: Any) -> None:
    _, report, _ = played(serve, bare, NoCloseReply(), talk=whole_session)

    assert report.state == "armed"


def test_pings_without_pongs_end_in_1011_at_forty_seconds(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        async with serve(NoPong()) as server, bare(server.url) as client:
            await client.open()
            await client.ended()
            return asyncio.get_running_loop().time(), client.closed, only(server)

    ended_s, closed, report = run_virtual(main)
    assert 1040 <= ended_s <= 1051
    assert closed.sent.code == 1011
    assert (report.state, report.evidence["unanswered"]) == ("observed", "ping")


def test_other_events_are_answered_all_the_while(serve: Any, bare: Any) -> None:
    client, _, _ = played(serve, bare, NoPong(), talk=lambda c: heartbeats(c, 30))

    assert client.names.count("session.heartbeat_ack") == 30


def test_pongs_go_out_while_an_event_is_kept_waiting(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        async with serve(LateSessionClosed(delay_s=60)) as server, bare(server.url) as client:
            await client.open()
            await client.send("session.close")
            pong = await client.socket.ping()
            return await asyncio.wait_for(pong, 1)

    assert run_virtual(main) < 1


def test_a_session_shorter_than_the_pings_period_is_not_touched(serve: Any, bare: Any) -> None:
    _, report, _ = played(serve, bare, NoPong(), talk=whole_session)

    assert report.state == "armed"


@pytest.mark.parametrize(
    ("code", "reason"), [(1000, "restart"), (1001, ""), (1009, "frame limit 65536"), (4321, "x")]
)
def test_a_close_with_a_code_at_its_trigger(serve: Any, bare: Any, code: int, reason: str) -> None:
    fault = CloseCode(code=code, reason=reason, on=On(sent="transcript.delta"))
    client, report, info = played(serve, bare, fault, talk=whole_session_lost)

    assert (client.closed.rcvd.code, client.closed.rcvd.reason) == (code, reason)
    assert client.names[-1] == "response.audio_transcript.delta"
    assert (info.ended_by, info.how, info.client_close_code) == ("server", "close_frame", code)
    assert report.state == "observed"


def test_a_close_code_without_a_trigger_is_that_of_the_sessions_end(serve: Any, bare: Any) -> None:
    client, report, _ = played(serve, bare, CloseCode(code=1000, reason="bye"), talk=whole_session)

    assert client.names[-1] == "session.closed"
    assert (client.closed.rcvd.code, client.closed.rcvd.reason) == (1000, "bye")
    assert report.state == "observed"


def test_a_code_that_may_not_be_sent_is_sent(serve: Any, bare: Any) -> None:
    client, _, _ = played(serve, bare, CloseCode(code=1005, on=HEARTBEAT), talk=lambda c: heartbeats(c, 1))

    assert client.closed.sent.code == 1002


# -- the upgrade


@pytest.mark.parametrize("status", [401, 429, 503])
def test_a_refused_upgrade_tells_its_status(serve: Any, status: int) -> None:
    async def main() -> Any:
        async with serve(RefuseUpgrade(status=status, body="no slot")) as server:
            with pytest.raises(websockets.InvalidStatus) as refused:
                await websockets.connect(f"{server.url}?{QUERY}", proxy=None)
            await asyncio.sleep(0.01)
            return refused.value.response, only(server), server.connections[0], server.journal.entries

    response, report, info, entries = run_virtual(main)
    assert (response.status_code, response.body) == (status, b"no slot")
    assert (report.state, report.evidence["answered"]) == ("observed", status)
    assert (info.ended_by, info.how) == ("server", "refused")
    assert [entry.kind for entry in entries] == ["fault", "fault", "end"]


def test_only_the_attempt_in_scope_is_refused(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        async with serve(RefuseUpgrade(attempt=1)) as server:
            with pytest.raises(websockets.InvalidStatus):
                await websockets.connect(f"{server.url}?{QUERY}", proxy=None)
            async with bare(server.url) as client:
                await client.open()
                return client.names

    assert run_virtual(main) == ["session.created", "session.updated"]


def test_an_upgrade_that_is_never_answered(serve: Any) -> None:
    async def main() -> Any:
        loop = asyncio.get_running_loop()
        async with serve(NeverUpgrade()) as server:
            with pytest.raises(TimeoutError):
                await websockets.connect(f"{server.url}?{QUERY}", proxy=None, open_timeout=20)
            await asyncio.sleep(0.01)
            return loop.time(), only(server), server.connections[0]

    ended_s, report, info = run_virtual(main)
    assert ended_s == pytest.approx(1020, abs=0.1)
    assert (report.state, report.evidence["withheld_s"]) == ("observed", pytest.approx(20, abs=0.1))
    assert info.ended_by == "client"


def test_an_upgrade_that_comes_late_is_an_upgrade(serve: Any, bare: Any) -> None:
    client, report, _ = played(serve, bare, NeverUpgrade(for_s=3), talk=heartbeats)

    assert client.times("session.created") == [pytest.approx(1003, abs=0.02)]
    assert report.state == "observed"


def test_a_client_that_does_not_wait_for_its_upgrade_proves_nothing(serve: Any) -> None:
    async def main() -> Any:
        async with serve(NeverUpgrade()) as server:
            with pytest.raises(TimeoutError):
                await websockets.connect(f"{server.url}?{QUERY}", proxy=None, open_timeout=0.5)
            await asyncio.sleep(0.01)
            return only(server)

    assert run_virtual(main).state == "triggered"


def test_releasing_the_faults_lets_the_upgrade_through(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        loop = asyncio.get_running_loop()
        async with serve(NeverUpgrade()) as server:
            loop.call_later(2, server.release_faults)
            async with bare(server.url) as client:
                await client.open()
                return client.names, loop.time()

    names, at_s = run_virtual(main)
    assert names[0] == "session.created"
    assert at_s == pytest.approx(1002, abs=0.05)


# -- frames


def _reaction(serve: Any, bare: Any, fault: FaultBase) -> tuple[Any, FaultReport]:
    client, report, _ = played(serve, bare, fault, talk=whole_session_lost)
    return client, report


@pytest.mark.parametrize(
    "kind",
    [
        "masked",
        "reserved_bit",
        "unknown_opcode",
        "long_control",
        "fragmented_control",
        "orphan_continuation",
        "interrupted_message",
        "short_close",
    ],
)
def test_a_bad_frame_is_a_protocol_error_for_any_client(serve: Any, bare: Any, kind: Any) -> None:
    client, report = _reaction(serve, bare, BadFrame(kind=kind, on=AT_COMMIT))

    assert client.closed.sent.code == 1002
    assert (report.state, report.evidence["sent"]) == ("observed", kind)


@pytest.mark.parametrize("where", ["inside", "cut_at_end"])
def test_a_text_that_is_no_utf8(serve: Any, bare: Any, where: Any) -> None:
    client, report = _reaction(serve, bare, InvalidUtf8(where=where))

    assert client.closed.sent.code == 1007
    assert "response.audio_transcript.delta" not in client.names
    assert report.state == "observed"


def test_without_a_transcript_no_text_is_broken(serve: Any, bare: Any) -> None:
    _, report, _ = played(serve, bare, InvalidUtf8(), talk=heartbeats)

    assert report.state == "armed"


def test_a_frame_above_the_limit_is_refused_by_its_header(serve: Any) -> None:
    async def main() -> Any:
        async with serve(OversizeFrame(on=HEARTBEAT)) as server:
            async with websockets.connect(
                f"{server.url}?{QUERY}", proxy=None, max_size=64 * 1024 * 1024
            ) as client:
                await client.send('{"type":"session.update","session":{"ref_audio":"data:,"}}')
                await client.send('{"type":"session.heartbeat"}')
                with pytest.raises(websockets.ConnectionClosedError) as closed:
                    await _read_on(client)
            return closed.value.sent, only(server)

    sent, report = run_virtual(main)
    assert sent.code == 1009
    assert report.state == "observed"
    assert report.evidence["size_bytes"] == 64 * 1024 * 1024 + 1


@pytest.mark.parametrize(
    "fault",
    [
        BadFrame(on=On(received="session.close")),
        OversizeFrame(on=On(received="session.close")),
        CloseCode(on=On(received="session.close")),
        Latency(latency_s=1, on=On(received="session.close")),
        LimitData(limit_bytes=0, on=On(received="session.close")),
        SlowReading(bytes_per_s=64, on=On(received="session.close")),
        HalfClose(on=On(received="session.close")),
    ],
    ids=lambda fault: fault.name,
)
def test_a_trigger_that_never_comes_leaves_it_armed(serve: Any, bare: Any, fault: FaultBase) -> None:
    client, report, _ = played(serve, bare, fault, talk=heartbeats)

    assert client.names.count("session.heartbeat_ack") == 3
    assert report.state == "armed"


# -- after the release


def test_what_was_held_up_is_journaled_as_after_the_release(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        fault = StopReading(on=HEARTBEAT, buffer_bytes=None)
        async with serve(fault) as server, bare(server.url) as client:
            await heartbeats(client, 3)
            server.release_faults()
            await asyncio.sleep(0.1)
            return server.journal.of("received", "session.heartbeat")

    marks = [entry.data.get("after_release", False) for entry in run_virtual(main)]
    assert marks == [False, True, True]


def test_without_a_backlog_nothing_is_marked(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        async with serve(Latency(latency_s=0.1)) as server, bare(server.url) as client:
            await heartbeats(client, 1)
            server.release_faults()
            await client.send("session.heartbeat")
            await asyncio.sleep(0.1)
            return server.journal.of("received", "session.heartbeat")

    assert [dict(entry.data) for entry in run_virtual(main)] == [{}, {}]


async def _read_on(client: websockets.ClientConnection) -> None:
    async for _ in client:
        pass


# -- a client of nothing but TCP


def _text(payload: bytes) -> bytes:
    """A masked text frame of a client."""
    return bytes([0x81, 0x80 | len(payload), 0, 0, 0, 0]) + payload


async def _upgraded(server: MockServer) -> socket.socket:
    """A raw socket, upgraded; the answer to the upgrade has been read."""
    loop = asyncio.get_running_loop()
    port = int(server.url.split(":")[2].split("/")[0])
    sock = socket.socket()
    sock.setblocking(False)
    await loop.sock_connect(sock, ("127.0.0.1", port))
    await loop.sock_sendall(
        sock,
        f"GET /v1/realtime?{QUERY} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode(),
    )
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += await loop.sock_recv(sock, 1)
    assert b" 101 " in head
    return sock
