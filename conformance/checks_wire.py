"""What the server saw of a scenario, as `expect.wire` counts it."""

from __future__ import annotations

from typing import Any

from conformance.observation import Observation

_COUNTED = (
    "appends",
    "padded_appends",
    "commits",
    "closes",
    "acks_before_commit",
    "acks_after_close",
    "last_clip_append_bytes",
)


def wire_counts(observation: Observation) -> dict[str, int | None]:
    """What the server saw while the scenario was played, as `expect.wire` counts it."""
    counts = dict.fromkeys(_COUNTED, 0)
    connections = observation.connections
    committed: set[int] = set()
    closing: set[int] = set()
    for entry in observation.entries_in_time:
        if entry.kind != "received":
            continue
        if entry.name == "input_audio_buffer.append":
            counts["appends"] += 1
            if entry.connection in committed:
                counts["padded_appends"] += 1
            elif not committed:
                counts["last_clip_append_bytes"] = int(entry.data.get("audio_bytes", 0))
        elif entry.name == "input_audio_buffer.commit":
            counts["commits"] += 1
            committed.add(entry.connection)
        elif entry.name == "session.close":
            counts["closes"] += 1
            closing.add(entry.connection)
        elif entry.name == "playback.ack":
            counts["acks_before_commit"] += entry.connection not in committed
            counts["acks_after_close"] += entry.connection in closing
    codes = [c.client_close_code for c in connections if c.client_close_code is not None]
    return {
        **counts,
        "connections": len(connections),
        "aborts": sum(c.ended_by == "client" and c.how in ("fin", "rst") for c in connections),
        "client_close_code": codes[-1] if codes else None,
    }


def last_acks_ms(observation: Observation) -> list[Any]:
    """What was acked last of each reply of the last connection, in their order; None for one that never was."""
    number = max((c.number for c in observation.connections), default=0)
    acked: dict[object, Any] = {}
    for entry in observation.entries_in_time:
        if entry.connection != number:
            continue
        if (entry.kind, entry.name) == ("sent", "response.created"):
            acked.setdefault(entry.data.get("response_id"))
        elif (entry.kind, entry.name) == ("received", "playback.ack"):
            acked[entry.data.get("response_id")] = entry.data.get("played_ms")
    return list(acked.values())
