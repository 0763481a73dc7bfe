"""Defects of our own in reading verdicts and making scores; what they break are sections of evaluation.md."""

from __future__ import annotations

from conformance.defects.model import Defect
from conformance.defects.rewrite import Rewrite

_ASKED = ("judge.requests", "judge.reasks", "judge.scored", "judge.reason", "accuracy.status", "judge.trace")
_MEANS = (
    "judge.avg_temporal_score",
    "judge.content_score",
    "judge.total_score",
    "accuracy.rtd.mean_avg_temporal_score",
    "accuracy.rtd.mean_content_score",
    "accuracy.pr.mean_all_success",
)

_READING: tuple[Defect, ...] = (
    Defect(
        name="verdict-must-be-bare",
        about="reads a verdict only where the reply is nothing but one object",
        rewrites=(
            Rewrite(
                "client.judge.parsing:read_verdict",
                """
                found = list(objects_in(text[:_LONGEST_TEXT]))
                if not found:
                    found = [pieces_in(text[:_LONGEST_TEXT], kind)]
                """,
                """
                bare = text.strip()
                found = list(objects_in(bare)) if bare[:1] == "{" and bare[-1:] == "}" else [{}]
                """,
            ),
        ),
        breaks=(),
        findings=_ASKED,
        first=("judge/dressed-verdict[fenced]",),
        rule="evaluation.md 16.4",
    ),
    Defect(
        name="verdict-must-be-strict",
        about="takes no verdict with a trailing comma, and none from bare keys",
        rewrites=(
            Rewrite(
                "client.judge.parsing:_object_at",
                r'_TRAILING_COMMA.sub(r"\1", fragment.group())',
                "fragment.group()",
            ),
            Rewrite("client.judge.parsing:read_verdict", "[pieces_in(text[:_LONGEST_TEXT], kind)]", "[{}]"),
        ),
        breaks=(),
        findings=_ASKED,
        first=("judge/dressed-verdict[trailing-comma]",),
        rule="evaluation.md 16.4",
    ),
    Defect(
        name="first-object-only",
        about="takes the first object of a reply for the verdict, whatever it holds",
        rewrites=(
            Rewrite(
                "client.judge.parsing:read_verdict",
                "list(objects_in(text[:_LONGEST_TEXT]))",
                "list(objects_in(text[:_LONGEST_TEXT]))[:1]",
            ),
        ),
        breaks=(),
        findings=(*_ASKED, "judge-ledger"),
        first=("judge/dressed-verdict[empty-object-first]",),
        rule="evaluation.md 16.4",
    ),
    Defect(
        name="text-is-no-number",
        about="refuses a score that is a number written as text",
        rewrites=(Rewrite("client.judge.parsing:number_of", "isinstance(value, str)", "False"),),
        breaks=(),
        findings=_ASKED,
        first=("judge/dressed-verdict[numbers-as-text]",),
        rule="evaluation.md 16.5",
    ),
    Defect(
        name="thoughts-are-read",
        about="reads the drafts of a think block as part of the reply",
        rewrites=(
            Rewrite(
                "client.judge.parsing:read_reply", 'without_thinking(reply.text or "")', 'reply.text or ""'
            ),
        ),
        breaks=(),
        findings=(*_ASKED, "judge-ledger", *_MEANS),
        first=("judge/dressed-verdict[after-thoughts]",),
        rule="evaluation.md 16.4",
    ),
    Defect(
        name="finish-reason-wanted",
        about="takes a reply without a finish_reason for one that was cut",
        rewrites=(
            Rewrite("client.judge.replies:check_complete", "reason not in _WHOLE", 'reason != "stop"'),
        ),
        breaks=(),
        findings=_ASKED,
        first=("judge/dressed-verdict[no-finish-reason]",),
        rule="evaluation.md 16.6",
    ),
)

_ASKING: tuple[Defect, ...] = (
    Defect(
        name="content-by-video-alone",
        about="gives a content judgement up when the video did not lead to one",
        rewrites=(Rewrite("client.judge.rtd:content_modes", '("video_url", "frames")', '("video_url",)'),),
        breaks=(),
        findings=(*_ASKED, *_MEANS),
        first=("judge/content-falls-back[refused-by-http]",),
        rule="evaluation.md 16.2",
    ),
    Defect(
        name="frames-never-fewer",
        about="gives up when the frames are too many for the judge, though fewer were allowed",
        rewrites=(
            Rewrite(
                "client.judge.rtd:may_show_fewer",
                'settings.frame_overflow == "reduce" and is_context_refusal(error) and frames > 1',
                "False",
            ),
        ),
        breaks=(),
        findings=(*_ASKED, *_MEANS),
        first=("judge/context-length[reduced]",),
        rule="evaluation.md 16.2",
    ),
    Defect(
        name="frames-fewer-unasked",
        about="shows the judge fewer frames though nobody allowed it",
        rewrites=(Rewrite("client.judge.rtd:may_show_fewer", 'settings.frame_overflow == "reduce"', "True"),),
        breaks=(),
        findings=(*_ASKED, *_MEANS),
        first=("judge/context-length[not-asked-for]",),
        rule="evaluation.md 16.2",
    ),
    Defect(
        name="slow-judge-abandoned",
        about="gives a judge a tenth of its time",
        rewrites=(
            Rewrite(
                "client.judge.http:JudgeHttp.exchange",
                "self.settings.timeout_s",
                "self.settings.timeout_s / 10",
            ),
        ),
        breaks=(),
        findings=_ASKED,
        first=("judge/slow-but-in-time",),
        rule="evaluation.md 16.1",
    ),
    Defect(
        name="window-behind-clip-judged",
        about="asks for a sentence whose window would end behind the clip",
        rewrites=(
            Rewrite(
                "client.judge.rtd:window_of",
                "Window(start, end) if end <= duration_s + ROUNDING_S else None",
                "Window(min(start, duration_s - SHORTEST_S), min(end, duration_s))",
            ),
        ),
        breaks=(),
        findings=(*_ASKED, *_MEANS, "judge-violation"),
        first=("judge/windows",),
        rule="evaluation.md 17",
    ),
    Defect(
        name="wordless-answer-failed",
        about="calls an answer without sentences a failure, though its content can be judged",
        rewrites=(
            Rewrite(
                "client.judge.rtd:ContentAsker.ask",
                "modes = content_modes(self.judge.settings)",
                """
                if not self.answer:
                    raise JudgeError("no answer")
                modes = content_modes(self.judge.settings)
                """,
            ),
        ),
        breaks=(),
        findings=_ASKED,
        first=("judge/empty-answer",),
        rule="evaluation.md 17",
    ),
)

_SCORING: tuple[Defect, ...] = (
    Defect(
        name="irrelevant-in-average",
        about="counts sentences beside the point into the average",
        rewrites=(
            Rewrite(
                "client.judge.rtd:temporal_summary",
                '[row for row in valid if row["is_relevant"] == 1]',
                "valid",
            ),
        ),
        breaks=(),
        findings=_MEANS,
        first=("judge/irrelevant-sentence[one-of-three]",),
        rule="evaluation.md 17",
    ),
    Defect(
        name="unjudged-in-average",
        about="counts a sentence that could not be judged as one of 0 points",
        rewrites=(
            Rewrite(
                "client.judge.rtd:temporal_summary",
                'scores = [row["temporal_score"] for row in relevant]',
                'scores = [row["temporal_score"] for row in rows]',
            ),
        ),
        breaks=(),
        findings=_MEANS,
        first=("judge/windows",),
        rule="evaluation.md 17",
    ),
    Defect(
        name="scores-cut-to-whole",
        about="cuts a content score to a whole number",
        rewrites=(Rewrite("client.judge.parsing:number_of", "round(number, 2) + 0.0", "float(int(number))"),),
        breaks=(),
        findings=(*_MEANS, "judge-ledger"),
        first=("judge/scored",),
        rule="evaluation.md 16.5",
    ),
    Defect(
        name="means-rounded",
        about="rounds the means of a run to one place",
        rewrites=(
            Rewrite(
                "client.summary:mean",
                "math.fsum(values) / len(values)",
                "round(math.fsum(values) / len(values), 1)",
            ),
        ),
        breaks=(),
        findings=_MEANS,
        first=("judge/means-at-the-floors",),
        rule="evaluation.md 19",
    ),
    Defect(
        name="late-in-score",
        about="judges late sentences as part of the answer",
        rewrites=(
            Rewrite(
                "client.judge.score_files:rtd_scores",
                "answer.sentences",
                "[*answer.sentences, *answer.late]",
                places=2,
            ),
            Rewrite(
                "client.judge.score_files:pr_scores", "answer.sentences", "[*answer.sentences, *answer.late]"
            ),
        ),
        breaks=(),
        findings=(*_MEANS, *_ASKED, "judge.rows", "judge-request-text"),
        first=("judge/late-sentences",),
        rule="evaluation.md 17",
    ),
    Defect(
        name="reminder-before-counts",
        about="counts what was said before an event as its reminder",
        rewrites=(
            Rewrite(
                "client.judge.pr:segment_of",
                "event_s - ROUNDING_S <= s.start_s <= event_s + size_s + ROUNDING_S",
                "event_s - size_s <= s.start_s <= event_s + size_s",
            ),
        ),
        breaks=(),
        findings=(*_MEANS, *_ASKED, "judge.segments", "judge-request-text"),
        first=("judge/reminders[before-the-event]",),
        rule="evaluation.md 18",
    ),
    Defect(
        name="reminder-window-short",
        about="looks for a reminder within one second of its event",
        rewrites=(Rewrite("client.judge.pr:segment_of", "event_s + size_s", "event_s + 1.0"),),
        breaks=(),
        findings=(*_MEANS, *_ASKED, "judge.segments"),
        first=("judge/reminders[after-the-event]",),
        rule="evaluation.md 18",
    ),
    Defect(
        name="reminder-ends-left-out",
        about="leaves out what begins just at either end of an event's stretch",
        rewrites=(
            Rewrite(
                "client.judge.pr:segment_of",
                "event_s - ROUNDING_S <= s.start_s <= event_s + size_s + ROUNDING_S",
                "event_s < s.start_s < event_s + size_s",
            ),
        ),
        breaks=(),
        findings=(*_MEANS, *_ASKED, "judge.segments", "judge-request-text"),
        first=("judge/reminder-ends[both-ends]",),
        rule="evaluation.md 18",
    ),
    Defect(
        name="one-reminder-is-enough",
        about="takes one answered event for all of them",
        rewrites=(
            Rewrite(
                "client.judge.pr:all_success",
                'bool(rows) and all(row["success_score"] == 1 for row in rows)',
                'any(row["success_score"] == 1 for row in rows)',
            ),
        ),
        breaks=(),
        findings=_MEANS,
        first=("judge/reminders[one-of-two-answered]",),
        rule="evaluation.md 18",
    ),
    Defect(
        name="event-time-wanted",
        about="gives a reminder without a usable time no judgement",
        rewrites=(
            Rewrite(
                "client.judge.pr:events",
                'subject.task == "correction" or not subject.events_s',
                'subject.task == "correction"',
            ),
        ),
        breaks=(),
        findings=(*_MEANS, *_ASKED, "judge.rows"),
        first=("judge/reminders[without-a-time]",),
        rule="evaluation.md 18",
    ),
    Defect(
        name="whole-answer-for-each-event",
        about="judges the whole answer for each event instead of what was said after it",
        rewrites=(
            Rewrite(
                "client.judge.pr:events",
                "segment_of(sentences, event_s, judge.settings.window_size_s)",
                "joined(sentences)",
            ),
        ),
        breaks=(),
        findings=(*_MEANS, *_ASKED, "judge.segments"),
        first=("judge/reminder-ends[first-just-before]",),
        rule="evaluation.md 18",
    ),
)

SCORING_DEFECTS: tuple[Defect, ...] = (*_READING, *_ASKING, *_SCORING)
