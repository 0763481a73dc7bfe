"""Defects of our own in opening a session and in leaving one that was never opened."""

from __future__ import annotations

from conformance.defects.model import Defect
from conformance.defects.rewrite import Rewrite

_LOST = ("sample.outcome", "sample.attempts", "sample.error", "wire.connections", "finishes_within_s")

OPENING_DEFECTS: tuple[Defect, ...] = (
    Defect(
        name="refusal-waited-out",
        about="waits for session.created though the server has refused the session",
        rewrites=(
            Rewrite(
                "client.generate:Attempt.configure",
                "not session.created and not session.refused",
                "not session.created",
            ),
        ),
        breaks=("R21", "R22"),
        findings=_LOST,
        first=("handshake/refused[nested]",),
    ),
    Defect(
        name="refused-upgrade-retried",
        about="tries an upgrade again that the server refused with a status",
        rewrites=(
            Rewrite(
                "client.retry:decide_error",
                'Decision(14, "fail", error_text(error))',
                'Decision(14, "retry", error_text(error))',
            ),
        ),
        breaks=("R21",),
        findings=_LOST,
        first=("handshake/upgrade[refused-503]",),
    ),
    Defect(
        name="connect-unbounded",
        about="waits for the upgrade without a deadline of its own",
        rewrites=(Rewrite("client.connection:Connection.open", "deadlines.connect_s", "1e9"),),
        breaks=("R26", "R33"),
        findings=_LOST,
        first=("handshake/upgrade[never-answered]",),
    ),
    Defect(
        name="flat-error-unread",
        about="reads an error only where it is an object of its own",
        rewrites=(
            Rewrite(
                "client.wire:error_of",
                'event.get("code"), body if isinstance(body, str) else event.get("message")',
                '"error", ""',
            ),
        ),
        breaks=("R22",),
        findings=_LOST,
        first=("handshake/refused[flat]",),
    ),
    Defect(
        name="leaving-unbounded",
        about="leaves a connection by its closing handshake without a deadline",
        rewrites=(
            Rewrite("client.teardown:leave", "conversation.deadlines.handshake_s", "1e9"),
            Rewrite("client.connection:Connection._dial", "self.deadlines.library_close_s", "None"),
        ),
        breaks=("R13",),
        findings=_LOST,
        first=("handshake/refused-and-deaf",),
    ),
)
