"""The step loop: units are decided one after another, decisions go out in order, silence continues an open reply.

Time is passed in. The rules are protocol.md 6.2, 6.4, 6.5 and 6.6; how long a unit takes is `pace.py`'s. In both kinds
of continuation the server waits before it submits a unit of silence; the wait is not entered while samples are
buffered. Its continuation is abandoned, not postponed, when an append was submitted in the meantime, when samples are
buffered at its end, or when the reply it was for was cancelled.

* after-segment: the task that forwards decisions waits one whole period after a speaking segment, and while it waits
  nothing behind it goes out.
* cadence: the wait ends one period after the last submission, holds nothing back, and is not entered while a unit is
  in flight.

Input that is read at the very end of a wait comes before the silence.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from mockserver.input_buffer import UNIT_SAMPLES, Submission
from mockserver.pace import UnitTimes
from mockserver.profiles import Continuation
from mockserver.replies import Decision

PERIOD_S = 1.0
"""`chunk_period_ms` of every dialect."""
CADENCE_SLACK_S = 0.02
"""An append that is so much later than the cadence is still on time: a loaded machine does not decide who wins. The
cadence itself stays one unit a period."""


_OPEN = Decision("listen")
"""Of a unit that is not decided yet."""


@dataclass(slots=True, eq=False)
class Decided:
    """A unit that the model is at, or that waits for those before it; then with its decision, on its way out."""

    submission: Submission
    due_s: float
    """Loop time at which it is decided or, once it is, at which the first token of its reply is out."""
    took_s: float
    """Model time of the unit."""
    since_s: float
    """Loop time at which the unit was submitted."""
    index: int = -1
    """Decided units before it; -1: it is not decided yet."""
    decision: Decision = _OPEN
    first_token_s: float = 0.0
    """What the first token of a reply took beyond it."""


@dataclass(slots=True)
class _Wait:
    """The server waits to submit silence."""

    until_s: float
    submissions: int
    holds_back: bool
    """Nothing goes out before its end."""


class StepLoop:
    """Decides and forwards units.

    Args:
        times: model time of each unit.
        continuation: when the server makes silence (protocol.md 6.5).
        decide: called once a unit in order, when its model time is over.
        forward: called once a decided unit in order; true when its turn goes on, so that silence would follow.
        input_waits: samples are buffered.
        withheld: called when silence would have been made and is switched off.
    """

    def __init__(
        self,
        *,
        times: UnitTimes,
        continuation: Continuation,
        decide: Callable[[int, Submission], Decision],
        forward: Callable[[Decided], bool],
        input_waits: Callable[[], bool],
        new_silence: Callable[[], Submission],
        withheld: Callable[[], None] = lambda: None,
    ) -> None:
        self._times = times
        self.continuation = continuation
        self._decide = decide
        self._forward = forward
        self._input_waits = input_waits
        self._new_silence = new_silence
        self._withheld = withheld
        self._computing: deque[Decided] = deque()
        self._out: deque[Decided] = deque()
        self._free_at_s = 0.0
        self._wait: _Wait | None = None
        self._submitted_s = 0.0
        self._stopped = False
        self.due_s = math.inf
        """When `advance` has something to do next; infinite: not before another submission. Read for every event."""
        self.silence_off = False
        """A fault has switched the server's silence off: an open reply stands still until input comes."""
        self.submissions = 0
        self.decided = 0

    def submit(self, submission: Submission, now_s: float) -> None:
        """Queue a unit behind those being computed."""
        self.submissions += 1
        self._submitted_s = now_s
        took_s = self._times.next_s()
        self._free_at_s = max(self._free_at_s, now_s) + took_s
        self._computing.append(Decided(submission, self._free_at_s, took_s, now_s))
        self._schedule()

    def next_s(self) -> float | None:
        """When `advance` has something to do next; None: not before another submission."""
        return self.due_s if math.isfinite(self.due_s) else None

    def advance(self, now_s: float, *, before_input: bool = False) -> None:
        """Do everything that is due.

        Args:
            before_input: something was read at this time, and is handled next.
        """
        while not self._stopped:
            if self._computing and self._computing[0].due_s <= now_s:
                self._computed(self._computing[0])
            elif self._wait is not None and (
                self._wait.until_s < now_s or (self._wait.until_s == now_s and not before_input)
            ):
                self._end_wait(self._wait, now_s)
            elif self._out and not (self._wait is not None and self._wait.holds_back):
                if self._forward(self._out.popleft()):
                    self._continue(now_s)
            else:
                break
        self._schedule()

    @property
    def queued(self) -> int:
        """Units that the model has not decided."""
        return len(self._computing)

    @property
    def queued_commits(self) -> int:
        """Commits whose unit the model has not decided."""
        return sum(unit.submission.cause == "commit" and unit.index < 0 for unit in self._computing)

    def stop(self) -> None:
        """The session is over: undecided and unsent units are dropped without an event (protocol.md 3.3)."""
        self._stopped = True
        self._schedule()

    def release(self) -> None:
        """The reply that a wait was for is gone: what waits behind it goes out at the next `advance`."""
        self._wait = None
        self._schedule()

    def _schedule(self) -> None:
        wait = self._wait
        if self._stopped:
            self.due_s = math.inf
        elif self._out and not (wait is not None and wait.holds_back):
            self.due_s = -math.inf  # at the next opportunity
        else:
            self.due_s = self._computing[0].due_s if self._computing else math.inf
            if wait is not None and wait.until_s < self.due_s:
                self.due_s = wait.until_s

    def _computed(self, unit: Decided) -> None:
        """The first of the units being computed is due: decided, or out where only its first token was awaited."""
        if unit.index < 0:
            unit.index = self.decided
            self.decided += 1
            unit.decision = self._decide(unit.index, unit.submission)
            late_s = self._times.first_token_s
            if late_s and unit.decision.starts:
                unit.first_token_s = late_s
                self._free_at_s += late_s
                for waiting in self._computing:
                    waiting.due_s += late_s
                return
        self._computing.popleft()
        self._out.append(unit)

    def _continue(self, now_s: float) -> None:
        """A speaking segment ended and its turn goes on."""
        in_flight = self.continuation == "cadence" and bool(self._computing or self._out)
        if self.continuation == "none" or in_flight or self._input_waits():
            return
        if self.silence_off:
            self._withheld()
            return
        holds_back = self.continuation == "after-segment"
        until_s = now_s + PERIOD_S if holds_back else self._submitted_s + PERIOD_S + CADENCE_SLACK_S
        self._wait = _Wait(max(until_s, now_s), self.submissions, holds_back)

    def _end_wait(self, wait: _Wait, now_s: float) -> None:
        self._wait = None
        if wait.submissions != self.submissions or self._input_waits():
            return
        if self.silence_off:
            self._withheld()
        else:
            self.submit(self._new_silence(), now_s)
            if not wait.holds_back:
                self._submitted_s = max(wait.until_s, now_s) - CADENCE_SLACK_S


def silence(epoch: int) -> Submission:
    """A unit of zeros of the server's own making."""
    return Submission("silence", UNIT_SAMPLES, None, False, epoch)
