"""Scores of the family pr: was the user corrected, or reminded in time (evaluation.md 18)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from client.judge.judge import Judge, Question, user_message
from client.judge.prompts import correction_text, reminder_text
from client.judge.rtd import ROUNDING_S, joined
from client.judge.subject import Sentence, Subject


async def events(
    judge: Judge, subject: Subject, sentences: Sequence[Sentence], *, late: bool = False
) -> list[dict[str, Any]]:
    """One row an event; a correction, or a reminder without a usable time, is one event: the whole answer.

    Raises: JudgeError: a judgement gave no score, so the sample has none. OSError.
    """
    if subject.task == "correction" or not subject.events_s:
        answer = joined(sentences)
        question = whole_question(subject, answer, late)
        return [{"response_segment": answer, **await judge.judge(question)}]
    rows = []
    for index, event_s in enumerate(subject.events_s):
        segment = segment_of(sentences, event_s, judge.settings.window_size_s)
        fields: dict[str, Any] = {"success_score": 0}
        if segment:
            fields = await judge.judge(reminder_question(subject, segment, index, late))
        rows.append({"start_time": event_s, "response_segment": segment, **fields})
    return rows


def segment_of(sentences: Sequence[Sentence], event_s: float, size_s: float) -> str:
    """What began within `size_s` seconds after an event, both ends included."""
    return joined(
        [s for s in sentences if event_s - ROUNDING_S <= s.start_s <= event_s + size_s + ROUNDING_S]
    )


def all_success(rows: Sequence[dict[str, Any]]) -> bool:
    """Whether there was an event and every one was answered."""
    return bool(rows) and all(row["success_score"] == 1 for row in rows)


def whole_question(subject: Subject, answer: str, late: bool = False) -> Question:
    """The whole answer: against the correction it should make, or as the reminder it should be."""
    if subject.task == "correction":
        reference = subject.references[0] if subject.references else ""
        text = correction_text(instruction=subject.instruction, reference=reference, answer=answer)
        return Question("chat", (user_message(text),), late=late)
    return reminder_question(subject, answer, 0, late)


def reminder_question(subject: Subject, segment: str, index: int, late: bool = False) -> Question:
    """What was said after one event."""
    task = subject.task or "proactive_reminder"
    text = reminder_text(instruction=subject.instruction, segment=segment, task=task)
    return Question("chat", (user_message(text),), index=index, late=late)
