"""What begins between the goodbye and the end of the close: nobody waits for it, and nothing else is excused by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import client.retry
from conformance.fuzz.play import Played, play
from conformance.fuzz.strategies import build
from conformance.options import RunOptions

SLOW_MODEL: dict[str, Any] = {
    "title": "t",
    "about": "a",
    "requires": [],
    "clip": {"seconds": 0.4, "frames": False, "speech": []},
    "client": {"deadlines": {"request_s": 120.0, "close_s": 3.7, "settle_s": 0.6}},
    "faults": ["ignore_close"],
    "expect": {"finishes_within_s": 86400.0},
}
"""The padded unit of 0.4 s is decided at 2.1 s; the drain has settled at 1 s, and the close times out at 4.7 s."""
TALKS_ON = {"starts_at_unit": 0, "units": 12, "text": "One. Two. Three."}
SAYS_ONE = {"starts_at_unit": 0, "units": 1, "text": "One."}
FAILS = {"starts_at_unit": 0, "units": 1, "text": "One.", "status": "failed"}


def played(reply: list[dict[str, Any]], scratch: Path, **more: Any) -> Played:
    data = {**SLOW_MODEL, "server": {"profile": "july", "reply": reply, "decision_ms": 1700}, **more}
    return play(build(data, "in-the-close"), RunOptions(seed=7001), scratch)


@pytest.mark.parametrize(
    ("reply", "told"),
    [(TALKS_ON, "responses never done"), (FAILS, "ended failed")],
    ids=["never ends", "fails"],
)
def test_a_reply_that_begins_in_the_close_and_does_not_complete_fails_the_sample(
    tmp_path: Path, reply: dict[str, Any], told: str
) -> None:
    seen = played([reply], tmp_path)

    assert told in seen.summary.samples[0][1]
    assert seen.findings == ()


@pytest.mark.parametrize("reply", [[], [SAYS_ONE]], ids=["none", "one that completes"])
def test_a_client_that_fails_without_one_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reply: list[dict[str, Any]]
) -> None:
    assert played(reply, tmp_path).findings == ()
    monkeypatch.setattr(
        client.retry, "decide_result", lambda result: client.retry.Decision(10, "fail", "made up")
    )

    found = played(reply, tmp_path).findings

    assert {(one.id, one.expected) for one in found} == {
        ("sample.outcome", "no failure of the client's own making")
    }


def test_a_connection_that_ends_behind_a_full_buffer_is_lost_like_any_other(tmp_path: Path) -> None:
    data = {
        **SLOW_MODEL,
        "clip": {"seconds": 12.6, "frames": True},
        "server": {"profile": "july", "reply": []},
        "client": {"deadlines": {"request_s": 120.0}, "pace": "as-fast-as-possible"},
        "faults": [
            {
                "stop_reading": {"on": {"sent": "input_audio_buffer.committed"}}
            },  # never comes; its buffers are small
            {"half_close": {"on": {"sent": "session.created"}, "attempt": 1}},
        ],
    }

    ((_, told),) = play(build(data, "full-buffer"), RunOptions(seed=23001), tmp_path).summary.samples

    # Not an AttributeError of asyncio's, which the library's last abort met.
    assert told.startswith("failed after 1 attempt(s), close lost,")
    assert "error 'ConnectionLost: ended without a close frame" in told
