"""Whose task is it: a side for every task, and lists of tasks in the order of their creation.

`asyncio.all_tasks()` is a set, and a set of tasks iterates in the order of their addresses: two runs with one
seed would differ. Everything here iterates in the order in which the tasks were made.
"""

import asyncio
import contextvars
import weakref
from collections.abc import Coroutine, Generator
from typing import Any, Literal

Side = Literal["client", "server", "harness"]

SIDE: contextvars.ContextVar[Side] = contextvars.ContextVar("SIDE", default="harness")
"""Set where a side is started; every task made from there inherits it (its keep-alive included)."""

_Registry = weakref.WeakKeyDictionary[asyncio.Task[Any], Side]

# Weak in both: a registry must neither keep a loop alive nor hide "Task was destroyed but it is pending".
_registries: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Registry] = weakref.WeakKeyDictionary()


def install_task_factory(loop: asyncio.AbstractEventLoop) -> None:
    """Make every task of `loop` record its side and its place in the order of creation.

    The side is `SIDE` in the context in which the task will run. Source: design.md section 4, rule 7.
    """
    # A WeakKeyDictionary keeps insertion order (a dict of references underneath).
    registry: _Registry = weakref.WeakKeyDictionary()
    _registries[loop] = registry

    def make_task(
        of_loop: asyncio.AbstractEventLoop,
        coro: Generator[Any, None, Any] | Coroutine[Any, Any, Any],
        *,
        context: contextvars.Context | None = None,
        **options: Any,  # Python 3.13.3 and later pass name and eager_start here as well
    ) -> asyncio.Task[Any]:
        side = SIDE.get() if context is None else context.get(SIDE, "harness")
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=of_loop, context=context, **options)
        registry[task] = side
        return task

    loop.set_task_factory(make_task)


def side_of(task: asyncio.Task[Any]) -> Side:
    """The side that made the task; "harness" for one made by a loop without our task factory."""
    registry = _registries.get(task.get_loop())
    return "harness" if registry is None else registry.get(task, "harness")


def tasks_of(loop: asyncio.AbstractEventLoop, side: Side | None = None) -> list[asyncio.Task[Any]]:
    """The tasks of `loop` that are not done, in the order of their creation.

    Args:
        side: only the tasks of this side; None for all of them.
    Raises LookupError: the loop has no task factory of ours, so there is no order to give.
    """
    registry = _registries.get(loop)
    if registry is None:
        raise LookupError(f"{loop!r} has no task factory of ours: call install_task_factory(loop) first")
    return [task for task, its in list(registry.items()) if (side is None or its == side) and not task.done()]


def describe(task: asyncio.Task[Any]) -> str:
    """A task in one line: side, name, coroutine, and the line where it waits."""
    coro = task.get_coro()
    where = ""
    frames = task.get_stack(limit=1)
    if frames:
        where = f" at {frames[-1].f_code.co_filename}:{frames[-1].f_lineno}"
    name = getattr(coro, "__qualname__", type(coro).__name__)
    return f"{side_of(task)} task {task.get_name()!r} ({name}{where})"
