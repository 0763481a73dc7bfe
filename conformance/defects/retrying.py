"""Defects of error classification and of the retry gate (docs/defects.md)."""

from __future__ import annotations

from conformance.defects.model import Defect
from conformance.defects.rewrite import Rewrite

_RERUN = ("sample.attempts", "sample.outcome", "wire.connections", "sample.retry_count")

_NO_SERVER_ERRORS = Rewrite(
    "client.retry:decide_result",
    """
    if result.server_errors:
        return Decision(4 if result.response_done else 9, "fail", reason)
    """,
    "pass",
)

RETRY_DEFECTS: tuple[Defect, ...] = (
    Defect(
        name="close-timeout-loses-sample",
        about="folds close_timeout into the sample's error although the reply was complete",
        rewrites=(
            Rewrite(
                "client.result:error_entries",
                "close_timeout is not None and not response_done",
                "close_timeout is not None",
            ),
        ),
        breaks=("R19", "R20"),
        findings=("sample.outcome", "sample.error", "sample.attempts"),
        first=("close/never-closed[deferred]",),
    ),
    Defect(
        name="ack-timeout-fails-sample",
        about="treats an ack timeout as failure",
        rewrites=(
            Rewrite(
                "client.retry:decide_result",
                "result.response_done and not result.errors",
                "result.response_done and not result.errors and result.ack_timeout is None",
            ),
        ),
        breaks=("R2", "R4"),
        findings=("sample.outcome", "sample.error", "sample.attempts"),
        first=("commit/stall-at-commit",),
    ),
    Defect(
        name="server-error-retried",
        about="retries a sample whose session reported an error, because a timeout was recorded beside it",
        rewrites=(
            _NO_SERVER_ERRORS,
            Rewrite("client.retry:decide_result", "reported_errors(result)", "False"),
        ),
        breaks=("R21", "R22"),
        findings=_RERUN,
        first=("retry/server-error-and-stall",),
    ),
    Defect(
        name="timeout-text-substring",
        about="removes its own timeout text from an error by substring",
        rewrites=(
            _NO_SERVER_ERRORS,
            Rewrite(
                "client.result:reported_errors",
                """
                for timeout in recorded_timeouts(result):
                    if timeout in reported:
                        reported.remove(timeout)
                """,
                """
                for timeout in recorded_timeouts(result):
                    reported = [entry for entry in reported if timeout not in entry]
                """,
            ),
        ),
        breaks=("R24", "R25"),
        findings=_RERUN,
        first=("retry/error-quotes-timeout",),
    ),
    Defect(
        name="response-failed-retried",
        about="retries a response that ended failed, incomplete or cancelled",
        rewrites=(
            Rewrite(
                "client.result:error_entries",
                "entries += [failed_response(r) for r in responses if is_failed(r)]",
                "pass",
            ),
        ),
        breaks=("R21", "R23"),
        findings=_RERUN,
        first=("reply/not-completed-and-stall[failed]",),
    ),
    Defect(
        name="retry-unlimited",
        about="retries more than once",
        rewrites=(
            Rewrite("client.retry:request_sample", "range(1, MAX_ATTEMPTS + 1)", "range(1, 6)"),
            Rewrite("client.retry:may_try_again", "attempt < MAX_ATTEMPTS", "True"),
        ),
        breaks=("R26",),
        findings=("more-than-two-attempts", "sample.attempts", "wire.connections"),
        first=("retry/stall-twice",),
    ),
    Defect(
        name="retry-silent",
        about="retries without counting it",
        rewrites=(
            Rewrite(
                "client.retry:run_attempt",
                "output.retry_count = record.attempt - 1",
                "output.retry_count = 0",
            ),
        ),
        breaks=("R28", "R29"),
        findings=(
            "sample.retry_count",
            "sample-conservation",
            "run.duplex_retried_samples",
            "run.duplex_retry_count",
        ),
        first=("retry/stall-then-success",),
    ),
    Defect(
        name="latency-inflated",
        about="counts the failed attempt into the reported latency",
        rewrites=(
            Rewrite(
                "client.retry:start_latency",
                "output.started_s = now_s",
                "output.started_s = output.started_s or now_s",
            ),
        ),
        breaks=("R27",),
        findings=("sample.latency_s", "latency-not-of-reported-attempt"),
        first=("retry/stall-then-success",),
    ),
    Defect(
        name="inner-timeout-mislabelled",
        about="logs every TimeoutError as the request timeout",
        rewrites=(Rewrite("client.retry:timeout_text", "row == 12", "True"),),
        breaks=("R33",),
        findings=("sample.error", "log"),
        first=("handshake/no-session-created",),
    ),
    Defect(
        name="failure-unnamed",
        about="marks a sample unsuccessful with an empty error",
        rewrites=(
            Rewrite("client.result:failure_text", 'result.error or "no completed response"', "result.error"),
        ),
        breaks=("R30", "R31"),
        findings=("sample-conservation", "sample.error"),
        first=("reply/only-listens[july]",),
    ),
    Defect(
        name="artifact-torn",
        about="writes the judge-visible file in place",
        rewrites=(
            Rewrite(
                "client.artifacts:write_whole",
                """
                part.write_bytes(text + b"\\n")
                part.replace(path)
                """,
                'path.write_bytes(text + b"\\n")',
            ),
        ),
        breaks=("R20",),
        findings=("torn-artifact",),
        first=("resume/killed[half-an-answer]",),
    ),
)
