"""When a verdict could as well have been another: an event beside its deadline, bytes that never arrived."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from conformance.observation import Observation
from mockserver.journal import Entry

NEAR_S = 1e-3
"""An event this near to a deadline of the client could as well have been on the other side of it."""


def coincidences(observation: Observation) -> Iterator[str]:
    """Answers of the server that came within a millisecond of the deadline that waited for them, in words.

    As the server's journal has them, against the deadlines of evaluation.md 4.3, 9, 10 and 15, as the scenario sets
    them.
    """
    yield from _too_late_by_chance(observation)
    deadlines = observation.deadlines
    lengths_s = {(p.split, p.id): p.video_duration_s for p in observation.prepared}
    entries: dict[int, list[Entry]] = {}
    for entry in observation.entries:
        entries.setdefault(entry.connection, []).append(entry)
    for connection in observation.connections:
        window_s = lengths_s.get(connection.sample or ("", ""), 0.0) + deadlines.drain_slack_s
        waits = (
            ("session.update", ("session.created",), "created_s", deadlines.created_s),
            ("session.close", ("session.closed",), "close_s", deadlines.close_s),
            ("input_audio_buffer.commit", _ENDS_A_DRAIN, "the drain window", window_s),
            ("", ("session.created", "response.done"), "request_s", deadlines.request_s),
        )
        for asked, answers, name, within_s in waits:
            mine = entries.get(connection.number, [])
            yield from _near(mine, asked, answers, name, within_s, connection.opened_s)


_ENDS_A_DRAIN = ("input_audio_buffer.committed", "response.listen", "response.done")


def _near(
    entries: Sequence[Entry],
    asked: str,
    answers: tuple[str, ...],
    name: str,
    within_s: float,
    opened_s: float,
) -> Iterator[str]:
    """Among the entries of one connection."""
    since_s = None if asked else opened_s
    for entry in entries:
        if "response.done" in answers and (entry.kind, entry.name) == ("received", "session.close"):
            return  # what comes now answers the close, and nobody waits for it with another deadline
        if since_s is None and (entry.kind, entry.name) == ("received", asked):
            since_s = entry.t_s
        elif since_s is not None and entry.kind == "sent" and entry.name in answers:
            gap_s = entry.t_s - since_s - within_s
            if abs(gap_s) <= NEAR_S:
                side = "after" if gap_s > 0 else "before"
                yield (
                    f"{entry.name} was sent {abs(gap_s) * 1000:.3f} ms {side} {name} ({within_s:g} s) passed, "
                    f"on connection {entry.connection}"
                )


_ANSWERED = ("session.created", "session.closed", "drain", "request")
"""Deadlines of the client that wait for an event of the server, as it tells of them."""


def _too_late_by_chance(observation: Observation) -> Iterator[str]:
    """Deadlines that passed while the server was about to answer: the client left first, so the answer never came."""
    assert observation.recorder is not None
    for record in observation.recorder.records:
        if (record.side, record.what) != ("client", "deadline") or record.data.get("what") not in _ANSWERED:
            continue
        if any(0 <= at_s - record.t_s <= NEAR_S for at_s in observation.unsent_s):
            seconds = record.data.get("seconds")
            yield (
                f"{record.data['what']} ({seconds:g} s) passed at {record.t_s:.3f} s in {record.session}, less than a "
                f"millisecond before the server would have gone on"
            )
