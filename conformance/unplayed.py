"""What a scenario scripts and its story never reached: replies that began in no session that ran to its end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conformance.observation import Observation


def unplayed_replies(observation: Observation) -> Iterator[str]:
    """Why the script is not the story that was played, a reason for each reply; nothing: it is.

    Only where a session ran to its settled end: the client closed it after the commit, and neither an error of the
    server nor the end of the drain had ended it before. A reply need not begin in each such session (clips differ in
    length), only in one. Says nothing of a live server, which follows no
    script, nor of a recorded one, which speaks without deciding units.
    """
    script = observation.scenario.server.reply
    if observation.conversation is not None:
        return
    units = [e.data for e in observation.entries_in_time if e.kind == "unit"]
    if not units and any(c.sent["response.created"] for c in observation.connections):
        return
    begun = {unit.get("reply") for unit in units}
    never = [number for number in range(len(script)) if number not in begun]
    settled = _settled(observation) if never else []
    if not settled:
        return
    most = max(c.units for c in observation.connections if c.number in settled)
    for number in never:
        reply = script[number]
        told = f"reply {number} ({reply.text[:40]!r}, starts_at_unit {reply.starts_at_unit})"
        yield f"{told} never began: a session decided {most} unit(s) at most"


def _settled(observation: Observation) -> list[int]:
    """Numbers of the sessions that the client closed when its drain had settled: the last of each such sample."""
    last = {c.sample: c.number for c in observation.connections if c.sample is not None}
    received = [e for e in observation.entries_in_time if e.kind == "received"]
    committed = {e.connection for e in received if e.name == "input_audio_buffer.commit"}
    closed = committed & {e.connection for e in received if e.name == "session.close"}
    settled = []
    for facts in observation.samples:
        number = last.get((facts.split, facts.id))
        told = facts.metadata or {"server_errors": "who knows"}
        lived = facts.outcome == "failed" and not told.get("server_errors") and not told.get("drain_timeout")
        if number in closed and (facts.outcome == "published" or lived):
            settled.append(number)
    return settled
