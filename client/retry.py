"""The retry gate: at most two attempts a sample, whatever the path (evaluation.md 14, 15)."""

from __future__ import annotations

import asyncio
import logging
import traceback
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from client.deadlines import bounded
from client.diagnostics import AttemptDiagnostics
from client.generate import failed_metadata, generate_sample
from client.masking import masked
from client.media import Prepared
from client.record import AttemptRecord, Observer
from client.result import SampleResult, failure_text, recorded_timeouts, reported_errors
from client.settings import SessionSettings

log = logging.getLogger("client.retry")

MAX_ATTEMPTS: Final = 2

ATTEMPT: ContextVar[tuple[str, str, int] | None] = ContextVar("client.retry.ATTEMPT", default=None)
"""(split, id, attempt) of the running attempt, set before it connects."""


class OnFailedAttempt(Protocol):
    """Called for each failed or retried attempt with the fields of `AttemptDiagnostics`; an OSError is logged."""

    def __call__(self, **facts: Any) -> None: ...


@dataclass(frozen=True)
class Decision:
    """What the gate makes of an attempt."""

    row: int
    """Row of the table in evaluation.md 14."""
    action: Literal["publish", "retry", "fail"]
    reason: str
    """Why it was no success; empty for a publishable attempt."""


@dataclass
class RequestOutput:
    """What became of a sample."""

    split: str
    id: str
    success: bool = False
    error: str = ""
    """Never empty on a failed sample (R30, R31)."""
    result: SampleResult | None = None
    """Of the reported attempt; None when it ended with an exception."""
    attempts: int = 0
    retry_count: int = 0
    latency_s: float = 0.0
    """Of the reported attempt alone: start to return of `generate_sample` (R27)."""
    started_s: float = 0.0
    """Loop time at which the reported attempt began."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """Of the reported attempt; a failed sample leaves it as its only file, with the reason under `error`."""
    reasons: list[str] = field(default_factory=list)
    """Why each failed or retried attempt was none to publish, in order."""


async def request_sample(
    prepared: Prepared,
    settings: SessionSettings,
    *,
    observer: Observer | None = None,
    on_failed_attempt: OnFailedAttempt | None = None,
) -> RequestOutput:
    """Spend at most two attempts on a sample.

    Raises CancelledError: an outer cancellation, after the attempt's bounded clean-up (row 15). Nothing else.
    """
    output = RequestOutput(prepared.split, prepared.id)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        record = AttemptRecord(prepared.split, prepared.id, attempt, observer)
        decision = await run_attempt(prepared, settings, record, output)
        if decision.action == "publish":
            break
        note_failed_attempt(record, decision, output, settings, on_failed_attempt)
        if decision.action == "fail":
            break
    output.metadata["retry_count"] = output.retry_count
    if not output.success:
        output.metadata["error"] = output.error
    return output


async def run_attempt(
    prepared: Prepared, settings: SessionSettings, record: AttemptRecord, output: RequestOutput
) -> Decision:
    """One attempt under the per-request timeout; its outcome replaces the previous one in `output`."""
    loop = asyncio.get_running_loop()
    deadlines = settings.deadlines
    ATTEMPT.set((prepared.split, prepared.id, record.attempt))
    output.attempts = record.attempt
    output.retry_count = record.attempt - 1
    start_latency(output, loop.time())
    output.result = None
    record.tell("attempt_started")
    error: Exception | None = None
    try:
        output.result = await bounded(
            "request",
            generate_sample(prepared, settings, record=record),
            deadlines.request_s,
            grace_s=deadlines.worst_teardown_s,
        )
    except asyncio.CancelledError:
        await unwind(record, deadlines.worst_teardown_s)
        record.tell("attempt_ended", reason="cancelled")
        raise
    except Exception as raised:  # noqa: BLE001 - row 14: any exception is the sample's failure, told with its text
        error = raised
        record.error = raised
    output.latency_s = loop.time() - output.started_s
    decision = decide(
        output.result, error, record.attempt, elapsed_s=output.latency_s, request_s=deadlines.request_s
    )
    reason = masked(decision.reason, settings.headers)
    output.metadata = (
        failed_metadata(prepared, settings, record) if output.result is None else output.result.metadata
    )
    output.success, output.error = decision.action == "publish", reason
    record.tell("attempt_ended", row=decision.row, action=decision.action, reason=reason)
    return Decision(decision.row, decision.action, reason)


async def unwind(record: AttemptRecord, within_s: float) -> None:
    """After an outer cancellation: let the attempt finish its own bounded clean-up, so that nothing is left running."""
    if record.task is not None and not record.task.done():
        await asyncio.wait((record.task,), timeout=within_s)


def start_latency(output: RequestOutput, now_s: float) -> None:
    """The clock of the reported latency starts anew with each attempt (R27)."""
    output.started_s = now_s


def decide(
    result: SampleResult | None, error: Exception | None, attempt: int, *, elapsed_s: float, request_s: float
) -> Decision:
    """The gate. Exactly one of `result` and `error` is given; `attempt` counts from 1."""
    if result is not None:
        decision = decide_result(result)
    else:
        assert error is not None, "an attempt has a result or an error"
        decision = decide_error(error, elapsed_s=elapsed_s, request_s=request_s)
    if decision.action == "retry" and not may_try_again(attempt):
        return Decision(16, "fail", decision.reason)
    return decision


def may_try_again(attempt: int) -> bool:
    """Whether another attempt is allowed after this one (R26)."""
    return attempt < MAX_ATTEMPTS


def decide_result(result: SampleResult) -> Decision:
    """Rows 1 to 11. Reported errors are judged before any stall, so none is retried into a pass (R21 to R25)."""
    reason = failure_text(result)
    if result.response_done and not result.errors:
        return Decision(3 if result.ack_timeout else 2 if result.close_timeout else 1, "publish", "")
    if result.server_errors:
        return Decision(4 if result.response_done else 9, "fail", reason)
    if result.response_done:
        return Decision(5, "fail", reason)
    if reported_errors(result):
        return Decision(14 if result.broken else 10, "fail", reason)
    if recorded_timeouts(result):
        return Decision(8 if result.ack_timeout else 7 if result.close_timeout else 6, "retry", reason)
    return Decision(11, "fail", reason)


def decide_error(error: Exception, *, elapsed_s: float, request_s: float) -> Decision:
    """Rows 12 to 14: there is no result to inspect. A TimeoutError is told apart by the time it took (R32, R33)."""
    if isinstance(error, TimeoutError):
        row = 12 if elapsed_s >= request_s else 13
        return Decision(row, "retry", timeout_text(error, row))
    return Decision(14, "fail", error_text(error))


def timeout_text(error: TimeoutError, row: int) -> str:
    """Names the per-request timeout, or the inner wait that ran out, by its own text."""
    return f"per-request timeout: {error}" if row == 12 else f"inner timeout: {error_text(error)}"


def error_text(error: BaseException) -> str:
    """`Type: message` in one line."""
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def note_failed_attempt(
    record: AttemptRecord,
    decision: Decision,
    output: RequestOutput,
    settings: SessionSettings,
    on_failed_attempt: OnFailedAttempt | None,
) -> None:
    """Log an attempt that is none to publish, and hand its diagnostics on; a full disk does not cost the sample."""
    name = f"{output.split}/{output.id}"
    output.reasons.append(decision.reason)
    if decision.action == "retry":
        log.warning("%s: attempt %d stalled, one retry: %s", name, record.attempt, decision.reason)
    else:
        log.warning(
            "%s: failed after %d attempt(s): %s",
            name,
            record.attempt,
            decision.reason,
            extra={"in_result": True},
        )
    if on_failed_attempt is None:
        return
    trace = "".join(traceback.format_exception(record.error)) if record.error is not None else None
    diagnostics = AttemptDiagnostics.of(
        record, decision.row, decision.action, decision.reason, output.result, trace
    )
    try:
        on_failed_attempt(**diagnostics.masked(settings.headers).to_json())
    except OSError as error:
        log.error("%s: attempt diagnostics not written: %s", name, error)
