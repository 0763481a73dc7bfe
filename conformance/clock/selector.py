"""poll(), wrapped: every select() of the loop is answered by the loop itself.

poll() and not epoll: its events come in order of registration, epoll's in the order the kernel noticed them.
"""

import select
import selectors
from collections.abc import Callable
from typing import Any

Events = list[tuple[selectors.SelectorKey, int]]


def wait_readable(fd: int, real_s: float) -> bool:
    """Wait for bytes on a descriptor, at most `real_s` of real time. Returns: whether there are any."""
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(real_s * 1000))


class RestingSelector(selectors.PollSelector):
    """A PollSelector that asks the loop what to do, and remembers which descriptors read and write.

    Attributes:
        watched: what the network counts for; given once it is known.
        others: registered descriptors that it does not count for, so that only the kernel knows of them.
    """

    def __init__(self, select: Callable[[float | None], Events]) -> None:
        super().__init__()
        self._ask = select
        self.reading: set[int] = set()
        self.writing: set[int] = set()
        self.watched: set[int] = set()
        self.others: set[int] = set()

    def select(self, timeout: float | None = None) -> Events:
        return self._ask(timeout)

    def poll(self, real_s: float) -> Events:
        """The real poll, for at most `real_s` seconds of real time."""
        return super().select(real_s)

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = super().register(fileobj, events, data)
        self._note(key)
        return key

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = super().modify(fileobj, events, data)
        self._note(key)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        key = super().unregister(fileobj)
        self.reading.discard(key.fd)
        self.writing.discard(key.fd)
        self.others.discard(key.fd)
        return key

    def _note(self, key: selectors.SelectorKey) -> None:
        if key.fd not in self.watched:
            self.others.add(key.fd)
        for event, fds in ((selectors.EVENT_READ, self.reading), (selectors.EVENT_WRITE, self.writing)):
            if key.events & event:
                fds.add(key.fd)
            else:
                fds.discard(key.fd)
