"""Defects of the judge client (docs/defects.md)."""

from __future__ import annotations

from conformance.defects.model import Defect
from conformance.defects.rewrite import Rewrite

JUDGE_DEFECTS: tuple[Defect, ...] = (
    Defect(
        name="judge-prose-fails",
        about="fails a sample whose judge answers in prose",
        rewrites=(
            Rewrite(
                "client.judge.judge:may_ask_again",
                "isinstance(error, ReplyError) and asked < MAX_ASKS",
                "False",
            ),
        ),
        breaks=("R52", "R61"),
        findings=("judge.scored", "judge.requests", "judge.reasks", "accuracy.status", "accuracy.evaluated"),
        first=("judge/prose-once[temporal]", "judge/sixty-six"),
    ),
    Defect(
        name="judge-reask-unlimited",
        about="asks again more than once a judgement",
        rewrites=(Rewrite("client.judge.judge:may_ask_again", "asked < MAX_ASKS", "asked < 6"),),
        breaks=("R52", "R59"),
        findings=("judge-ledger", "judge.requests", "judge.reasks"),
        first=("judge/prose-twice[chat]",),
    ),
    Defect(
        name="judge-reask-forgets",
        about="asks again without echoing the judge's own reply",
        rewrites=(
            Rewrite(
                "client.judge.judge:reask_messages",
                """
                return [
                    {"role": "assistant", "content": reply.echo},
                    {"role": "user", "content": reask_text(kind, str(error))},
                ]
                """,
                """
                return [{"role": "user", "content": reask_text(kind, str(error))}]
                """,
            ),
        ),
        breaks=("R53",),
        findings=("judge.reasks", "judge-violation"),
        first=("judge/prose-once[temporal]",),
    ),
    Defect(
        name="judge-reask-wrong-reason",
        about="says that fields are missing when a field is present but invalid",
        rewrites=(
            Rewrite(
                "client.judge.judge:reask_messages",
                "reask_text(kind, str(error))",
                'reask_text(kind, "fields are missing")',
            ),
        ),
        breaks=("R54",),
        findings=("judge-violation", "judge-reask-reason"),
        first=("judge/invalid-field[out-of-range]",),
    ),
    Defect(
        name="judge-reask-untraced",
        about="leaves no trace line for a re-ask that fails",
        rewrites=(
            Rewrite(
                "client.judge.judge:Judge.judge",
                "self.keep(exchange, str(error))",
                """
                if asked == 1:
                    self.keep(exchange, str(error))
                """,
            ),
        ),
        breaks=("R56", "R57", "R58"),
        findings=("judge-ledger", "judge.trace"),
        first=("judge/prose-twice[chat]",),
    ),
    Defect(
        name="judge-truncated-accepted",
        about="scores a reply with finish_reason length",
        rewrites=(Rewrite("client.judge.parsing:read_reply", "check_complete(reply)", "pass"),),
        breaks=("R60",),
        findings=("judge-ledger", "judge.scored"),
        first=("judge/truncated[but-for-its-end]",),
    ),
    Defect(
        name="judge-fallback-uncounted",
        about="lets one content judgement cost more than four requests",
        rewrites=(
            Rewrite(
                "client.judge.rtd:content_modes",
                '("video_url", "frames")',
                '("video_url", "frames", "frames")',
            ),
        ),
        breaks=("R59",),
        findings=("judge-ledger", "judge.requests"),
        first=("judge/content-four-requests[video-first]",),
    ),
)

OWN_JUDGE_DEFECTS: tuple[Defect, ...] = (
    Defect(
        name="judge-first-line-silent",
        about="leaves the trace line of a reply that it asks for again without the reason",
        rewrites=(
            Rewrite(
                "client.judge.judge:Judge.judge",
                "self.keep(exchange, str(error))",
                "self.keep(exchange, None if asked == 1 else str(error))",
            ),
        ),
        breaks=("R55",),
        findings=("judge.trace",),
        first=("judge/prose-once[temporal]",),
    ),
    Defect(
        name="judge-failure-uncounted",
        about="calls an evaluation completed though a judgement was lost",
        rewrites=(
            Rewrite(
                "client.judge.evaluation:EvaluationResult.accuracy",
                '"completed" if evaluated == total else "partial" if evaluated else "failed"',
                '"completed"',
            ),
        ),
        breaks=("R61",),
        findings=("judge-conservation", "accuracy.status"),
        first=("judge/prose-twice[chat]",),
    ),
    Defect(
        name="judge-transport-untraced",
        about="leaves no line for a try that got an HTTP error and is made again",
        rewrites=(
            Rewrite(
                "client.judge.judge:Judge.request",
                "self.keep_failed(question, error, answer, judge_retry, tries > 1)",
                """
                if wait_s is None:
                    self.keep_failed(question, error, answer, judge_retry, tries > 1)
                """,
            ),
        ),
        breaks=("R58",),
        findings=("judge-ledger", "judge.trace"),
        first=("judge/overloaded[429]",),
    ),
    Defect(
        name="judge-clamps",
        about="takes the nearest allowed score for one that is out of range",
        rewrites=(
            Rewrite(
                "client.judge.parsing:number_of",
                """
                if not field.low <= number <= field.high:
                    raise ReplyError(f"{told} is out of range; allowed: {field.allowed}")
                """,
                "number = max(float(field.low), min(number, float(field.high)))",
            ),
        ),
        breaks=("R52", "R54", "R60"),
        findings=("judge-ledger", "judge.reasks"),
        first=("judge/invalid-field[out-of-range]",),
    ),
)
"""Defects of our own; see conformance/defects/own.py."""
