"""The shipped client behind the job contract, as a lab would bring it: what it may not fail, no right client fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from client.dataset import load_dataset
from client.media import load_reference_voice
from client.run import Run, RunSettings
from client.settings import SessionSettings


async def run(job: Any) -> None:
    """Run every sample of the job, and write the run result."""
    samples = [sample.prepare() for sample in load_dataset(job.samples).samples]
    session = SessionSettings(url=job.url, model=job.model, ref_audio=load_reference_voice(job.ref_audio))
    whole = Run(samples, RunSettings(session=session, response_root=Path(job.out)))
    await whole.run()
    whole.result.write(Path(job.out))
