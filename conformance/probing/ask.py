"""Asks a server the questions of probe scenarios: the mock server in virtual time, or a server elsewhere."""

from __future__ import annotations

import contextvars
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from client.media import ReferenceVoice
from conformance.clients import builtin
from conformance.clock import SIDE, RealLoop, VirtualLoop, close_loop
from conformance.options import RunOptions
from conformance.outcome import Outcome, ScenarioResult
from conformance.pool import freeze_once
from conformance.probing.facts import Value, read_facts
from conformance.probing.prober import Asking, ProbeFailed, play
from conformance.probing.transcript import Transcript
from mockserver.app import MockServer
from scenarios.clips import make_pcm
from scenarios.model import Scenario


@dataclass(frozen=True)
class Elsewhere:
    """A server that is not ours, spoken to on the real clock."""

    url: str
    model: str = builtin.MODEL
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    question: bytes | None = None
    """Spoken in the place of made clips that have speech: 16 kHz mono PCM16. A real model answers no tone."""
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    """Of a wss URL: whom to trust; None: the system's trust store."""


def run_probe(
    scenario: Scenario, options: RunOptions, *, profile: str | None = None, elsewhere: Elsewhere | None = None
) -> ScenarioResult:
    """Ask one probe.

    Args:
        profile: of the mock server, in the place of the scenario's own.
        elsewhere: ask this server instead of the mock.
    Returns: a pass with the facts; indeterminate, with the reason, when the probe could not be played.
    """
    assert scenario.probe is not None
    facts: dict[str, Value] = {}
    outcome, reason, took_s = Outcome.PASS, "", 0.0
    try:
        transcript, took_s = _transcript_of(scenario, options, profile, elsewhere)
        facts = read_facts(transcript, scenario.probe.facts)
    except ProbeFailed as failed:
        outcome, reason = Outcome.INDETERMINATE, str(failed)
    return ScenarioResult(
        id=scenario.id,
        title=scenario.title,
        requires=(),
        outcome=outcome,
        reason=reason,
        virtual_s=round(took_s, 6),
        facts=facts,
    )


def _transcript_of(
    scenario: Scenario, options: RunOptions, profile: str | None, elsewhere: Elsewhere | None
) -> tuple[Transcript, float]:
    voice = builtin.reference_voice(options)
    if elsewhere is not None:
        return _play_on(RealLoop(), None, scenario, _asking_elsewhere(scenario, options, voice, elsewhere))
    loop = VirtualLoop() if options.clock == "virtual" else RealLoop()
    spec = scenario.server
    server = MockServer(
        profile=profile or spec.profile,
        replies=spec.reply,
        faults=(),
        seed=options.seed,
        decision_ms=spec.decision_ms,
    )
    asking = Asking("", builtin.MODEL, voice, _pcm_of(scenario, options))
    return _play_on(loop, server, scenario, asking)


def _asking_elsewhere(
    scenario: Scenario, options: RunOptions, voice: ReferenceVoice, elsewhere: Elsewhere
) -> Asking:
    speaks = scenario.clip is not None and scenario.clip.speech != []
    pcm = elsewhere.question if elsewhere.question and speaks else _pcm_of(scenario, options)
    return Asking(elsewhere.url, elsewhere.model, voice, pcm, elsewhere.headers, tls=elsewhere.tls)


def _pcm_of(scenario: Scenario, options: RunOptions) -> bytes:
    return b"" if scenario.clip is None else make_pcm(scenario.clip, options.seed, scenario.id)


def _play_on(
    loop: VirtualLoop | RealLoop, server: MockServer | None, scenario: Scenario, asking: Asking
) -> tuple[Transcript, float]:
    freeze_once()

    async def main() -> tuple[Transcript, float]:
        assert scenario.probe is not None
        if server is not None:
            await loop.create_task(server.start(), context=_server_context())
        begun_s = loop.time()
        try:
            at = asking if server is None else replace(asking, url=server.url)
            transcript = await play(scenario.probe, at)
        finally:
            if server is not None:
                await server.stop()
        return transcript, loop.time() - begun_s

    try:
        return loop.run_until_complete(main())
    finally:
        close_loop(loop)


def _server_context() -> contextvars.Context:
    context = contextvars.copy_context()
    context.run(SIDE.set, "server")
    return context
