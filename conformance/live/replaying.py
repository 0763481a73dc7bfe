"""A cassette played again: its server side to any client in virtual time, or its client side to a server."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pybase64

from client.media import Frame, Prepared
from conformance.live.cassette import Cassette, CassetteTape, Line, read_cassette
from conformance.live.heard import answers_line
from conformance.live.mirror import renamed, script_of
from conformance.live.problem import Problem
from conformance.live.server import LiveServer, masked
from conformance.live.slots import NoSlot
from conformance.options import ConfigurationError, RunOptions
from conformance.outcome import ScenarioResult
from conformance.targets.live import LiveTarget
from mockserver.played import ACKNOWLEDGED, PlayedFrame
from mockserver.proxy import ProxyServer
from scenarios.model import Clip, Expect, SampleExpect, Scenario, ServerSpec

ANCHORS_NOT = frozenset({"playback.ack", "session.heartbeat", "session.event_ack"})
"""Client events whose number is the client's own affair: nothing is tied to them."""
BYTES_PER_S = 32_000
END_WAIT_S = 5.0
SPLIT = "RTD_Omni"


@dataclass(frozen=True)
class Replayed:
    """What a client made of a cassette."""

    result: ScenarioResult
    outcome: str
    """Of the sample."""
    text: str
    error: str
    then: Mapping[str, int]
    """Client events in the cassette, by type."""
    now: Mapping[str, int]
    """And now."""
    answers: str
    """What the recorded server answered, in a line."""


def played_frames(cassette: Cassette) -> tuple[PlayedFrame, ...]:
    """The server side as a script: each event after the client event that it followed."""
    frames: list[PlayedFrame] = []
    counts: Counter[str] = Counter()
    anchor: tuple[str, int] | None = None
    since_s = 0.0
    close_code: int | None = None
    for line in cassette.lines:
        if line.dir == "client->server":
            if line.kind == "text" and line.type not in ANCHORS_NOT:
                counts[line.type] += 1
                anchor, since_s = (line.type, counts[line.type]), line.t_s
        elif line.kind == "text" and line.event is not None:
            event = cassette.whole(line.event)
            frames.append(PlayedFrame(anchor, max(0.0, line.t_s - since_s), event))
        elif line.kind == "close":
            close_code = line.code
        elif line.kind == "end":
            frames.append(PlayedFrame(anchor, max(0.0, line.t_s - since_s), None, close_code))
    if not any(f.event is not None and f.event.get("type") != ACKNOWLEDGED for f in frames):
        raise ConfigurationError(f"{cassette.name}: the cassette holds no event of a server")
    return tuple(frames)


def input_of(cassette: Cassette) -> Prepared:
    """What the recorded client sent before its commit, as a sample.

    Raises ConfigurationError: nothing was sent, or media are missing.
    """
    pcm = bytearray()
    frames: list[Frame] = []
    for line in cassette.of("client->server"):
        if line.type == "input_audio_buffer.commit":
            break
        if line.type != "input_audio_buffer.append" or line.event is None:
            continue
        event = cassette.whole(line.event)
        for jpeg in event.get("video_frames") or ():
            frames.append(Frame(t_s=float(len(frames)), jpeg=pybase64.b64decode(jpeg)))
        pcm += pybase64.b64decode(str(event.get("audio", "")))
    if not pcm:
        raise ConfigurationError(f"{cassette.name}: the client of this cassette sent no audio")
    return Prepared(
        split=SPLIT,
        id="cassette",
        pcm=bytes(pcm),
        frames=tuple(frames),
        video_duration_s=len(pcm) / BYTES_PER_S,
    )


def replay_cassette(path: Path, options: RunOptions) -> Replayed:
    """Run the client against the server side of a cassette.

    Raises ConfigurationError: the file is no cassette, or lacks media.
    """
    from conformance.judgement import judge
    from conformance.runner import perform

    cassette = read_cassette(path)
    prepared = input_of(cassette)
    scenario = Scenario(
        id=f"cassette/{cassette.name}",
        title=f"The server of {path.name}, played again",
        about="What a client makes of a recorded server; what always holds is judged.",
        requires=[],
        clip=Clip(seconds=max(0.001, prepared.video_duration_s), frames=bool(prepared.frames)),
        server=ServerSpec(reply=script_of(cassette)),
        expect=Expect(sample=SampleExpect(attempts={"at_least": 1})),
    )
    model = str(cassette.target.get("model") or options.model)
    target = LiveTarget(LiveServer("ws://127.0.0.1:9/v1/realtime", model), played=played_frames(cassette))
    options = replace(options, live=target, model=model)
    with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
        observation = perform(scenario, options, Path(folder), [replace_id(prepared, scenario)])
        result = judge(observation, options, real_s=0.0)
    facts = observation.samples[0]
    return Replayed(
        result,
        facts.outcome,
        facts.text,
        facts.error,
        dict(Counter(line.type for line in cassette.of("client->server"))),
        dict(Counter(e.name for e in observation.entries if e.kind == "received")),
        answers_line(cassette),
    )


def replace_id(prepared: Prepared, scenario: Scenario) -> Prepared:
    """The sample under the name that the scenario gives it."""
    (spec,) = scenario.specs
    return replace(prepared, split=spec.split, id=spec.id)


async def record_against(cassette: Cassette, server: LiveServer, folder: Path) -> Cassette:
    """Play the client side of a cassette to a server, at its own pace, and keep what comes as another.

    Raises Problem: the server could not be reached, or did not upgrade the connection. NoSlot: it has no free slot.
        OSError: the folder cannot be written.
    """
    tape = CassetteTape(folder, "drift", target=server.told(), headers=server.headers)
    proxy = ProxyServer(server.behind(), tape=tape)
    await proxy.start()
    try:
        async with (
            aiohttp.ClientSession(trust_env=False) as http,
            http.ws_connect(f"{proxy.url}?{cassette.query}", max_msg_size=0, compress=0) as websocket,
        ):
            await _speak(cassette, websocket)
    except aiohttp.ClientError as error:
        if not proxy.no_slot:
            raise _no_session(proxy, server, error) from error
    finally:
        await proxy.stop()
    if tape.broken is not None:
        raise tape.broken
    if proxy.no_slot:
        raise NoSlot(
            masked(f"{server.told()['url']}: no free session slot: {proxy.no_slot[0]}", server.headers)
        )
    return read_cassette(folder / "drift-1.cassette.ndjson")


def _no_session(proxy: ProxyServer, server: LiveServer, error: aiohttp.ClientError) -> Problem:
    """Why the server gave no session: in the proxy's words, for the client has heard of the proxy alone."""
    upgrades = [f"the WebSocket upgrade is answered with HTTP {status}" for status in proxy.statuses]
    why = (proxy.unreachable + upgrades or [str(error)])[-1]
    url = str(server.told()["url"])
    return Problem(url, masked(why, server.headers), f"try conformance preflight --url {url}")


async def _speak(cassette: Cassette, websocket: aiohttp.ClientWebSocketResponse[Any]) -> None:
    loop = asyncio.get_running_loop()
    since_s = loop.time()
    theirs = [line for line in cassette.of("server->client") if line.type == "response.created"]
    ids: dict[str, str] = {}
    listening = loop.create_task(_listen(websocket, theirs, ids), name="drift listens")
    try:
        for line in cassette.of("client->server"):
            if line.event is None:
                continue
            await asyncio.wait({listening}, timeout=max(0.0, since_s + line.t_s - loop.time()))
            if listening.done():
                return
            await websocket.send_str(orjson.dumps(renamed(cassette.whole(line.event), ids)).decode())
        await asyncio.wait({listening}, timeout=END_WAIT_S)
    finally:
        listening.cancel()
        await asyncio.wait({listening})


async def _listen(
    websocket: aiohttp.ClientWebSocketResponse[Any], theirs: list[Line], ids: dict[str, str]
) -> None:
    """Learn how this server calls the replies."""
    async for message in websocket:
        event = orjson.loads(message.data) if isinstance(message.data, str | bytes) else {}
        if isinstance(event, dict) and event.get("type") == "response.created" and len(ids) < len(theirs):
            old = dict(theirs[len(ids)].event or {})
            ids[str(old.get("response_id"))] = str(event.get("response_id"))
