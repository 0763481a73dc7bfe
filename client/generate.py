"""One attempt at one sample: one session, from connect to close (evaluation.md 3 to 10)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

from client import wire
from client.acks import keep_acking
from client.connection import Connection, ConnectionLost
from client.conversation import Conversation, SessionOver
from client.deadlines import DeadlineExceeded, Deadlines
from client.evidence import as_json
from client.masking import masked
from client.media import Prepared, frames_for_units
from client.padding import Padding
from client.record import AttemptRecord, Observer
from client.result import SampleResult, error_entries
from client.sentences import timed_sentences
from client.session import ClientSession
from client.settings import SessionSettings
from client.teardown import Running, abandon, tear_down

log = logging.getLogger("client.generate")

__all__ = ["SampleResult", "SessionSettings", "generate_sample"]


async def generate_sample(
    prepared: Prepared,
    settings: SessionSettings,
    *,
    observer: Observer | None = None,
    record: AttemptRecord | None = None,
) -> SampleResult:
    """Run one session for one sample. Writes no file.

    Args:
        record: filled as the attempt goes, for diagnostics that survive a cancellation.
    Returns: what came of it, once there was a connection; also for a session that failed.
    Raises:
        ValueError: unusable settings, before a socket is opened.
        DeadlineExceeded: `connect` or `session.created` (evaluation.md 14, row 13).
        OSError and others: refused, or a failure of our own (row 14).
        CancelledError: an outer cancellation, after bounded clean-up; nothing is sent after it.
    """
    attempt = Attempt(
        prepared, settings, record or AttemptRecord(prepared.split, prepared.id, observer=observer)
    )
    return await attempt.run()


class Attempt:
    """One session in the making. `run()` is called once."""

    def __init__(self, prepared: Prepared, settings: SessionSettings, record: AttemptRecord) -> None:
        self.prepared = prepared
        self.settings = settings
        self.deadlines = settings.deadlines
        self.record = record
        self.name = f"{prepared.split}/{prepared.id}"
        self.running = Running()
        self.broken: str | None = None
        self.stream_start_s: float | None = None

    async def run(self) -> SampleResult:
        """Connect, converse, tear down. Results and errors as `generate_sample()`."""
        self.settings.check()
        self.record.task = asyncio.current_task()
        conversation = await self.connect()
        try:
            await self.hold(conversation)
        except asyncio.CancelledError:
            await abandon(conversation, self.running)
            raise
        finally:
            self.drop(conversation)
        return self.result(conversation)

    async def connect(self) -> Conversation:
        """Open the connection and start its reader."""
        settings, deadlines = self.settings, self.deadlines
        try:
            connection = await Connection.open(
                wire.realtime_url(settings.url, settings.model),
                deadlines=deadlines,
                headers=settings.headers,
                tls=settings.tls,
                name=self.name,
            )
        except DeadlineExceeded as late:
            self.record.missed(late)
            raise
        session = ClientSession(settle_s=deadlines.settle_s)
        conversation = Conversation(self.name, deadlines, connection, session, self.record)
        self.record.conversation = conversation
        self.running.reader = asyncio.create_task(conversation.read(), name="reader")
        return conversation

    async def hold(self, conversation: Conversation) -> None:
        """The session and, whatever became of it, its teardown; a failure of the session is raised after that."""
        try:
            await self.converse(conversation)
        except Exception:
            await tear_down(conversation, self.running)
            raise
        await tear_down(conversation, self.running)

    def drop(self, conversation: Conversation) -> None:
        """Last resort, nothing is awaited: whatever a broken teardown left is cancelled and aborted."""
        if self.running.reader is not None and not self.running.reader.done():
            self.running.reader.cancel()
            if conversation.connection.lost is None and not conversation.connection.aborted:
                conversation.connection.abort()

    async def converse(self, conversation: Conversation) -> None:
        """Configure, stream, commit, pad, drain (evaluation.md 4.3). A session that ends in the middle is recorded."""
        try:
            await self.configure(conversation)
            self.running.acks = asyncio.create_task(keep_acking(conversation), name="acks")
            if await self.send_clip(conversation):
                await self.drain(conversation)
        except SessionOver as over:
            self.broken = str(over) or None
        except ConnectionLost as lost:  # met by a write; the reader may have heard why before
            self.broken = conversation.session.ended or f"{type(lost).__name__}: {lost}"

    async def configure(self, conversation: Conversation) -> None:
        """Send `session.update` and wait for `session.created`, both under one deadline.

        Raises: DeadlineExceeded. SessionOver: the connection ended, an `error` came first (protocol.md 17), or what
        was opened is no full-duplex session (protocol.md 1.1).
        """
        self.record.enter("configuring")
        loop = asyncio.get_running_loop()
        until_s = loop.time() + self.deadlines.created_s
        settings = self.settings
        update = wire.session_update(
            model=settings.model,
            ref_audio=settings.ref_audio.data_url,
            instructions=settings.instructions,
            extra_body=settings.extra_body,
        )
        session = conversation.session
        try:
            await conversation.send(update, within_s=self.deadlines.created_s)
        except DeadlineExceeded:
            if session.refused:  # what the server said comes before the stall of our write (R25)
                raise SessionOver("") from None
            raise
        session.asked = True
        while not session.created and not session.refused:
            conversation.check_alive()
            if loop.time() >= until_s:
                late = DeadlineExceeded("session.created", self.deadlines.created_s, "unwound")
                self.record.missed(late)
                raise late
            await conversation.changed.wait_until(until_s)
        if session.refused:  # also when `session.created` came right behind, in the same read
            raise SessionOver("")
        if session.unfit is not None:
            raise SessionOver(session.unfit)

    async def send_clip(self, conversation: Conversation) -> bool:
        """Stream, commit, and start the padding. Returns False after a stuck write, which is recorded."""
        try:
            await self.stream(conversation)
            await self.commit_then_pad(conversation)
        except DeadlineExceeded as late:
            conversation.timeouts.stream = stall_text(late, conversation)
            log.warning("%s: %s", self.name, conversation.timeouts.stream)
            return False
        return True

    async def stream(self, conversation: Conversation) -> None:
        """Write the clip unit by unit, each followed by a pause of its own duration (evaluation.md 3)."""
        self.record.enter("streaming")
        self.stream_start_s = asyncio.get_running_loop().time()
        session = conversation.session
        pcm = shape_tail(self.prepared.pcm, session.chunk_period_ms)
        for unit, jpegs in clip_units(
            self.prepared, pcm, min(self.settings.unit_ms, session.chunk_period_ms)
        ):
            duration_ms = len(unit) // wire.BYTES_PER_MS
            conversation.check_alive()
            audio_end_ms = session.append_sent(duration_ms)
            event = wire.append(unit, duration_ms=duration_ms, audio_end_ms=audio_end_ms, jpegs=jpegs)
            await conversation.send(event, within_s=self.deadlines.write_s)
            await conversation.pause(duration_ms / 1000.0 if self.settings.pace == "realtime" else 0.0)

    async def commit_then_pad(self, conversation: Conversation) -> None:
        """The commit; when its write has returned, and only then, the padding (R37)."""
        conversation.session.commit_sent()
        await conversation.send(wire.commit(), within_s=self.deadlines.write_s)
        self.record.enter("committed")
        self.start_padding(conversation)

    def start_padding(self, conversation: Conversation) -> None:
        """Begin to feed silence (evaluation.md 8)."""
        self.running.padding = Padding(conversation)
        self.running.padding.start()

    async def drain(self, conversation: Conversation) -> None:
        """Wait for completion inside the drain window; a window that passes is recorded."""
        self.record.enter("draining")
        window_s = drain_window_s(self.prepared.video_duration_s, self.deadlines)
        if await self.settled(conversation, window_s):
            self.record.enter("settled")
            conversation.response_done = bool(conversation.session.completed_replies())
            return
        awaited = conversation.session.awaited() or "quiet"
        late = DeadlineExceeded(
            "drain", window_s, "unwound", f", awaited: {awaited}{open_text(conversation)}"
        )
        self.record.missed(late)
        conversation.timeouts.drain = str(late)
        log.warning("%s: %s", self.name, late)

    async def settled(self, conversation: Conversation, window_s: float) -> bool:
        """Wait for the conditions of evaluation.md 7, woken by events. Returns False when the window passed.

        Raises: SessionOver: the session ended or refused the commit. Exception: what killed the padding (R41).
        """
        loop = asyncio.get_running_loop()
        until_s = loop.time() + window_s
        while True:
            conversation.check_alive()
            if conversation.session.commit_refused:
                raise SessionOver("")
            failure = self.running.padding.failure() if self.running.padding is not None else None
            if failure is not None:
                raise failure
            settles_s = conversation.session.settles_at_s()
            if settles_s is not None and loop.time() >= settles_s:
                return True
            if loop.time() >= until_s:
                return False
            await conversation.changed.wait_until(until_s if settles_s is None else min(until_s, settles_s))

    def result(self, conversation: Conversation) -> SampleResult:
        """Everything the attempt leaves, once it is over."""
        session, timeouts = conversation.session, conversation.timeouts
        responses = list(session.responses.values())
        headers = self.settings.headers
        server_errors = [masked(text, headers) for text in session.server_errors]
        result = SampleResult(
            split=self.prepared.split,
            id=self.prepared.id,
            timed_sentences=timed_sentences(delta for delta, late in session.texts if not late),
            late_sentences=timed_sentences(delta for delta, late in session.texts if late),
            metadata={},
            server_errors=server_errors,
            errors=error_entries(
                server_errors=server_errors,
                drain_timeout=timeouts.drain,
                close_timeout=timeouts.close,
                stream_timeout=timeouts.stream,
                broken=self.broken,
                response_done=conversation.response_done,
                responses=responses,
            ),
            response_done=conversation.response_done,
            completed_replies=len(session.completed_replies()),
            drain_timeout=timeouts.drain,
            close_timeout=timeouts.close,
            ack_timeout=timeouts.ack,
            stream_timeout=timeouts.stream,
            close_error=timeouts.close_error,
            broken=self.broken,
            close=conversation.connection.close_kind(session_closed=session.closed),
            session_id=conversation.session_id,
            responses=responses,
            audio_bytes=sum(r.audio_bytes for r in responses),
            audio_sample_rate_hz=session.output_rate_hz,
            stream_start_s=self.stream_start_s,
            media_clock_ms=session.media_clock_ms,
            socket_evidence=as_json(conversation.connection.samples, conversation.record.answer),
        )
        result.metadata = metadata_of(result, self.settings, conversation)
        return result


def failed_metadata(prepared: Prepared, settings: SessionSettings, record: AttemptRecord) -> dict[str, Any]:
    """The metadata of an attempt that ended with an exception: what its session, if there was one, still holds."""
    if record.conversation is not None:
        return Attempt(prepared, settings, record).result(record.conversation).metadata
    nothing = SampleResult(
        prepared.split, prepared.id, [], {}, [], [], response_done=False, completed_replies=0
    )
    return metadata_of(nothing, settings, None)


def metadata_of(
    result: SampleResult, settings: SessionSettings, conversation: Conversation | None
) -> dict[str, Any]:
    """The content of `<id>.meta.json` (evaluation.md 12.1); `retry_count` is the gate's to raise.

    Args:
        conversation: None when no connection was made.
    """
    session = ClientSession(settle_s=0.0) if conversation is None else conversation.session
    return {
        "id": result.id,
        "split": result.split,
        "clock": settings.artifact_clock,
        "pace": settings.pace,
        "mix": settings.mix,
        "fps": settings.fps,
        "unit_ms": settings.unit_ms,
        "model": settings.model,
        "response_done": result.response_done,
        "drain_timeout": result.drain_timeout,
        "close_timeout": result.close_timeout,
        "ack_timeout": result.ack_timeout,
        "stream_timeout": result.stream_timeout,
        "close_error": result.close_error,
        "missed_deadlines": [] if conversation is None else conversation.record.missed_texts(),
        "server_errors": result.server_errors,
        "retry_count": 0,
        "ref_audio_sha256": settings.ref_audio.sha256,
        "close": result.close,
        "late_sentences": result.late_sentences,
        "anomalies": dict(sorted(session.anomalies.items())),
        "unknown": sorted(session.strange),
        "padding": {
            "units": session.padded_units,
            "period_ms": session.chunk_period_ms,
            "timeout": None if conversation is None else conversation.timeouts.padding,
        },
    }


def shape_tail(pcm: bytes, chunk_period_ms: int) -> memoryview:
    """Drop one sample from a clip that ends on a unit boundary, so that the commit flushes a unit (evaluation.md 6).

    An empty clip stays empty: its commit is the server's to refuse. The clip is not copied.
    """
    whole = memoryview(pcm)
    return whole[:-2] if len(pcm) % (wire.BYTES_PER_MS * chunk_period_ms) == 0 else whole


def clip_units(
    prepared: Prepared, pcm: memoryview, unit_ms: int
) -> Iterator[tuple[memoryview, tuple[bytes, ...]]]:
    """The clip's appends: PCM of one unit, and at most one JPEG (evaluation.md 2)."""
    unit_bytes = wire.BYTES_PER_MS * unit_ms
    count = -(-len(pcm) // unit_bytes)
    for k, frame in enumerate(frames_for_units(prepared.frames, count, unit_ms)):
        yield pcm[k * unit_bytes : (k + 1) * unit_bytes], ((frame.jpeg,) if frame is not None else ())


def drain_window_s(video_duration_s: float, deadlines: Deadlines) -> float:
    """Clip duration plus slack (evaluation.md 9, R50)."""
    return video_duration_s + deadlines.drain_slack_s


def stall_text(late: DeadlineExceeded, conversation: Conversation) -> str:
    """The text of a stuck streaming write: its name, how far the clip had come, and the open responses."""
    return f"{late}, at {conversation.session.media_clock_ms} ms of input{open_text(conversation)}"


def open_text(conversation: Conversation) -> str:
    """`, open: ...` naming unfinished responses; empty when there are none."""
    labels = [response.label for response in conversation.session.open_responses()]
    return f", open: {', '.join(labels)}" if labels else ""
