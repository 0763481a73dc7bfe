"""Defects of the end of a session (docs/defects.md)."""

from __future__ import annotations

from conformance.defects.model import Defect
from conformance.defects.rewrite import Rewrite

_LOST = ("sample.outcome", "sample.attempts", "sample.error", "finishes_within_s", "unbounded-await")
"""What a hang looks like from outside: the request timeout, a second attempt, no answer, or no end at all."""

TEARDOWN_DEFECTS: tuple[Defect, ...] = (
    Defect(
        name="ack-unbounded",
        about="awaits the closing playback ack without a deadline",
        rewrites=(Rewrite("client.teardown:final_ack", "conversation.deadlines.ack_s", "1e9"),),
        breaks=("R1", "R2", "R5"),
        findings=_LOST,
        first=("commit/stall-at-commit",),
    ),
    Defect(
        name="close-unbounded",
        about="awaits the write of session.close without a deadline",
        rewrites=(
            Rewrite(
                "client.teardown:close_session",
                """await bounded(
                    "session close", say_goodbye(conversation), deadlines.close_outer_s, grace_s=deadlines.grace_s
                )""",
                "await say_goodbye(conversation)",
            ),
            Rewrite("client.teardown:say_goodbye", "conversation.deadlines.close_outer_s", "1e9"),
        ),
        breaks=("R11", "R13", "R18", "R19"),
        findings=_LOST,
        first=("commit/stall-at-commit",),
    ),
    Defect(
        name="exit-handshake-unbounded",
        about="leaves the connection through a graceful closing handshake after a stalled close",
        rewrites=(
            Rewrite("client.teardown:force", "conversation.connection.abort()", "pass"),
            Rewrite(
                "client.teardown:force",
                "await conversation.connection.close(conversation.deadlines.grace_s)",
                "await conversation.connection._socket.close()",
            ),
        ),
        breaks=("R13",),
        findings=_LOST,
        first=("commit/stall-at-commit",),
    ),
    Defect(
        name="ack-join-unbounded",
        about="cancels its periodic ack task and awaits it without a deadline",
        rewrites=(Rewrite("client.teardown:join_acks", "conversation.deadlines.grace_s", "1e9", places=2),),
        breaks=("R6",),
        findings=_LOST,
        first=("ack/stubborn-periodic",),
    ),
    Defect(
        name="wait-for-on-uncancellable",
        about="bounds a write with asyncio.wait_for alone",
        rewrites=(
            Rewrite(
                "client.deadlines:bounded",
                "await asyncio.wait((task,), timeout=max(seconds, 0.0))",
                """
                try:
                    await asyncio.wait_for(task, max(seconds, 0.0))
                except DeadlineExceeded:
                    raise
                except TimeoutError:
                    raise DeadlineExceeded(what, seconds, "unwound") from None
                """,
            ),
        ),
        breaks=("R5", "R6", "R14"),
        findings=_LOST,
        first=("ack/stubborn-final",),
    ),
    Defect(
        name="outer-cancel-swallowed",
        about='turns a cancellation of the whole sample into "carry on" while joining the ack task',
        rewrites=(
            Rewrite(
                "client.teardown:join_acks",
                "left = await settle([acks, *writes], conversation.deadlines.grace_s)",
                """
                try:
                    left = await settle([acks, *writes], conversation.deadlines.grace_s)
                except asyncio.CancelledError:
                    left = []
                """,
            ),
        ),
        breaks=("R10",),
        findings=("wire.closes", "wire.acks_after_close", "sample.outcome", "sample.attempts"),
        first=("ack/request-timeout-in-join", "ack/cancelled-in-join"),
    ),
    Defect(
        name="close-ignores-cancellation-awaited",
        about="awaits a close task that ignores its cancellation",
        rewrites=(
            Rewrite(
                "client.teardown:close_session",
                """await bounded(
                    "session close", say_goodbye(conversation), deadlines.close_outer_s, grace_s=deadlines.grace_s
                )""",
                """
                task = asyncio.ensure_future(say_goodbye(conversation))
                await asyncio.wait((task,), timeout=deadlines.close_outer_s)
                if not task.done():
                    task.cancel()
                await task
                """,
            ),
            Rewrite(
                "client.teardown:say_goodbye",
                "await conversation.send(wire.session_close(), within_s=conversation.deadlines.close_outer_s)",
                'await conversation.connection._write("session.close", (wire.session_close(),))',
            ),
        ),
        breaks=("R14",),
        findings=_LOST,
        first=("close/stubborn-close",),
    ),
    Defect(
        name="late-task-exception-unconsumed",
        about="abandons a stuck write and never collects its late exception",
        rewrites=(Rewrite("client.deadlines:consume_exception", "task.exception()", "None"),),
        breaks=("R9",),
        findings=("exception-never-retrieved",),
        first=("ack/stubborn-final", "close/stubborn-close"),
    ),
    Defect(
        name="transport-missing-silent",
        about="finds no abortable transport handle and says nothing",
        rewrites=(
            Rewrite(
                "client.connection:Connection.abort",
                """log.warning(
                    "%s: realtime transport has no abortable handle on %s", self.name, type(socket).__name__
                )""",
                "pass",
            ),
        ),
        breaks=("R16", "R17"),
        findings=("log",),
        first=("close/no-transport",),
    ),
    Defect(
        name="close-deadline-equal",
        about="gives the outer close deadline the same length as the inner one",
        rewrites=(
            Rewrite(
                "client.deadlines:Deadlines.close_outer_s", "self.close_s + self.grace_s", "self.close_s"
            ),
        ),
        breaks=("R12",),
        findings=("metadata.close_timeout", "sample.close"),
        first=("close/late-closed-after-slow-write",),
    ),
    Defect(
        name="artifact-lost-on-teardown-failure",
        about="writes artifacts only after a clean teardown",
        rewrites=(
            Rewrite(
                "client.run:may_publish",
                "output.success",
                "output.success and output.result is not None and output.result.close_timeout is None",
            ),
        ),
        breaks=("R19", "R20"),
        findings=("sample.outcome", "sample-conservation", "run.published"),
        first=("close/never-closed[deferred]", "close/never-closed[written-at-once]"),
    ),
    Defect(
        name="ack-timeout-blank",
        about="records the ack timeout as an empty string",
        rewrites=(Rewrite("client.acks:ack_timeout_text", 'str(late) or "playback ack timed out"', '""'),),
        breaks=("R3",),
        findings=("metadata.ack_timeout",),
        first=("commit/stall-at-commit",),
    ),
)
