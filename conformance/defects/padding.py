"""Defects of padding and drain (docs/defects.md)."""

from __future__ import annotations

from conformance.defects.model import Defect
from conformance.defects.rewrite import Rewrite

_FROZEN = ("sample.outcome", "sample.attempts", "sample.text", "sample.sentences", "metadata.drain_timeout")
"""What a reply that froze or was cut off looks like from outside."""

PADDING_DEFECTS: tuple[Defect, ...] = (
    Defect(
        name="pad-before-commit",
        about="starts padding before the commit has been sent",
        rewrites=(
            Rewrite(
                "client.generate:Attempt.commit_then_pad",
                "await conversation.send(wire.commit(), within_s=self.deadlines.write_s)",
                """
                self.start_padding(conversation)
                await asyncio.sleep(0.05)
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
        breaks=("R37", "R38"),
        findings=("append-before-commit",),
        first=("stream/clean-residual[july]",),
    ),
    Defect(
        name="pad-noop",
        about="pads through a method that the real client does not have, and swallows the AttributeError",
        rewrites=(
            Rewrite(
                "client.padding:Padding.send_unit",
                """await self.conversation.send(
                    wire.silence_append(period_ms, audio_end_ms=audio_end_ms),
                    within_s=self.conversation.deadlines.write_s,
                )""",
                """
                try:
                    await self.conversation.connection.append_audio(b"", audio_end_ms)
                except AttributeError:
                    pass
                """,
            ),
        ),
        breaks=("R36", "R40"),
        findings=("wire.padded_appends", *_FROZEN),
        first=("drain/outlives-input[3s]",),
    ),
    Defect(
        name="fake-drift",
        about="appends silence by a name that the shipped class does not have, while a double in its tests has it",
        rewrites=(
            Rewrite(
                "client.padding:Padding.send_unit",
                """await self.conversation.send(
                    wire.silence_append(period_ms, audio_end_ms=audio_end_ms),
                    within_s=self.conversation.deadlines.write_s,
                )""",
                "await self.conversation.connection.append_silence(period_ms)",
            ),
        ),
        breaks=("R36", "R40"),
        findings=("wire.padded_appends", *_FROZEN),
        first=("drain/outlives-input[3s]",),
    ),
    Defect(
        name="pad-forever",
        about="keeps padding after the drain has settled",
        rewrites=(
            Rewrite("client.padding:Padding.wanted", "self.conversation.session.padding_wanted()", "True"),
            Rewrite("client.teardown:join_padding", "padding.stop()", "pass"),
        ),
        breaks=("R43", "R46"),
        findings=("wire.padded_appends", "wire-violation", "padding-after-settle"),
        first=("drain/outlives-input[3s]",),
    ),
    Defect(
        name="pad-as-speech",
        about="marks padded units as speech",
        rewrites=(Rewrite("client.wire:silence_append", "False", "True"),),
        breaks=("R39",),
        findings=("wire-violation", "speech-in-padding"),
        first=("drain/outlives-input[3s]",),
    ),
    Defect(
        name="pad-wrong-period",
        about="pads faster than the negotiated unit period",
        rewrites=(
            Rewrite(
                "client.padding:Padding.period_s",
                "self.conversation.session.chunk_period_ms / 1000.0",
                "self.conversation.session.chunk_period_ms / 4000.0",
            ),
        ),
        breaks=("R39", "R43", "R36"),
        findings=("wire.padded_appends", "padding-off-beat"),
        first=("drain/outlives-input[3s]",),
    ),
    Defect(
        name="pad-clock-frozen",
        about="does not advance the media clock for padded units",
        rewrites=(
            Rewrite(
                "client.padding:Padding.send_unit", "session.append_sent(period_ms)", "session.media_clock_ms"
            ),
        ),
        breaks=("R39",),
        findings=("wire-violation",),
        first=("drain/outlives-input[3s]",),
    ),
    Defect(
        name="pad-dies-on-closed-socket",
        about="lets a closed socket in the padding fail the sample",
        rewrites=(
            Rewrite(
                "client.padding:Padding.run",
                'log.info("%s: padding ends with its socket: %s", self.conversation.name, gone)',
                'raise RuntimeError("padding failed") from gone',
            ),
        ),
        breaks=("R45",),
        findings=("sample.outcome", "sample.error"),
        first=("drain/reset-under-padding",),
    ),
    Defect(
        name="no-padding",
        about="stops appending at the end of input",
        rewrites=(
            Rewrite("client.generate:Attempt.commit_then_pad", "self.start_padding(conversation)", "pass"),
        ),
        breaks=("R36", "R40", "R49"),
        findings=("wire.padded_appends", *_FROZEN),
        first=("drain/outlives-input[3s]",),
    ),
    Defect(
        name="short-drain-window",
        about="drains for the input and 20 s",
        rewrites=(
            Rewrite(
                "client.generate:drain_window_s",
                "video_duration_s + deadlines.drain_slack_s",
                "max(20.0, video_duration_s + 20.0)",
            ),
        ),
        breaks=("R50",),
        findings=_FROZEN,
        first=("drain/outlives-input[100s]",),
    ),
    Defect(
        name="drain-resets-forever",
        about="counts events that padding itself causes as completion activity",
        rewrites=(
            Rewrite("client.session:ClientSession.padding_wanted", "self.awaited() is not None", "True"),
        ),
        breaks=("R43", "R46"),
        findings=("metadata.drain_timeout", "finishes_within_s", "sample.outcome"),
        first=("stream/clean-residual[input-driven]",),
    ),
    Defect(
        name="late-reply-scored",
        about="scores a reply that began in padded silence, after the input's own replies ended",
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
                "return False",
            ),
        ),
        breaks=("R48",),
        findings=("sample.text", "sample.sentences", "metadata.late_sentences"),
        first=("drain/late-reply",),
    ),
)
