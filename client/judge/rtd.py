"""Scores of the family rtd: each sentence against its moment, and the whole answer (evaluation.md 17)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final

from client.clips import Clip, content_times, evenly, frames_of, window_times
from client.judge.errors import JudgeError
from client.judge.http import is_context_refusal, is_credential_refusal
from client.judge.judge import Judge, Question, image_part, user_message, video_part
from client.judge.parsing import Fields
from client.judge.prompts import SYSTEM, content_text, temporal_text
from client.judge.settings import JudgeSettings
from client.judge.subject import Sentence, Subject
from client.judge.trace import Mode

log = logging.getLogger(__name__)

LAG_S: Final = 2.0
"""A sentence is judged on what was seen this long before it was said."""
SHORTEST_S: Final = 0.5
ROUNDING_S: Final = 1e-9
"""Times are decimals: 0.351 + 10 is less than 10.351 in binary fractions, and both ends of a window count."""
NO_WINDOW: Final = "No valid temporal window"
NO_FRAMES: Final = "No frames in the temporal window"

Row = dict[str, Any]


@dataclass(frozen=True)
class Window:
    """A stretch of the clip, in seconds."""

    start_s: float
    end_s: float


def window_of(start_s: float, end_s: float, duration_s: float) -> Window | None:
    """The stretch of the clip a sentence is judged on; None: it would end behind the clip.

    Source: evaluation.md 17.
    """
    start = max(0.0, start_s - LAG_S)
    end = max(start + SHORTEST_S, end_s - LAG_S)
    return Window(start, end) if end <= duration_s + ROUNDING_S else None


async def temporal_rows(
    judge: Judge, subject: Subject, sentences: Sequence[Sentence], *, first: int = 0, late: bool = False
) -> list[Row]:
    """One row a sentence: judged, or with the reason why it could not be.

    Args: first: index of the first sentence in the trace.
    Raises: JudgeError: a judgement gave no score, so the sample has none. MediaError, OSError.
    """
    clip, duration_s = await shown(subject)
    windows = [window_of(s.start_s, s.end_s, duration_s) for s in sentences]
    times = [window_times(w.start_s, w.end_s, judge.settings.fps) if w else [] for w in windows]
    decoded = await frames_of(clip, [t_s for of_one in times for t_s in of_one])
    rows: list[Row] = []
    for index, (sentence, window) in enumerate(zip(sentences, windows, strict=True)):
        if window is None:
            rows.append(row_of(sentence, None, error=NO_WINDOW))
            continue
        frames = [decoded[t_s] for t_s in times[index] if t_s in decoded]
        if not frames:
            rows.append(row_of(sentence, window, error=NO_FRAMES))
            continue
        question = temporal_question(subject, sentence, window, frames, first + index, late)
        rows.append(row_of(sentence, window, fields=await judge.judge(question)))
    return rows


async def shown(subject: Subject) -> tuple[Clip, float]:
    """The clip and its duration in seconds, probed where the dataset is silent. Raises: JudgeError. MediaError."""
    if subject.clip is None:
        raise JudgeError("no video, and nothing to judge the answer against")
    duration_s = subject.duration_s
    if duration_s is None:
        duration_s = await asyncio.to_thread(subject.clip.seconds)
    return subject.clip, duration_s


def temporal_question(
    subject: Subject, sentence: Sentence, window: Window, frames: Sequence[bytes], index: int, late: bool
) -> Question:
    """A sentence and the frames of its window."""
    text = temporal_text(
        start_s=window.start_s,
        end_s=window.end_s,
        instruction=subject.instruction,
        sentence=sentence.text,
    )
    messages = (
        {"role": "system", "content": SYSTEM},
        user_message(text, [image_part(jpeg) for jpeg in frames]),
    )
    return Question("temporal", messages, "frames", index, late)


def row_of(
    sentence: Sentence, window: Window | None, *, fields: Fields | None = None, error: str | None = None
) -> Row:
    """A row of the score file; one with an error counts 0 and is not relevant."""
    return {
        "sentence": sentence.text,
        "start": sentence.start_s,
        "end": sentence.end_s,
        "sentence_start": sentence.start_s,
        "sentence_end": sentence.end_s,
        "sentence_duration": max(0.0, round(sentence.end_s - sentence.start_s, 6)),
        "window_start": window.start_s if window else None,
        "window_end": window.end_s if window else None,
        "error": error,
        **(fields if fields is not None else {"temporal_score": 0, "is_relevant": 0}),
    }


def temporal_summary(rows: Sequence[Row]) -> dict[str, Any]:
    """The figures over all rows: scores of relevant sentences alone, and how much of the talk was beside the point."""
    valid = [row for row in rows if row["error"] is None]
    relevant = [row for row in valid if row["is_relevant"] == 1]
    beside = [row for row in valid if row["is_relevant"] != 1]
    scores = [row["temporal_score"] for row in relevant]
    to_point_s, beside_s = (sum(row["sentence_duration"] for row in part) for part in (relevant, beside))
    spoken_s = to_point_s + beside_s
    return {
        "avg_temporal_score": round(sum(scores) / len(scores), 4) if scores else 0.0,
        "total_sentences": len(rows),
        "evaluated_sentences": len(valid),
        "error_count": len(rows) - len(valid),
        "relevant_sentences_count": len(relevant),
        "irrelevant_sentences_count": len(beside),
        "score_distribution": {
            "3_points": scores.count(3),
            "2_points": scores.count(2),
            "1_point": scores.count(1),
            "0_points": scores.count(0),
        },
        "relevance_stats": {
            "first_relevant_time": min((row["sentence_start"] for row in relevant), default=None),
            "total_relevant_duration": round(to_point_s, 4),
            "total_irrelevant_duration": round(beside_s, 4),
            "irrelevant_duration_ratio": round(beside_s / spoken_s, 4) if spoken_s else 0.0,
        },
        "excluded_irrelevant_sentences": [
            {
                "sentence": row["sentence"],
                "start": row["sentence_start"],
                "end": row["sentence_end"],
                "temporal_score": row["temporal_score"],
            }
            for row in beside
        ],
    }


@dataclass
class ContentAsker:
    """The content judgement of one answer, by the video and, should that fail, by frames of it."""

    judge: Judge
    subject: Subject
    answer: str
    late: bool = False
    frames_note: dict[str, int] | None = None
    """How many frames were shown, once they were."""

    async def ask(self) -> Fields:
        """The verdict, with `mode` telling what it was given on.

        Raises: JudgeError: every way failed; the last one's. MediaError, OSError.
        """
        modes = content_modes(self.judge.settings)
        ways: dict[Mode, Callable[[], Coroutine[Any, Any, Fields]]] = {
            "video_url": self.by_video,
            "frames": self.by_frames,
        }
        for n, mode in enumerate(modes, start=1):
            try:
                return {**await ways[mode](), "mode": mode}
            except JudgeError as error:
                if n == len(modes) or is_credential_refusal(error):
                    raise
                told = self.judge.http.masked(str(error))
                log.info("%s: content by %s failed, %s next: %s", self.subject.name, mode, modes[n], told)
        raise AssertionError("there is always a way to judge content")

    async def by_video(self) -> Fields:
        """The clip by its address."""
        clip, _ = await shown(self.subject)
        part = video_part(await asyncio.to_thread(clip.uri))
        return await self.judge.judge(self.question("video_url", [part]))

    async def by_frames(self) -> Fields:
        """Frames of the whole clip; fewer, where that is allowed and the judge says it was too much."""
        clip, duration_s = await shown(self.subject)
        times = content_times(duration_s, self.judge.settings.content_frame_limit)
        decoded = await frames_of(clip, times)
        found = [decoded[t_s] for t_s in times if t_s in decoded]
        if not found:
            raise JudgeError("no frame of the clip could be decoded")
        note = {"frame_count_initial": len(found), "frame_count": len(found), "frame_budget_retries": 0}
        self.frames_note = note
        while True:
            try:
                return await self.judge.judge(self.question("frames", [image_part(j) for j in found]))
            except JudgeError as error:
                if not may_show_fewer(self.judge.settings, error, len(found)):
                    raise
                found = [found[k] for k in map(int, evenly(range(len(found)), len(found) // 2))]
                note["frame_count"] = len(found)
                note["frame_budget_retries"] += 1

    def question(self, mode: Mode, parts: Sequence[Any]) -> Question:
        """The whole answer, with what it is judged against."""
        text = content_text(
            evidence=mode,
            instruction=self.subject.instruction,
            answer=self.answer,
            references=self.subject.guidance,
        )
        return Question("content", (user_message(text, parts),), mode, late=self.late)


def content_modes(settings: JudgeSettings) -> tuple[Mode, ...]:
    """The ways in which content is judged, each with one request and one re-ask: four requests at most (R59)."""
    return ("video_url", "frames") if settings.video_mode == "video_url" else ("frames",)


def may_show_fewer(settings: JudgeSettings, error: JudgeError, frames: int) -> bool:
    """Whether the same is asked with half the frames: opt-in, and only after the judge said that it was too much."""
    return settings.frame_overflow == "reduce" and is_context_refusal(error) and frames > 1


def joined(sentences: Sequence[Sentence]) -> str:
    """An answer in one text."""
    return " ".join(sentence.text for sentence in sentences)
