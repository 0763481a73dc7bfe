"""`unknown_event`."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.actions import Action, Observed
from mockserver.faults.moments import Injected, filled
from mockserver.wire import Send
from scenarios.faults_session import UnknownEvent as Spec


class UnknownEvent(Injected):
    """An event of a type that protocol.md does not know.

    Wire: `times` well-formed events with `event_id` and sequence number. Without a trigger right after
        `session.updated`.
    Parameters: `type`, `fields` (in strings `$session_id`, `$response_id` and `$item_id` stand for those of the
        last reply), `times` (count).
    Survive: ignore it (protocol.md 0).
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self._spec = spec

    def act(self, now_s: float) -> list[Action]:
        spec = self._spec
        events: list[Action] = [
            Send({**filled(dict(spec.fields), self.session), "type": spec.type}) for _ in range(spec.times)
        ]
        return [*events, Observed({"sent": spec.type, "times": spec.times, "at_s": now_s})]
