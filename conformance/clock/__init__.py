"""Time for the code under test: a loop whose clock jumps, and one on the wall clock with the same hooks."""

from conformance.clock.hooks import HookedLoop, RealLoop
from conformance.clock.loop import Livelock, VirtualLoop
from conformance.clock.run import (
    ClockError,
    LeakedTasks,
    LivelockError,
    TimersEmpty,
    close_loop,
    make_loop,
    run_virtual,
    stuck_of_ours,
)
from conformance.clock.sockets import (
    bytes_acked,
    supported,
    unacked_bytes,
    unread_bytes,
    unsent_bytes,
)
from conformance.clock.tasks import SIDE, Side, describe, install_task_factory, side_of, tasks_of

__all__ = [
    "SIDE",
    "ClockError",
    "HookedLoop",
    "LeakedTasks",
    "Livelock",
    "LivelockError",
    "RealLoop",
    "Side",
    "TimersEmpty",
    "VirtualLoop",
    "bytes_acked",
    "close_loop",
    "describe",
    "install_task_factory",
    "make_loop",
    "run_virtual",
    "side_of",
    "stuck_of_ours",
    "supported",
    "tasks_of",
    "unacked_bytes",
    "unread_bytes",
    "unsent_bytes",
]
