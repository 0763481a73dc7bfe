"""Latencies and rates, each with its origin (evaluation.md 20, protocol.md 13)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from client.engine_stats import note_stats, session_id_of
from client.metrics import (
    SampleMetrics,
    flat_keys,
    nearest_rank,
    request_statistics,
    run_metrics,
    sample_metrics,
    spread,
)
from client.metrics_file import JOURNAL, keep_metrics, kept_metrics, write_metrics
from client.responses import ResponseRecord
from client.result import SampleResult


def response(name: str = "r1", created_s: float = 100.0, **facts: Any) -> ResponseRecord:
    record = ResponseRecord(name, created_s, False)
    defaults = {
        "first_text_s": created_s + 0.25,
        "first_audio_s": created_s + 0.5,
        "last_audio_s": created_s + 2.5,
        "audio_bytes": 192_000,
        "status": "completed",
    }
    for key, value in {**defaults, **facts}.items():
        setattr(record, key, value)
    return record


def result(*responses: ResponseRecord, **facts: Any) -> SampleResult:
    defaults: dict[str, Any] = {
        "timed_sentences": [
            {"sentence": "A.", "start": 0, "end": 1},
            {"sentence": "B.", "start": 1, "end": 2},
        ],
        "metadata": {},
        "server_errors": [],
        "errors": [],
        "response_done": True,
        "completed_replies": 1,
        "session_id": "s1",
        "stream_start_s": 98.0,
        "audio_bytes": sum(r.audio_bytes for r in responses),
    }
    return SampleResult("RTD_OCR", "7", responses=responses, **{**defaults, **facts})


def measured(*responses: ResponseRecord, **facts: Any) -> SampleMetrics:
    return sample_metrics(result(*responses, **facts), request_index=3, latency_s=12.5)


def test_a_response_is_measured_from_its_creation() -> None:
    (row,) = measured(response()).rows

    assert row == {
        "session_id": "s1",
        "sample_id": "7",
        "split": "RTD_OCR",
        "request_index": 3,
        "response_id": "r1",
        "ttft_ms": 250.0,
        "ttfp_ms": 500.0,
        "client_ttft_ms": 250.0,
        "client_ttfp_ms": 500.0,
        "audio_generation_ms": 2500.0,
        "audio_duration_ms": 4000.0,
        "rtf": 0.625,
        "measurement_origin": {"ttft": "response.created received", "ttfp": "response.created received"},
        "source": "client_monotonic_receive",
        "late": False,
    }


def test_the_servers_own_figures_win_and_ours_stay_beside_them() -> None:
    told = {"ttft_ms": 125.0, "measurement_origin": {"ttft": "request accepted"}}
    (row,) = measured(response(request_metrics=told)).rows

    assert (row["ttft_ms"], row["ttfp_ms"], row["client_ttft_ms"]) == (125.0, 500.0, 250.0)
    assert row["measurement_origin"] == {"ttft": "request accepted", "ttfp": "response.created received"}
    assert row["source"] == "server_request_start_and_client_receive"


@pytest.mark.parametrize("value", [-1.0, None, "125", float("nan"), True, 1e308, float("inf"), 10**400])
def test_a_figure_of_the_server_that_is_none_is_not_taken(value: Any) -> None:
    (row,) = measured(response(request_metrics={"ttft_ms": value})).rows

    assert (row["ttft_ms"], row["source"]) == (250.0, "client_monotonic_receive")


@pytest.mark.parametrize(
    "stages",
    [
        {"num_tokens_out": 2**64 - 1, "vllm_tpot_ms": 1e308},
        {"num_tokens_out": 2, "vllm_itls_ms": [1e308, 1e308]},
        {"num_tokens_out": 10**400, "vllm_tpot_ms": 10**400},
    ],
)
def test_figures_that_no_engine_has_cost_nothing_but_themselves(
    stages: dict[str, Any], tmp_path: Path
) -> None:
    odd = {
        "stage_metrics": {"0": stages},
        "request_metrics": {"ttft_ms": 1e308, "measurement_origin": {"ttft": "\ud83d"}},
    }
    sample = measured(
        response("\ud83d", audio_duration_ms=1e-308, **odd), response(**odd), session_id="\ud83d"
    )

    keep_metrics(tmp_path, "RTD_OCR", "7", sample)
    write_metrics(tmp_path, {("RTD_OCR", "7"): sample})
    told = request_statistics([sample.request, sample.request])

    assert kept_metrics(tmp_path) == {("RTD_OCR", "7"): sample}
    assert (told["total_output_tokens"], told["mean_tpot_ms"]) in ((0, None), (8, None))
    assert [row["rtf"] for row in sample.rows] == [None, 0.625]


def test_the_audio_duration_the_server_tells_comes_before_the_bytes() -> None:
    (row,) = measured(response(audio_duration_ms=5000.0)).rows

    assert (row["audio_duration_ms"], row["rtf"]) == (5000.0, 0.5)


def test_what_was_not_measured_is_null_and_never_zero() -> None:
    silent = response(
        first_text_s=None, first_audio_s=None, last_audio_s=None, audio_bytes=0, stage_metrics={"0": {}}
    )
    sample = measured(silent)

    row = sample.rows[0]
    assert [row[k] for k in ("ttft_ms", "ttfp_ms", "audio_generation_ms", "rtf")] == [None] * 4
    assert "tpot_ms" not in row
    assert (sample.request["ttft_s"], sample.request["tpot_s"]) == (None, None)
    assert not [key for key in sample.session if key.startswith("stream_")]


def test_a_response_without_audio_or_figures_has_no_row() -> None:
    assert measured(response(audio_bytes=0)).rows == []


def test_a_session_spreads_over_its_responses_and_counts_from_the_first_append() -> None:
    session = measured(response(), response("r2", 110.0, first_text_s=111.0)).session

    assert (session["audio_turn_count"], session["ttft_ms"]) == (
        2,
        {"count": 2, "mean": 625.0, "p50": 250.0, "p99": 1000.0},
    )
    assert {key: value for key, value in session.items() if key.startswith("stream_")} == {
        "stream_ttft_ms": 2250.0,
        "stream_ttfp_ms": 2500.0,
        "stream_audio_generation_ms": 14_500.0,
        "stream_audio_duration_ms": 8000.0,
        "stream_rtf": 1.8125,
    }
    assert session["tpot_ms"] is None


def stages(tokens: int, tpot_ms: float, itls: list[float] | None = None) -> dict[str, Any]:
    thinker: dict[str, Any] = {"num_tokens_out": tokens, "vllm_tpot_ms": tpot_ms}
    return {"0": thinker if itls is None else {**thinker, "vllm_itls_ms": itls}}


def test_the_time_per_token_is_the_mean_interval_where_all_are_known() -> None:
    request = measured(response(stage_metrics=stages(3, 99.0, [10.0, 30.0]))).request

    assert (request["tpot_s"], request["itls_s"], request["output_tokens"]) == (0.02, [0.01, 0.03], 3)


def test_else_it_is_the_engines_mean_weighted_by_tokens() -> None:
    sample = measured(
        response(stage_metrics=stages(30, 10.0, [1.0])), response("r2", stage_metrics=stages(10, 50.0))
    )

    assert (sample.request["tpot_s"], sample.request["itls_s"]) == (0.02, [])
    assert sample.session["tpot_ms"]["count"] == 2
    assert sample.request["output_tokens"] == 40


def test_a_request_has_the_figures_of_a_serving_benchmark() -> None:
    request = measured(response()).request

    assert {
        k: request[k]
        for k in ("e2el_s", "ttft_s", "audio_ttfp_s", "audio_rtf", "audio_duration_s", "generated_text")
    } == {
        "e2el_s": 12.5,
        "ttft_s": 0.25,
        "audio_ttfp_s": 0.5,
        "audio_rtf": 0.625,
        "audio_duration_s": 4.0,
        "generated_text": "A. B.",
    }


@pytest.mark.parametrize(
    ("count", "share", "index"),
    [(1, 0.5, 0), (2, 0.5, 0), (3, 0.5, 1), (100, 0.99, 98), (101, 0.99, 99), (66, 0.99, 65)],
)
def test_percentiles_take_the_nearest_rank(count: int, share: float, index: int) -> None:
    assert nearest_rank([float(n) for n in reversed(range(count))], share) == index


def test_a_run_tells_spreads_over_sessions_and_flat_keys_over_responses() -> None:
    told = run_metrics([measured(response()), measured(response(created_s=101.0))])

    assert told["duplex_stream_ttft_ms"] == {"count": 2, "mean": 2750.0, "p50": 2250.0, "p99": 3250.0}
    assert told["num_duplex_response_ttft_ms_samples"] == 2
    assert told["mean_duplex_response_ttfp_ms"] == 500.0
    assert told["p99_duplex_client_ttft_ms"] == 250.0
    assert (len(told["duplex_request_metrics"]), len(told["duplex_session_metrics"])) == (2, 2)
    assert run_metrics([])["duplex_stream_rtf"] is None


def test_nothing_measured_gives_null_and_a_count_of_zero() -> None:
    assert flat_keys("x", []) == {"num_x_samples": 0, "mean_x": None, "median_x": None, "p99_x": None}
    assert spread([]) is None
    assert request_statistics([{}])["mean_ttft_ms"] is None


def test_what_a_run_tells_is_rounded_to_its_unit() -> None:
    assert spread([0.001, 0.002, 0.002]) == {"count": 3, "mean": 0.002, "p50": 0.002, "p99": 0.002}
    told = request_statistics([{"e2el_s": 8.527057, "audio_rtf": third} for third in (1 / 3, 1 / 3, 1.0)])

    assert (told["mean_e2el_ms"], told["median_e2el_ms"]) == (8527.057, 8527.057)
    assert (told["mean_audio_rtf"], told["median_audio_rtf"]) == (0.555556, 0.333333)


def event(name: str = "response.audio.delta", **fields: Any) -> dict[str, Any]:
    return {"type": name, "response_id": "r1", **fields}


FOUND = {"stage_metrics": {"0": {"num_tokens_out": 5}}}


@pytest.mark.parametrize(
    "fields",
    [
        {"vllm_omni": FOUND},
        {"metadata": FOUND},
        {"metadata": {"vllm_omni": FOUND}},
        {"response": {"metadata": FOUND}},
        {"response": {"metadata": {"vllm_omni": FOUND}}},
        {"vllm_omni": FOUND, "metadata": {"stage_metrics": {"0": {"num_tokens_out": 9}}}},
    ],
)
def test_the_engines_figures_are_found_where_clients_look(fields: dict[str, Any]) -> None:
    record = response()

    note_stats({"r1": record}, event(**fields))
    assert record.stage_metrics == FOUND["stage_metrics"]


@pytest.mark.parametrize(
    "place", [lambda m: m, lambda m: {"metadata": {"duplex_event": m}}, lambda m: {"vllm_omni": m}]
)
def test_the_servers_request_figures_are_found_too(place: Any) -> None:
    record = response()

    note_stats({"r1": record}, event(**place({"response_request_metrics": {"ttft_ms": 1.0}})))
    note_stats({"r1": record}, event(**place({"response_request_metrics": {"ttfp_ms": 2.0}})))
    assert record.request_metrics == {"ttft_ms": 1.0, "ttfp_ms": 2.0}


@pytest.mark.parametrize(
    "told",
    [
        event("response.listen", metadata=FOUND),
        event(response_id="other", metadata=FOUND),
        event(metadata={"stage_metrics": 7}),
        event(metadata=[FOUND]),
        event(),
    ],
)
def test_figures_of_something_else_are_left_alone(told: dict[str, Any]) -> None:
    record = response()

    note_stats({"r1": record}, told)
    assert record.stage_metrics is None


def test_the_session_is_named_by_its_server() -> None:
    assert session_id_of({"type": "session.created", "session": {"id": "s"}}) == "s"
    assert session_id_of({"type": "x", "session_id": "t"}) == "t"
    assert session_id_of({"type": "x", "session_id": 7, "session": []}) is None


def test_the_journal_survives_a_torn_line_and_its_latest_line_counts(tmp_path: Path) -> None:
    keep_metrics(tmp_path, "a", "1", SampleMetrics(request={"e2el_s": 1}))
    keep_metrics(tmp_path, "a", "1", SampleMetrics(request={"e2el_s": 2}))
    keep_metrics(tmp_path, "a", "2", SampleMetrics())
    with (tmp_path / JOURNAL).open("ab") as file:
        file.write(b'{"split": "a", "id": "3"')

    kept = kept_metrics(tmp_path)
    assert list(kept) == [("a", "1"), ("a", "2")]
    assert kept["a", "1"].request == {"e2el_s": 2}
    assert kept_metrics(tmp_path / "gone") == {}


def test_figures_are_merged_by_split_and_id(tmp_path: Path) -> None:
    one, other = measured(response()), measured(response("r9"))
    write_metrics(tmp_path, {("RTD_OCR", "7"): one})
    other.rows[0]["sample_id"] = other.session["sample_id"] = "8"

    write_metrics(tmp_path, {("RTD_OCR", "8"): other})
    told = json.loads((tmp_path / "duplex_metrics.json").read_text())
    assert [row["sample_id"] for row in told["duplex_request_metrics"]] == ["7", "8"]
    assert told["duplex_stream_ttft_ms"]["count"] == 2

    write_metrics(tmp_path, {}, failed=[("RTD_OCR", "7")])
    told = json.loads((tmp_path / "duplex_metrics.json").read_text())
    assert [row["sample_id"] for row in told["duplex_session_metrics"]] == ["8"]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"duplex_request_metrics": null}'])
def test_a_torn_file_of_figures_is_written_anew(tmp_path: Path, content: str) -> None:
    (tmp_path / "duplex_metrics.json").write_text(content)

    write_metrics(tmp_path, {("RTD_OCR", "7"): measured(response())})
    assert len(json.loads((tmp_path / "duplex_metrics.json").read_text())["duplex_request_metrics"]) == 1
