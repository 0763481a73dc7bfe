"""`journal_overflow`."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.actions import Action, Observed, Unnumbered
from mockserver.faults.moments import Injected
from mockserver.wire import Send
from scenarios.faults_session import JournalOverflow as Spec


class JournalOverflow(Injected):
    """The session's replay journal overflows: it cannot be resumed any more, and goes on.

    Wire: `session.resync_required` with the reason `journal_overflow`; nothing from there on has a `server_event_seq`
        (protocol.md 12.5). Without a trigger right after `session.updated`, as a long `ref_audio` does it.
    Parameters: none.
    Survive: it is no error and no end; events are taken in the order in which they come, with or without a number.
    """

    name: ClassVar[str] = Spec.name

    def act(self, now_s: float) -> list[Action]:
        event = {
            "type": "session.resync_required",
            "session_id": self.session.id,
            "reason": "journal_overflow",
        }
        evidence = {"sent": "session.resync_required", "at_s": now_s}
        return [Unnumbered(), Send(event, sequenced=False), Observed(evidence)]
