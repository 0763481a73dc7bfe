"""The recorded session of the real server's protocol layer, replayed against a session without I/O."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

from mockserver.profiles import PROFILES
from mockserver.session import ServerSession
from mockserver.wire import Output, Send
from scenarios.model import Reply

DECISION_S = 0.058
"""The recorded model took 50 ms a unit, its server 2 ms more, and each of the three waits ran 12 ms over. 58 ms a unit
is the one figure that puts both last listens where they were: one before the ack, one behind it."""
TEXT = "".join(f"Reply 1, part {part} of 4. " for part in (1, 2, 3, 4))


def _lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "server_session.jsonl").read_text().splitlines()]


def _replay(lines: list[dict[str, Any]], decision_s: float) -> list[tuple[float, dict[str, Any]]]:
    """What the session sends, with times, when the client's frames come as recorded."""
    query = dict(parse_qsl(lines[0]["query"]))
    reply = Reply(starts_at_unit=3, units=4, text=TEXT, audio_ms=1000)
    session = ServerSession(
        PROFILES["july"], [reply], query=query, ids=random.Random(7), decision_s=decision_s
    )
    sent: list[tuple[float, dict[str, Any]]] = []

    def take(outputs: list[Output], now_s: float) -> None:
        sent.extend((now_s, session.stamp(output)) for output in outputs if isinstance(output, Send))

    take(session.start(lines[0]["t"]), lines[0]["t"])
    for line in lines:
        if line["dir"] != "client->server":
            continue
        while (due_s := session.next_timer_s()) is not None and due_s <= line["t"]:
            take(session.on_timer(due_s), due_s)
        text = line["text"]
        if '"playback.ack"' in text:
            ack = json.loads(text)
            response_id = next(e["response_id"] for _, e in sent if e["type"] == "response.created")
            text = json.dumps({**ack, "response_id": response_id, "item_id": f"item_{response_id}"})
        take(session.receive(text, line["t"]), line["t"])
    return sent


@pytest.mark.shared_data
def test_same_client_frames_give_the_recorded_events_in_the_recorded_order(shared_data: Path) -> None:
    lines = _lines(shared_data)
    recorded = [json.loads(line["text"]) for line in lines if line["dir"] == "server->client"]

    sent = [event for _, event in _replay(lines, decision_s=DECISION_S)]

    assert [e["type"] for e in sent] == [e["type"] for e in recorded]
    assert [e.get("server_event_seq") for e in sent] == [e.get("server_event_seq") for e in recorded]


@pytest.mark.shared_data
def test_recorded_moments_are_met_within_a_tenth_of_a_second(shared_data: Path) -> None:
    lines = _lines(shared_data)
    recorded = [line["t"] for line in lines if line["dir"] == "server->client"]

    sent = [at_s for at_s, _ in _replay(lines, decision_s=DECISION_S)]

    assert max(abs(ours - theirs) for ours, theirs in zip(sent, recorded, strict=True)) < 0.1


@pytest.mark.shared_data
def test_events_have_the_recorded_fields(shared_data: Path) -> None:
    """Field names, at every depth, of every event; resume (which this server does not offer) aside."""
    lines = _lines(shared_data)
    recorded = [json.loads(line["text"]) for line in lines if line["dir"] == "server->client"]
    for event in recorded[:1]:
        for key in ("incarnation", "attachment_generation", "resume_token"):
            del event[key]

    sent = [event for _, event in _replay(lines, decision_s=DECISION_S)]

    for ours, theirs in zip(sent, recorded, strict=True):
        assert _shape(ours) == _shape(theirs), theirs["type"]


def _shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shape(inner) for key, inner in sorted(value.items())}
    if isinstance(value, list):
        return [_shape(inner) for inner in value]
    return type(value).__name__
