"""What a connection is still to do, in order, and the one place that waits (see `mockserver.connection`)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mockserver.faults import FaultRun
from mockserver.faults.actions import IN_ORDER, Action, Observed, Wait
from mockserver.faults.mechanism import Step

WITHHELD_FOR_S = 1.0
"""A wait that ends before its time has bitten when it lasted this long."""


@dataclass(slots=True)
class Waiting:
    """A fault keeps all behind it back."""

    run: FaultRun | None
    wait: Wait
    since_s: float
    handle: asyncio.TimerHandle


class Outbox:
    """Steps that are done one after another.

    Args:
        do: carries an action out; it may put steps in front.
        go_on: called when a wait is over.
        shows: whether what a fault does can still be noticed by the client.
    """

    def __init__(
        self,
        do: Callable[[FaultRun | None, Action], None],
        go_on: Callable[[], None],
        shows: Callable[[FaultRun], bool],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._do = do
        self._go_on = go_on
        self._shows = shows
        self.steps: deque[Step] = deque()
        self.waiting: Waiting | None = None

    def in_front(self, steps: Sequence[Step]) -> None:
        """These come next."""
        self.steps.extendleft(reversed(steps))

    def prove(self) -> None:
        """An event has just gone out: what that proves is known before it sets anything else off."""
        while self.steps and isinstance(self.steps[0][1], Observed):
            self._do(*self.steps.popleft())

    def work_off(self) -> None:
        """Do all that nobody keeps back."""
        steps = self.steps
        while steps and self.waiting is None:
            run, action = steps.popleft()
            if not isinstance(action, Wait):
                self._do(run, action)
            elif run is None or not run.over:
                handle = self._loop.call_later(action.seconds, self._on_time)
                self.waiting = Waiting(run, action, self._loop.time(), handle)

    def asked(self, steps: Sequence[Step]) -> None:
        """What faults ask for: at once, past a fault that waits, unless it has its place among the events."""
        if self.waiting is None:
            self.steps += steps
            return
        in_order = {run for run, action in steps if isinstance(action, IN_ORDER)}
        self.steps += [step for step in steps if step[0] in in_order]
        for run, action in steps:
            if run not in in_order:
                self._do(run, action)

    def cut(self, by: str) -> None:
        """The wait ends before its time, if there is one; what it withheld until now is its proof.

        Args:
            by: what ended it.
        """
        waiting, self.waiting = self.waiting, None
        if waiting is None:
            return
        waiting.handle.cancel()
        waited_s = self._loop.time() - waiting.since_s
        if waited_s >= WITHHELD_FOR_S:
            self._prove(waiting, waited_s, {"cut_by": by})

    def cut_where_over(self) -> None:
        """The same where the fault that waits is over."""
        if self.waiting is not None and self.waiting.run is not None and self.waiting.run.over:
            self.cut("end of the fault")
            self._go_on()

    def no_more_events(self, by: str) -> None:
        """No event can go out any more: what was to come, and waits in front of it, are dropped."""
        if self.waiting is not None and _is_event(self.waiting.run, self.waiting.wait):
            self.cut(by)
        left = [step for step in self.steps if not _is_event(*step)]
        self.steps.clear()
        self.steps += left

    def _on_time(self) -> None:
        waiting, self.waiting = self.waiting, None
        assert waiting is not None
        if waiting.run is not None and self._shows(waiting.run):
            self._prove(waiting, waiting.wait.seconds, {"at_s": waiting.since_s})
        self._go_on()

    def _prove(self, waiting: Waiting, waited_s: float, more: dict[str, float] | dict[str, str]) -> None:
        wait = waiting.wait
        if waiting.run is not None and wait.withheld:
            told = {"withheld": wait.withheld, "withheld_s": wait.already_s + waited_s}
            waiting.run.observe({**told, **more})


def _is_event(run: FaultRun | None, action: Action) -> bool:
    """It is an event, or keeps events back."""
    if isinstance(action, Wait):
        return bool(action.withheld) and run is not None and not run.fault.beside_events
    return isinstance(action, IN_ORDER)
