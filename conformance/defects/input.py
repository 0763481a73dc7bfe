"""Defects of our own in reading a dataset and in resuming; what they break are sections of evaluation.md."""

from __future__ import annotations

from conformance.defects.model import Defect
from conformance.defects.rewrite import Rewrite

_LOADED = (
    "dataset.error",
    "dataset.samples",
    "dataset.rows",
    "dataset.refused",
    "wire.connections",
    "path-escape",
    "client-crashed",
)
_JUDGED = ("judge.requests", "judge.scored", "judge.segments", "judge-request-text", "accuracy.evaluated")

INPUT_DEFECTS: tuple[Defect, ...] = (
    Defect(
        name="names-trusted",
        about="makes a file name of whatever a dataset calls its rows",
        rewrites=(Rewrite("client.dataset:_check_names", "not _plain(name)", "False"),),
        breaks=(),
        findings=_LOADED,
        first=("dataset/hostile-ids[parent]",),
        rule="evaluation.md 1.2",
    ),
    Defect(
        name="names-compared-by-letter",
        about="takes two rows whose names some file systems cannot tell apart",
        rewrites=(Rewrite("client.dataset:_check_names", "folded(name)", "f'{name} {sample.where}'"),),
        breaks=(),
        findings=_LOADED,
        first=("dataset/hostile-ids[other-case]",),
        rule="evaluation.md 1.1",
    ),
    Defect(
        name="unknown-task-is-reminder",
        about="takes a row that says nothing of its task for a reminder",
        rewrites=(
            Rewrite(
                "client.dataset_identity:identify",
                "family or family_of_split(split) or _family_of_task(explicit_task, raw_task)",
                "family or family_of_split(split) or _family_of_task(explicit_task, raw_task) or 'pr'",
            ),
            Rewrite(
                "client.dataset_identity:identify",
                '(explicit_task or task_of_split(split)) if family == "pr" else None',
                '(explicit_task or task_of_split(split) or "proactive_reminder") if family == "pr" else None',
            ),
        ),
        breaks=(),
        findings=(*_LOADED, *_JUDGED),
        first=("dataset/tasks[by-manifest]", "dataset/tasks[by-parquet]"),
        rule="evaluation.md 1.4",
    ),
    Defect(
        name="text-cut-to-ascii",
        about="drops from questions and references whatever is not ASCII",
        rewrites=(
            Rewrite(
                "client.dataset:_string", "return value", 'return value.encode("ascii", "ignore").decode()'
            ),
        ),
        breaks=(),
        findings=(*_LOADED, *_JUDGED, "judge-violation", "judge-ledger"),
        first=(
            "dataset/unicode-breaks[json]",
            "dataset/unicode-breaks[jsonl]",
            "dataset/unicode-breaks[parquet]",
            "dataset/unicode-breaks[folder]",
        ),
        rule="evaluation.md 1.2",
    ),
    Defect(
        name="scores-judged-again",
        about="judges every answer again when an evaluation is resumed",
        rewrites=(
            Rewrite(
                "client.judge.evaluation:Evaluation._still_holds",
                'score.get("answer_sha256") != answer.sha256',
                "True",
            ),
        ),
        breaks=(),
        findings=(*_JUDGED, "judge.trace"),
        first=("resume/killed-judging[score-in-its-place]",),
        rule="evaluation.md 12",
    ),
    Defect(
        name="torn-line-kept",
        about="appends behind half a line that a kill left",
        rewrites=(
            Rewrite("client.artifacts:append_line", "cut_torn_line(file)", "file.seek(0, os.SEEK_END)"),
        ),
        breaks=(),
        findings=("torn-artifact", "judge-ledger", "judge.trace"),
        first=("resume/killed-judging[half-a-line-of-the-trace]", "resume/killed[half-a-line-of-figures]"),
        rule="evaluation.md 12.1",
    ),
)
