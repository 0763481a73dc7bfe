"""The virtual loop: its clock jumps to the next timer when nothing else can happen before it.

Client, server, judge and proxy run in this one loop over real loopback sockets. It jumps over waiting
and over nothing else: no thread at work, no bytes on their way to somebody who reads.
Source: design.md section 4, rules 1 to 3.
"""

import asyncio
import contextlib
import contextvars
import functools
import itertools
import math
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar, TypeVarTuple, Unpack

from conformance.clock.hooks import HookedLoop
from conformance.clock.network import LOOK_S, Network
from conformance.clock.selector import Events, RestingSelector
from conformance.clock.tasks import describe, tasks_of
from conformance.clock.transport import WatchedTransport

_real_s = time.monotonic
"""Read at every turn: not through what watches the client for readings of its own (conformance/watch.py)."""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

LATEST_START_S = 1e7
"""Beyond it a tick of 1e-9 s is lost in the double, and aiohttp's rounding of timeouts shows."""
_STILL_S = 1e-3
"""A clock that moved less than this stood still: timers of zero length move it by one ulp each."""
_SHUFFLED_ULPS = 1024
"""By so much (1e-10 s) timers are moved at random where ties are shuffled: far below anything a test can mean."""
NEAR_S = 1e-3
"""A wait that ended so shortly before its deadline could as well have missed it."""
_UNLOOKED_PASSES = 50
"""After so many passes in which nothing could happen the kernel is asked all the same: other threads and signals wake
the loop by a descriptor."""
_SAMPLED_PASSES = 20
"""Passes of the loop in which a livelock's tasks are collected: tasks that wake each other run in turn."""


@dataclass(frozen=True)
class Livelock:
    """A clock that stood still: since when, and who kept it from moving."""

    at_s: float
    """Loop time at which it stands."""
    real_s: float
    """Real seconds for which it has stood there."""
    tasks: tuple[str, ...]
    """Tasks (else callbacks) that ran in the last passes of the loop; when none ran, those that wait."""
    held: tuple[str, ...]
    """Executor jobs and explicit holds that were waited for."""

    def __str__(self) -> str:
        who = "; ".join(self.tasks) or "none"
        held = f"; held by: {'; '.join(self.held)}" if self.held else ""
        return f"the clock stood at {self.at_s:.6f} s for {self.real_s:.1f} s of real time; ran: {who}{held}"


class VirtualLoop(HookedLoop):
    """A loop whose time passes only by jumps, each exactly to the next timer, one timer a jump."""

    def __init__(
        self,
        *,
        start_s: float = 1000.0,
        livelock_s: float = 20.0,
        hold_cap_s: float = 120.0,
        network_cap_s: float = 2.0,
        tie_seed: int | None = None,
    ) -> None:
        """Args:
            start_s: loop time at the start; a whole number, as aiohttp rounds timeouts to whole seconds.
            livelock_s: real seconds without movement of the clock that count as a livelock.
            hold_cap_s: real seconds to wait for holds when no job ends.
            network_cap_s: real seconds to wait for bytes on their way.
            tie_seed: timers of one instant run in an order drawn from it; None: first-in first-out.
        Raises ValueError: start_s is not whole, not positive, or 1e7 and more.
        """
        self._now_s = start_s = float(start_s)
        self._poller = RestingSelector(self._select)
        self._network = Network(self._poller.reading.__contains__, self._poller.writing.__contains__)
        self._poller.watched = self._network.fds
        self._unlooked = 0
        self._holds: dict[int, str] = {}
        self._hold_numbers = itertools.count()
        self._hold_cap_s = hold_cap_s
        self._hold_mark = _real_s()
        self._holds_overrun = False
        self._network_cap_s = network_cap_s
        self._livelock_s = livelock_s
        self._sampled: dict[str, None] = {}
        self._passes_sampled = 0
        self._taken: dict[float, float] = {}
        self._taken_limit = 1024
        self._ties = None if tie_seed is None else random.Random(tie_seed)
        self._empty_told = False
        self._stops_at_rest = False
        self.jumps = 0
        """How many times the clock has jumped."""
        self.unrested: list[str] = []
        """What was still on its way when `network_cap_s` was over; empty in a run to be trusted."""
        self.on_near_miss: Callable[[asyncio.TimerHandle], None] | None = None
        """Called with a timer that is cancelled less than `NEAR_S` before it was due."""
        self.on_timers_empty: Callable[[], None] | None = None
        self.on_livelock: Callable[[Livelock], None] | None = None
        super().__init__(self._poller)
        self._poller.others.clear()  # the one by which threads and signals wake the loop
        if not (0 < start_s < LATEST_START_S and start_s.is_integer()):
            self.close()  # checked here because asyncio warns of a loop that was made by half
            raise ValueError(f"start_s: wanted a whole number from 1 to {LATEST_START_S:g}, got {start_s!r}")
        self._clock_moved()
        self._set_resolution()

    # --- time -------------------------------------------------------------------------------------

    def time(self) -> float:
        return self._now_s

    def _set_resolution(self) -> None:
        # _run_once runs every timer due before now + resolution. One ulp makes that exactly one timer.
        self._clock_resolution = math.ulp(self._now_s)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """As in asyncio, but no two timers share an instant: the later made is due one ulp later.

        So timers of one instant run first-in first-out, one a jump, with the network at rest between two of
        them; one that is due already waits for the network too.
        """
        return super().call_at(self._own_instant(when), callback, *args, context=context)

    def _own_instant(self, when: float) -> float:
        if math.isnan(when):
            raise ValueError("call_at: when is not a number")
        asked = max(when, math.nextafter(self._now_s, math.inf))
        if asked == math.inf:
            return asked
        if self._ties is not None:
            asked += self._ties.randrange(_SHUFFLED_ULPS) * math.ulp(asked)
        if len(self._taken) > self._taken_limit:
            self._taken = {at: last for at, last in self._taken.items() if at > self._now_s}
            self._taken_limit = max(1024, 2 * len(self._taken))
        # _taken leads from an instant to the last one given to those who asked for it. Cancelled timers keep
        # theirs: a gap filled again would put the later made before the earlier.
        own = asked
        while own in self._taken:
            own = math.nextafter(self._taken[own], math.inf)
        self._taken[own] = own
        self._taken[asked] = own
        return own

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        super()._timer_handle_cancelled(handle)  # type: ignore[misc]
        waits = handle._scheduled  # type: ignore[attr-defined]
        if waits and self.on_near_miss is not None and handle.when() - self._now_s < NEAR_S:
            self.on_near_miss(handle)

    def close(self) -> None:
        """As in asyncio; who was told things is let go, for libraries keep a closed loop in caches of theirs."""
        super().close()
        self.on_near_miss = self.on_livelock = self.on_timers_empty = None
        self.on_connect = None

    def spend(self, seconds: float) -> None:
        """The clock goes on by so much at once; what was due meanwhile runs late, in its order.

        From a job it goes on when the job hands its result over, from another thread when the loop next turns.
        """
        if seconds < 0:
            raise ValueError(f"spend: wanted 0 seconds or more, got {seconds!r}")
        if (spent := getattr(self._in_job, "spent", None)) is not None:
            spent.seconds += seconds
            return
        if threading.get_ident() != self._thread_id:  # type: ignore[attr-defined]
            self.call_soon_threadsafe(self.spend, seconds)
            return
        self._now_s += seconds
        self._set_resolution()
        self._clock_moved()

    # --- selecting --------------------------------------------------------------------------------

    def _select(self, timeout: float | None) -> Events:
        """What the loop's selector does: look, and if there is nothing to do, come to rest and jump."""
        events = [] if self._nothing_can_come() else self._poller.poll(0)
        if events or timeout == 0:
            self._empty_told = False
            if _real_s() >= self._livelock_at:
                self._sample_livelock()
            return events
        return self._rest(timeout)

    def _nothing_can_come(self) -> bool:
        """Would a look at the sockets find nothing, for sure? Half of all looks would."""
        if self._jobs or self._holds or not self._is_settled():  # a job's end is told by a descriptor, too
            self._unlooked = 0
            return False
        self._unlooked = (self._unlooked + 1) % _UNLOOKED_PASSES
        return self._unlooked > 0

    def _is_settled(self) -> bool:
        return not self._poller.others and self._network.settled()

    def _rest(self, timeout: float | None) -> Events:
        """Return events as soon as there are any; jump when there can be none before the next timer."""
        while True:
            if self._is_held():
                return self._wait_for_holds()
            if self._is_settled():
                break
            if self._network.moving():
                events = self._poller.poll(self._network_cap_s)
                if events:
                    return events
                self.unrested += self._network.give_up()
            owed = self._network.owes_acknowledgement()
            if events := self._poller.poll(LOOK_S if owed else 0):
                return events
            if owed:
                continue
            if not self._is_held():  # a signal handler may have taken a hold
                break
        if self._stops_at_rest:
            self._stops_at_rest = False
            self.stop()
            return []
        # The timeout is a rounded difference, capped at a day: only the timer itself knows its instant,
        # and no public name leads to it.
        due = math.inf if timeout is None else self._scheduled[0].when()  # type: ignore[attr-defined]
        if due == math.inf:
            return self._timers_empty()
        self._jump(due)
        return []

    def _jump(self, due: float) -> None:
        self._empty_told = False
        self.jumps += 1
        self._now_s = due
        self._set_resolution()
        if due - self._moved_s >= _STILL_S:
            self._clock_moved()

    def _timers_empty(self) -> Events:
        if self.held:  # overrun, and still the only one that can go on
            events = self._poller.poll(self._hold_cap_s)
            if events:
                return events
        if self.on_timers_empty is not None and not self._empty_told:
            self._empty_told = True
            # Not called from here: what it raises belongs to the exception handler, never to run_forever.
            self.call_soon(self.on_timers_empty)
            return []
        # Only a signal or another thread can go on from here.
        events = self._poller.poll(max(0.0, self._livelock_at - _real_s()))
        if not events and _real_s() >= self._livelock_at:
            self._report_livelock()
        return events

    def stop_at_rest(self) -> None:
        """Stop the loop where it would jump next, before the clock moves."""
        self._stops_at_rest = True

    # --- holds ------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def hold(self, what: str) -> Iterator[None]:
        """Keep the clock where it is: for threads and subprocesses, whose end the loop cannot foresee.

        Args:
            what: named when the clock stands still for too long.
        """
        number = next(self._hold_numbers)
        self._holds[number] = what
        self.job_started()
        try:
            yield
        finally:
            release = functools.partial(self._release, number)
            if asyncio._get_running_loop() is self:
                release()
            elif not self.is_closed():
                self.call_soon_threadsafe(release)  # the loop waits for us in poll()

    def _release(self, number: int) -> None:
        del self._holds[number]
        self._hold_moved()

    @property
    def held(self) -> list[str]:
        """What holds the clock now: executor jobs, then explicit holds, oldest first."""
        return [*self.jobs, *self._holds.values()]

    def _is_held(self) -> bool:
        return bool(self._jobs or self._holds) and not self._holds_overrun

    def job_started(self) -> None:
        if len(self._jobs) + len(self._holds) == 1:
            self._hold_moved()

    def job_ended(self, job: Any) -> None:
        super().job_ended(job)
        self._hold_moved()

    def _hold_moved(self) -> None:
        self._hold_mark = _real_s()
        self._holds_overrun = False
        self._clock_moved()  # time spent on a job is no livelock

    def _wait_for_holds(self) -> Events:
        events = self._poller.poll(max(0.0, self._hold_mark + self._hold_cap_s - _real_s()))
        if not events and _real_s() >= self._hold_mark + self._hold_cap_s:
            self._holds_overrun = True  # until one of them ends: a thread without end must not end the run
            self._report_livelock()
        return events

    # --- livelock ---------------------------------------------------------------------------------

    def _clock_moved(self) -> None:
        self._moved_s = self._now_s
        self._moved_real = _real_s()
        self._livelock_at = self._moved_real + self._livelock_s
        self._sampled.clear()
        self._passes_sampled = 0

    def _sample_livelock(self) -> None:
        """Collect who runs for a few passes of the loop, then report."""
        for handle in list(self._ready):  # type: ignore[attr-defined]
            self._sampled[_who(handle)] = None
        self._passes_sampled += 1
        if self._passes_sampled >= _SAMPLED_PASSES:
            self._report_livelock()

    def _report_livelock(self) -> None:
        real_s = _real_s() - self._moved_real
        who = tuple(self._sampled) or tuple(f"waiting: {describe(task)}" for task in tasks_of(self))
        livelock = Livelock(self._now_s, real_s, who, tuple(self.held))
        self._clock_moved()
        if self.on_livelock is not None:
            self.call_soon(self.on_livelock, livelock)
        else:
            self.call_exception_handler({"message": str(livelock)})

    def limit_standstill(self, real_s: float) -> None:
        """From now on, `real_s` of real time without movement of the clock, jobs or not, is too much."""
        self._livelock_s = self._hold_cap_s = real_s
        self._hold_moved()

    # --- network ----------------------------------------------------------------------------------

    def flush_acknowledgements(self) -> None:
        """Let every end of a connection acknowledge what it has read: call it before `unacked_bytes`.

        A kernel may keep an acknowledgement back for 40 ms of real time. The clock can jump through hours in
        that time, and bytes that were read long ago would look like bytes that nobody reads.
        """
        self._network.acknowledge_all()

    def _connecting(self, fut: asyncio.Future[None], sock: socket.socket, address: Any) -> None:
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            self._network.connects(sock, address, fut)

    def _make_socket_transport(self, sock: socket.socket, *args: Any, **kwargs: Any) -> asyncio.Transport:
        transport = WatchedTransport(self._network, self._network.opened(sock), self, sock, *args, **kwargs)
        self.transport_made(transport)
        return transport

    def _start_serving(self, protocol_factory: Any, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            self._network.listens(sock.getsockname()[1], sock.fileno())
        super()._start_serving(protocol_factory, sock, *args, **kwargs)  # type: ignore[misc]

    def _stop_serving(self, sock: socket.socket) -> None:
        if sock.family in (socket.AF_INET, socket.AF_INET6) and sock.fileno() != -1:
            self._network.stops_listening(sock.getsockname()[1], sock.fileno())
        super()._stop_serving(sock)  # type: ignore[misc]


def _who(handle: asyncio.Handle) -> str:
    """The task that a ready handle steps, or the callback itself."""
    callback = handle._callback  # type: ignore[attr-defined]
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return describe(owner)
    return f"callback {getattr(callback, '__qualname__', repr(callback))}"
