"""Statements that are adapted to a live server: to what it said, for how long, and how it ends connections."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from conformance.checks_wire import wire_counts
from conformance.live.judged import sentences_of
from conformance.outcome import Finding
from scenarios.faults import FaultBase

if TYPE_CHECKING:
    from conformance.live.premises import Conversation
    from conformance.observation import Observation

CHANGES_TEXT = frozenset({"drop_event", "reorder", "late_deltas", "split_text"})
"""Faults after which the client has another text than the server said: the one that went to it."""
HIDES_TEXT = frozenset({"wrong_response_id", "invalid_utf8"})
"""Faults after which not all of that is an answer."""
UNIT_BYTES = 32_000
"""Of an append of the clip (evaluation.md 2); less where the server declares a shorter chunk period."""
PADDED_TOLERANCE = 1
"""Units: the first and the last fall where they fall."""
DURATION_TOLERANCE_S = 0.02


def holds_all_the_same(statement: Finding, observation: Observation, conversation: Conversation) -> bool:
    """Whether a statement that does not hold to the letter holds of this server."""
    if statement.id == "sample.close":
        return {statement.expected, statement.actual} == {"'clean'", "'by_peer'"}  # the server's own way
    if statement.id == "wire.appends":
        return _all_units(observation)
    if statement.id == "wire.padded_appends":
        return _padded_to_the_end(observation, conversation)
    if statement.id == "finishes_within_s":
        allowed_s = observation.scenario.expect.finishes_within_s or 0.0
        waited_s = [
            max(s.after_commit_s, s.heard_s if conversation.behind else 0.0) + s.shaken_s
            for s in conversation.sessions
        ]
        return observation.client_s <= allowed_s + sum(waited_s)
    if statement.id == "run.mean_audio_duration_s":
        spoken_s = [session.shape.audio_s for session in conversation.sessions]
        return len(spoken_s) == 1 and abs(float(statement.actual) - spoken_s[0]) <= DURATION_TOLERANCE_S
    if statement.id == "sample.sentences":
        return _has_the_servers_sentences(statement, observation)
    if statement.id == "sample.text":
        return _says_what_it_was_told(statement, observation, conversation)
    if statement.id == "sample.first_attempt.partial_text":
        told = _texts(observation).get((statement.sample or "", 1))
        return told is not None and not _hidden(observation) and _bare(statement.actual) == _bare(repr(told))
    return False


def _all_units(observation: Observation) -> bool:
    counts = wire_counts(observation)
    appends, padded = counts["appends"] or 0, counts["padded_appends"] or 0
    unit_bytes = min((UNIT_BYTES, *(32 * period for period in observation.periods_ms.values())))
    units = sum(-(-len(p.pcm) // unit_bytes) for p in observation.prepared)
    return len(observation.connections) == len(observation.prepared) and appends - padded == units


def _padded_to_the_end(observation: Observation, conversation: Conversation) -> bool:
    """A unit each period from the commit until the server was done; that they are on the beat is an invariant."""
    sessions = conversation.sessions
    if len(sessions) != len(observation.connections):
        return False
    periods_s = [observation.periods_ms.get(s.number, 1000) / 1000 for s in sessions]
    wanted = sum(
        math.floor(s.after_commit_s / period_s) for s, period_s in zip(sessions, periods_s, strict=True)
    )
    padded = wire_counts(observation)["padded_appends"] or 0
    return abs(padded - wanted) <= PADDED_TOLERANCE * len(sessions)


def _texts(observation: Observation) -> dict[tuple[str, int], str]:
    """What went to the client of the server's transcripts, by (sample, attempt), in the order of their sessions."""
    recorded = [run.words.records for run in observation.killed]
    if observation.recorder is not None:
        recorded.append(observation.recorder.records)
    texts: dict[tuple[str, int], str] = {}
    for records in recorded:
        mine: dict[tuple[str, int], str] = {}
        for record in records:
            sample, mark, attempt = record.session.rpartition("#")
            if record.side == "server" and mark and record.what.startswith("sent "):
                text = mine.setdefault((sample, int(attempt)), "")
                if record.what.endswith("audio_transcript.delta"):
                    mine[sample, int(attempt)] = text + str(record.data.get("delta", ""))
        for key, text in mine.items():
            texts.pop(key, None)  # a run after one that was killed may begin a sample again
            texts[key] = text
    return texts


def _hidden(observation: Observation) -> bool:
    return any(fault.name in HIDES_TEXT and not _of_sound(fault) for fault in observation.scenario.faults)


def _of_sound(fault: FaultBase) -> bool:
    return getattr(fault, "event", None) == "audio.delta"


def _says_what_it_was_told(statement: Finding, observation: Observation, conversation: Conversation) -> bool:
    """What went to the client, or what the server said: a fault may have said it a thousand times."""
    told = _told_to(statement, observation)
    facts = next((f for f in observation.samples if f.name == statement.sample), None)
    if told is None or facts is None:
        return False
    said = [session.text for session in conversation.sessions if session.sample == statement.sample]
    return _bare(facts.text) in {_bare(text) for text in (told, *said[-1:])}


def _told_to(statement: Finding, observation: Observation) -> str | None:
    """What went to the client of a sample, where that is what a statement on its text means: the scenario wants all of
    the script in the answer, or what a fault left of it. None: it means something else."""
    scenario = observation.scenario
    script = "".join(reply.text for reply in scenario.server.reply)
    whole = _bare(statement.expected) == _bare(repr(script))
    changed = any(fault.name in CHANGES_TEXT for fault in scenario.faults)
    mine = [text for (name, _), text in _texts(observation).items() if name == statement.sample]
    return mine[-1] if mine and (whole or changed) and not _hidden(observation) else None


def in_the_servers_words(
    statement: Finding, observation: Observation, conversation: Conversation
) -> Finding | None:
    """A text that is not what went to the client: the client's failure. None: nothing says that it must be."""
    if statement.id != "sample.text":
        return None
    told = _told_to(statement, observation)
    facts = next((f for f in observation.samples if f.name == statement.sample), None)
    mine = [s for s in conversation.sessions if s.sample == statement.sample]
    late = facts is None or (facts.metadata or {}).get("late_sentences")
    if told is None or late or not mine or mine[-1].shape.replies != 1:
        return None  # which sentences are late ones is the client's to say
    if _bare(mine[-1].text) != _bare(told):
        return None  # a fault changed the words, and what of them counts is the scenario's to say
    return replace(statement, expected=repr(told))


def _has_the_servers_sentences(statement: Finding, observation: Observation) -> bool:
    """Where the scenario counts all sentences of the script, those of the server stand for them."""
    script = sentences_of("".join(reply.text for reply in observation.scenario.server.reply))
    mine = [text for (name, _), text in _texts(observation).items() if name == statement.sample]
    if _hidden(observation) or not mine or statement.expected != repr(script):
        return False
    return statement.actual == repr(sentences_of(mine[-1]))


def _bare(text: str) -> str:
    return "".join(text.split())
