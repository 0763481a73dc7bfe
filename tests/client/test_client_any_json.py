"""Any JSON at all from a server: nothing is raised, and what is written stays readable (protocol.md 14)."""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from client import artifacts, wire
from client.connection import Connection
from client.conversation import Conversation
from client.deadlines import Deadlines
from client.generate import error_entries, metadata_of
from client.media import ReferenceVoice
from client.metrics import sample_metrics
from client.metrics_file import keep_metrics, kept_metrics, write_metrics
from client.record import AttemptRecord
from client.result import SampleResult
from client.sentences import timed_sentences
from client.session import ClientSession
from client.settings import SessionSettings
from conformance.clock import run_virtual

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from(
        ["", "r1", "r2", "AAAA", "AAA", "\ud83d", "\udc4d", "completed", "cancelled", "x" * 9000]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(
    [
        *wire.DELTAS,
        *["session.created", "session.updated", "session.closed", "session.expired", "session.replaced"],
        *[
            "input_audio_buffer.committed",
            "response.created",
            "response.done",
            "response.listen",
            "error",
            "new",
        ],
    ]
)
FIELDS = st.sampled_from(
    [
        "response_id",
        "response",
        "delta",
        "audio",
        "error",
        "code",
        "message",
        "session",
        "event",
        "metadata",
        "event_id",
        "server_event_seq",
        "sample_rate_hz",
        "audio_end_ms",
        "_media_clock_ms",
        "current_time_ms",
        "reason",
    ]
)
INNER = st.dictionaries(
    st.sampled_from(
        [
            "id",
            "status",
            "status_details",
            "reason",
            "metadata",
            "model_listen",
            "buffering",
            "capabilities",
            "code",
            "message",
            "audio_duration_ms",
            "chunk_period_ms",
            "implementation_level",
            "overlap_deferred",
        ]
    ),
    JSON,
    max_size=4,
)
EVENTS = st.builds(
    lambda name, fields: {**fields, "type": name}, NAMES, st.dictionaries(FIELDS, JSON | INNER, max_size=5)
)
FIGURES = st.builds(
    lambda rid, stage, request: {
        "type": "response.done",
        "response_id": rid,
        "vllm_omni": {"stage_metrics": {"0": stage}},
        "response_request_metrics": request,
    },
    st.sampled_from(["r1", "r2"]),
    st.dictionaries(st.sampled_from(["num_tokens_out", "vllm_tpot_ms", "vllm_itls_ms"]), JSON),
    st.dictionaries(st.sampled_from(["ttft_ms", "ttfp_ms", "measurement_origin"]), JSON),
)
"""What a server tells of its engine."""
STEPS = st.lists(st.just("commit") | st.just("close") | EVENTS | FIGURES | JSON, max_size=25)


SETTINGS = SessionSettings(
    url="ws://x", model="m", ref_audio=ReferenceVoice("data:audio/wav;base64,AAAA", "00")
)


def conversation_of() -> Conversation:
    """A conversation that never had a socket: frames go in by hand."""
    deadlines = Deadlines()
    return Conversation(
        "S/1",
        deadlines,
        Connection("S/1", deadlines),
        ClientSession(settle_s=deadlines.settle_s),
        AttemptRecord("S", "1"),
    )


def result_of(session: ClientSession) -> SampleResult:
    """What `Attempt.result()` makes of a session."""
    return SampleResult(
        split="S",
        id="1",
        timed_sentences=timed_sentences(delta for delta, late in session.texts if not late),
        late_sentences=timed_sentences(delta for delta, late in session.texts if late),
        metadata={},
        server_errors=list(session.server_errors),
        errors=error_entries(
            server_errors=session.server_errors,
            drain_timeout=None,
            close_timeout=None,
            stream_timeout=None,
            broken=session.ended,
            response_done=False,
            responses=list(session.responses.values()),
        ),
        response_done=False,
        completed_replies=len(session.completed_replies()),
        responses=list(session.responses.values()),
        audio_bytes=sum(r.audio_bytes for r in session.responses.values()),
        audio_sample_rate_hz=session.output_rate_hz,
        stream_start_s=0.0,
    )


@settings(max_examples=240, deadline=None)
@given(steps=STEPS)
@example(steps=[{"type": "error", "error": "\ud83d"}, {"type": "response.created", "response_id": "\ud83d"}])
@example(
    steps=[
        {"type": "response.created", "response_id": "\ud83d"},
        {"type": "response.audio.delta", "response_id": "\ud83d", "delta": "AAAA"},
    ]
)
@example(
    steps=[
        {"type": "response.audio.delta", "metadata": {"audio_duration_ms": 10**40}, "sample_rate_hz": 10**40}
    ]
)
def test_no_sequence_of_json_values_raises_or_spoils_an_artifact(steps: list[Any]) -> None:
    async def main() -> tuple[ClientSession, dict[str, Any]]:
        conversation = conversation_of()
        session = conversation.session
        for step in steps:
            if step == "commit":
                session.commit_sent()
            elif step == "close":
                session.close_sent()
            else:
                conversation.take(json.dumps(step))
            for rid, played_ms in session.acks():
                json.loads(wire.encode(wire.playback_ack(rid, played_ms)))
            session.awaited(), session.settles_at_s(), session.padding_wanted(), session.is_late()
            assert 0 < session.chunk_period_ms <= wire.MAX_CHUNK_PERIOD_MS
            assert session.open_count == len(session.open_responses())
        json.dumps(conversation.record.last_events()).encode()
        return session, metadata_of(result_of(session), SETTINGS, conversation)

    loop = asyncio.new_event_loop()
    try:
        session, metadata = loop.run_until_complete(main())
    finally:
        loop.close()
    result = result_of(session)
    result.metadata = metadata
    with TemporaryDirectory() as folder:
        check_artifacts(Path(folder), result)


def check_artifacts(root: Path, result: SampleResult) -> None:
    """Publish, and read back as strict JSON in UTF-8."""
    artifacts.publish(result, root, "S", "1")
    for path in (artifacts.answer_path(root, "S", "1"), artifacts.metadata_path(root, "S", "1")):
        text = path.read_bytes().decode("utf-8")
        json.loads(text, parse_constant=pytest.fail)
        assert "\\ud8" not in text.lower()
    sample = sample_metrics(result, request_index=0, latency_s=1.0)
    keep_metrics(root, "S", "1", sample)
    write_metrics(root, {("S", "1"): sample})
    assert kept_metrics(root)["S", "1"] == sample
    for item in json.loads(artifacts.answer_path(root, "S", "1").read_bytes()):
        assert item["start"] <= item["end"]


@settings(max_examples=200, deadline=None)
@given(
    text=st.text(st.sampled_from("a .!?é👍𝄞\n"), max_size=30), cuts=st.lists(st.integers(0, 60), max_size=8)
)
def test_text_is_the_same_wherever_its_utf16_is_cut(text: str, cuts: list[int]) -> None:
    units = text.encode("utf-16-le")
    edges = sorted({0, len(units), *(min(2 * cut, len(units)) for cut in cuts)})
    session = ClientSession(settle_s=2.0)
    session.receive({"type": "response.created", "response_id": "r"}, 1.0)
    for a, b in itertools.pairwise(edges):
        part = units[a:b].decode("utf-16-le", "surrogatepass")
        frame = json.dumps({"type": "response.audio_transcript.delta", "response_id": "r", "delta": part})
        event = wire.read_event(frame)
        assert event is not None
        session.receive(event, 1.0)

    assert "".join(delta.text for delta, _ in session.texts) == text


def test_deep_nesting_at_the_parsers_limit_reaches_the_trail_without_an_error() -> None:
    conversation = conversation_of()
    deep = "[" * 1020 + "]" * 1020

    async def main() -> None:
        for field in (
            "error",
            "response",
            "session",
            "event",
            "metadata",
            "delta",
            "response_id",
            "event_id",
        ):
            for name in (
                "error",
                "response.created",
                "response.done",
                "session.created",
                "response.audio.delta",
            ):
                conversation.take(f'{{"type": "{name}", "{field}": {deep}}}')

    run_virtual(main)

    assert conversation.session.received == 40
    assert conversation.session.server_errors == ["error"] * 8
