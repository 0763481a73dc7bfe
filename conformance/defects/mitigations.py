"""What keeps the client from losing samples, each thing by itself, and the change that takes it away.

A mitigation taken away shows which scenarios depend on it. The review thread argued about which of two fixes had
rescued a run; two taken away together answer that (issue pairs of conformance/defects/ablation.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from conformance.defects.all import ALL_DEFECTS
from conformance.defects.rewrite import Rewrite


@dataclass(frozen=True)
class Mitigation:
    """One thing that the client does for its samples."""

    name: str
    about: str
    """What it does, and what stands there without it."""
    without: tuple[Rewrite, ...]


def _of(defect: str) -> tuple[Rewrite, ...]:
    return next(d.rewrites for d in ALL_DEFECTS if d.name == defect)


MITIGATIONS: tuple[Mitigation, ...] = (
    Mitigation("padding", "silence after the commit; without it nothing is sent", _of("no-padding")),
    Mitigation(
        "drain-window", "input and 120 s for the drain; without it, input and 20 s", _of("short-drain-window")
    ),
    Mitigation(
        "retry", "a second attempt after a lone stall; without it there is one", _of("nothing-retried")
    ),
    Mitigation("ack-bound", "20 s for the closing ack; without it, no bound", _of("ack-unbounded")),
    Mitigation(
        "close-bound", "25 s for the whole close; without it, no bound on its write", _of("close-unbounded")
    ),
    Mitigation("ack-join-bound", "5 s to join the ack task; without it, no bound", _of("ack-join-unbounded")),
    Mitigation(
        "exit-bound",
        "a stuck connection is aborted; without it, it is left by the closing handshake, unbounded",
        _of("exit-handshake-unbounded"),
    ),
    Mitigation(
        "pad-join-bound",
        "5 s to join the padding; without it, no bound",
        (
            Rewrite(
                "client.teardown:join_padding",
                "await settle([padding.task], conversation.deadlines.grace_s)",
                "await settle([padding.task], 1e9)",
            ),
        ),
    ),
    Mitigation(
        "uncancellable-bound",
        "bounds that hold although a write swallows its cancellation; without it, wait_for",
        _of("wait-for-on-uncancellable"),
    ),
    Mitigation(
        "write-bound",
        "30 s for a streamed append and the commit; without it, no bound",
        (
            Rewrite("client.generate:Attempt.stream", "self.deadlines.write_s", "1e9"),
            Rewrite("client.generate:Attempt.commit_then_pad", "self.deadlines.write_s", "1e9"),
        ),
    ),
    Mitigation(
        "handshake-bound",
        "20 s for session.created; without it, no bound but the request's",
        (
            Rewrite(
                "client.generate:Attempt.configure",
                "until_s = loop.time() + self.deadlines.created_s",
                "until_s = loop.time() + 1e9",
            ),
        ),
    ),
    Mitigation(
        "request-timeout",
        "a bound around the whole attempt; without it there is none",
        (Rewrite("client.retry:run_attempt", "deadlines.request_s", "1e9", places=2),),
    ),
    Mitigation(
        "early-leave",
        "a drain that has settled ends; without it, it lasts its whole window",
        _of("drain-never-early"),
    ),
    Mitigation(
        "residual-wait",
        "the drain waits for the residual unit's decision; without it, for replies alone",
        _of("residual-not-awaited"),
    ),
    Mitigation(
        "tail-shaping", "a clip of whole units keeps its last open; without it, none", _of("tail-not-shaped")
    ),
    Mitigation(
        "late-reply-apart",
        "a reply that began in padded silence is kept apart; without it, it is scored",
        _of("late-reply-scored"),
    ),
    Mitigation(
        "ack-advisory",
        "a stuck closing ack costs nothing; without it, the sample",
        _of("ack-timeout-fails-sample"),
    ),
    Mitigation(
        "close-advisory",
        "a stuck close after a complete reply costs nothing; without it, an attempt",
        _of("close-timeout-loses-sample"),
    ),
    Mitigation(
        "judge-re-ask", "one more request for an unusable verdict; without it, none", _of("judge-prose-fails")
    ),
    Mitigation(
        "judge-transport-retry",
        "a request that got 429 or 5xx is sent again; without it, not",
        (Rewrite("client.judge.judge:Judge.next_try_s", "not is_transient(error)", "True"),),
    ),
    Mitigation(
        "judge-frames",
        "content is judged by frames when the video fails; without it, not",
        (
            Rewrite(
                "client.judge.rtd:content_modes",
                '("video_url", "frames") if settings.video_mode == "video_url" else ("frames",)',
                '("video_url",) if settings.video_mode == "video_url" else ("frames",)',
            ),
        ),
    ),
)

PAIRS: tuple[tuple[str, str], ...] = (
    ("padding", "drain-window"),
    ("padding", "retry"),
    ("ack-bound", "close-bound"),
    ("drain-window", "retry"),
)
"""The pairs that the review thread argues about."""
