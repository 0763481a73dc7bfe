"""The shipped client, driven as `duplex-eval generate` drives it."""

from __future__ import annotations

import base64
import hashlib
import io
import socket
import wave
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from client.deadlines import Deadlines
from client.gates import Gates, gate
from client.generate import SessionSettings
from client.input_errors import DatasetError, MediaError
from client.judge.evaluation import EvaluationError
from client.media import Frame, Prepared, ReferenceVoice, load_reference_voice
from client.response_root import RunError
from client.retry import ATTEMPT
from client.run import Planned, Run, RunSettings
from client.run_result import RUN_RESULT
from conformance.canary import SECRET
from conformance.capture import client_tasks
from conformance.clients.loading import load_in
from conformance.clients.scene import Attempt, Scene
from conformance.observation import PendingTask, sample_facts
from conformance.options import ConfigurationError, RunOptions
from scenarios.clips import make_frames, make_pcm
from scenarios.model import Clip, SampleSpec, Scenario

if TYPE_CHECKING:
    from client.judge.evaluation import EvaluationResult

MODEL = "openbmb/MiniCPM-o-4_5"
RUN_CLEAN_UP_S = 5.0
"""Loop time a run may take beside its attempts: locks, artifacts, the run result."""


def deadlines_of(scenario: Scenario, options: RunOptions) -> Deadlines:
    """The client's deadlines with the scenario's and then the run's overrides."""
    return Deadlines(**{**scenario.client.deadlines, **options.deadlines})


def prepare(scenario: Scenario, options: RunOptions) -> list[Prepared]:
    """Make or decode the input of every sample, before any clock starts."""
    return [_prepare(spec, options) for spec in scenario.specs]


def _prepare(spec: SampleSpec, options: RunOptions) -> Prepared:
    clip = spec.clip
    if clip.dataset is not None:
        return _prepare_from_dataset(clip, options)
    pcm = make_pcm(clip, options.seed, spec.id)
    frames = make_frames(clip, options.seed, spec.id) if clip.frames else []
    return Prepared(
        split=spec.split,
        id=spec.id,
        pcm=pcm,
        frames=tuple(Frame(t_s=float(second), jpeg=jpeg) for second, jpeg in enumerate(frames)),
        video_duration_s=clip.seconds or 0.0,
    )


def _prepare_from_dataset(clip: Clip, options: RunOptions) -> Prepared:
    from client.dataset import load_dataset

    folder = options.datasets.get(clip.dataset or "")
    if folder is None:
        known = ", ".join(sorted(options.datasets)) or "none"
        raise ConfigurationError(
            f"dataset {clip.dataset!r} is not known here; known: {known}; give --dataset NAME=PATH"
        )
    try:
        loaded = load_dataset(folder, split=clip.split, ids=[clip.id or ""])
        if not loaded.samples:
            raise ConfigurationError(f"{folder}: no sample {clip.split}/{clip.id}")
        return loaded.samples[0].prepare()
    except (DatasetError, MediaError) as error:
        raise ConfigurationError(str(error)) from error


def reference_voice(options: RunOptions) -> ReferenceVoice:
    """The reference voice given on the command line, or half a second of tone.

    Raises ConfigurationError: the file cannot be used; the message names it.
    """
    if options.ref_audio is not None:
        try:
            return load_reference_voice(options.ref_audio)
        except MediaError as error:
            raise ConfigurationError(str(error)) from error
    return _tone(options.seed)


@lru_cache(maxsize=8)
def _tone(seed: int) -> ReferenceVoice:
    """The same for every scenario of a run."""
    pcm = make_pcm(Clip(seconds=0.5), seed=seed)
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(16_000)
        out.writeframes(pcm)
    data = buffer.getvalue()
    return ReferenceVoice(
        data_url="data:audio/wav;base64," + base64.b64encode(data).decode(),
        sha256=hashlib.sha256(data).hexdigest(),
    )


def worst_case_s(scenario: Scenario, deadlines: Deadlines, samples: int) -> float:
    """Loop time after which the client must have returned: two attempts a sample."""
    rounds = -(-samples // scenario.client.concurrency)
    attempt_s = deadlines.request_s + deadlines.worst_teardown_s
    return rounds * 2 * attempt_s + RUN_CLEAN_UP_S


def make_run(
    url: str,
    scenario: Scenario,
    samples: Sequence[Prepared | Planned],
    deadlines: Deadlines,
    voice: ReferenceVoice,
    out: Path,
    observer: Any,
) -> Run:
    """A run of the shipped client that is ready to start."""
    session = SessionSettings(
        url=url,
        model=scenario.client.model or MODEL,
        ref_audio=voice,
        deadlines=deadlines,
        pace=scenario.client.pace,
        headers={"Authorization": f"Bearer {SECRET}"},
    )
    settings = RunSettings(
        session=session,
        response_root=out,
        concurrency=scenario.client.concurrency,
        defer_artifacts=scenario.client.defer_artifacts,
    )
    return Run(samples, settings, observer=observer)


class BuiltinRun:
    """The shipped client in one performance."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._run: Run | None = None

    def current_attempt(self) -> Attempt | None:
        """As the client itself says."""
        return ATTEMPT.get()

    def nth_attempt(self, number: int) -> None:
        """The client has said it when it connected."""

    def listener(self, rcvbuf_bytes: int | None) -> None:
        """Any will do."""

    def looker(self, port: int, server: socket.socket) -> None:
        """Its transports are all in this process."""

    async def run(self, server_url: str) -> None:
        """Answers, their evaluation where the scenario has a judge, and what gates say of both."""
        scene, observation = self._scene, self._scene.observation
        loaded = load_in(scene) if observation.scenario.dataset is not None else None
        if loaded is not None and not loaded.samples:
            return  # as the command does: nothing to run, and no folder is made
        self._run = make_run(
            server_url,
            observation.scenario,
            loaded.planned if loaded is not None else observation.prepared,
            observation.deadlines,
            scene.voice,
            observation.out,
            scene.on_step,
        )
        judged = None
        try:
            await self._run.run()
        except RunError as error:
            observation.refused = str(error)
            return
        if scene.judge is not None:
            scene.loop.client_sndbuf_bytes = None  # small buffers are for sessions, never for the judge
            try:
                judged = await scene.judge.evaluate(loaded.subjects if loaded is not None else None)
            except EvaluationError as error:
                observation.refused = str(error)
                return
        conclude(self._run, observation.scenario, judged, refused=len(loaded.refused) if loaded else 0)

    def pending(self) -> list[PendingTask]:
        """Its tasks."""
        return client_tasks(self._scene.loop)

    def account(self) -> None:
        """Files first, the run result for what no file says."""
        observation = self._scene.observation
        if self._run is not None and not observation.watchdog_fired and observation.refused is None:
            observation.result = self._run.result
        observation.samples = sample_facts(observation)


def conclude(run: Run, scenario: Scenario, judged: EvaluationResult | None, *, refused: int) -> None:
    """Take the judging into the run's result, gate it, and write it again, as `duplex-eval run` does at its end.

    Args: refused: rows of the dataset that could not be run.
    """
    result, spec = run.result, scenario.client.gates
    if judged is None and spec is None:
        return
    if judged is not None:
        result.accuracy = judged.accuracy()
        result.artifact_errors += judged.artifact_errors
    if spec is not None:
        gate(result, Gates(spec.guard, spec.floors, spec.max_retries, refused=refused))
    try:
        result.write(Path(result.response_root))
    except OSError as error:
        result.artifact_errors.append(f"{RUN_RESULT}: {error}")
