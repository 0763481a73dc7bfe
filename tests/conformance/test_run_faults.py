"""Every fault in a whole scenario with the shipped client: it is proven where it bites and inert where it cannot."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.checks_wire import wire_counts
from conformance.clients import builtin
from conformance.options import RunOptions
from conformance.outcome import Outcome, ScenarioResult
from conformance.runner import perform, run_scenario
from scenarios import load_catalogue
from scenarios.faults import FAULTS, FaultBase, Layer, On, StopReading
from scenarios.faults_response import (
    DamagedAudio,
    ExtraReplyInPadding,
    FreezeTail,
    LateDeltas,
    ListenPerPaddedUnit,
    SplitText,
    Status,
    WrongResponseId,
)
from scenarios.faults_session import (
    DropEvent,
    DuplicateEvent,
    GarbageEvent,
    IgnoreCancel,
    IgnoreClose,
    JournalOverflow,
    LateSessionCreated,
    Reorder,
    SessionExpired,
    SessionReplaced,
    UnknownEvent,
)
from scenarios.faults_transport import (
    BadFrame,
    Bandwidth,
    CloseCode,
    HalfClose,
    InvalidUtf8,
    Latency,
    LimitData,
    NeverUpgrade,
    NoCloseReply,
    NoPong,
    OversizeFrame,
    RefuseUpgrade,
    ResumeReading,
    Slicer,
    SlowClose,
    SlowReading,
)
from scenarios.model import ClientSpec, Clip, Expect, Reply, Scenario

CLEAN = next(s for s in load_catalogue() if s.id == "stream/clean-residual[july]")
NEVER = On(received="session.close", nth=99)
DONE, CLOSE = On(sent="response.done"), On(received="session.close")
COMMIT = On(received="input_audio_buffer.commit")
TALE = Reply(starts_at_unit=1, units=6, text="A \N{THUMBS UP SIGN} red car passes by. It is fast.")

SHORT = Reply(starts_at_unit=0, units=1, text="Short.")


def _scenario(*faults: FaultBase, seconds: float = 3.4, **changes: Any) -> Scenario:
    return CLEAN.model_copy(
        update={
            "clip": Clip(seconds=seconds, speech=[0.2, 1.8]),
            "faults": list(faults),
            "expect": Expect(finishes_within_s=86_400),
            "client": ClientSpec(deadlines={"request_s": 120}),
            **changes,
        }
    )


def _run(*faults: FaultBase, reply: Reply | None = TALE, decision_ms: int = 50) -> ScenarioResult:
    server = CLEAN.server.model_copy(update={"reply": [reply] if reply else [], "decision_ms": decision_ms})
    return run_scenario(_scenario(*faults, server=server), RunOptions())


BITING: list[FaultBase] = [
    SlowReading(bytes_per_s=20_000),
    Latency(latency_s=0.3, jitter_s=0.1),
    Bandwidth(bytes_per_s=20_000),
    Slicer(average_size_bytes=1000, delay_s=0.0001),
    LimitData(limit_bytes=60_000),
    HalfClose(on=COMMIT),
    SlowClose(delay_s=30),
    RefuseUpgrade(status=503),
    NeverUpgrade(),
    OversizeFrame(on=COMMIT),
    InvalidUtf8(where="cut_at_end"),
    BadFrame(kind="masked", on=COMMIT),
    CloseCode(code=1001, on=COMMIT),
    LateSessionCreated(delay_s=25),
    IgnoreClose(),
    SessionExpired(on=COMMIT),
    SessionReplaced(on=COMMIT),
    JournalOverflow(),
    DuplicateEvent(event="transcript.delta", nth=None),
    Reorder(event="response.done", by=2),
    DropEvent(event="response.done"),
    GarbageEvent(text="{"),
    GarbageEvent(event=[]),
    GarbageEvent(
        event={"type": "response.audio.delta", "response_id": "$response_id", "delta": 5}, on=COMMIT
    ),
    UnknownEvent(),
    FreezeTail(),
    Status(status="incomplete"),
    LateDeltas(),
    ListenPerPaddedUnit(),
    WrongResponseId(event="response.done"),
    DamagedAudio(kind="bad_base64"),
    SplitText(),
]


@pytest.mark.parametrize("fault", BITING, ids=lambda f: f.name)
def test_a_fault_that_bites_is_proven_and_breaks_no_invariant(fault: FaultBase) -> None:
    result = _run(fault)

    assert {report.state for report in result.faults} == {"observed"}
    assert (result.outcome, [f.id for f in result.findings]) == (Outcome.PASS, [])


def test_an_extra_reply_is_proven() -> None:
    """The model is slow, so that the client pads while the residual is still to be decided."""
    result = _run(ExtraReplyInPadding(), reply=SHORT, decision_ms=1500)

    assert (result.outcome, [report.state for report in result.faults]) == (Outcome.PASS, ["observed"])


def test_a_client_without_pongs_is_lost_to_its_keep_alive_and_says_so(tmp_path: Path) -> None:
    server = CLEAN.server.model_copy(update={"reply": [TALE]})
    scenario = _scenario(NoPong(), seconds=60, server=server, client=ClientSpec(deadlines={"request_s": 300}))
    observed = perform(scenario, RunOptions(), tmp_path, builtin.prepare(scenario, RunOptions()))

    (facts,) = observed.samples
    assert (facts.outcome, facts.attempts) == ("failed", 1)
    assert facts.error == "ConnectionLost: keep-alive: no pong for 20 s (1011)"
    assert 40 <= observed.client_s <= 51
    assert [report.state for report in observed.faults] == ["observed"]


INEFFECTIVE: list[FaultBase] = [
    ResumeReading(on=COMMIT),
    SlowReading(bytes_per_s=10**9),
    Latency(latency_s=1, on=NEVER),
    Bandwidth(bytes_per_s=10**9),
    Slicer(average_size_bytes=10**9),
    LimitData(limit_bytes=10**9),
    HalfClose(on=NEVER),
    SlowClose(delay_s=5, connection=9),
    NoCloseReply(),
    NoPong(),
    RefuseUpgrade(attempt=2),
    NeverUpgrade(for_s=0.5),
    OversizeFrame(on=NEVER),
    InvalidUtf8(on=CLOSE),
    BadFrame(on=NEVER),
    CloseCode(on=NEVER),
    LateSessionCreated(delay_s=1, connection=9),
    IgnoreClose(attempt=2),
    IgnoreCancel(),
    SessionExpired(on=NEVER),
    SessionReplaced(on=NEVER),
    JournalOverflow(on=NEVER),
    DuplicateEvent(event="error"),
    Reorder(event="session.closed"),
    DropEvent(event="transcript.delta", nth=99),
    GarbageEvent(text="x", on=NEVER),
    UnknownEvent(on=NEVER),
    FreezeTail(on=DONE),
    Status(status="failed", nth=9),
    LateDeltas(nth=9),
    ExtraReplyInPadding(after_units=99),
    ListenPerPaddedUnit(on=DONE),
    WrongResponseId(nth=99),
    DamagedAudio(on=DONE),
    SplitText(where="grapheme"),
]


@pytest.mark.parametrize("fault", INEFFECTIVE, ids=lambda f: f.name)
def test_a_fault_that_did_not_bite_is_inert(fault: FaultBase) -> None:
    result = _run(fault)

    assert result.outcome is Outcome.INERT
    assert fault.name in result.reason


def test_every_fault_of_the_wire_has_an_ineffective_form_here_or_among_the_verdicts() -> None:
    verdicts = {
        "stop_reading",
        "reset_peer",
        "no_session_created",
        "late_session_closed",
        "no_session_closed",
        "error_event",
        "never_done",
    }
    wire = {n for n, f in FAULTS.items() if f.layer in (Layer.TRANSPORT, Layer.SESSION, Layer.RESPONSE)}
    assert {fault.name for fault in INEFFECTIVE} | verdicts == wire


@pytest.mark.parametrize("reply", [None, SHORT])
def test_a_freeze_of_a_reply_that_never_came_or_was_over_is_inert(reply: Reply | None) -> None:
    assert _run(FreezeTail(), reply=reply).outcome is Outcome.INERT


def test_the_same_seed_plays_the_same_chance() -> None:
    jittery = Latency(latency_s=0.5, jitter_s=0.5)
    first, second = (_run(jittery).faults[0].evidence["delayed_s"] for _ in range(2))

    assert first == second != pytest.approx(0.5, abs=1e-3)


def test_the_backlog_of_a_held_socket_is_not_counted(tmp_path: Path) -> None:
    """With the system's buffers what the client sends after the commit lies in the socket until it has returned."""
    server = CLEAN.server.model_copy(update={"reply": [TALE]})
    fault = StopReading(on=COMMIT, buffer_bytes=None, proof="unread")
    scenario = _scenario(fault, server=server)
    observed = perform(scenario, RunOptions(), tmp_path, builtin.prepare(scenario, RunOptions()))

    late = [e for e in observed.entries if e.kind == "received" and e.data.get("after_release")]
    counts = wire_counts(observed)
    assert late, "nothing was read after the release: the test shows nothing"
    assert counts["padded_appends"] == 0
    assert counts["commits"] == 1
    untold = [
        replace(entry, data={key: value for key, value in entry.data.items() if key != "after_release"})
        for entry in observed.entries
    ]
    assert wire_counts(replace(observed, entries=untold)) != counts
