"""The client's side of a cassette, played to a scripted session without I/O: what would ours have answered?"""

from __future__ import annotations

import math
import random
from typing import Any
from urllib.parse import parse_qsl

import orjson

from conformance.live.cassette import Cassette, Line
from mockserver.profiles import PROFILES
from mockserver.seen import Seen, response_id
from mockserver.session import ServerSession
from mockserver.wire import End, Output, Send
from scenarios.model import Reply

DECISION_S = 0.058
"""Model time a unit where a cassette does not tell: what the July layer with a scripted model was seen to take."""
END_WAIT_S = 2.0


def mirrored(cassette: Cassette, profile: str, *, decision_s: float | None = None) -> Cassette:
    """The same session with a mock server of a profile: the client's frames as recorded, the server's from the mock.

    Its model speaks on the units on which the recorded one spoke, as many units, with as much text and audio.
    """
    lag_s = decision_s if decision_s is not None else DECISION_S
    query = dict(parse_qsl(cassette.query, keep_blank_values=True))
    session = ServerSession(
        PROFILES[profile], script_of(cassette), query=query, ids=random.Random(7), decision_s=lag_s
    )
    found = Cassette(f"mock {profile}", cassette.query)
    ids: dict[str, str] = {}

    def take(outputs: list[Output], now_s: float) -> None:
        for output in outputs:
            if isinstance(output, Send):
                event = session.stamp(output)
                found.lines.append(Line(now_s, "server->client", "text", 0, event))
            elif isinstance(output, End):
                if output.code is not None:
                    found.lines.append(Line(now_s, "server->client", "close", 2, code=output.code))
                found.lines.append(Line(now_s, "server->client", "end", how="fin"))

    def until(at_s: float) -> None:
        while (due_s := session.next_timer_s()) is not None and due_s <= at_s:
            take(session.on_timer(due_s), due_s)

    take(session.start(0.0), 0.0)
    theirs = replies_of(cassette)
    for line in cassette.of("client->server"):
        until(line.t_s)
        if line.event is None:
            continue
        ours = [r for e in found.of("server->client") if (r := _created(e)) is not None]
        ids.update(zip(theirs, ours, strict=False))
        event = renamed(cassette.whole(line.event), ids)
        found.lines.append(Line(line.t_s, "client->server", "text", line.size_bytes, line.event))
        take(session.receive(orjson.dumps(event), line.t_s), line.t_s)
    last_s = cassette.lines[-1].t_s if cassette.lines else 0.0
    until(last_s + END_WAIT_S)
    return found


def replies_of(cassette: Cassette) -> list[str]:
    """Ids of the replies, in their order."""
    return [r for line in cassette.of("server->client") if (r := _created(line)) is not None]


def script_of(cassette: Cassette) -> list[Reply]:
    """Replies as the recorded server gave them, by decided units.

    A unit is a listen decision of the model, or an audio delta: what a unit decided is all that shows of it.
    """
    replies: list[Reply] = []
    unit = 0
    open_id: str | None = None
    begin, units, text, audio_ms = 0, 0, "", 0
    for line in cassette.of("server->client"):
        event = line.event or {}
        seen = Seen(0.0)
        kind = str(event.get("type", ""))
        if kind == "response.listen":
            metadata = (event.get("response") or {}).get("metadata") or {}
            unit += bool(metadata.get("model_listen", False))
        elif kind == "response.created":
            open_id, begin, units, text, audio_ms = response_id(dict(event)), unit, 0, "", 0
        elif kind in ("response.audio.delta", "response.output_audio.delta") and open_id is not None:
            seen.take(dict(event), 0.0)
            units += 1
            unit += 1
            played = (event.get("metadata") or {}).get("audio_duration_ms")
            audio_ms = max(audio_ms, played if isinstance(played, int) else 0)
        elif kind in ("response.audio_transcript.delta", "response.output_audio_transcript.delta"):
            text += str(event.get("delta", ""))
        elif kind == "response.done" and open_id is not None:
            each = min(1000, math.ceil(audio_ms / max(1, units)))
            replies.append(Reply(starts_at_unit=begin, units=max(1, units), text=text or "…", audio_ms=each))
            open_id = None
    return replies


def _created(line: Line) -> str | None:
    event = dict(line.event or {})
    return response_id(event) if event.get("type") == "response.created" else None


def renamed(event: dict[str, Any], ids: dict[str, str]) -> dict[str, Any]:
    """An event with the reply's id as another session calls it; only acks name one."""
    if event.get("type") != "playback.ack":
        return event
    theirs = str(event.get("response_id", ""))
    ours = ids.get(theirs, theirs)
    return {**event, "response_id": ours, "item_id": f"item_{ours}"}
