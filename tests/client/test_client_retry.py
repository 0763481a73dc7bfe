"""Error classification and the retry gate (evaluation.md 13, 14): pure functions, as tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from client.deadlines import DeadlineExceeded
from client.masking import masked
from client.result import SampleResult, error_entries, failure_text, reported_errors
from client.retry import decide, error_text
from client.session import ResponseRecord

DRAIN = "drain: 123.4 s passed, awaited: response.done, open: r1 (2 deltas, 960 ms)"
CLOSE = "session close: 25.0 s passed"
STREAM = "input_audio_buffer.append: 30.0 s passed, at 7000 ms of input"
ACK = "playback.ack: 20.0 s passed"


def response(status: str | None = "completed", **changes: Any) -> ResponseRecord:
    record = ResponseRecord("r1", 0.0, late=False)
    record.status = status
    for name, value in changes.items():
        setattr(record, name, value)
    return record


def result(**facts: Any) -> SampleResult:
    """A result whose error list follows from the facts, as an attempt makes it."""
    responses = facts.pop("responses", [response()])
    done = facts.pop("done", True)
    ack = facts.pop("ack", None)
    names = {"drain": "drain_timeout", "close": "close_timeout", "stream": "stream_timeout"}
    given = {names.get(key, key): value for key, value in facts.items()}
    base: dict[str, Any] = dict.fromkeys(("drain_timeout", "close_timeout", "stream_timeout", "broken"))
    base |= {"server_errors": [], **given}
    errors = error_entries(response_done=done, responses=responses, **base)
    completed = sum(r.status == "completed" for r in responses)
    timeouts = {key: base[key] for key in ("drain_timeout", "close_timeout", "stream_timeout", "broken")}
    return SampleResult(
        "S",
        "1",
        [],
        {},
        base["server_errors"],
        errors,
        done,
        completed,
        ack_timeout=ack,
        responses=responses,
        **timeouts,
    )


OPEN = [response(None)]
QUOTES = [f"engine_error: gave up because {DRAIN}"]

ROWS: list[tuple[int, str, SampleResult | Exception, str, str]] = [
    (1, "reply, no error", result(), "publish", ""),
    (2, "reply, close timed out", result(close=CLOSE), "publish", ""),
    (3, "reply, ack timed out", result(ack=ACK), "publish", ""),
    (3, "reply, ack and close timed out", result(ack=ACK, close=CLOSE), "publish", ""),
    (4, "reply, server error", result(server_errors=["e: x"]), "fail", "e: x"),
    (4, "reply, server error, close timed out", result(server_errors=["e: x"], close=CLOSE), "fail", "e: x"),
    (
        5,
        "reply beside a failed one",
        result(responses=[response(), response("failed", reason="boom")]),
        "fail",
        "response r1 ended failed (boom)",
    ),
    (6, "drain timed out alone", result(done=False, drain=DRAIN, responses=OPEN), "retry", DRAIN),
    (6, "stuck append alone", result(done=False, stream=STREAM, responses=OPEN), "retry", STREAM),
    (7, "close timed out alone", result(done=False, close=CLOSE, responses=[]), "retry", CLOSE),
    (
        7,
        "drain and close",
        result(done=False, drain=DRAIN, close=CLOSE, responses=OPEN),
        "retry",
        f"{DRAIN}; {CLOSE}",
    ),
    (
        7,
        "stuck append and close",
        result(done=False, stream=STREAM, close=CLOSE),
        "fail",
        f"{STREAM}; {CLOSE}",
    ),
    (8, "drain and ack", result(done=False, drain=DRAIN, ack=ACK, responses=OPEN), "retry", DRAIN),
    (
        9,
        "drain, server error",
        result(done=False, drain=DRAIN, server_errors=["e: x"], responses=OPEN),
        "fail",
        f"e: x; {DRAIN}",
    ),
    (
        9,
        "server error that quotes the timeout",
        result(done=False, drain=DRAIN, server_errors=QUOTES, responses=OPEN),
        "fail",
        f"{QUOTES[0]}; {DRAIN}",
    ),
    (
        10,
        "drain, a response that did not complete",
        result(done=False, drain=DRAIN, responses=[response("incomplete", reason="max_output_tokens")]),
        "fail",
        f"{DRAIN}; response r1 ended incomplete (max_output_tokens)",
    ),
    (
        10,
        "drain, cancelled by the server",
        result(done=False, drain=DRAIN, responses=[response("cancelled")]),
        "fail",
        "",
    ),
    (11, "only listened", result(done=False, responses=[]), "fail", "no completed response"),
    (
        12,
        "request deadline",
        DeadlineExceeded("request", 400, "unwound"),
        "retry",
        "per-request timeout: request: 400.0 s",
    ),
    (
        13,
        "handshake",
        DeadlineExceeded("session.created", 20, "unwound"),
        "retry",
        "session.created: 20.0 s passed",
    ),
    (13, "bare TimeoutError", TimeoutError(), "retry", "TimeoutError"),
    (14, "refused", ConnectionRefusedError(111, "refused"), "fail", "ConnectionRefusedError: "),
    (14, "bad input", ValueError("no audio"), "fail", "ValueError: no audio"),
    (
        14,
        "connection lost",
        result(done=False, broken="ConnectionLost: keep-alive: no pong for 20 s (1011)", responses=[]),
        "fail",
        "ConnectionLost: keep-alive: no pong for 20 s (1011)",
    ),
]


@pytest.mark.parametrize("attempt", [1, 2])
@pytest.mark.parametrize(
    ("row", "outcome", "action", "reason"),
    [(r[0], *r[2:]) for r in ROWS],
    ids=[f"{r[0]} {r[1]}" for r in ROWS],
)
def test_gate(row: int, outcome: Any, action: str, reason: str, attempt: int) -> None:
    error, result_ = (outcome, None) if isinstance(outcome, Exception) else (None, outcome)
    elapsed_s = 400.0 if row == 12 else 21.0

    decision = decide(result_, error, attempt, elapsed_s=elapsed_s, request_s=400.0)

    if action == "retry" and attempt == 2:
        assert (decision.row, decision.action) == (16, "fail")
    elif row == 7 and action == "fail":
        assert (decision.row, decision.action) == (10, "fail")
    else:
        assert (decision.row, decision.action) == (row, action)
    assert reason in decision.reason
    assert decision.reason or decision.action == "publish"


def test_every_row_of_the_table_is_here_or_in_the_integration_tests() -> None:
    assert {row[0] for row in ROWS} == set(
        range(1, 15)
    )  # 15 (cancellation) and 16 (second attempt) are not results


def test_unfinished_response_is_an_entry_only_without_a_timeout_that_explains_it() -> None:
    assert result(done=False, responses=OPEN).errors == ["responses never done: r1"]
    assert result(done=False, responses=OPEN, drain=DRAIN).errors == [DRAIN]
    assert result(done=False, responses=OPEN, stream=STREAM).errors == [STREAM]
    assert result(done=False, responses=OPEN, broken="ConnectionLost: x").errors == ["ConnectionLost: x"]


def test_cancelled_answer_to_our_own_close_is_no_reported_error() -> None:
    stalled = result(done=False, drain=DRAIN, responses=[response("cancelled", after_close=True)])

    assert reported_errors(stalled) == []
    assert stalled.errors == [DRAIN]


def test_order_of_the_entries() -> None:
    everything = result(
        done=False,
        server_errors=["e: x"],
        drain=DRAIN,
        close=CLOSE,
        responses=[response("failed")],
        broken="Lost: y",
    )

    assert everything.errors == ["e: x", DRAIN, CLOSE, "response r1 ended failed", "Lost: y"]


def test_reported_errors_are_compared_as_whole_entries() -> None:
    quoted = replace(
        result(done=False, drain=DRAIN, responses=[]), errors=[f"{DRAIN} said the server", DRAIN]
    )

    assert reported_errors(quoted) == [f"{DRAIN} said the server"]


def test_message_with_the_separator_stays_one_entry() -> None:
    outcome = result(done=False, server_errors=[f"e: a; {DRAIN}"], drain=DRAIN, responses=OPEN)

    assert outcome.errors == [f"e: a; {DRAIN}", DRAIN]
    assert reported_errors(outcome) == [f"e: a; {DRAIN}"]


def test_failure_is_never_unnamed() -> None:
    assert failure_text(result(done=False, responses=[])) == "no completed response"
    assert error_text(KeyError()) == "KeyError"
    assert error_text(ValueError("two\nlines")) == "ValueError: two lines"


def test_credentials_are_masked() -> None:
    headers = {"Authorization": "Bearer sk-very-secret", "X-Short": "a"}

    assert masked("invalid key sk-very-secret (Bearer sk-very-secret)", headers) == "invalid key *** (***)"
