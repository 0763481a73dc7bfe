"""What faults tell the session to do, so that a reply that is frozen or unasked for is the step loop's own doing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mockserver.faults.actions import Expire, Ignore, Script, Silence, Unnumbered
from mockserver.replies import ExtraReply

if TYPE_CHECKING:
    from mockserver.session import ServerSession


def direct(session: ServerSession, action: Script) -> None:
    """Carry out one of these actions."""
    if isinstance(action, Ignore):
        dropped = session.ignored
        session.ignored = dropped - action.names if action.heed else dropped | action.names
    elif isinstance(action, Silence):
        session.steps.silence_off = action.off
    elif isinstance(action, Unnumbered):
        session.numbered = False
    elif isinstance(action, Expire):
        session.expire()
    else:
        session.script.add(ExtraReply(action.from_unit, action.text, action.units, action.audio_ms))
