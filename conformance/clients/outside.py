"""A client of others in one performance: its job, and what a scenario cannot tell it (design.md 9)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from conformance.abilities import Need
from conformance.canary import secrets_of
from conformance.capture import client_tasks
from conformance.clients.adapting import adapted
from conformance.clients.job import Job, write_media
from conformance.clients.outside_facts import account_for, metadata_file
from conformance.clients.python_module import load_entry
from conformance.observation import PendingTask
from scenarios.faults_base import Layer
from scenarios.judging import JudgeSpec

if TYPE_CHECKING:
    import socket

    from conformance.clients.scene import Attempt, Scene
    from conformance.witness import Looker
    from scenarios.model import Scenario

REQUEST_S = 900.0
"""The per-request timeout of evaluation.md 15, which a client of others is taken to have."""
SHORTER_WAITS = ("request_s", "drain_slack_s")
"""Deadlines that a scenario only makes shorter so that it takes less time: with the client's own it says the same."""
USUAL_REQUEST_S = 120.0
"""What scenarios set where the request timeout is not their subject (design.md 8)."""
MAKES_NO_DIFFERENCE = ("defer_artifacts",)
"""Settings of our client whose every value leaves the same files and the same wire."""
TOLD_JUDGE = ("video_mode", "timeout_s", "workers", "frame_overflow")
"""Settings of the judging that only our client is told."""


def cannot_be_told(scenario: Scenario) -> Iterator[str]:
    """The settings of a scenario that the job has no word for, by name."""
    client = scenario.client
    for name, seconds in client.deadlines.items():
        if name not in SHORTER_WAITS or (name == "request_s" and seconds < USUAL_REQUEST_S):
            yield f"client.deadlines.{name}"
    for name, field in type(client).model_fields.items():
        if name not in ("deadlines", *MAKES_NO_DIFFERENCE) and getattr(client, name) != field.default:
            yield f"client.{name}"
    if scenario.dataset is not None:
        yield "dataset"  # the job has a manifest of its own
    if scenario.earlier is not None:
        yield "earlier"  # nothing says how one of another's is begun again
    if scenario.judge is not None:
        usual = JudgeSpec()
        for name in TOLD_JUDGE:
            if getattr(scenario.judge, name) != getattr(usual, name):
                yield f"judge.{name}"
    if len(scenario.specs) > 1:
        # Whose session it is shows with its first audio, too late for a fault that is armed at the upgrade.
        for fault in scenario.faults:
            if fault.layer is not Layer.JUDGE and (fault.sample is not None or fault.attempt is not None):
                yield f"the sample or attempt that {fault.name} is for"


class OutsideRun:
    """`python:MOD:FUNC` in one performance; what it shares with a program is here too."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        observation = scene.observation
        observation.outside = True
        observation.secrets += secrets_of(scene.options.client_env)
        observation.scenario = adapted(observation.scenario)
        scenario = observation.scenario
        observation.out.mkdir(parents=True, exist_ok=True)
        self._samples, self._voice = write_media(
            scene.folder / "media", scenario.specs, observation.prepared, scene.voice
        )

    def job(self, server_url: str) -> Job:
        """What it is asked to do."""
        scene = self.scene
        judge = scene.judge
        return Job(
            url=server_url,
            model=scene.options.model,
            ref_audio=str(self._voice),
            samples=str(self._samples),
            out=str(scene.observation.out.resolve()),
            deadline_s=scene.observation.watchdog_s,
            judge_url=judge.server.url if judge is not None else "",
            judge_model=judge.spec.model if judge is not None else "",
        )

    def current_attempt(self) -> None:
        """It does not say."""

    def nth_attempt(self, number: int) -> Attempt | None:
        """With one sample alone, each connection is an attempt at it."""
        prepared = self.scene.observation.prepared
        return (prepared[0].split, prepared[0].id, number) if len(prepared) == 1 else None

    def listener(self, rcvbuf_bytes: int | None) -> socket.socket | None:
        """Any will do: it is in this process."""
        return None

    def looker(self, port: int, server: socket.socket) -> Looker | None:
        """A socket that is in no transport of the loop, a thread's say, is not looked at."""
        return None

    async def run(self, server_url: str) -> None:
        """Await FUNC(job)."""
        await load_entry(self.scene.options.client)(self.job(server_url))

    def pending(self) -> list[PendingTask]:
        """Its tasks."""
        return client_tasks(self.scene.loop)

    def account(self) -> None:
        """What it did on the wire and left on the disk."""
        observation, judge = self.scene.observation, self.scene.judge
        account_for(observation)
        if any(metadata_file(observation, facts).exists() for facts in observation.samples):
            # Declared to show none, it shows some: then it is asked for all of them.
            observation.abilities = observation.abilities.including(Need.METADATA)
        if judge is None:
            return
        observation.judged = judge.facts(observation.out)
        observation.judged.finished = bool(observation.judged.accuracy) and not observation.watchdog_fired
        if not observation.judged.ledger:
            observation.abilities = observation.abilities.without(
                {Need.JUDGE: "the client asked the judge nothing"}
            )
