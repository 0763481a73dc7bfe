"""When faults act, where several share it, and the ids that scripted texts may name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mockserver.faults.actions import Action
from mockserver.faults.mechanism import Fault
from mockserver.profiles import logical
from mockserver.wire import End, Send
from scenarios.faults import FaultBase

if TYPE_CHECKING:
    from mockserver.session import ServerSession


class Injected(Fault):
    """A fault that acts once: at its trigger, or without one right after `session.updated`."""

    def __init__(self, spec: FaultBase) -> None:
        self._triggered = spec.on is not None or spec.at_s is not None
        self._acted = False

    def act(self, now_s: float) -> list[Action]:
        """What it does."""
        raise NotImplementedError

    def begin(self, now_s: float) -> list[Action]:
        if not self._triggered:
            return []
        self._acted = True
        return self.act(now_s)

    def joined(self, now_s: float) -> list[Action]:
        self._acted = True
        return self.act(now_s)

    def outgoing(self, output: Send | End, now_s: float) -> list[Action] | None:
        if self._acted or isinstance(output, End) or output.event["type"] != "session.updated":
            return None
        self._acted = True
        return [output, *self.act(now_s)]


@dataclass
class Nth:
    """Counts occurrences; None hits every one."""

    nth: int | None
    seen: int = 0

    def hit(self) -> bool:
        """One more; whether it is the one."""
        self.seen += 1
        return self.nth is None or self.seen == self.nth


def is_event(output: Send | End, name: str) -> bool:
    """Whether an event of this logical name goes out."""
    return isinstance(output, Send) and logical(output.event["type"]) == name


def filled(value: Any, session: ServerSession) -> Any:
    """A JSON value in whose strings `$session_id`, `$response_id` and `$item_id` are those of the last reply."""
    if isinstance(value, str):
        response_id = session.last_response_id or ""
        return (
            value.replace("$session_id", session.id)
            .replace("$response_id", response_id)
            .replace("$item_id", f"item_{response_id}")
        )
    if isinstance(value, dict):
        return {filled(key, session): filled(item, session) for key, item in value.items()}
    if isinstance(value, list):
        return [filled(item, session) for item in value]
    return value
