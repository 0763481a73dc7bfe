"""Two faults at once, and faults that end in the middle of what they do: each proves what came of it, no more."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from conformance.clock import run_virtual
from mockserver.faults import FaultReport
from mockserver.proxy import ProxyServer
from mockserver.upstream import Behind
from scenarios.faults import (
    ErrorEvent,
    FaultBase,
    LateSessionClosed,
    NeverDone,
    NoSessionCreated,
    On,
    ResetPeer,
    StopReading,
)
from scenarios.faults_response import DamagedAudio, FreezeTail, Status
from scenarios.faults_session import (
    DropEvent,
    DuplicateEvent,
    IgnoreClose,
    LateSessionCreated,
    Reorder,
    SessionExpired,
)
from scenarios.faults_transport import CloseCode, SlowClose
from scenarios.model import Reply

REPLY = Reply(starts_at_unit=0, units=2, text="One two.")


def together(
    serve: Any, bare: Any, *faults: FaultBase, until_s: float = 6, release_s: float | None = None, **how: Any
) -> tuple[Any, list[FaultReport]]:
    """A session of two units, closed at 4 s, with these faults; what a bare client got, and what each proved."""

    async def main() -> Any:
        async with serve(*faults, reply=REPLY, **how) as server, bare(server.url) as client:
            await client.open()
            await client.append()
            await client.append()
            if release_s is not None:
                await asyncio.sleep(release_s)
                server.release_faults()
            await asyncio.sleep(4 - (release_s or 0))
            if client.closed is None:
                await client.send("session.close")
            await asyncio.sleep(until_s - 4)
            return client, server.fault_reports()

    return run_virtual(main)  # type: ignore[no-any-return]


def states(reports: list[FaultReport]) -> list[str]:
    return [report.state for report in reports]


def test_what_a_later_fault_lets_nobody_see_proves_nothing(serve: Any, bare: Any) -> None:
    _, reports = together(serve, bare, Status(status="failed"), NeverDone())
    assert states(reports) == ["triggered", "observed"]

    _, reports = together(
        serve,
        bare,
        DamagedAudio(kind="odd_bytes"),
        DropEvent(event="audio.delta", nth=1),
        profile="input-driven",
    )
    assert states(reports) == ["triggered", "observed"]

    client, reports = together(serve, bare, ErrorEvent(code="boom"), NoSessionCreated())
    assert client.names == []
    assert states(reports) == ["triggered", "observed"]


def test_what_a_later_fault_lets_out_late_is_proven(serve: Any, bare: Any) -> None:
    client, reports = together(serve, bare, DamagedAudio(kind="empty"), Reorder(event="audio.delta"))

    assert states(reports) == ["observed", "observed"]
    assert "" in [event["delta"] for _, event in client.events if event["type"] == "response.audio.delta"]


def test_no_event_is_changed_behind_a_close_frame(serve: Any, bare: Any) -> None:
    at_created = On(sent="response.created")
    client, reports = together(
        serve,
        bare,
        CloseCode(code=1011, on=at_created),
        DamagedAudio(),
        DuplicateEvent(event="transcript.delta"),
        SlowClose(delay_s=0.5),
    )

    assert client.names[-1] == "response.created"
    assert states(reports)[:1] + states(reports)[3:] == ["observed", "observed"]
    assert states(reports)[1:3] == ["triggered", "triggered"]


@pytest.mark.parametrize("end", [SessionExpired, CloseCode, ResetPeer])
def test_an_event_that_sets_off_the_end_has_proven_what_was_done_to_it(
    serve: Any, bare: Any, end: type[FaultBase]
) -> None:
    _, reports = together(serve, bare, DamagedAudio(kind="empty"), end(on=On(sent="audio.delta")))

    assert states(reports) == ["observed", "observed"]


@pytest.mark.parametrize(
    ("fault", "names"),
    [
        (ResetPeer(at_s=1.5), []),
        (CloseCode(at_s=1.5, code=1011), []),
        (ErrorEvent(at_s=1.5, code="boom"), ["session.created", "session.updated"]),
    ],
)
def test_a_wait_holds_back_events_but_no_end_of_the_connection(
    serve: Any, bare: Any, fault: FaultBase, names: list[str]
) -> None:
    client, reports = together(serve, bare, LateSessionCreated(delay_s=3), fault)

    assert client.names[:2] == names
    assert states(reports)[1] == "observed"
    assert (reports[0].evidence["withheld"], reports[0].evidence["withheld_s"]) == (
        "session.created",
        pytest.approx(3 if names else 1.5, abs=0.05),
    )


def test_reading_stops_when_it_is_due_although_another_fault_waits(serve: Any, bare: Any) -> None:
    stop = StopReading(at_s=0.5, buffer_bytes=None, proof="unread")
    client, reports = together(serve, bare, LateSessionClosed(delay_s=3), LateSessionCreated(delay_s=3), stop)

    assert "session.closed" not in client.names  # the close at 4 s was not read
    assert states(reports)[2] == "observed"


@pytest.mark.parametrize(("release_s", "state"), [(0.3, "triggered"), (2.0, "observed")])
def test_a_wait_that_is_released_proves_the_seconds_it_took(
    serve: Any, bare: Any, release_s: float, state: str
) -> None:
    client, (report,) = together(serve, bare, LateSessionCreated(delay_s=60), release_s=release_s)

    assert client.names[0] == "session.created"
    assert report.state == state
    if state == "observed":
        assert report.evidence["withheld_s"] == pytest.approx(release_s, abs=0.05)


def test_released_faults_wait_no_more_at_all(serve: Any, bare: Any) -> None:
    async def main() -> Any:
        async with (
            serve(LateSessionCreated(delay_s=60), LateSessionClosed(delay_s=60), reply=REPLY) as server,
            bare(server.url) as client,
        ):
            await client.open()
            await client.send("session.close")
            await asyncio.sleep(2)
            server.release_faults()
            await asyncio.sleep(0.1)
            return client, server.fault_reports()

    client, reports = run_virtual(main)
    assert client.names == ["session.created", "session.updated", "session.closed"]
    assert states(reports) == ["observed", "triggered"]


def test_a_fault_that_is_over_waits_no_more(serve: Any, bare: Any) -> None:
    client, (report,) = together(serve, bare, LateSessionCreated(delay_s=60, for_s=2))

    assert client.times("session.created") == [pytest.approx(1002, abs=0.05)]
    assert report.evidence["withheld_s"] == pytest.approx(2, abs=0.05)


@pytest.mark.parametrize("through", ["mock", "proxy"])
def test_what_two_faults_ignore_is_heeded_when_both_are_over(serve: Any, bare: Any, through: str) -> None:
    faults = (IgnoreClose(at_s=0, for_s=2), IgnoreClose(at_s=1, for_s=4))

    async def closes(url: str) -> list[int]:
        async with bare(url) as client:
            await client.open()
            for _ in range(7):
                if client.closed is None:
                    await client.send("session.close")
                await asyncio.sleep(1)
            return [round(at_s - 1000) for at_s in client.times("session.closed")]

    async def main() -> list[int]:
        if through == "mock":
            async with serve(*faults) as server:
                return await closes(server.url)
        async with serve() as server:
            proxy = ProxyServer(Behind(server.url), faults=faults)
            await proxy.start()
            try:
                return await closes(proxy.url)
            finally:
                await proxy.stop()

    assert run_virtual(main) == [5]


def test_silence_is_made_again_when_the_last_fault_that_forbids_it_is_over(serve: Any, bare: Any) -> None:
    faults = (FreezeTail(for_s=1.5), FreezeTail(for_s=4))

    async def main() -> Any:
        async with serve(*faults, reply=REPLY) as server, bare(server.url) as client:
            await client.open()
            await asyncio.sleep(3)
            frozen = server.open[1][1].steps.silence_off
            await asyncio.sleep(2)
            return frozen, server.open[1][1].steps.silence_off

    assert run_virtual(main) == (True, False)
