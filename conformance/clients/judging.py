"""The shipped client's evaluation, driven as `duplex-eval evaluate` drives it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from client.clips import FrameStore, StillClip
from client.dataset_identity import SPLITS
from client.judge.evaluation import Evaluation, EvaluationSettings
from client.judge.settings import JudgeSettings
from client.judge.subject import Subject, subject_of
from client.media import Prepared
from conformance.canary import SECRET
from conformance.options import RunOptions
from scenarios.judging import JudgeSpec
from scenarios.model import SampleSpec, Scenario

SCORE_FOLDER = "evaluation"
"""Score files stand in this folder of the response root (evaluation.md 12.1)."""
LONGEST_TRY_S = 300.0
"""The longest pause that the client grants a judge between two tries of a request."""
TRIES = 4
JUDGEMENTS_A_SAMPLE = 24
"""More sentences than any clip of the catalogue has, content and all."""
REQUESTS_A_SAMPLE = 2 * JUDGEMENTS_A_SAMPLE
"""Each judgement asked again."""


def subjects_of(
    scenario: Scenario, prepared: Sequence[Prepared], options: RunOptions, out: Path
) -> list[Subject]:
    """What is judged, in the order of the scenario.

    Args:
        prepared: input of the samples; the frames of made clips are what the judge is shown.
        out: the response root.
    """
    return [
        _from_dataset(spec, options, out) if spec.clip.dataset is not None else _made(spec, one)
        for spec, one in zip(scenario.specs, prepared, strict=True)
    ]


def _made(spec: SampleSpec, prepared: Prepared) -> Subject:
    family, task = SPLITS.get(spec.split, ("rtd", None))
    reminders = (spec.reminder1, spec.reminder2)
    return Subject(
        split=spec.split,
        id=spec.id,
        family=family,
        task=task,
        instruction=spec.question,
        references=(spec.answer1, spec.answer2),
        events_s=tuple(second for second in reminders if second is not None),
        duration_s=prepared.video_duration_s,
        clip=StillClip(prepared.frames, f"file:///made/{spec.split}/{spec.id}.mp4"),
    )


def _from_dataset(spec: SampleSpec, options: RunOptions, out: Path) -> Subject:
    from client.dataset import load_dataset

    # The runner has loaded and prepared the same sample before, so nothing is missing here.
    folder = options.datasets[spec.clip.dataset or ""]
    (sample,) = load_dataset(folder, split=spec.clip.split, ids=[spec.clip.id or ""]).samples
    return subject_of(sample, out, FrameStore())


def make_evaluation(spec: JudgeSpec, subjects: Sequence[Subject], out: Path, judge_url: str) -> Evaluation:
    """An evaluation of the shipped client that is ready to start."""
    settings = EvaluationSettings(
        judge=JudgeSettings(
            base_url=judge_url,
            model=spec.model,
            api_key=SECRET,
            timeout_s=spec.timeout_s,
            video_mode=spec.video_mode,
            frame_overflow=spec.frame_overflow,
        ),
        response_root=out,
        score_root=out / SCORE_FOLDER,
        workers=spec.workers,
    )
    return Evaluation(subjects, settings)


def worst_case_s(spec: JudgeSpec, samples: int) -> float:
    """Loop time after which an evaluation must have returned, by the client's own bounds."""
    asked_s = TRIES * (spec.timeout_s + LONGEST_TRY_S)
    return -(-samples // spec.workers) * REQUESTS_A_SAMPLE * asked_s
