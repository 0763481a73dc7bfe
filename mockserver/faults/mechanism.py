"""Triggers, states and proofs of faults: armed, then triggered, then observed, with evidence."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from mockserver.faults.actions import Action, Control, Encoded, Number, Observed
from mockserver.profiles import logical
from mockserver.wire import End, Received, Send, Unit, Withheld
from scenarios.faults import FaultBase
from scenarios.faults_base import On

if TYPE_CHECKING:
    from mockserver.session import ServerSession

State = Literal["armed", "triggered", "observed"]


class Fault:
    """One scripted misbehaviour on one connection. Each connection gets fresh ones.

    A subclass says in its docstring what happens on the wire, its parameters with units, and how a client
    survives it.
    """

    name: ClassVar[str]
    """As in `scenarios.faults`."""
    session: ServerSession
    """To look at, never to change: its ids, dialect, open reply. Set before the upgrade."""
    chance: random.Random
    """From the run's seed, the sample, the attempt and the fault's position. Set before the upgrade."""

    @property
    def beside_events(self) -> bool:
        """What it does is to answers of the wire's own: a pong, the reply to a close frame, the TCP end."""
        return type(self).control is not Fault.control

    def asked(self, now_s: float) -> list[Action]:
        """The upgrade was asked for; the fault is active and takes no trigger."""
        return []

    def joined(self, now_s: float) -> list[Action]:
        """It was armed on a connection that is open, without a trigger."""
        return self.begin(now_s)

    def begin(self, now_s: float) -> list[Action]:
        """The trigger came; or, without a trigger, the connection was accepted."""
        return []

    def outgoing(self, output: Send | End, now_s: float) -> list[Action] | None:
        """What goes out instead of an event, or of the end, while the fault is active; None: just that."""
        return None

    def control(self, output: Control, now_s: float) -> list[Action] | None:
        """What goes out instead of an answer to a ping or a close frame, or instead of the TCP end; None: just that."""
        return None

    def noted(self, output: Received | Unit | Withheld, now_s: float) -> list[Action]:
        """Something happened in the session that is not on the wire, while the fault is active."""
        return []

    def finish(self, now_s: float) -> list[Action]:
        """`for_s` is over, or all faults are released."""
        return []


@dataclass(frozen=True)
class FaultReport:
    """What a fault did on one connection."""

    name: str
    index: int
    """Position in the scenario's list of the server's faults."""
    connection: int | None
    """None: no connection was in its scope."""
    state: State
    evidence: Mapping[str, Any]
    could_have_bitten: bool
    """The connection was in the fault's scope, so that not having been observed makes the scenario inert."""


@dataclass(eq=False)
class FaultRun:
    """One fault on one connection: when it acts, and how far it got.

    Attributes:
        changed: called at each change of state, for the journal.
    """

    spec: FaultBase
    index: int
    connection: int
    fault: Fault
    opened_s: float
    changed: Callable[[FaultRun], None]
    state: State = "armed"
    evidence: dict[str, Any] = field(default_factory=dict)
    triggered_s: float | None = None
    active: bool = False
    _seen: int = 0
    _over: bool = False

    @property
    def name(self) -> str:
        """Of the fault."""
        return self.spec.name

    @property
    def over(self) -> bool:
        """It has ended on this connection, or was disarmed before it began there."""
        return self._over

    @property
    def triggered_by_something(self) -> bool:
        """It has a trigger, rather than a moment of its own."""
        return self.spec.on is not None or self.spec.at_s is not None

    @property
    def next_timer_s(self) -> float | None:
        """When it begins or ends by the clock."""
        if self._over:
            return None
        if self.state == "armed" and not self.active and self.spec.at_s is not None:
            return self.opened_s + self.spec.at_s
        if self.active and self.spec.for_s is not None:
            return (self.opened_s if self.triggered_s is None else self.triggered_s) + self.spec.for_s
        return None

    def opened(self, now_s: float) -> list[Action]:
        """The connection was accepted: a fault without a trigger is active from here."""
        return self._begin(self.fault.begin, now_s)

    def joined(self, now_s: float) -> list[Action]:
        """It was armed on a connection that is open."""
        return self._begin(self.fault.joined, now_s)

    def asked(self, now_s: float) -> list[Action]:
        """The upgrade was asked for."""
        return [] if self.triggered_by_something or self._over else self.fault.asked(now_s)

    def matches(self, side: Literal["received", "sent"], name: str) -> bool:
        """Count an event; true when it is the one that triggers."""
        on = self.spec.on
        if on is None or self.active or self._over or self.state != "armed":
            return False
        wanted = on.received if side == "received" else on.sent
        if wanted is None or logical(wanted) != name:
            return False
        self._seen += 1
        return self._seen == on.nth

    def trigger(self, now_s: float) -> list[Action]:
        """The trigger came."""
        self.active = True
        self.acted(now_s)
        return self.fault.begin(now_s)

    def acted(self, now_s: float) -> None:
        """Its moment has come; the first time it counts as triggered."""
        if self.state == "armed":
            self.state = "triggered"
            self.triggered_s = now_s
            self.changed(self)

    def observe(self, evidence: Mapping[str, Any]) -> None:
        """It has bitten, with this evidence; later evidence is added, the state stays."""
        if self.state == "armed":
            raise ValueError(f"fault {self.name} observed before it was triggered")
        first = self.state != "observed"
        self.state = "observed"
        for key, value in evidence.items():
            self.evidence.setdefault(key, value)
        if first:
            self.changed(self)

    def end(self, now_s: float) -> list[Action]:
        """It is over for this connection."""
        if self._over:
            return []
        self._over = True
        was_active, self.active = self.active, False
        return self.fault.finish(now_s) if was_active else []

    def report(self) -> FaultReport:
        """For whoever judges."""
        evidence = dict(self.evidence)
        if self.state == "armed" and self.spec.on is not None:
            evidence["reason"] = self._how_often(self.spec.on)
        return FaultReport(self.name, self.index, self.connection, self.state, evidence, True)

    def _begin(self, begin: Callable[[float], list[Action]], now_s: float) -> list[Action]:
        if self.triggered_by_something or self._over:
            return []
        self.active = True
        return begin(now_s)

    def _how_often(self, on: On) -> str:
        side, event = ("received", on.received) if on.received is not None else ("sent", on.sent)
        return f"{side} {event} came {self._seen} time(s), nth is {on.nth}"


Step = tuple[FaultRun | None, Action]
"""An action with the fault that asked for it; None: the session itself."""


class FaultSet:
    """All faults of one connection; they compose in the scenario's order."""

    def __init__(self, runs: Sequence[FaultRun]) -> None:
        self.runs = list(runs)

    def opened(self, now_s: float) -> list[Step]:
        """The connection was accepted."""
        steps: list[Step] = []
        for run in self.runs:
            actions = run.opened(now_s)
            if actions:
                run.acted(now_s)
            steps += [(run, action) for action in actions]
        return steps

    def join(self, run: FaultRun, now_s: float) -> list[Step]:
        """One more fault, on a connection that is open."""
        self.runs.append(run)
        actions = run.joined(now_s)
        if actions:
            run.acted(now_s)
        return [(run, action) for action in actions]

    def asked(self, now_s: float) -> list[Step]:
        """The upgrade was asked for."""
        steps: list[Step] = []
        for run in self.runs:
            actions = run.asked(now_s)
            if actions:
                run.acted(now_s)
            steps += [(run, action) for action in actions]
        return steps

    def control(self, output: Control, now_s: float) -> list[Step]:
        """What goes out instead of a pong, a reply to a close frame, or the TCP end."""
        steps: list[Step] = [(None, output)]
        for run in self.runs:
            if run.active:
                steps = _replaced(run, steps, run.fault.control, Control, now_s)
        return steps

    def noted(self, output: Received | Unit | Withheld, now_s: float) -> list[Step]:
        """Something happened in the session that is not on the wire."""
        steps: list[Step] = []
        for run in self.runs:
            actions = run.fault.noted(output, now_s) if run.active else []
            if actions:
                run.acted(now_s)
            steps += [(run, action) for action in actions]
        return steps

    def received(self, name: str, now_s: float) -> list[Step]:
        """A client event was read; nothing of its answer has gone out yet."""
        return self._triggered("received", logical(name), now_s)

    def sent(self, name: str, now_s: float) -> list[Step]:
        """A server event was written."""
        return self._triggered("sent", logical(name), now_s)

    def outgoing(self, output: Send | End, now_s: float) -> list[Step]:
        """What goes out instead of an event or the end."""
        steps: list[Step] = [(None, output)]
        for run in self.runs:
            if run.active:
                steps = _replaced(run, steps, run.fault.outgoing, Send | End, now_s)
        return steps

    @property
    def next_timer_s(self) -> float | None:
        """When `on_timer` must be called next."""
        times = [run.next_timer_s for run in self.runs]
        return min((time for time in times if time is not None), default=None)

    def on_timer(self, now_s: float) -> list[Step]:
        """Begin and end by the clock."""
        steps: list[Step] = []
        for run in self.runs:
            due_s = run.next_timer_s
            if due_s is not None and due_s <= now_s:
                actions = run.end(now_s) if run.active else run.trigger(now_s)
                steps += [(run, action) for action in actions]
        return steps

    def release(self, now_s: float) -> list[Step]:
        """End every fault."""
        return [(run, action) for run in self.runs for action in run.end(now_s)]

    def _triggered(self, side: Literal["received", "sent"], name: str, now_s: float) -> list[Step]:
        return [
            (run, action) for run in self.runs if run.matches(side, name) for action in run.trigger(now_s)
        ]


def _replaced(
    run: FaultRun, steps: list[Step], hook: Callable[..., list[Action] | None], kinds: Any, now_s: float
) -> list[Step]:
    """What a fault makes of the steps that are of its hook's kinds.

    What an earlier fault made of an event proves nothing where this one lets none of it out.
    """
    replaced: list[Step] = []
    unseen: set[FaultRun] = set()
    for step in steps:
        owner, action = step
        if isinstance(action, Observed) and owner in unseen:
            continue
        answer = hook(action, now_s) if isinstance(action, kinds) else None
        if answer is None:
            replaced.append(step)
        else:
            run.acted(now_s)
            if owner is not None and not any(map(_gets_out, answer)):
                unseen.add(owner)
            replaced += [(None if new is action else run, new) for new in answer]
    return replaced


def _gets_out(action: Action) -> bool:
    """Whether the client gets to see it, sooner or later."""
    return isinstance(action, (Send, End, Encoded, Control)) or (isinstance(action, Number) and action.kept)
