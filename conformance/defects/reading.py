"""Defects of our own in reading what a server sends, and in what is made of it."""

from __future__ import annotations

from conformance.defects.model import Defect
from conformance.defects.rewrite import Rewrite

_ANSWER = (
    "sample.outcome",
    "sample.error",
    "sample.text",
    "sample.sentences",
    "sample.attempts",
    "sample.late_text",
    "metadata.response_done",
)
_COUNTED = (
    "sample.anomalies.duplicate_event",
    "sample.anomalies.unreadable_frame",
    "sample.anomalies.delta_after_done",
    "sample.anomalies.damaged_base64",
    "sample.anomalies.text_cut_in_character",
)

READING_DEFECTS: tuple[Defect, ...] = (
    Defect(
        name="duplicates-counted",
        about="takes an event that comes twice for two",
        rewrites=(Rewrite("client.session:ClientSession.receive", "self._is_duplicate(event)", "False"),),
        breaks=(),
        findings=(*_ANSWER, *_COUNTED),
        first=("protocol/duplicated[transcript-delta]",),
        rule="protocol.md 3.1",
    ),
    Defect(
        name="nonsense-ends-session",
        about="ends the session at a frame that holds no event",
        rewrites=(
            Rewrite(
                "client.conversation:Conversation.take",
                'self.session.anomalies["unreadable_frame" if isinstance(frame, str) else "binary_frame"] += 1',
                'self.session.connection_ended("a frame that makes no sense")',
            ),
        ),
        breaks=("R51",),
        findings=_ANSWER,
        first=("protocol/garbage[no-json]",),
    ),
    Defect(
        name="unknown-event-is-error",
        about="takes an event that it does not know for an error of the session",
        rewrites=(
            Rewrite(
                "client.session:ClientSession._note_oddities",
                "self.anomalies[strange[0]] += 1",
                'self.server_errors.append(f"unknown: {strange[1]}")',
            ),
        ),
        breaks=("R51",),
        findings=_ANSWER,
        first=("protocol/unknown-events[one]",),
    ),
    Defect(
        name="late-deltas-taken",
        about="goes on with a reply after its response.done",
        rewrites=(
            Rewrite("client.session:ClientSession._take_delta", "response.status is not None", "False"),
        ),
        breaks=("R51",),
        findings=(*_ANSWER, *_COUNTED),
        first=("reply/late-deltas[july]",),
    ),
    Defect(
        name="damaged-sound-fails",
        about="takes sound that is no base64 for the end of the session",
        rewrites=(
            Rewrite(
                "client.session:ClientSession._audio_size",
                'self.anomalies["damaged_base64"] += 1',
                'self.server_errors.append("damaged sound")',
            ),
        ),
        breaks=("R51",),
        findings=(*_ANSWER, *_COUNTED),
        first=("reply/damaged-audio[bad-base64]",),
    ),
    Defect(
        name="sound-wanted",
        about="takes a reply without sound for none",
        rewrites=(
            Rewrite(
                "client.session:ClientSession.completed_replies",
                'r.status == "completed"',
                'r.status == "completed" and r.audio_bytes',
            ),
        ),
        breaks=("R51",),
        findings=_ANSWER,
        first=("reply/text-only[july]",),
    ),
    Defect(
        name="words-wanted",
        about="takes a reply without words for none",
        rewrites=(
            Rewrite(
                "client.session:ClientSession.completed_replies",
                'r.status == "completed"',
                'r.status == "completed" and r.first_text_s is not None',
            ),
        ),
        breaks=("R51",),
        findings=_ANSWER,
        first=("reply/audio-only[july]",),
    ),
    Defect(
        name="any-end-is-complete",
        about="takes every reply that ended for a complete one",
        rewrites=(
            Rewrite(
                "client.session:ClientSession.completed_replies",
                'r.status == "completed"',
                "r.status is not None",
            ),
            Rewrite(
                "client.result:is_failed", 'response.status not in (None, "completed", LISTENING)', "False"
            ),
        ),
        breaks=("R21", "R23", "R30"),
        findings=_ANSWER,
        first=("reply/status[failed]",),
    ),
    Defect(
        name="final-ack-error-swallowed",
        about="forgets an ordinary error of its closing ack",
        rewrites=(
            Rewrite(
                "client.teardown:tear_down",
                "await failure_of(final_ack(conversation))",
                "(await failure_of(final_ack(conversation))) and None",
            ),
        ),
        breaks=("R8",),
        findings=_ANSWER,
        first=("ack/failing-final",),
    ),
    Defect(
        name="close-error-swallowed",
        about="forgets an ordinary error in the write of session.close",
        rewrites=(
            Rewrite(
                "client.teardown:tear_down",
                """
                for failure in failures:
                    if failure is not None:
                        raise failure
                """,
                """
                for failure in failures[:3]:
                    if failure is not None:
                        raise failure
                """,
            ),
        ),
        breaks=("R41", "R30"),
        findings=_ANSWER,
        first=("close/failing-close",),
    ),
    Defect(
        name="refused-commit-awaited",
        about="waits for the decision on a commit that the server has refused",
        rewrites=(
            Rewrite("client.generate:Attempt.settled", "conversation.session.commit_refused", "False"),
        ),
        breaks=(),
        findings=(*_ANSWER, "finishes_within_s"),
        first=("commit/refused[empty]",),
        rule="protocol.md 5.5",
    ),
    Defect(
        name="created-bound-halved",
        about="gives session.created half of its time",
        rewrites=(
            Rewrite(
                "client.generate:Attempt.configure",
                "until_s = loop.time() + self.deadlines.created_s",
                "until_s = loop.time() + self.deadlines.created_s / 2",
            ),
        ),
        breaks=("R21", "R26", "R33"),
        findings=(*_ANSWER, "wire.connections", "sample.retry_count"),
        first=("handshake/late-created",),
    ),
    Defect(
        name="close-bound-halved",
        about="gives session.closed half of its time",
        rewrites=(
            Rewrite(
                "client.teardown:say_goodbye",
                "until_s = loop.time() + close_s",
                "until_s = loop.time() + close_s / 2",
            ),
        ),
        breaks=("R12",),
        findings=("sample.close", "metadata.close_timeout"),
        first=("close/late-closed[july]",),
    ),
)
