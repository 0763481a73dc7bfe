"""What fuzzing once called a finding and was none: each scenario gave one before its rule was put right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conformance.defects.all import ALL_DEFECTS
from conformance.defects.rewrite import applied
from conformance.fuzz.case import SLICER, CasePlayer
from conformance.fuzz.play import Summary, play
from conformance.fuzz.strategies import build
from conformance.options import RunOptions
from conformance.outcome import Outcome
from mockserver.judge_verdict import plain_standing, read_verdict

BASE: dict[str, Any] = {
    "title": "t",
    "about": "a",
    "requires": [],
    "expect": {"finishes_within_s": 86400.0},
}


def test_a_reply_that_began_after_the_drain_had_settled_is_not_asked_for(tmp_path: Path) -> None:
    data = {
        **BASE,
        "clip": {"seconds": 0.4, "frames": True, "frame_bytes": 70000},
        "server": {
            "profile": "input-driven",
            "reply": [{"starts_at_unit": 1, "units": 1, "text": "One."}],
            "decision_ms": 0,
        },
        "faults": [
            {"slow_reading": {"bytes_per_s": 4000}},
            {"stop_reading": {"proof": "unread", "on": {"sent": "response.done", "nth": 2}, "for_s": 2.3}},
        ],
        "client": {"deadlines": {"request_s": 120.0, "drain_slack_s": 10.0}},
    }

    played = play(build(data, "late"), RunOptions(seed=9101), tmp_path)

    assert [sample for _, sample in played.summary.samples if "failed after 1 attempt(s)" in sample]
    assert played.findings == ()


def test_a_connection_that_ends_in_its_own_close_is_no_lost_one(tmp_path: Path) -> None:
    data = {
        **BASE,
        "clip": {"seconds": 3.0, "speech": []},
        "faults": [
            {"close_code": {"code": 0, "reason": "bye", "on": {"received": "session.close"}}},
            {"swallow_cancellation": {"write": "input_audio_buffer.commit"}},
        ],
        "client": {"deadlines": {"request_s": 120.0}, "pace": "as-fast-as-possible"},
    }

    played = play(build(data, "closing"), RunOptions(seed=77), tmp_path)

    assert [told for _, told in played.summary.samples if "after 2 attempt(s)" in told]
    assert played.findings == ()


def test_an_end_of_the_quiet_beside_the_end_of_the_drain_is_a_doubt(tmp_path: Path) -> None:
    data = {
        **BASE,
        "clip": {"seconds": 5.4, "frames": False},
        "server": {"reply": [{"starts_at_unit": 6, "units": 12, "text": "Mixed."}]},
        "client": {"deadlines": {"request_s": 120.0, "drain_slack_s": 10.0, "settle_s": 4.3}},
    }
    player = CasePlayer(9101, tmp_path)
    longer = {**data, "clip": {"seconds": 5.5, "frames": False}}

    assert player.play(data, 1).near_misses > 0
    assert player.play(longer, 1).near_misses == 0

    case = player.case(1125, data)
    assert case.extra_runs >= 1  # by its number it is played with other ties
    assert (case.found, case.outcome in (Outcome.PASS, Outcome.INDETERMINATE)) == ((), True)


def test_a_beat_of_the_padding_beside_the_end_of_a_reply_is_a_doubt(tmp_path: Path) -> None:
    data = {
        **BASE,
        "clip": {"seconds": 3.0},
        "server": {
            "reply": [
                {"starts_at_unit": 2, "units": 5, "text": "A cyclist passed."},
                {"starts_at_unit": 7, "units": 1, "text": "A cyclist passed."},
            ],
            "decision_ms": 900,
        },
        "client": {"deadlines": {"drain_slack_s": 4.9}},
    }
    player = CasePlayer(9101, tmp_path)
    in_pieces = {**data, "faults": [SLICER]}
    apart = {**in_pieces, "server": {**data["server"], "decision_ms": 700}}

    assert player.play(in_pieces, 1).near_misses > 0
    assert player.play(apart, 1).near_misses == 0
    case = player.case(1235, data)  # by its number it is played in pieces too
    assert (case.extra_runs, case.found, case.outcome) == (1, (), Outcome.INDETERMINATE)


def test_a_fault_that_bites_in_one_order_alone_makes_two_scenarios_of_one(tmp_path: Path) -> None:
    data = {
        **BASE,
        "clip": {"seconds": 2.4},
        "server": {
            "reply": [
                {"starts_at_unit": 2, "units": 3, "text": "A cyclist passed."},
                {"starts_at_unit": 5, "units": 1, "text": "A cyclist passed."},
            ]
        },
        "faults": [{"wrong_response_id": {"event": "response.done", "on": {"sent": "audio.done"}}}],
    }

    case = CasePlayer(9202, tmp_path).case(2089, data)

    assert (case.extra_runs, case.found, case.outcome) == (1, (), Outcome.INDETERMINATE)
    assert case.notes == ("with other ties another fault bites",)


def test_decisions_on_a_clip_that_came_at_once_are_waited_for(tmp_path: Path) -> None:
    data = {
        **BASE,
        "clip": {"seconds": 12.6, "frames": False, "speech": [2.52, 8.82]},
        "server": {"reply": [], "decision_ms": 200},
        "client": {"deadlines": {"request_s": 120.0}, "pace": "as-fast-as-possible"},
    }

    assert CasePlayer(9101, tmp_path).play(data, 1).findings == ()


@pytest.mark.parametrize(
    ("starts_at_unit", "found"), [(8, []), (3, ["sample.text"])], ids=["first", "second"]
)
def test_the_first_reply_of_all_is_not_late_though_the_clip_did_not_cause_it(
    tmp_path: Path, starts_at_unit: int, found: list[str]
) -> None:
    """Behind it comes a scripted one in the padding; late is what follows an answer (design.md 7)."""
    data = {
        **BASE,
        "clip": {"seconds": 5.4},
        "server": {"reply": [{"starts_at_unit": starts_at_unit, "units": 1, "text": "A cyclist passed."}]},
        "faults": [{"extra_reply_in_padding": {"text": "Unasked.", "units": 4}}],
    }
    scenario = build(data, "unasked")

    assert play(scenario, RunOptions(seed=4242), tmp_path).findings == ()
    with applied(next(d for d in ALL_DEFECTS if d.name == "late-reply-scored").rewrites):
        assert [one.id for one in play(scenario, RunOptions(seed=4242), tmp_path).findings] == found


@pytest.mark.parametrize("told", ["error '{}'", "text '{} said'"])
def test_the_name_of_a_reply_is_no_difference(told: str) -> None:
    from conformance.fuzz.play import plain

    one, other = (told.format(f"response resp-duplex-35ef-0-{end} ended") for end in ("9b4", "ab3d5"))
    assert plain(one) == plain(other)
    assert Summary((("a", plain(one)),)).difference(Summary((("a", plain("else")),))) is not None


def test_a_verdict_inside_an_object_may_be_taken_and_may_be_asked_for_again() -> None:
    text = '{"verdict": {"success_score": 0}}'

    assert read_verdict("chat", text, "stop").scores == {"success_score": 0.0}
    assert plain_standing("chat", text) == "none"
    both = '{"verdict": {"success_score": 0}, "success_score": 1}'
    assert read_verdict("chat", both, "stop").standing == "invalid"
    assert read_verdict("chat", '{"verdict": {"score": 0}}', "stop").standing == "missing"


@pytest.mark.parametrize("quoted", ["1e0", "0_1", "\N{FULLWIDTH DIGIT ONE}", " 1 ", "+1", "1."])
def test_a_number_in_doubtful_quotes_may_be_taken_and_may_be_asked_for_again(quoted: str) -> None:
    text = json.dumps({"success_score": quoted}, ensure_ascii=False)

    assert read_verdict("chat", text, "stop").scores == {"success_score": 1.0}
    assert plain_standing("chat", text) == "none"
    assert plain_standing("chat", f'{{"verdict": {text}, "success_score": 1}}') == "none"
    assert plain_standing("chat", '{"success_score": "1.0"}') == "verdict"
    assert plain_standing("chat", '{"success_score": "2e0"}') == "invalid"


def test_which_of_two_values_under_one_name_counts_is_left_open() -> None:
    assert plain_standing("chat", '{"success_score": 0, "success_score": 1}') == "none"
    assert plain_standing("chat", '{"success_score": 1, "success_score": 1}') == "verdict"


def test_a_bare_number_with_a_plus_or_behind_other_digits_is_read_as_the_client_reads_it() -> None:
    assert read_verdict("content", '{"content_score": "+2"', "stop").scores == {"content_score": 2.0}
    assert read_verdict("content", '"content_score": 2e-1', "stop").scores == {"content_score": 0.2}
    doubled = '"content_score": "\N{FULLWIDTH DIGIT ONE}", "content_score": 03'
    assert read_verdict("content", doubled, "stop").scores == {"content_score": 3.0}


def test_a_judge_that_says_a_number_of_400_digits_is_invalid_and_no_error_of_the_judge() -> None:
    assert read_verdict("chat", f'{{"success_score": {"1" * 400}}}', "stop").standing == "invalid"


def test_the_client_is_not_blamed_for_asking_again_after_a_doubtful_number(tmp_path: Path) -> None:
    data = {
        **BASE,
        "samples": [
            {"id": "1", "split": "PR_post_event_reminder", "clip": {"seconds": 2.4}, "reminder1": 0.5}
        ],
        "server": {"reply": [{"starts_at_unit": 0, "units": 1, "text": "A cyclist passed."}]},
        "judge": {
            "mode": "heuristic",
            "replies": [{"kind": "chat", "text": '{"success_score": "0_1"}'}],
        },
    }

    played = play(build(data, "doubtful"), RunOptions(seed=1), tmp_path)

    assert played.findings == ()
    assert "judge: scored after a re-ask" in played.states


def test_braces_in_a_text_deep_inside_are_no_verdict_that_everybody_reads() -> None:
    inner = r'{"reason": "says {\"content_score\": 1} here", "temporal_score": 3, "is_relevant": 1}'
    text = f'{{"verdict": {{"temporal_score": 0, "is_relevant": {inner}}}}}'

    assert read_verdict("temporal", text, "stop").standing == "verdict"
    assert plain_standing("temporal", text) == "none"
    assert plain_standing("temporal", inner) == "verdict"
    assert plain_standing("temporal", f'{{"a": NaN, "b": {inner}}}') == "none"
    assert plain_standing("temporal", inner + ' {"temporal_score": 2, "is_relevant": 1}') == "invalid"
    assert plain_standing("temporal", inner + ' {"temporal_score": 2, "is_relevant": 1,}') == "none"


def test_braces_in_texts_hide_no_verdict_from_who_reads_json() -> None:
    says = r'"reason": "says {\"content_score\": 1} here"'
    text = f'{{{says}, "temporal_score": {{{says}, "is_relevant": 1}}, "temporal_score": 0, "is_relevant": 0}} }}}}}}'

    assert read_verdict("temporal", text, "stop").scores == {"temporal_score": 0.0, "is_relevant": 0.0}


@pytest.mark.parametrize(
    "data",
    [
        {
            "samples": [
                {"id": "a", "split": "RTD_Omni", "clip": {"seconds": 0.4, "frame_bytes": 400, "speech": []}},
                {"id": "b", "split": "RTD_Omni", "clip": {"seconds": 6.0, "frame_bytes": 2000}},
            ],
            "client": {
                "deadlines": {"request_s": 15.0, "write_s": 4.1, "created_s": 5.7},
                "pace": "as-fast-as-possible",
                "concurrency": 3,
            },
            "faults": [
                {"never_done": {}},
                {
                    "stop_reading": {
                        "on": {"received": "input_audio_buffer.commit"},
                        "for_s": 15.0,
                        "attempt": 1,
                    }
                },
            ],
        },
        {
            "clip": {"seconds": 3.4, "frames": False, "speech": [0.68, 2.38]},
            "client": {"deadlines": {"request_s": 15.0, "drain_slack_s": 10.0, "ack_period_s": 1.0}},
            "faults": [
                {"never_done": {"attempt": 1}},
                {"failing_write": {"write": "input_audio_buffer.commit", "raises": "RuntimeError"}},
                {"stop_reading": {"proof": "unread", "on": {"sent": "response.created"}}},
                {"resume_reading": {"at_s": 15.0}},
            ],
        },
    ],
    ids=["for_s", "at_s"],
)
def test_a_peer_that_reads_again_in_the_instant_of_the_timeout_decides_nothing(
    tmp_path: Path, data: dict[str, Any]
) -> None:
    server = {"reply": [{"starts_at_unit": 0, "units": 2, "text": "A cyclist passed."}]}

    played = play(build({**BASE, "server": server, **data}, "instant"), RunOptions(seed=2026), tmp_path)

    assert played.findings == ()


def test_a_loss_behind_a_write_that_is_held_up_is_seen_when_that_has_an_end(tmp_path: Path) -> None:
    data = {
        **BASE,
        "clip": {"seconds": 12.6},
        "server": {"profile": "engine"},
        "client": {"deadlines": {"request_s": 120.0, "drain_slack_s": 10.0}},
        "faults": [
            {"close_code": {"code": 0, "reason": "", "on": {"sent": "session.updated"}, "connection": 1}},
            {"slow_write": {"write": "input_audio_buffer.append", "delay_s": 33.0}},
        ],
    }

    assert play(build(data, "held"), RunOptions(seed=2026), tmp_path).findings == ()


def test_a_peer_that_resets_in_the_instant_in_which_bytes_came_to_it_is_no_error_of_ours(
    tmp_path: Path,
) -> None:
    at_commit = {"on": {"received": "input_audio_buffer.commit"}}
    data = {
        **BASE,
        "clip": {"seconds": 6.0, "frames": False, "speech": [1.2, 4.2]},
        "client": {"deadlines": {"request_s": 6.1, "drain_slack_s": 4.9}},
        "faults": [{"stop_reading": {"proof": "unread", **at_commit}}, {"reset_peer": at_commit}],
    }

    played = play(build(data, "reset"), RunOptions(seed=2026), tmp_path)

    assert (played.result.outcome, played.findings) == (Outcome.INERT, ())


@pytest.mark.parametrize(
    ("fault", "compared"),
    [
        ({"latency": {"latency_s": 3.1, "jitter_s": 1.5}}, False),
        ({"slow_disk": {"delay_s": 12.0}}, False),
        ({"latency": {"latency_s": 3.1}}, True),
        ("no_session_closed", True),
    ],
)
def test_orders_are_compared_where_no_faults_own_effect_hangs_on_them(
    tmp_path: Path, fault: Any, compared: bool
) -> None:
    faults = [fault] if isinstance(fault, dict) else [{fault: {}}]
    variants = list(CasePlayer(1, tmp_path)._variants(1, {"faults": faults}))

    assert ("ties" in variants) is compared


@pytest.mark.parametrize(
    "data",
    [
        {
            "clip": {"seconds": 3.4, "frame_bytes": 400, "speech": []},
            "server": {
                "profile": "input-driven",
                "reply": [{"starts_at_unit": 0, "units": 2, "text": "Up.", "status": "failed"}],
            },
            "faults": [{"wrong_response_id": {"event": "response.done", "attempt": 1}}],
        },
        {
            "clip": {"seconds": 2.4},
            "server": {"profile": "engine"},
            "faults": [
                {"late_session_closed": {"delay_s": 0.3}},
                {"late_session_closed": {"delay_s": 26.3}},
            ],
        },
        {
            "clip": {"seconds": 6.0, "frames": True, "speech": [1.2, 4.2]},
            "server": {"reply": [{"starts_at_unit": 5, "units": 2, "text": "Quotes."}]},
            "faults": [
                {"invalid_utf8": {"where": "cut_at_end", "on": {"sent": "session.updated"}, "attempt": 1}},
                {"stop_reading": {"on": {"received": "input_audio_buffer.append"}, "attempt": 1}},
                {"no_socket": {}},
            ],
        },
        {
            "clip": {"seconds": 1.0, "frames": True},
            "server": {
                "profile": "input-driven",
                "reply": [{"starts_at_unit": 0, "units": 12, "text": "A long one."}],
            },
            "faults": [{"slow_write": {"write": "input_audio_buffer.append", "nth": 6, "delay_s": 1.0}}],
        },
        {
            "clip": {"seconds": 0.4, "frames": False, "speech": [0.08, 0.28]},
            "server": {
                "reply": [
                    {
                        "starts_at_unit": 0,
                        "units": 12,
                        "text": "One. Two. Three. Four.",
                        "status": "incomplete",
                    },
                    {"starts_at_unit": 12, "units": 2, "text": "Five.", "ends": False},
                ]
            },
            "client": {"deadlines": {"request_s": 40.3, "drain_slack_s": 4.9, "settle_s": 4.3}},
            "faults": [
                {"late_session_closed": {"delay_s": 20.1, "attempt": 1}},
                {"no_close_reply": {}},
                {"swallow_cancellation": {"write": "session.close", "attempt": 1}},
            ],
        },
        {
            "samples": [
                {
                    "id": "a",
                    "split": "RTD_Omni",
                    "clip": {"seconds": 3.4, "frames": True, "frame_bytes": 70000},
                    "answer1": "A cyclist passes.",
                }
            ],
            "server": {
                "profile": "input-driven",
                "reply": [{"starts_at_unit": 3, "units": 2, "text": "{! a}}。a!{{0 a0。0 b{?? 0 0。"}],
            },
            "client": {"deadlines": {"request_s": 120.0}, "cancel_at_s": 14.8},
            "judge": {
                "timeout_s": 30.0,
                "replies": [{"content_score": 3}, {"temporal_score": 2, "is_relevant": 1}],
                "mode": "heuristic",
            },
            "faults": [{"slow_disk": {"delay_s": 12.0}}],
        },
    ],
    ids=[
        "a failed reply under another's id",
        "two delays of one answer",
        "an end that never came",
        "a unit that was held up",
        "a reply that fails in the close",
        "a request that nobody read",
    ],
)
def test_compositions_of_faults_are_no_offence_of_the_clients(tmp_path: Path, data: dict[str, Any]) -> None:
    client = {"deadlines": {"request_s": 120.0, "drain_slack_s": 10.0}}

    assert (
        play(build({**BASE, "client": client, **data}, "two"), RunOptions(seed=2026), tmp_path).findings == ()
    )


def test_a_beat_of_padding_in_the_instant_of_a_replys_end_is_no_dependence_on_ties(tmp_path: Path) -> None:
    replies = [
        {"starts_at_unit": 4, "units": 2, "text": "One."},
        {"starts_at_unit": 8, "units": 1, "text": "Two."},
        {"starts_at_unit": 9, "units": 1, "text": "Three."},
        {"starts_at_unit": 12, "units": 1, "text": "Four.", "status": "failed"},
    ]
    data = {
        **BASE,
        "clip": {"seconds": 8.2, "frames": False, "speech": [1.64, 5.74]},
        "server": {"reply": replies, "decision_ms": 0},
        "client": {"deadlines": {"request_s": 120.0}},
    }
    player = CasePlayer(2026, tmp_path)

    assert player.play(data, 9769).near_misses > 0
    assert player._against(player.play(data, 9769), "ties", data, 9769)[0] == []


def test_a_listen_in_the_instant_of_the_first_beat_is_no_dependence_on_pieces(tmp_path: Path) -> None:
    data = {
        **BASE,
        "clip": {"seconds": 1.0, "frames": True, "speech": []},
        "server": {"reply": [{"starts_at_unit": 0, "units": 5, "text": "Late."}]},
        "client": {"deadlines": {"request_s": 6.1, "drain_slack_s": 20.0}},
        "faults": [{"slow_write": {"write": "input_audio_buffer.commit", "delay_s": 0.3}}],
    }
    player = CasePlayer(2026, tmp_path)

    assert player._against(player.play(data, 21907), "chunks", data, 21907)[0] == []


@pytest.mark.parametrize(
    ("seconds", "slack_s"), [(1.4, None), (8.2, 10.0)], ids=["left-before-it", "no-pong-before-it"]
)
def test_a_reply_that_failed_behind_a_client_that_had_left_told_it_nothing(
    tmp_path: Path, seconds: float, slack_s: float | None
) -> None:
    reply = {"starts_at_unit": 4, "units": 1, "text": "A cyclist passed.", "status": "failed"}
    data = {
        **BASE,
        "clip": {"seconds": seconds, "frames": slack_s is None},
        "server": {"reply": [reply]},
        "faults": [{"slow_reading": {"bytes_per_s": 4000}}],
        "client": {"deadlines": {} if slack_s is None else {"drain_slack_s": slack_s}},
    }

    played = play(build(data, "behind"), RunOptions(seed=51001), tmp_path)

    assert [sample for _, sample in played.summary.samples if "failed after 2 attempt(s)" in sample]
    assert played.findings == ()


def test_a_clip_that_came_when_its_session_was_over_is_not_counted(tmp_path: Path) -> None:
    data = {
        **BASE,
        "clip": {"seconds": 1.4},
        "faults": [{"session_expired": {}}, {"slicer": {}}],
        "client": {"pace": "as-fast-as-possible"},
    }

    played = play(build(data, "over"), RunOptions(seed=51001), tmp_path)

    assert [sample for _, sample in played.summary.samples if "session.expired" in sample]
    assert played.findings == ()
