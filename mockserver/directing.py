"""What faults tell the session to do, so that a reply that is frozen or unasked for is the step loop's own doing."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from mockserver.faults.actions import Expire, Ignore, Script, Silence, Unnumbered
from mockserver.replies import ExtraReply

if TYPE_CHECKING:
    from mockserver.session import ServerSession


class Ignoring:
    """Client events that faults have dropped: one is heeded again when the last of them is over."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def after(self, action: Ignore) -> frozenset[str]:
        """Every event that is dropped from here on."""
        (self._counts.subtract if action.heed else self._counts.update)(action.names)
        return frozenset(+self._counts)


def direct(session: ServerSession, action: Script) -> None:
    """Carry out one of these actions."""
    if isinstance(action, Ignore):
        session.ignored = session.ignoring.after(action)
    elif isinstance(action, Silence):
        session.silences += 1 if action.off else -1
        session.steps.silence_off = session.silences > 0
    elif isinstance(action, Unnumbered):
        session.numbered = False
    elif isinstance(action, Expire):
        session.expire()
    else:
        session.script.add(ExtraReply(action.from_unit, action.text, action.units, action.audio_ms))
