"""The shipped client behind the job contract, as a lab would bring it: what it may not fail, no right client fails."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from client.clips import FrameStore
from client.dataset import Sample, load_dataset
from client.judge.evaluation import Evaluation, EvaluationSettings
from client.judge.settings import JudgeSettings
from client.judge.subject import subject_of
from client.media import load_reference_voice
from client.run import Run, RunSettings
from client.settings import SessionSettings


async def run(job: Any) -> None:
    """Run every sample of the job, and write the run result."""
    loaded = load_dataset(job.samples).samples
    samples = [sample.prepare() for sample in loaded]
    session = SessionSettings(url=job.url, model=job.model, ref_audio=load_reference_voice(job.ref_audio))
    whole = Run(samples, RunSettings(session=session, response_root=Path(job.out)))
    await whole.run()
    whole.result.write(Path(job.out))
    if job.judge_url:
        await judge(job, loaded)


async def judge(job: Any, samples: Sequence[Sample]) -> None:
    """Have every answer judged, with the settings that the client has by itself."""
    out, frames = Path(job.out), FrameStore()
    settings = EvaluationSettings(
        judge=JudgeSettings(base_url=job.judge_url, model=job.judge_model),
        response_root=out,
        score_root=out / "evaluation",
    )
    await Evaluation([subject_of(sample, out, frames) for sample in samples], settings).run()
