"""Defects of our own: what the requirements forbid and no historical client is known to have done.

Without them some requirements would never be seen to fail (design.md section 8).
"""

from __future__ import annotations

from conformance.defects.input import INPUT_DEFECTS
from conformance.defects.judging import OWN_JUDGE_DEFECTS
from conformance.defects.model import Defect
from conformance.defects.opening import OPENING_DEFECTS
from conformance.defects.overlooked import OVERLOOKED_DEFECTS
from conformance.defects.reading import READING_DEFECTS
from conformance.defects.rewrite import Rewrite
from conformance.defects.scoring import SCORING_DEFECTS

_LOST = ("sample.outcome", "sample.attempts", "sample.error", "wire.connections")
_TEXT = ("sample.text", "sample.late_text", "sample.sentences", "sample.outcome")

_TEARDOWN: tuple[Defect, ...] = (
    Defect(
        name="ack-failure-vanishes",
        about="forgets an ordinary error of its ack task when it joins it",
        rewrites=(
            Rewrite(
                "client.teardown:join_acks",
                "acks.exception() if acks.done() and not acks.cancelled() else None",
                "None",
            ),
        ),
        breaks=("R8",),
        findings=("sample.outcome", "sample.error"),
        first=("ack/failing-periodic[runtime-error]",),
    ),
    Defect(
        name="clean-close-aborted",
        about="aborts the transport after a good close instead of leaving by the handshake",
        rewrites=(
            Rewrite("client.teardown:end_session", "await leave(conversation)", "await force(conversation)"),
        ),
        breaks=("R15",),
        findings=("sample.close", "wire.aborts"),
        first=("retry/row-01[input-driven]",),
    ),
    Defect(
        name="socket-missing-silent",
        about="finds no socket to force and says nothing",
        rewrites=(
            Rewrite(
                "client.connection:Connection.abort",
                'log.warning("%s: realtime client has no socket to abort", self.name)',
                "pass",
            ),
        ),
        breaks=("R16",),
        findings=("log",),
        first=("close/no-socket",),
    ),
    Defect(
        name="close-timeout-unrecorded",
        about="gives a stalled close up and leaves no trace of it",
        rewrites=(
            Rewrite(
                "client.teardown:record_close_timeout",
                'conversation.timeouts.close = str(late) or "session close timed out"',
                "pass",
            ),
        ),
        breaks=("R18",),
        findings=("metadata.close_timeout",),
        first=("retry/row-02[not-answered]",),
    ),
    Defect(
        name="goodbye-after-cancel",
        about="sends session.close after a cancellation from outside",
        rewrites=(
            Rewrite(
                "client.teardown:abandon",
                "await settle(tasks, conversation.deadlines.grace_s)",
                """
                await settle(tasks, conversation.deadlines.grace_s)
                await close_session(conversation)
                """,
            ),
        ),
        breaks=("R10",),
        findings=("wire.closes",),
        first=("ack/cancelled-in-join",),
    ),
)

_RETRYING: tuple[Defect, ...] = (
    Defect(
        name="lost-connection-retried",
        about="takes a lost connection for a stall",
        rewrites=(
            Rewrite(
                "client.retry:decide_result",
                'Decision(14 if result.broken else 10, "fail", reason)',
                'Decision(14 if result.broken else 10, "retry" if result.broken else "fail", reason)',
            ),
        ),
        breaks=("R21",),
        findings=_LOST,
        first=("retry/row-14[in-clip]",),
    ),
    Defect(
        name="nothing-retried",
        about="retries nothing, not even a stall that came alone",
        rewrites=(Rewrite("client.retry:may_try_again", "attempt < MAX_ATTEMPTS", "False"),),
        breaks=("R24", "R28"),
        findings=(*_LOST, "sample.retry_count"),
        first=("retry/row-06[once]", "run/sixty-six"),
    ),
    Defect(
        name="timeouts-block-retry",
        about="takes its own recorded timeouts for errors that the session reported",
        rewrites=(Rewrite("client.result:reported_errors", "reported.remove(timeout)", "pass"),),
        breaks=("R24",),
        findings=_LOST,
        first=("retry/row-06[once]",),
    ),
    Defect(
        name="ack-timeout-blocks-retry",
        about="takes an ack timeout beside a stall for a reason not to retry",
        rewrites=(
            Rewrite(
                "client.retry:decide_result",
                "recorded_timeouts(result)",
                "recorded_timeouts(result) and result.ack_timeout is None",
            ),
        ),
        breaks=("R4",),
        findings=_LOST,
        first=("retry/row-08[drain-and-ack-once]",),
    ),
    Defect(
        name="request-timeout-not-retried",
        about="fails a sample at its first per-request timeout",
        rewrites=(
            Rewrite(
                "client.retry:decide_error",
                'Decision(row, "retry", timeout_text(error, row))',
                'Decision(row, "fail" if row == 12 else "retry", timeout_text(error, row))',
            ),
        ),
        breaks=("R32",),
        findings=_LOST,
        first=("retry/row-12[once]",),
    ),
    Defect(
        name="ack-too-late-fails",
        about="takes `playback_ack_too_late` for an error of the sample",
        rewrites=(
            Rewrite("client.session:ClientSession._take_error", "code in wire.HARMLESS_ERRORS", "False"),
        ),
        breaks=("R35",),
        findings=("sample.outcome", "sample.error", "metadata.server_errors", "sample.attempts"),
        first=("ack/ack-after-commit",),
    ),
    Defect(
        name="partial-run-completed",
        about="reports a run in which samples failed as one without failures",
        rewrites=(Rewrite("client.run_result:RunResult.failed", 'self.count("failed")', "0"),),
        breaks=("R31",),
        findings=("sample-conservation", "run.failed"),
        first=("retry/row-11",),
    ),
)

_DRAIN: tuple[Defect, ...] = (
    Defect(
        name="pad-when-stopped",
        about="sends its first padded unit without looking whether it was stopped",
        rewrites=(
            Rewrite(
                "client.padding:Padding.beat",
                "due_s = loop.time()",
                """
                await self.send_unit()
                due_s = loop.time() + self.period_s()
                """,
            ),
        ),
        breaks=("R44",),
        findings=("wire.padded_appends",),
        first=("commit/refused-while-written",),
    ),
    Defect(
        name="pad-error-swallowed",
        about="ends padding quietly whatever went wrong in it",
        rewrites=(Rewrite("client.padding:Padding.run", "(ConnectionLost, OSError)", "Exception"),),
        breaks=("R41",),
        findings=("sample.outcome", "sample.error"),
        first=("drain/failing-pad[attribute-error]",),
    ),
    Defect(
        name="pad-beside-commit",
        about="starts padding when the commit is begun, not when its write has returned",
        rewrites=(
            Rewrite(
                "client.generate:Attempt.commit_then_pad",
                "await conversation.send(wire.commit(), within_s=self.deadlines.write_s)",
                """
                asyncio.get_running_loop().call_later(0.05, self.start_padding, conversation)
                await conversation.send(wire.commit(), within_s=self.deadlines.write_s)
                """,
            ),
            Rewrite(
                "client.generate:Attempt.commit_then_pad",
                """
                self.record.enter("committed")
                self.start_padding(conversation)
                """,
                'self.record.enter("committed")',
            ),
        ),
        breaks=("R37",),
        findings=("append-before-commit",),
        first=("commit/slow-commit",),
    ),
    Defect(
        name="residual-not-awaited",
        about="leaves when all replies are done, before the residual unit is decided",
        rewrites=(Rewrite("client.session:ClientSession.awaited", "not self.decided", "False"),),
        breaks=("R49",),
        findings=_TEXT,
        first=("drain/residual-speaks",),
    ),
    Defect(
        name="first-listen-leaves",
        about="leaves on the first decision after the commit, without any quiet",
        rewrites=(
            Rewrite(
                "client.session:ClientSession.settles_at_s",
                "self._last_activity_s + self.settle_s",
                "self._last_activity_s",
            ),
        ),
        breaks=("R49",),
        findings=_TEXT,
        first=("drain/earlier-listen",),
    ),
    Defect(
        name="one-done-is-enough",
        about="takes a session for complete after one `response.done`, with a later reply still open",
        rewrites=(
            Rewrite(
                "client.session:ClientSession.awaited",
                "not self.decided",
                "not self.decided and not self.completed_replies()",
            ),
            Rewrite(
                "client.session:ClientSession.awaited",
                "self.open_count",
                "self.open_count and not self.completed_replies()",
            ),
        ),
        breaks=("R36", "R49"),
        findings=(*_TEXT, "sample.error"),
        first=("drain/second-reply-open",),
    ),
    Defect(
        name="drain-never-early",
        about="sits the whole drain window out, whatever has settled",
        rewrites=(
            Rewrite(
                "client.generate:Attempt.settled",
                "settles_s is not None and loop.time() >= settles_s",
                "False",
            ),
            Rewrite("client.generate:Attempt.settled", "settles_s is None", "True"),
        ),
        breaks=("R46",),
        findings=("metadata.drain_timeout", "finishes_within_s", "sample.outcome"),
        first=("stream/clean-residual[july]",),
    ),
    Defect(
        name="tail-not-shaped",
        about="sends a clip of whole units to its last sample",
        rewrites=(
            Rewrite(
                "client.generate:shape_tail",
                "whole[:-2] if len(pcm) % (wire.BYTES_PER_MS * chunk_period_ms) == 0 else whole",
                "whole",
            ),
        ),
        breaks=("R38",),
        findings=("append-before-commit", "wire.last_clip_append_bytes"),
        first=("stream/clean-exact-units[july]",),
    ),
    Defect(
        name="padding-spoils-clip",
        about="keeps every reply that begins after the commit out of the answer",
        rewrites=(
            Rewrite(
                "client.session:ClientSession.is_late",
                """
                return (
                    self.committed
                    and self.decided
                    and all(r.status is not None for r in replies)
                    and any(r.status == "completed" for r in replies)
                )
                """,
                "return self.committed",
            ),
        ),
        breaks=("R51", "R48"),
        findings=_TEXT,
        first=("stream/clean-exact-units[july]", "drain/first-reply-in-padding"),
    ),
)

OWN_DEFECTS: tuple[Defect, ...] = (
    *_TEARDOWN,
    *_RETRYING,
    *_DRAIN,
    *OPENING_DEFECTS,
    *READING_DEFECTS,
    *OWN_JUDGE_DEFECTS,
    *SCORING_DEFECTS,
    *INPUT_DEFECTS,
    *OVERLOOKED_DEFECTS,
)
