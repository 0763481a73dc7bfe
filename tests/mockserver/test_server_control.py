"""The control API on a running server: looked at, armed, disarmed and reset over HTTP."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest

from conformance.clock import run_virtual
from mockserver.app import MockServer
from mockserver.control import MAX_BODY_BYTES, ControlApi
from mockserver.control_guard import Guard
from mockserver.journal import Entry, Journal
from mockserver.journal_ring import JournalRing, line_of
from scenarios.faults import FAULTS
from scenarios.model import Reply

REPLY = Reply(starts_at_unit=0, units=2, text="One two.")
TOKEN = "a-token-of-some-length"
NESTED = json.loads("[" * 200 + "]" * 200)


class Api:
    """A server with its control API, and a client of that."""

    def __init__(self, http: aiohttp.ClientSession, server: MockServer, ring: JournalRing) -> None:
        self.http, self.server, self.ring = http, server, ring
        self.resets = 0

    async def ask(self, method: str, path: str, body: Any = None, **how: Any) -> tuple[int, Any]:
        if body is not None:
            how["json"] = body
        async with self.http.request(method, f"{self.server.http_url}/control{path}", **how) as answer:
            return answer.status, await answer.json()

    async def arm(self, fault: Any) -> Any:
        status, told = await self.ask("POST", "/faults", fault)
        assert status == 200, told
        return told

    async def state(self) -> Any:
        status, told = await self.ask("GET", "/state")
        assert status == 200
        return told

    async def runs(self, index: int) -> list[tuple[int, str]]:
        return [(run["connection"], run["state"]) for run in (await self.state())["faults"][index]["runs"]]


def controlled(play: Callable[[Api], Awaitable[Any]], *, guard: Guard | None = None, **how: Any) -> Any:
    """Play against a server in virtual time."""

    async def main() -> Any:
        ring = JournalRing()

        def keep(entry: Entry) -> None:
            head = {"connection": entry.connection, "seq": entry.seq, "kind": entry.kind, "name": entry.name}
            ring.add(head, line_of(head, entry.data))

        server = MockServer(
            **{"profile": "july", "replies": [REPLY], "journal": Journal(keep, keep=False), **how}
        )
        async with aiohttp.ClientSession(trust_env=False) as http:
            api = Api(http, server, ring)

            def counted() -> None:
                api.resets += 1

            ControlApi(server, ring, guard or Guard("127.0.0.1"), counted)
            await server.start()
            try:
                return await play(api)
            finally:
                await server.stop()

    return run_virtual(main)


def test_the_state_tells_profile_sessions_and_connections(bare: Any) -> None:
    async def play(api: Api) -> Any:
        before = await api.state()
        async with bare(api.server.url) as client:
            await client.open()
            await client.append()
            await asyncio.sleep(0.5)
            during = await api.state()
        await asyncio.sleep(0.1)
        return before, during, await api.state()

    before, during, after = controlled(play, max_sessions=3)
    assert before["profile"]["name"] == "july"
    assert before["sessions"] == {"accepted": 0, "open": 0, "max_sessions": 3, "slots_in_use": 0}
    assert before["connections"] == before["faults"] == []
    (connection,) = during["connections"]
    assert connection["state"] == "open"
    assert connection["session_id"].startswith("duplex-")
    assert connection["response_id"].startswith("resp-")
    assert connection["received"]["input_audio_buffer.append"] == 1
    assert connection["units"] == 1
    assert during["sessions"]["open"] == during["sessions"]["slots_in_use"] == 1
    assert after["connections"][0]["state"] == "closed"
    assert (after["connections"][0]["ended_by"], after["connections"][0]["how"]) == ("client", "fin")
    assert after["sessions"]["open"] == 0
    assert after["sessions"]["slots_in_use"] == 1  # a lost session keeps its slot for the grace


def test_the_journal_is_told_in_pieces(bare: Any) -> None:
    async def play(api: Api) -> Any:
        async with bare(api.server.url) as client:
            await client.open()
        status, first = await api.ask("GET", "/journal?limit=2")
        _, rest = await api.ask("GET", f"/journal?since={first['next']}&limit=1000")
        return status, first, rest

    status, first, rest = controlled(play)
    assert status == 200
    assert [entry["kind"] for entry in first["entries"]] == ["open", "received"]
    assert rest["entries"][0]["name"] == "session.created"
    assert [entry["number"] for entry in rest["entries"]] == list(range(3, rest["last"] + 1))


def test_an_armed_fault_reaches_the_next_connection_and_proves_itself(bare: Any) -> None:
    async def play(api: Api) -> Any:
        told = await api.arm("no_session_created")
        states = [await api.runs(0)]
        async with bare(api.server.url) as client:
            await client.open()
            await asyncio.sleep(1)
            states.append(await api.runs(0))
            return told, states, client.names

    told, states, names = controlled(play)
    assert told == {
        "id": 0,
        "fault": {"no_session_created": {}},
        "from": "control",
        "armed": True,
        "runs": [],
    }
    assert states == [[], [(1, "observed")]]
    assert names == []


def test_a_fault_that_names_an_open_connection_acts_on_it_at_once(bare: Any) -> None:
    async def play(api: Api) -> Any:
        async with bare(api.server.url) as client, bare(api.server.url) as other:
            for each in (client, other):
                await each.open()
            await asyncio.sleep(5)
            told = await api.arm({"error_event": {"connection": 1, "at_s": 2, "code": "made_up"}})
            await asyncio.sleep(3)
            return told, await api.runs(0), client.times("error"), other.times("error")

    told, runs, mine, others = controlled(play)
    assert told["runs"] == [{"connection": 1, "state": "armed", "evidence": {}}]
    assert runs == [(1, "observed")]
    assert len(mine) == 1
    assert others == []


def test_a_fault_without_a_trigger_begins_on_an_open_connection_now(bare: Any) -> None:
    async def play(api: Api) -> Any:
        async with bare(api.server.url, pings=False) as client:
            await client.open()
            armed = await api.arm({"stop_reading": {"connection": 1}})
            await client.append()
            await asyncio.sleep(3)
            stalled = (await api.runs(0), client.times("response.created"))
            status, disarmed = await api.ask("DELETE", "/faults/0")
            await asyncio.sleep(1)
            return armed, stalled, status, disarmed, client.times("response.created")

    armed, stalled, status, disarmed, created = controlled(play)
    assert armed["runs"][0]["state"] == "triggered"
    assert stalled == ([(1, "observed")], [])
    assert (status, disarmed["armed"]) == (200, False)
    assert disarmed["runs"][0]["evidence"]
    assert len(created) == 1


def test_a_disarmed_fault_reaches_no_further_connection(bare: Any) -> None:
    async def play(api: Api) -> Any:
        await api.arm("no_session_created")
        await api.ask("DELETE", "/faults/0")
        async with bare(api.server.url) as client:
            await client.open()
            return client.names, await api.state(), await api.ask("DELETE", "/faults/0")

    names, state, again = controlled(play)
    assert "session.created" in names
    assert state["faults"][0]["runs"] == []
    assert again[0] == 404
    assert "no fault 0 is armed; armed: none" in again[1]["error"]["message"]


def test_a_disarmed_fault_waits_no_more(bare: Any) -> None:
    async def play(api: Api) -> Any:
        await api.arm({"late_session_created": {"delay_s": 60}})
        async with bare(api.server.url) as client:
            await client.open()
            await asyncio.sleep(2)
            await api.ask("DELETE", "/faults/0")
            await asyncio.sleep(0.1)
            return client.names, (await api.state())["faults"][0]["runs"][0]

    names, run = controlled(play)
    assert names == ["session.created", "session.updated"]
    assert run["state"] == "observed"
    assert run["evidence"]["withheld_s"] == pytest.approx(2, abs=0.05)


def test_an_upgrade_is_answered_once_the_fault_that_held_it_is_disarmed(bare: Any) -> None:
    async def play(api: Api) -> Any:
        await api.arm("never_upgrade")
        await api.arm({"error_event": {"code": "boom"}})
        client = bare(api.server.url)
        opening = asyncio.create_task(client.__aenter__())
        await asyncio.sleep(2)
        waits = await api.ask("POST", "/faults", {"latency": {"connection": 1, "latency_s": 1}})
        for index in (1, 0):
            await api.ask("DELETE", f"/faults/{index}")
        await asyncio.sleep(0.1)
        upgraded = opening.done()
        await opening
        await client.open()
        await client.__aexit__()
        return waits, upgraded, client.names, (await api.state())["faults"][0]["runs"][0]

    waits, upgraded, names, run = controlled(play)
    assert waits[0] == 409
    assert "connection 1 waits for its upgrade" in waits[1]["error"]["message"]
    assert upgraded
    assert names == ["session.created", "session.updated"]  # what was disarmed in the meantime does not begin
    assert run["evidence"]["withheld_s"] == pytest.approx(2, abs=0.1)


def test_a_fault_that_acts_once_acts_at_once_on_an_open_connection(bare: Any) -> None:
    async def play(api: Api) -> Any:
        async with bare(api.server.url) as client:
            await client.open()
            await api.arm({"error_event": {"connection": 1, "code": "boom"}})
            await asyncio.sleep(0.1)
            return client.names, await api.runs(0)

    names, runs = controlled(play)
    assert names == ["session.created", "session.updated", "error"]
    assert runs == [(1, "observed")]


def test_the_receive_buffer_is_that_of_the_faults_that_are_armed() -> None:
    async def play(api: Api) -> list[int]:
        (listener,) = api.server._site.sockets

        def size() -> int:
            return listener.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)

        sizes = [size()]
        await api.arm({"stop_reading": {"buffer_bytes": 4096}})
        sizes.append(size())
        await api.arm({"slow_reading": {"bytes_per_s": 1000, "buffer_bytes": 65536}})
        sizes.append(size())
        await api.ask("DELETE", "/faults/0")
        sizes.append(size())
        await api.ask("POST", "/reset")
        return [*sizes, size()]

    usual, *armed, reset = controlled(play)
    assert armed == [8192, 8192, 131_072]
    assert reset == usual


def test_a_reset_is_as_after_the_start(bare: Any) -> None:
    async def session(api: Api) -> list[str]:
        async with bare(api.server.url) as client:
            await client.open()
            await client.append()
            await asyncio.sleep(2)
            return [event["event_id"] for _, event in client.events]

    async def play(api: Api) -> Any:
        first = await session(api)
        await api.arm("no_session_created")
        async with bare(api.server.url) as held:
            await held.open()
            status, state = await api.ask("POST", "/reset")
            await held.ended()
            code = held.closed.rcvd.code
        return (
            first,
            status,
            state,
            code,
            await session(api),
            api.resets,
            await api.ask("GET", "/journal?limit=1000"),
        )

    first, status, state, code, second, resets, (_, journal) = controlled(
        play, faults=[FAULTS["error_event"](connection=7)]
    )
    assert status == 200
    assert state["sessions"]["accepted"] == 0
    assert [fault["from"] for fault in state["faults"]] == ["scenario"]
    assert code == 1001
    assert first == second  # the same connection number, so the same ids
    assert resets == 1
    control = [entry["name"] for entry in journal["entries"] if entry["kind"] == "control"]
    assert control == ["fault-armed", "reset"]


@pytest.mark.parametrize(
    ("fault", "status", "told"),
    [
        ("no_such_fault", 400, "request: faults[0].no_such_fault: unknown fault 'no_such_fault'"),
        (
            {"stop_reading": {"bufer_bytes": 1}},
            400,
            "request: faults[0].stop_reading.bufer_bytes: unknown key",
        ),
        ({"stop_reading": {"at_s": "2"}}, 400, "request: faults[0].stop_reading.at_s: '2'"),
        ({"stop_reading": {"at_s": -1}}, 400, "faults[0].stop_reading.at_s: -1; at least 0"),
        ({"no_session_closed": {"at_s": 1}}, 400, "this fault takes no trigger"),
        (
            {"error_event": {"on": {"sent": "response.audio.delta"}}},
            400,
            "use the logical name 'audio.delta'",
        ),
        ({"stop_reading": {"buffer_bytes": 2**31}}, 400, "buffer_bytes: 2147483648; at most 1073741824"),
        ({"oversize_frame": {"sent_bytes": 2**40}}, 400, "sent_bytes: 1099511627776; at most 67108864"),
        ({"late_deltas": {"count": 10**9}}, 400, "count: 1000000000; at most 1000"),
        ({"extra_reply_in_padding": {"units": 10**9}}, 400, "units: 1000000000; at most 3600"),
        ({"garbage_event": {"text": "x" * 10_000, "times": 10_000}}, 400, "at most 67108864 bytes in all"),
        ({"garbage_event": {"event": NESTED}}, 400, "event: nested deeper than 100 levels"),
        ({"unknown_event": {"fields": {"a": NESTED}}}, 400, "fields: nested deeper than 100 levels"),
        ([], 400, "a list of 0"),
        (3, 400, "faults[0]: 3"),
        ({"a": {}, "b": {}}, 400, "faults[0]: a mapping"),
        ("no_transport", 409, "acts on a client in the same process"),
        ({"prose": {"kind": "temporal"}}, 409, "is a fault of the judge"),
        ({"error_event": {"sample": "610"}}, 409, "cannot tell whose connection"),
    ],
)
def test_a_fault_that_cannot_be_armed_is_refused_as_in_a_scenario(fault: Any, status: int, told: str) -> None:
    async def play(api: Api) -> Any:
        return await api.ask("POST", "/faults", fault), (await api.state())["faults"]

    (given, answer), faults = controlled(play)
    assert given == status
    error = answer["error"]
    assert told in "\n".join([error["message"], *error.get("problems", [])])
    assert faults == []


def test_a_fault_for_a_connection_that_is_over_or_upgraded_is_refused(bare: Any) -> None:
    async def play(api: Api) -> Any:
        async with bare(api.server.url):
            upgraded = await api.ask("POST", "/faults", {"never_upgrade": {"connection": 1}})
            other = await api.ask("POST", "/faults", {"error_event": {"connection": 1, "attempt": 2}})
        await asyncio.sleep(0.1)
        over = await api.ask("POST", "/faults", {"error_event": {"connection": 1}})
        later = await api.ask("POST", "/faults", {"error_event": {"connection": 2}})
        return upgraded, other, over, later

    upgraded, other, over, later = controlled(play)
    assert (upgraded[0], other[0], over[0], later[0]) == (409, 409, 409, 200)
    assert "connection 1 is attempt 1, not 2" in other[1]["error"]["message"]
    assert "acts on the upgrade" in upgraded[1]["error"]["message"]
    assert "connection 1 is over" in over[1]["error"]["message"]


@pytest.mark.parametrize(
    ("method", "path", "how", "status"),
    [
        ("GET", "/nothing", {}, 404),
        ("GET", "", {}, 404),
        ("POST", "/state", {}, 404),
        ("GET", "/state", {"headers": {"Host": "evil.example"}}, 403),
        ("GET", "/state", {"headers": {"Origin": "http://evil.example"}}, 403),
        ("GET", "/journal?since=-1", {}, 400),
        ("GET", "/journal?since=x", {}, 400),
        ("GET", "/journal?limit=1001", {}, 400),
        ("GET", "/journal?since=99999999999999999999", {}, 400),
        ("DELETE", "/faults/x", {}, 404),
        ("DELETE", "/faults/7", {}, 404),
        ("DELETE", "/faults/..%2F..", {}, 404),
        ("POST", "/faults", {"data": b"{"}, 400),
        ("POST", "/faults", {"data": b""}, 400),
        ("POST", "/faults", {"data": b'{"error_event": {"at_s": NaN}}'}, 400),
        ("POST", "/faults", {"data": b"[" * 30_000}, 400),
        ("POST", "/faults", {"data": b'"' + b"x" * MAX_BODY_BYTES + b'"'}, 413),
    ],
)
def test_what_is_wrong_with_a_request_is_told(method: str, path: str, how: Any, status: int) -> None:
    async def play(api: Api) -> Any:
        return await api.ask(method, path, **how)

    given, answer = controlled(play)
    assert given == status
    assert answer["error"]["message"]


def test_a_body_without_a_length_is_bounded_too() -> None:
    async def endless() -> Any:
        while True:
            yield b"x" * 8_192

    async def play(api: Api) -> Any:
        status, _ = await api.ask("POST", "/faults", data=endless())
        await asyncio.sleep(2)
        return status

    assert controlled(play) == 413


def test_a_body_that_does_not_come_is_given_up() -> None:
    async def play(api: Api) -> Any:
        host, port = api.server.http_url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"POST /control/faults HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")
        line = await reader.readline()
        writer.close()
        await asyncio.sleep(2)
        return line, asyncio.get_running_loop().time()

    begun_s = run_virtual(_now)
    line, now_s = controlled(play)
    assert b"408" in line
    assert 9 < now_s - begun_s < 20


async def _now() -> float:
    return asyncio.get_running_loop().time()


def test_with_a_token_nothing_is_told_without_it(bare: Any) -> None:
    async def play(api: Api) -> Any:
        refused = [
            await api.ask(method, path)
            for method, path in (
                ("GET", "/state"),
                ("GET", "/journal"),
                ("POST", "/reset"),
                ("GET", "/nothing"),
            )
        ]
        refused.append(await api.ask("POST", "/faults", "no_session_closed"))
        granted = await api.ask("GET", "/state", headers={"Authorization": f"Bearer {TOKEN}"})
        async with bare(api.server.url) as client:  # sessions need none
            await client.open()
            return refused, granted, client.names, api.server.armed.specs

    refused, granted, names, armed = controlled(play, guard=Guard("127.0.0.1", TOKEN))
    assert {status for status, _ in refused} == {401}
    assert granted[0] == 200
    assert "session.created" in names
    assert armed == []


# -- the end of the server


def shut(profile: str, bare: Any, *, append: bool = False, **how: Any) -> Any:
    async def play(api: Api) -> Any:
        async with bare(api.server.url) as client:
            await client.open()
            if append:
                await client.append()
                await asyncio.sleep(0.5)
            await api.server.shut_down(2.0)
            await client.ended()
            return client.events, client.closed, api.server.connections[0]

    return controlled(play, profile=profile, **how)


def test_a_server_that_goes_away_ends_its_sessions_with_1001(bare: Any) -> None:
    events, closed, info = shut("july", bare)

    assert closed.rcvd.code == 1001
    assert "session.closed" not in [event["type"] for _, event in events]
    assert (info.ended_by, info.client_close_code) == ("server", 1001)


def test_the_engine_says_that_it_shuts_down_first(bare: Any) -> None:
    events, closed, _ = shut("engine", bare, append=True)

    assert events[-1][1]["type"] == "session.closed"
    assert events[-1][1]["reason"] == "shutdown"
    assert "response.done" not in [event["type"] for _, event in events]
    assert (closed.rcvd.code, closed.rcvd.reason) == (1001, "shutdown")


def test_faults_do_not_hold_the_end_up(bare: Any) -> None:
    held = [
        FAULTS["stop_reading"](proof="unread"),
        FAULTS["no_close_reply"](),
        FAULTS["slow_close"](delay_s=500),
    ]
    _, closed, _ = shut("engine", bare, append=True, faults=held)

    assert closed is not None


def test_nobody_is_taken_any_more_while_the_server_goes_away(bare: Any) -> None:
    async def play(api: Api) -> Any:
        async with bare(api.server.url) as client:
            await client.open()
            client.socket.transport.pause_reading()  # answers nothing
            going = asyncio.create_task(api.server.shut_down(2.0))
            await asyncio.sleep(0.5)
            with pytest.raises(OSError, match=r"refused|Connect"):
                await asyncio.open_connection(*api.server.http_url.removeprefix("http://").split(":"))
            began_s = asyncio.get_running_loop().time()
            await going
            return asyncio.get_running_loop().time() - began_s

    assert 1.0 < controlled(play) < 3.5


def test_only_the_last_connections_are_remembered(bare: Any) -> None:
    async def play(api: Api) -> Any:
        for _ in range(12):
            async with bare(api.server.url) as client:
                await client.open()
        return api.server.accepted, [info.number for info in api.server.connections], api.server.fault_runs

    accepted, numbers, runs = controlled(play, keep_connections=3, faults=[FAULTS["error_event"](at_s=99)])
    assert accepted == 12
    assert numbers[-1] == 12
    assert len(numbers) <= 6
    assert {run.connection for run in runs} <= set(numbers)
