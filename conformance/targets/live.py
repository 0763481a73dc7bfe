"""A live server as target: a proxy of ours stands in front of it, where faults are injected and everything is seen."""

from __future__ import annotations

import socket
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from conformance.abilities import ALL, Abilities, Need
from conformance.live.bill import DeviceUse, For
from conformance.live.cassette import CassetteTape
from conformance.live.judged import hastened, played
from conformance.live.measured import Measured
from conformance.live.premises import Conversation, conversation_of
from conformance.live.server import LiveServer, masked
from conformance.outcome import Finding, Outcome, ScenarioResult
from conformance.targets import mock
from conformance.targets.mock import server_faults
from mockserver.app import Identify, MockServer
from mockserver.journal import Journal
from mockserver.played import PlayedFrame, PlayedServer
from mockserver.profiles import PROFILES
from mockserver.proxy import CANNOT_BE_PROXIED, ProxyServer
from mockserver.seen import Seen
from scenarios.faults import Layer
from scenarios.faults_response import Status
from scenarios.model import Scenario

if TYPE_CHECKING:
    from client.judge.settings import JudgeSettings
    from conformance.observation import Observation
    from conformance.options import RunOptions


RECEIVED, TAKEN = " server  received ", " proxy   took "
"""In lines of a trace: what the journal of a server of ours calls received, here the proxy took, nobody else yet."""
MAX_PERIOD_MS = 60_000
"""Nobody goes by a longer one: a padded unit of it would fill a frame."""


@dataclass(frozen=True)
class LiveTarget:
    """What a live run speaks to, and what it may do there."""

    server: LiveServer
    inject: bool = False
    """Faults run in the proxy."""
    measured: Measured | None = None
    """By preflight; None: it was left out."""
    sessions: int = 1
    """That one scenario may have open at a time."""
    asked_sessions: int = 1
    """That the scenario would have at a time."""
    judge: JudgeSettings | None = None
    record: Path | None = None
    """Folder for cassettes; None: none are kept."""
    again: str = ""
    """Options of a command line that plays a scenario here again; masked."""
    played: tuple[PlayedFrame, ...] | None = None
    """The server side of a cassette, in the place of the server."""


class CutShort(KeyboardInterrupt):
    """Ctrl-C while a scenario was played on a live server; its sessions were asked to end.

    Attributes:
        uses: what they cost.
        unconfirmed: how many of them never confirmed it.
        answers: what the server left unanswered in them.
    """

    def __init__(self, uses: list[DeviceUse], unconfirmed: int, answers: list[str]) -> None:
        super().__init__("interrupted")
        self.uses = uses
        self.unconfirmed = unconfirmed
        self.answers = answers


def abilities(target: LiveTarget) -> Abilities:
    """What can be seen on this target of our own client."""
    return (
        ALL
        if target.inject
        else ALL.without(
            {Need.SERVER_CONTROL: "faults are put in the way of a live server only with --inject"}
        )
    )


def beyond_reach(scenario: Scenario, target: LiveTarget) -> list[tuple[str, str]]:
    """What of a scenario cannot be had of a live server, with its reason; such a scenario is not played at all."""
    told = [
        (fault.name, CANNOT_BE_PROXIED[fault.name])
        for fault in scenario.faults
        if fault.name in CANNOT_BE_PROXIED
    ]
    if scenario.judge is not None:
        if scenario.judge.is_scripted:
            if not target.inject:
                told.append(
                    ("judge", "its script of verdicts is played in a judge's place only with --inject")
                )
        elif target.judge is None:
            told.append(("judge", "no judge was named (--judge-url)"))
        elif any(fault.layer is Layer.JUDGE for fault in scenario.faults) and not target.inject:
            told.append(("judge", "faults are put in the way of a judge only with --inject"))
    for index, reply in enumerate(scenario.server.reply):
        if reply.status != "completed" and not target.inject:
            told.append(
                (f"reply {index}", f"its status {reply.status!r} is put in its way only with --inject")
            )
        if not reply.ends:
            told.append(
                (f"reply {index}", "a turn that goes on until our session.close is the model's own doing")
            )
    return told


def server_for(
    scenario: Scenario,
    options: RunOptions,
    journal: Journal,
    identify: Identify | None,
    listener: socket.socket | None,
) -> MockServer | ProxyServer:
    """What a scenario is played on: the mock, or a proxy in front of a live server; not yet started."""
    if options.live is None:
        return mock.make_server(scenario, options.seed, journal, identify, listener)
    return make_server(scenario, options.live, options.seed, journal, identify)


def make_server(
    scenario: Scenario,
    target: LiveTarget,
    seed: int,
    journal: Journal,
    identify: Identify | None,
) -> ProxyServer:
    """A proxy with the scenario's faults, not yet started."""
    if target.played is not None:
        return PlayedServer(target.played, seed=seed, identify=identify, journal=journal)
    return ProxyServer(
        target.server.behind(),
        faults=[*server_faults(scenario), *endings(scenario)] if target.inject else (),
        seed=seed,
        dialect=target.measured.profile if target.measured is not None else None,
        max_sessions=target.sessions,
        identify=identify,
        journal=journal,
        tape=_tape(scenario, target),
        drop_headers=frozenset({"authorization"}),  # the client's is a canary; the server's key is added here
        once_full=True,
    )


def endings(scenario: Scenario) -> list[Status]:
    """How scripted replies end, as faults: a live one is told in the path to have ended so."""
    return [
        Status(status=reply.status, nth=number)
        for number, reply in enumerate(scenario.server.reply, start=1)
        if reply.status != "completed"
    ]


class JudgeOf(TypedDict):
    """Who answers in a scenario with a judge."""

    behind: JudgeSettings | None
    stretched: bool


def judge_of(scenario: Scenario, options: RunOptions) -> JudgeOf:
    """The judge that was named; where a scenario scripts one, the script is played and nobody else is asked."""
    scripted = scenario.judge is not None and scenario.judge.is_scripted
    if options.live is None or scripted:
        return {"behind": None, "stretched": options.live is not None}
    return {"behind": options.live.judge, "stretched": False}


def _tape(scenario: Scenario, target: LiveTarget) -> CassetteTape | None:
    if target.record is None:
        return None
    server = target.server
    return CassetteTape(target.record, scenario.id, target=server.told(), headers=server.headers)


def account(observation: Observation, server: MockServer | ProxyServer, options: RunOptions) -> None:
    """Gather what a live server was seen to do into the observation; of the mock there is nothing to gather."""
    target = options.live
    if target is None or target.played is not None or not isinstance(server, ProxyServer):
        return
    proxy = server
    scenario = observation.scenario
    conversation = conversation_of(scenario, proxy)
    conversation.concurrency = (max(target.asked_sessions, scenario.client.concurrency), target.sessions)
    if target.measured is not None:
        conversation.profiles = _profiles(scenario, target.measured)
        conversation.behind = target.measured.behind
    conversation.uses = _uses(observation, proxy)
    conversation.no_slot = [masked(words, target.server.headers) for words in proxy.no_slot]
    conversation.unconfirmed = len(proxy.unconfirmed)
    conversation.answers = _answers(proxy)
    observation.conversation = conversation
    observation.periods_ms = _periods(proxy)
    observation.away += [masked(reason, target.server.headers) for reason in proxy.unreachable]
    observation.left_open += [
        Finding(
            "session-left-open",
            (),
            "every session is closed on the server",
            f"the end of session {seen.session_id or '(no id)'} was never confirmed: its slot may still be taken",
            details=(_answers_of(seen),),
        )
        for seen in proxy.seen.values()
        if seen.holds_slot
    ]


def _answers(proxy: ProxyServer) -> list[str]:
    """A line for each session in which the server left something unanswered."""
    names = {c.number: "/".join(c.sample) if c.sample is not None else "" for c in proxy.connections}
    return [
        f"{names.get(number) or f'connection {number}'}: {_answers_of(seen)}"
        for number, seen in proxy.seen.items()
        if seen.created_s is not None and seen.answers.unanswered(_end_s(seen))
    ]


def _answers_of(seen: Seen) -> str:
    return seen.answers.told(seen.opened_s, _end_s(seen))


def _end_s(seen: Seen) -> float:
    return seen.ended_s if seen.ended_s is not None else seen.answers.heard_s or seen.opened_s


def _periods(proxy: ProxyServer) -> dict[int, int]:
    """Chunk periods by connection, where the server declares one that a client can go by (protocol.md 4.4)."""
    declared = {n: (seen.capabilities or {}).get("chunk_period_ms") for n, seen in proxy.seen.items()}
    return {
        number: period
        for number, period in declared.items()
        if isinstance(period, int) and not isinstance(period, bool) and 0 < period <= MAX_PERIOD_MS
    }


def interrupted(observation: Observation, server: MockServer | ProxyServer) -> KeyboardInterrupt:
    """What ends a scenario that was interrupted: of a live server it knows what was spent."""
    if not isinstance(server, ProxyServer):
        return KeyboardInterrupt()
    observation.connections = list(server.connections)
    return CutShort(
        [replace(use, spent_on="interrupted") for use in _uses(observation, server)],
        len(server.unconfirmed),
        _answers(server),
    )


def _profiles(scenario: Scenario, measured: Measured) -> tuple[str, str]:
    """In what the scenario's server and the live one differ, as far as both are known."""
    scripted = PROFILES[scenario.server.profile]
    told: list[list[str]] = [[], []]
    if scripted.dialect.letter != measured.dialect:
        told[0].append(f"speaks {scripted.dialect.letter}")
        told[1].append(f"speaks {measured.dialect}")
    goes_on = scripted.continuation != "none"
    if measured.continues_without_input is not None and measured.continues_without_input is not goes_on:
        words = {True: "feeds itself silence", False: "waits for input"}
        told[0].append(words[goes_on])
        told[1].append(words[measured.continues_without_input])
    return " and ".join(told[0]), " and ".join(told[1])


def fitted(scenario: Scenario, target: LiveTarget, max_sessions: int) -> tuple[Scenario, LiveTarget]:
    """A scenario that opens no more sessions at a time than it may, and waits for no judge longer than it must."""
    asked = scenario.client.concurrency
    granted = min(asked, max_sessions)
    client = scenario.client.model_copy(update={"concurrency": granted})
    target = replace(target, sessions=granted, asked_sessions=asked)
    return hastened(scenario.model_copy(update={"client": client})), target


def _uses(observation: Observation, proxy: ProxyServer) -> list[DeviceUse]:
    outcomes = {f.name: f.outcome for f in observation.samples}
    uses = []
    for info in proxy.connections:
        seen = proxy.seen[info.number]
        if not seen.reached:
            continue
        sample = "/".join(info.sample) if info.sample is not None else f"connection {info.number}"
        well = outcomes.get(sample) in ("published", "skipped_finished")
        spent_on: For = (
            "refused"
            if seen.no_slot
            else "retry"
            if info.sample is not None and info.attempt > 1
            else "success"
            if well
            else "failure"
        )
        ended_s = max(s for s in (seen.ended_s, info.ended_s, seen.opened_s) if s is not None)
        uses.append(DeviceUse(sample, info.attempt, round(ended_s - seen.opened_s, 3), spent_on))
    return uses


def told(result: ScenarioResult, observation: Observation) -> ScenarioResult:
    """A result with what its sessions cost; a server that went away is told as that, and blamed on nobody else."""
    assert observation.conversation is not None
    conversation = observation.conversation
    wasted = result.outcome in (Outcome.FAIL, Outcome.INERT, Outcome.INDETERMINATE, Outcome.HARNESS_ERROR)
    if (
        wasted or conversation.no_slot
    ):  # a sample that was published shows nothing where its scenario does not
        conversation.uses = [
            replace(use, spent_on="failure") if use.spent_on == "success" else use
            for use in conversation.uses
        ]
    result = replace(
        result,
        device=tuple(asdict(use) for use in conversation.uses),
        injected=(*_ended(observation), *played(observation.judged)),
        unconfirmed=conversation.unconfirmed,
        answers=tuple(conversation.answers),
        last_events=tuple(line.replace(RECEIVED, TAKEN, 1) for line in result.last_events),
    )
    if observation.away:
        return replace(
            result,
            outcome=Outcome.INDETERMINATE,
            away=observation.away[0],
            reason=f"the server could not be reached: {observation.away[0]}",
        )
    if conversation.no_slot and result.outcome is not Outcome.HARNESS_ERROR:
        return replace(
            result,
            outcome=Outcome.INDETERMINATE,
            no_slot=conversation.no_slot[0],
            reason=f"the server had no free session slot: {conversation.no_slot[0]}",
            findings=tuple(observation.left_open),  # what else was missed, was missed for want of a session
            unobserved=(),
        )
    return result


def _ended(observation: Observation) -> list[str]:
    """What was played of the script's replies, in words."""
    return [
        f"a reply that the server had completed ended as {f.status!r}" for f in endings(observation.scenario)
    ]


__all__ = [
    "Conversation",
    "CutShort",
    "LiveTarget",
    "abilities",
    "account",
    "beyond_reach",
    "fitted",
    "interrupted",
    "make_server",
    "told",
]
