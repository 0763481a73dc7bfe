"""What ends an attempt, or a write, when two causes meet: no finding where the order is open, one where it is not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import client.retry
import client.teardown
from conformance.fuzz.attempts import timed_out, timeout_in_doubt
from conformance.fuzz.case import SLICER, CasePlayer
from conformance.fuzz.doubts import more_coincidences, open_orders
from conformance.fuzz.play import Played, Summary, play
from conformance.fuzz.strategies import build
from conformance.options import RunOptions
from conformance.outcome import Finding, Outcome

BASE: dict[str, Any] = {
    "title": "t",
    "about": "a",
    "requires": [],
    "clip": {"seconds": 1.0, "frames": False},
    "expect": {"finishes_within_s": 86400.0},
}
FIRST_UNITS = {"reply": [{"starts_at_unit": 0, "units": 2, "text": "A cyclist passed."}]}


def played(data: dict[str, Any], scratch: Path) -> Played:
    return play(build({**BASE, **data}, "two-ends"), RunOptions(seed=3001), scratch)


@pytest.fixture
def coincidences(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Those beside the ones of timers and answers, in words, of everything played."""
    told: list[str] = []

    def listen_in(*given: Any) -> Iterator[str]:
        told.extend(more_coincidences(*given))
        yield from more_coincidences(*given)

    monkeypatch.setattr("conformance.fuzz.play.more_coincidences", listen_in)
    return told


@pytest.fixture
def open_instants(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Inputs in the instant of a server's timer, in words, of everything played."""
    told: list[str] = []

    def listen_in(*given: Any) -> Iterator[str]:
        told.extend(open_orders(*given))
        yield from open_orders(*given)

    monkeypatch.setattr("conformance.fuzz.play.open_orders", listen_in)
    return told


def never_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client whose gate takes a timeout of the request for a failure (R32)."""
    right = client.retry.decide_error

    def decide_error(error: Exception, **elapsed: float) -> client.retry.Decision:
        decision = right(error, **elapsed)
        return client.retry.Decision(decision.row, "fail", decision.reason)

    monkeypatch.setattr(client.retry, "decide_error", decide_error)


ENDS_WITH_ITS_TIMEOUT = {
    "a FIN that comes late": {
        "clip": {"seconds": 12.6, "frames": False},
        "server": {"profile": "july", "reply": [{"starts_at_unit": 12, "units": 1, "text": "End."}]},
        "client": {"deadlines": {"request_s": 15.0}},
        "faults": [{"slow_close": {"delay_s": 0.3}}, {"error_event": {"code": None, "shape": "flat"}}],
    },
    "a drain that settles": {
        "clip": {"seconds": 5.4, "frames": False},
        "server": {
            "profile": "input-driven",
            "reply": [{"starts_at_unit": 4, "units": 1, "text": "A cyclist passes."}],
        },
        "client": {"deadlines": {"request_s": 6.1, "settle_s": 0.6}},
        "faults": [{"error_event": {"on": {"sent": "transcript.delta"}}}],
    },
    "a close that is answered a millisecond before": {
        "clip": {"seconds": 3.0, "frames": False},
        "server": {"profile": "july", "reply": []},
        "client": {"deadlines": {"request_s": 6.1}},
        "faults": [{"late_session_closed": {"delay_s": 1.0}}],
    },
}


@pytest.mark.parametrize("told", ENDS_WITH_ITS_TIMEOUT)
def test_an_attempt_that_ends_by_itself_with_its_timeout_is_no_lone_stall(
    tmp_path: Path, coincidences: list[str], told: str
) -> None:
    seen = played(ENDS_WITH_ITS_TIMEOUT[told], tmp_path)

    assert "failed after 1 attempt(s)" in seen.summary.samples[0][1]
    assert seen.findings == ()
    assert seen.near_misses > 0
    assert any("of its per-request timeout" in words for words in coincidences)


@pytest.mark.parametrize(
    "faults",
    [
        [{"never_done": {}}],
        [{"never_done": {}}, {"slow_close": {"delay_s": 0.3}}],
        [{"never_done": {}}, {"late_session_closed": {"delay_s": 1.0}}],
        [{"stop_reading": {"on": {"received": "input_audio_buffer.commit"}}}],
    ],
    ids=lambda faults: " and ".join(name for fault in faults for name in fault),
)
def test_a_stall_until_the_timeout_is_tried_once_more_or_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, coincidences: list[str], faults: list[dict[str, Any]]
) -> None:
    data = {"server": FIRST_UNITS, "client": {"deadlines": {"request_s": 15.0}}, "faults": faults}
    assert (played(data, tmp_path).findings, coincidences) == ((), [])

    never_tried_again(monkeypatch)

    found = played(data, tmp_path).findings
    assert [(f.id, f.requirements) for f in found] == [("sample.attempts", ("R32",))]


def held(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    stopped = {"stop_reading": {"on": {"sent": "response.created"}}}
    return {
        "clip": {"seconds": 1.0, "frames": False, "speech": []},
        "server": {"profile": "engine", **FIRST_UNITS},
        "client": {"deadlines": {"request_s": 120.0}},
        "faults": [first, second, stopped],
    }


FAILING = {"failing_write": {"write": "playback.ack", "nth": 2, "raises": "AttributeError"}}
STUBBORN = {"swallow_cancellation": {"write": "playback.ack", "nth": 2}}


def test_a_write_that_fails_when_it_was_given_up_fails_nothing(tmp_path: Path) -> None:
    seen = played(held(FAILING, STUBBORN), tmp_path)

    assert "published after 1 attempt(s)" in seen.summary.samples[0][1]
    assert seen.findings == ()


@pytest.mark.parametrize(
    "beside", [STUBBORN, {"late_session_closed": {"delay_s": 1.0}}], ids=["held", "alone"]
)
def test_a_write_that_fails_at_once_surfaces_or_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beside: dict[str, Any]
) -> None:
    data = held(beside, FAILING)  # the later seam stands in front: it fails before anything holds it
    assert played(data, tmp_path).findings == ()
    right = client.teardown.join_acks

    async def join_acks(*given: Any) -> None:
        await right(*given)

    monkeypatch.setattr(client.teardown, "join_acks", join_acks)

    found = played(data, tmp_path).findings
    assert [(f.id, f.requirements) for f in found] == [("sample.outcome", ("R8",))]


@pytest.mark.parametrize(
    "before",
    [
        {"error_event": {"code": "resource_exhausted"}},
        {"close_code": {"code": 1011, "reason": "bye", "on": {"received": "input_audio_buffer.append"}}},
    ],
    ids=["an event", "a close frame"],
)
def test_what_was_under_way_when_the_connection_was_reset_may_be_lost(
    before: dict[str, Any], tmp_path: Path, coincidences: list[str]
) -> None:
    at_first_append = {"reset_peer": {"on": {"received": "input_audio_buffer.append"}}}
    faults = [at_first_append, before] if "error_event" in before else [before, at_first_append]
    data = {**BASE, "faults": faults}
    player = CasePlayer(3001, tmp_path)

    case = player.case(3, data)  # by its number it is played in pieces

    assert (case.extra_runs, case.found, case.outcome) == (1, (), Outcome.INDETERMINATE)
    assert any("under way when the connection is reset" in words for words in coincidences)
    later = {"reset_peer": {"at_s": 1.1}}
    assert player.play({**data, "clip": {"seconds": 3.5}, "faults": [later]}, 1).near_misses == 0


def test_two_ends_that_cross_after_the_last_event_are_one_end(tmp_path: Path) -> None:
    closing = [{"slow_close": {"delay_s": 26.3}}, {"close_code": {"code": 1005, "reason": "bye"}}]
    data = {**BASE, "server": {"profile": "engine", **FIRST_UNITS}, "faults": closing}
    player = CasePlayer(3001, tmp_path)

    case = player.case(3, data)

    assert (case.extra_runs, case.found, case.outcome) == (1, (), Outcome.PASS)
    forced = player.play({**data, "faults": ["no_session_closed"]}, 1).summary
    assert "close forced" in str(player.play(data, 1).summary.difference(forced))


@pytest.mark.parametrize(("cancel_s", "near"), [(4.0995, True), (4.0, False), (4.5, False)])
def test_a_cancellation_in_the_instant_of_the_end_is_a_coincidence(
    tmp_path: Path, coincidences: list[str], cancel_s: float, near: bool
) -> None:
    data = {"clip": {"seconds": 2.0}, "server": {"reply": []}, "client": {"cancel_at_s": cancel_s}}

    assert played(data, tmp_path).findings == ()
    assert any("in which it is cancelled" in words for words in coincidences) is near


def test_a_wait_that_runs_out_in_the_instant_of_the_end_is_a_coincidence(
    tmp_path: Path, coincidences: list[str]
) -> None:
    stopped = {"stop_reading": {"on": {"received": "input_audio_buffer.append"}, "for_s": 5.1005}}
    data = {
        "clip": {"seconds": 6.0, "frame_bytes": 70000},
        "client": {"deadlines": {"write_s": 4.1}},
        "faults": [stopped],
    }

    assert played(data, tmp_path).findings == ()
    assert [words for words in coincidences if "input_audio_buffer.append runs out beside" in words]


def test_what_a_slow_reader_that_held_up_its_writer_takes_when_decides(tmp_path: Path) -> None:
    data = {
        **BASE,
        "clip": {"seconds": 12.6, "frames": False},
        "server": {
            "profile": "input-driven",
            "reply": [{"starts_at_unit": 15, "units": 3, "text": "A cyclist passed."}],
        },
        "faults": [{"slow_reading": {"bytes_per_s": 20000}}],
    }
    player = CasePlayer(3001, tmp_path)

    case = player.case(57547, data)  # by its number it is played in pieces

    assert (case.extra_runs, case.found, case.outcome) == (1, (), Outcome.INDETERMINATE)
    assert case.notes == ("with other chunks a slow reader takes other steps",)


def test_a_slow_reader_that_held_up_nobody_leaves_the_comparison_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = {**BASE, "server": FIRST_UNITS, "faults": [{"slow_reading": {"bytes_per_s": 1000000}}]}
    player = CasePlayer(3001, tmp_path)
    right = player.play(data, 3)
    assert "fault slow_reading" not in right.states
    assert player._against(right, "chunks", data, 3) == ([], "")
    other = replace(right, summary=Summary((("RTD_Omni/1", "failed"),)))
    monkeypatch.setattr(player, "play", lambda *given, **ties: other)

    found, _ = player._against(right, "chunks", data, 3)

    assert [one.finding.id for one in found] == ["depends-on-chunks"]


def test_input_that_comes_in_the_instant_of_the_servers_own_silence_decides(tmp_path: Path) -> None:
    data = {
        **BASE,
        "clip": {"seconds": 3.0, "frames": False},
        "server": {"reply": [{"starts_at_unit": 1, "units": 2, "text": "One."}], "decision_ms": 0},
        "faults": [
            {"swallow_cancellation": {"write": "input_audio_buffer.commit"}},
            {"status": {"status": "failed", "at_s": 0.7, "attempt": 1}},
        ],
    }
    player = CasePlayer(5001, tmp_path)

    assert player._against(player.play(data, 2827), "ties", data, 2827)[0] == []
    assert player.play(data, 2827, ties=2827).open_orders > 0
    assert player.play({**data, "server": {**data["server"], "decision_ms": 10}}, 2827).open_orders == 0


INPUT_MEETS_A_DECISION = {
    **BASE,
    "clip": {"seconds": 3.4, "frames": False},
    "server": {
        "reply": [
            {"starts_at_unit": 0, "units": 3, "text": "And more? Yes."},
            {"starts_at_unit": 6, "units": 3, "text": "A cyclist passed."},
        ],
        "decision_ms": 1700,
    },
    "client": {"deadlines": {"request_s": 120.0, "drain_slack_s": 10.0}},
}
"""The commit comes as the second unit is decided, and a padded unit as the server would feed itself after it."""


def test_input_that_comes_in_the_instant_of_a_decision_decides_what_is_fed(
    tmp_path: Path, open_instants: list[str]
) -> None:
    player = CasePlayer(11001, tmp_path)
    right = player.play(INPUT_MEETS_A_DECISION, 5683)
    in_pieces = player.play({**INPUT_MEETS_A_DECISION, "faults": [SLICER]}, 5683)
    assert right.summary.difference(in_pieces.summary) is not None
    assert "RTD_Omni/1#1: input_audio_buffer.commit comes as a unit is decided, at 3.400 s" in open_instants
    # Decided 5.8 s later, for other units waited: it was fed a second after the decision all the same.
    assert (
        "RTD_Omni/1#1: input_audio_buffer.append comes as the server feeds itself, at 4.400 s"
        in open_instants
    )

    case = player.case(5683, INPUT_MEETS_A_DECISION)  # by its number it is played in pieces

    assert (case.extra_runs, case.found, case.outcome) == (1, (), Outcome.INDETERMINATE)
    assert case.notes == (
        "with other chunks it ends otherwise, beside input in the instant of a server's timer",
    )


def test_what_is_wrong_in_one_performance_is_found_beside_such_an_instant_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    player = CasePlayer(11001, tmp_path)
    right = player.play(INPUT_MEETS_A_DECISION, 5683)
    assert (right.open_orders > 0, right.near_misses) == (True, 0)
    wrong = Finding("wire-violation", (), "protocol.md 4.1", "bad_event")
    other = replace(right, result=replace(right.result, outcome=Outcome.FAIL, findings=(wrong,)))
    monkeypatch.setattr(player, "play", lambda *given, **ties: other)

    found, note = player._against(right, "chunks", INPUT_MEETS_A_DECISION, 5683)

    assert ([one.finding.id for one in found], note) == (["wire-violation"], "")


def test_input_beside_no_timer_of_the_servers_leaves_the_comparison_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = {**INPUT_MEETS_A_DECISION, "clip": {"seconds": 3.45, "frames": False}}
    player = CasePlayer(11001, tmp_path)
    right = player.play(data, 5683)
    assert (right.open_orders, right.near_misses) == (0, 0)
    other = replace(right, summary=Summary((("RTD_Omni/1", "failed"),)))
    monkeypatch.setattr(player, "play", lambda *given, **ties: other)

    found, _ = player._against(right, "chunks", data, 5683)

    assert [one.finding.id for one in found] == ["depends-on-chunks"]


@pytest.mark.parametrize(
    ("seam", "told"),
    [
        ({"failing_write": {"write": "playback.ack"}}, "scripted failure of a write"),
        ({"swallow_cancellation": {"write": "playback.ack"}}, "abandoned"),
        ({"no_transport": {}}, "no abortable handle"),
        ({"no_socket": {}}, "no socket"),
    ],
    ids=lambda seam: next(iter(seam)) if isinstance(seam, dict) else "",
)
def test_a_seam_counts_connections_as_they_are_opened_not_as_they_come_to_it(
    tmp_path: Path, seam: dict[str, Any], told: str
) -> None:
    samples = [{"id": one, "split": "RTD_Omni", "clip": {"seconds": 1.0, "frames": False}} for one in "ab"]
    ((name, given),) = seam.items()
    data = {
        **{key: BASE[key] for key in ("title", "about", "requires", "expect")},
        "samples": samples,
        "server": FIRST_UNITS,
        "client": {"concurrency": 2},
        "faults": [
            {"late_session_created": {"delay_s": 1.0, "sample": "a"}},  # `b` comes to everything before `a`
            {"no_session_closed": {}},
            {name: {**given, "connection": 1}},
        ],
    }
    records = CasePlayer(3001, tmp_path, trace=True).play(data, 1).records

    lines = [f"{record.session} {record.data}" for record in records if told in str(record.data)]
    assert lines
    assert not [line for line in lines if "RTD_Omni/a" not in line]


def test_no_attempt_is_taken_for_timed_out_and_not_in_doubt_one_millisecond_before() -> None:
    request_s = 6.1
    observation: Any = SimpleNamespace(
        deadlines=SimpleNamespace(request_s=request_s), recorder=SimpleNamespace(start_s=0.0)
    )
    taken = 0
    for started_ms in range(0, 30_000, 7):
        for early_s in (0.001, 0.0005, 0.0):
            started_s = started_ms / 1000
            ended_s = started_s + request_s - early_s
            attempt: Any = SimpleNamespace(
                started_s=started_s, ended_s=ended_s, phases=[(ended_s, "closing")], missed=[], entries=[]
            )
            if timed_out(observation, attempt):
                taken += early_s == 0.001
                assert timeout_in_doubt(observation, attempt), (started_s, early_s)
    assert taken > 100  # rounding decides there


def test_what_comes_behind_bytes_that_are_no_frame_was_never_told(tmp_path: Path) -> None:
    data = {
        "server": {
            "profile": "july",
            "reply": [{"starts_at_unit": 0, "units": 3, "text": "A cyclist passed."}],
        },
        "client": {"deadlines": {"request_s": 40.3, "drain_slack_s": 4.9}},
        "faults": [
            {"status": {"status": "failed", "on": {"received": "session.update"}, "attempt": 1}},
            {"stop_reading": {"on": {"received": "input_audio_buffer.commit"}, "for_s": 15.0}},
            {"bad_frame": {"kind": "short_close", "on": {"received": "input_audio_buffer.commit"}}},
        ],
    }

    case = played(data, tmp_path)

    # The failed reply is sent behind the broken frame: what the client saw is a drain that stalled.
    assert case.findings == ()
    assert "after 2 attempt(s)" in case.summary.samples[0][1]


def test_a_reply_cancelled_as_the_stall_ends_makes_it_no_lone_stall(tmp_path: Path) -> None:
    reply = {
        "starts_at_unit": 0,
        "units": 12,
        "text": "A cyclist passed. Then it rained.",
        "status": "cancelled",
    }
    data = {
        "server": {"profile": "july", "reply": [reply]},
        "client": {"deadlines": {"request_s": 120.0, "drain_slack_s": 10.0}},
        "faults": [
            {"stop_reading": {"on": {"sent": "input_audio_buffer.committed"}}},
            {"resume_reading": {"on": {"sent": "response.done"}}},
        ],
    }

    case = played(data, tmp_path)

    # The server reads on in the instant of the reply's end; the client closes in that same instant, behind it.
    assert case.findings == ()
    assert "failed after 1 attempt(s)" in case.summary.samples[0][1]
    assert "cancelled" in case.summary.samples[0][1]


def test_a_connection_lost_after_a_wait_ran_out_was_stalled_first(tmp_path: Path) -> None:
    data = {
        "clip": {"seconds": 8.2, "frames": True},
        "server": {
            "reply": [{"starts_at_unit": 0, "units": 3, "text": "A cyclist passed.", "audio_ms": 960}]
        },
        "client": {"deadlines": {"request_s": 120.0, "ack_s": 25.0, "write_s": 4.1}},
        "faults": [
            {"stop_reading": {"on": {"received": "playback.ack"}}},
            {"reset_peer": {"at_s": 10.0, "attempt": 1}},
            "never_done",
        ],
    }

    case = played(data, tmp_path)

    # The append stalls at 5.1 s, the last ack hangs, and only then comes the reset.
    assert case.findings == ()
    assert "after 2 attempt(s)" in case.summary.samples[0][1]
