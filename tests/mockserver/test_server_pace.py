"""How fast the model is, and what it tells of that: pace, deltas a unit, listens in padding, metrics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mockserver.pace import Pace
from mockserver.profiles import PROFILES, Profile, scripted
from scenarios.model import PaceSpec, Reply, ServerSpec
from scenarios.names import PACED_PROFILES, REQUEST_METRICS_PROFILES

LISTEN = "response.listen"
DELTA = "response.audio.delta"
TEXT = "response.audio_transcript.delta"
DONE = "response.done"


def reply(start: int, units: int, text: str = "one two three four", **fields: Any) -> Reply:
    return Reply(starts_at_unit=start, units=units, text=text, **fields)


def july(**changes: Any) -> Profile:
    return replace(PROFILES["july"], **changes)


def engine_stages(event: dict[str, Any]) -> dict[str, Any]:
    stages: dict[str, Any] = event["metadata"]["vllm_omni"]["stage_metrics"]
    return stages


# -- pace


def test_a_model_slower_than_real_time_falls_behind_its_input(talk: Any) -> None:
    t = talk(profile=july(pace=Pace(rtf=1.5))).open()
    for second in range(4):
        t.until(second).append()
    t.until(20)

    assert t.times(LISTEN) == [1.5, 3.0, 4.5, 6.0]


def test_a_real_time_factor_takes_the_place_of_the_fixed_time(talk: Any) -> None:
    t = talk(profile=july(pace=Pace(rtf=0.4)), decision_s=7.0).open().append().until(5)

    assert t.times(LISTEN) == [0.4]


def test_the_first_token_holds_back_its_own_unit_and_those_behind(talk: Any) -> None:
    t = talk(reply(1, 1), profile=july(pace=Pace(rtf=0.5, first_token_ms=3000))).open()
    t.append().append().append().until(20)

    assert t.times(LISTEN) == [0.5, 4.5]
    assert t.times("response.created") == t.times(DELTA) == t.times(DONE) == [4.0]


def test_a_reply_that_is_cancelled_before_its_first_token_is_never_told(talk: Any) -> None:
    t = talk(reply(0, 2), profile=july(pace=Pace(first_token_ms=3000))).open().append().until(1)
    t.send("input.cancel").until(20)

    assert t.units == ["append speak"]
    assert t.of("response.created") == []


def test_jitter_stays_in_its_bounds_and_comes_from_the_seed(talk: Any) -> None:
    def gaps() -> list[float]:
        t = talk(profile=july(pace=Pace(rtf=1.0, jitter_ms=400))).open()
        for _ in range(30):
            t.append()
        times = t.until(60).times(LISTEN)
        return [round(later - before, 6) for before, later in zip([0.0, *times], times, strict=False)]

    first = gaps()

    assert first == gaps()
    assert len(set(first)) == 30
    assert all(0.6 <= gap <= 1.4 for gap in first)


def test_jitter_never_makes_a_unit_take_less_than_no_time(talk: Any) -> None:
    t = talk(profile=july(pace=Pace(jitter_ms=5000))).open()
    for _ in range(20):
        t.append()
    t.until(200)

    assert len(t.times(LISTEN)) == 20
    assert t.times(LISTEN)[0] >= 0


# -- deltas


def test_a_unit_is_cut_into_deltas_that_add_up_and_the_first_has_the_text(talk: Any) -> None:
    t = talk(reply(0, 2, audio_ms=100), profile=july(deltas_per_unit=3)).open().append().until(10)

    lasts = [event["metadata"]["audio_duration_ms"] for event in t.of(DELTA)]
    assert lasts == [33, 66, 100, 133, 166, 200]
    assert [event["delta"] for event in t.of(TEXT)] == ["one two ", "", "", "three four", "", ""]
    assert [event["metadata"]["end_of_turn"] for event in t.of(DELTA)] == [False] * 5 + [True]
    pairs = [name for name in t.names if name in (DELTA, TEXT)]
    assert pairs == [DELTA, TEXT] * 6


def test_a_unit_without_audio_stays_one_transcript_delta(talk: Any) -> None:
    t = talk(reply(0, 1, audio_ms=0), profile=july(deltas_per_unit=3)).open().append().until(10)

    assert [event["delta"] for event in t.of(TEXT)] == ["one two three four"]
    assert t.of(DELTA) == []


# -- listens in padding


@pytest.mark.parametrize(("which", "padded"), [("each", 3), ("first", 1), ("none", 0)])
def test_padded_units_are_told_as_the_profile_says_and_the_residual_always(
    talk: Any, which: Any, padded: int
) -> None:
    t = talk(profile=july(listens_in_padding=which)).open().append().append(400).commit().until(2)
    assert len(t.of(LISTEN)) == 2

    for _ in range(3):
        t.append(loud=False, is_speech=False)
    t.until(10)

    assert len(t.of(LISTEN)) == 2 + padded


def test_with_first_a_reply_gives_the_next_padded_unit_its_listen_again(talk: Any) -> None:
    t = talk(reply(3, 1), profile=july(listens_in_padding="first")).open().append().append(400).commit()
    for _ in range(4):  # listens, speaks, listens, listens
        t.append(loud=False, is_speech=False)
    t.until(20)

    assert (
        t.units
        == ["append listen", "commit listen", *("append " + kind for kind in ("listen", "speak"))]
        + ["append listen"] * 2
    )
    assert len(t.of(LISTEN)) == 4


def test_speech_after_the_commit_is_input_and_no_padding(talk: Any) -> None:
    t = talk(profile=july(listens_in_padding="none")).open().append(400).commit().append().append().until(10)

    assert len(t.of(LISTEN)) == 3


# -- metrics


def test_without_metrics_nothing_is_told_of_the_engine(talk: Any) -> None:
    t = talk(reply(1, 1)).open().append().append().until(10)

    assert engine_stages(t.of(DELTA)[0]) == {}
    assert "stage_metrics" not in t.of(LISTEN)[0]["response"]["metadata"]["vllm_omni"]
    assert "metadata" not in t.of(TEXT)[0]


def test_stage_metrics_are_cumulative_over_the_reply(talk: Any) -> None:
    pace = Pace(rtf=0.4, first_token_ms=100)
    t = talk(reply(1, 2), profile=july(pace=pace, metrics=("stage",))).open().append().append().until(10)

    first, second = (engine_stages(event) for event in t.of(DELTA))
    assert first["0"] == {
        "num_tokens_in": 25,
        "num_tokens_out": 2,
        "vllm_ttft_ms": 300.0,
        "vllm_itls_ms": [200.0],
        "stage_gen_time_ms": 500.0,
        "output_unit_count": 1,
        "vllm_itl_ms": 200.0,
        "vllm_tpot_ms": 200.0,
    }
    assert second["0"]["num_tokens_out"] == 4
    assert second["0"]["vllm_ttft_ms"] == 300.0
    assert len(second["0"]["vllm_itls_ms"]) == 3
    assert second["2"] == {
        "audio_generated_frames": 46_080,
        "audio_duration_s": 1.92,
        "output_unit_count": 2,
    }
    listening = t.of(LISTEN)[0]["response"]["metadata"]["vllm_omni"]["stage_metrics"]
    assert listening == {"0": {"num_tokens_in": 25, "num_tokens_out": 1, "vllm_ttft_ms": 400.0}}
    assert t.of(DONE)[0]["response"]["metadata"]["vllm_omni"]["stage_metrics"] == second


def test_a_reply_of_text_tells_its_stages_when_it_is_done(talk: Any) -> None:
    profile = july(metrics=("stage",))
    t = talk(reply(0, 1, audio_ms=0), profile=profile).open().append().until(10)

    assert t.of(DONE)[0]["response"]["metadata"]["vllm_omni"]["stage_metrics"]["0"]["num_tokens_out"] == 4


@pytest.mark.parametrize("asked", [True, False])
def test_the_engine_tells_stages_only_to_a_client_that_asks(talk: Any, asked: bool) -> None:
    profile = replace(PROFILES["engine"], metrics=("stage",))
    extra = {"auto_response": True, "return_stage_metrics": asked}
    t = talk(reply(0, 1), profile=profile).open(extra_body=extra).append().until(10)

    assert bool(engine_stages(t.of("response.output_audio.delta")[0])) is asked


def test_request_metrics_ride_the_first_text_and_audio_alone(talk: Any) -> None:
    pace = Pace(rtf=0.4, first_token_ms=100)
    profile = replace(PROFILES["engine"], pace=pace, metrics=("request",), deltas_per_unit=2)
    t = talk(reply(0, 2), profile=profile).open().append().until(10)

    told = [
        event["metadata"]["vllm_omni"].get("response_request_metrics")
        for event in t.of("response.output_audio.delta")
    ]
    assert told[0]["ttft_ms"] == 300.0
    assert told[0]["ttfp_ms"] == 500.0
    assert told[1:] == [None] * 3
    texts = [event.get("metadata") for event in t.of("response.output_audio_transcript.delta")]
    assert texts == [{"vllm_omni": {"response_request_metrics": told[0]}}, None, None, None]


def test_a_request_that_waits_behind_others_counts_the_wait(talk: Any) -> None:
    profile = replace(PROFILES["engine"], pace=Pace(rtf=2.0), metrics=("request",))
    t = talk(reply(1, 1, "word"), profile=profile).open().append().append().until(10)

    (delta,) = t.of("response.output_audio.delta")
    assert delta["metadata"]["vllm_omni"]["response_request_metrics"]["ttfp_ms"] == 4000.0


# -- profiles as data


def test_what_a_scenario_says_takes_the_place_of_the_profile_s_own() -> None:
    spec = ServerSpec(
        profile="below-real-time",
        pace=PaceSpec(rtf=2.0),
        deltas_per_unit=2,
        listens_in_padding="none",
        metrics=[],
        max_sessions=3,
    )

    profile = scripted(spec)

    own = PROFILES["below-real-time"]
    assert profile.pace == replace(own.pace, rtf=2.0)
    assert (profile.deltas_per_unit, profile.listens_in_padding) == (2, "none")
    assert (profile.metrics, profile.max_sessions) == ((), 3)
    assert profile.dialect is own.dialect


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_a_profile_that_is_only_named_is_met_as_it_is(name: Any) -> None:
    assert scripted(ServerSpec.model_construct(profile=name, pace=None)) is not None
    assert scripted(ServerSpec.model_construct(profile=name, pace=None)) == PROFILES[name]


def test_what_scenarios_know_of_profiles_is_true() -> None:
    assert {name for name, profile in PROFILES.items() if profile.pace.rtf is not None} == PACED_PROFILES
    assert set(REQUEST_METRICS_PROFILES) <= {
        name for name, profile in PROFILES.items() if profile.dialect.letter not in ("J",)
    }
