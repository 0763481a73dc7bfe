"""The client under test for one scenario: made, or told why it cannot play it."""

from __future__ import annotations

from client.deadlines import Deadlines
from conformance.abilities import Need, fault_needs
from conformance.clients import builtin, judging
from conformance.clients.calibration import filled, stalls
from conformance.clients.command import CommandRun
from conformance.clients.outside import REQUEST_S, OutsideRun, cannot_be_told
from conformance.clients.scene import ClientRun, Scene
from conformance.options import RunOptions
from conformance.outcome import Outcome, ScenarioResult, Unobserved
from scenarios.faults import LateSessionClosed
from scenarios.faults_session import LateSessionCreated
from scenarios.model import Scenario

EXTRA_S = 60.0
"""Loop time beyond the client's own worst case until the harness gives up on it."""
REAL_MARGIN_S = 1.5
"""Room on the wall clock between an answer that comes in time and its deadline: a busy machine is late by less. A live
server's own time for the answer is added twice."""
CREATED_S = 20.0
DRAIN_SLACK_S = 120.0
TEARDOWN_S = 65.0
"""What evaluation.md 4.3, 9 and 10 grant an attempt beside its clip."""
JUDGED_S = 60.0
"""Real seconds that a program gets to have one sample judged."""


def make_client(scene: Scene) -> ClientRun:
    """The client that the options ask for, ready to run."""
    kind = scene.options.client.kind
    if kind == "builtin":
        return builtin.BuiltinRun(scene)
    return CommandRun(scene) if kind == "command" else OutsideRun(scene)


def unplayable(scenario: Scenario, options: RunOptions) -> ScenarioResult | None:
    """The result of a scenario that would show nothing about this client, without playing it; None: it can be played.

    That is so where a fault cannot act on it, or where it would have to be told what only our own can be told.
    """
    blind = [
        Unobserved(fault.name, "fault", need, options.abilities.why_not[need])
        for fault in scenario.faults
        if (need := options.abilities.missing(fault_needs(fault))) is not None
    ]
    if options.client.outside:
        why = options.abilities.why_not.get(Need.SETTINGS, "")
        blind += [Unobserved(setting, "setting", Need.SETTINGS, why) for setting in cannot_be_told(scenario)]
    if scenario.earlier is not None and options.live is not None:
        told = "a live server is not asked twice for one verdict"
        blind.append(Unobserved("earlier", "setting", Need.SERVER_CONTROL, told))
    if options.figure is not None:
        large = filled(scenario, options.figure)
        if isinstance(large, str):
            blind += [Unobserved(f.name, "fault", Need.TRANSPORT, large) for f in stalls(scenario)]
    if not blind:
        return None
    return ScenarioResult(
        id=scenario.id,
        title=scenario.title,
        requires=tuple(scenario.requires),
        outcome=Outcome.NOT_OBSERVABLE,
        reason="; ".join(dict.fromkeys(told.told() for told in blind)),
        unobserved=tuple(blind),
    )


def as_played(scenario: Scenario, options: RunOptions) -> Scenario:
    """The scenario that is played.

    Its pictures are larger where a measured socket would else swallow a stall, and what comes just in time comes
    earlier on a clock that nobody stops.
    """
    if options.clock == "real":
        scenario = _with_margin(scenario, options)
    if options.figure is None:
        return scenario
    large = filled(scenario, options.figure)
    return scenario if isinstance(large, str) else large


def _with_margin(scenario: Scenario, options: RunOptions) -> Scenario:
    """Answers that are scripted to come a moment before their deadline, with room for what is not scripted."""
    deadlines = builtin.deadlines_of(scenario, options)
    measured = options.live.measured if options.live is not None else None
    own_s = (measured.session_created_s, measured.closed_after_s) if measured is not None else (None, None)
    allowed_s = {"late_session_created": deadlines.created_s, "late_session_closed": deadlines.close_s}
    lags_s = dict(zip(allowed_s, own_s, strict=True))
    faults = []
    for fault in scenario.faults:
        deadline_s = allowed_s.get(fault.name)
        if deadline_s is not None and isinstance(fault, LateSessionCreated | LateSessionClosed):
            margin_s = min(REAL_MARGIN_S + 2 * (lags_s[fault.name] or 0.0), deadline_s / 2)
            if deadline_s - margin_s < fault.delay_s < deadline_s:
                fault = fault.model_copy(update={"delay_s": deadline_s - margin_s})
        faults.append(fault)
    return scenario.model_copy(update={"faults": faults})


def gives_up_after_s(
    scenario: Scenario,
    options: RunOptions,
    *,
    samples: int,
    clips_s: float,
    deadlines: Deadlines | None = None,
) -> float:
    """Loop time after which a client that has not returned never will: two attempts a sample, the judging, and more.

    A client of others has its own deadlines; in virtual time it gets those of evaluation.md, with the default
    timeout of a request. On the real clock that would be half an hour a hang, so a program gets what its waits add
    up to when each ends at the deadline of evaluation.md.

    Args:
        samples: how many.
        clips_s: seconds of all their clips together.
        deadlines: of the shipped client; None: as the scenario has them.
    """
    if options.client_deadline_s is not None:
        return options.client_deadline_s
    kind = options.client.kind
    if kind == "command":
        waits_s = 2 * (2 * clips_s + samples * (CREATED_S + DRAIN_SLACK_S + TEARDOWN_S))
        return waits_s + (JUDGED_S * samples if scenario.judge is not None else 0.0) + EXTRA_S
    judged_s = judging.worst_case_s(scenario.judge, samples) if scenario.judge is not None else 0.0
    if kind == "builtin":
        own = deadlines or builtin.deadlines_of(scenario, options)
        return builtin.worst_case_s(scenario, own, samples) + judged_s + EXTRA_S
    return samples * 2 * (REQUEST_S + TEARDOWN_S) + judged_s + EXTRA_S
