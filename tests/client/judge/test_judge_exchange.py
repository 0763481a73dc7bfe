"""One judgement over a real socket: re-ask, trace, tries, bounds (evaluation.md 16; R52 to R60)."""

from __future__ import annotations

import asyncio
import json
import random
import re
from typing import Any

import pytest

from client.judge.errors import (
    JudgeAwayError,
    JudgeHttpError,
    JudgeResponseError,
    JudgeTimeout,
    JudgeUnusableError,
    ReplyError,
)
from client.judge.http import JudgeHttp, pause_s, retry_after_s
from client.judge.judge import Judge, image_part
from client.judge.settings import JudgeSettings, completions_url
from client.judge.trace import Trace, TraceLine, read_trace
from conformance.clock import run_virtual

GOOD = '{"success_score": 1, "reasoning": "named"}'
FOREVER = 10_000.0


@pytest.mark.parametrize(
    ("base", "path"),
    [
        ("http://h:1", "/v1/chat/completions"),
        ("http://h:1/", "/v1/chat/completions"),
        ("http://h:1/v1", "/v1/chat/completions"),
        ("http://h:1/v1/", "/v1/chat/completions"),
        ("http://h:1/proxy/v1", "/proxy/v1/chat/completions"),
        ("http://h:1/x/chat/completions", "/x/chat/completions"),
    ],
)
def test_the_address_of_the_judge_is_completed(base: str, path: str) -> None:
    assert completions_url(base) == f"http://h:1{path}"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"base_url": "ws://h"}, "judge base URL: found 'ws://h'"),
        ({"base_url": "judge"}, "judge base URL"),
        ({"base_url": "http://u:pw@h/?k=pw"}, "judge base URL: found 'http://h/' with a user or a password"),
        ({"base_url": "ftp://u:pw@h"}, "judge base URL: found 'ftp://h'"),
        ({"video_mode": "x"}, "judge video mode"),
        ({"frame_overflow": "x"}, "judge frame overflow"),
        ({"model": ""}, "judge model"),
        ({"fps": 0.0}, "judge fps: found 0.0"),
        ({"timeout_s": float("nan")}, "judge timeout_s"),
        ({"content_frame_limit": 0}, "content frame limit"),
        ({"api_key": "a\nb"}, "judge api key"),
    ],
)
def test_settings_that_cannot_work_are_refused_by_name(change: dict[str, Any], told: str) -> None:
    settings = JudgeSettings(**{"base_url": "http://h", "model": "m", **change})

    with pytest.raises(ValueError, match=re.escape(told)):
        settings.check()


def test_a_good_reply_costs_one_request_and_one_line(bench: Any) -> None:
    got, peer = bench.ask([bench.completion(GOOD)], modalities=("text",))

    assert got == {"success_score": 1, "reasoning": "named"}
    (request,), (header,) = peer.requests, peer.headers
    assert (request["model"], request["temperature"], request["max_tokens"], request["modalities"]) == (
        "judge-model",
        0.1,
        1200,
        ["text"],
    )
    assert (header["path"], header["Authorization"], header["Content-Type"]) == (
        "/v1/chat/completions",
        "Bearer EMPTY",
        "application/json",
    )
    assert header["X-Client-Request-Id"] == "RTD_Omni/1/chat/0/1"
    assert bench.trace == [
        {
            "kind": "chat",
            "index": 0,
            "mode": "text",
            "judge_retry": False,
            "transport_retry": False,
            "status": 200,
            "finish_reason": "stop",
            "raw": GOOD,
            "error": None,
        }
    ]


def test_a_prose_reply_is_asked_again_once_with_the_judges_own_words(bench: Any) -> None:
    got, peer = bench.ask([bench.completion("It was named."), bench.completion(GOOD)])

    first, second = (request["messages"] for request in peer.requests)
    assert got["success_score"] == 1
    assert second[: len(first)] == first
    assert second[len(first)] == {"role": "assistant", "content": "It was named."}
    assert second[len(first) + 1]["role"] == "user"
    assert "Missing judge field: success_score" in second[len(first) + 1]["content"]
    assert len(second) == len(first) + 2
    assert [(line["judge_retry"], line["error"]) for line in bench.trace] == [
        (False, "Missing judge field: success_score"),
        (True, None),
    ]


def test_an_invalid_field_is_not_called_missing_in_the_re_ask(bench: Any) -> None:
    _, peer = bench.ask([bench.completion('{"success_score": 2}'), bench.completion(GOOD)])

    asked = peer.requests[1]["messages"][-1]["content"]
    assert "Invalid judge field success_score: 2 is out of range" in asked
    assert "issing" not in asked


def test_the_second_prose_reply_ends_the_judgement_traced(bench: Any) -> None:
    got, peer = bench.ask([bench.completion("It was named.")])

    assert isinstance(got, ReplyError)
    assert len(peer.requests) == 2
    assert [(line["judge_retry"], line["raw"], bool(line["error"])) for line in bench.trace] == [
        (False, "It was named.", True),
        (True, "It was named.", True),
    ]


def test_a_truncated_reply_is_not_asked_again_and_never_scored(bench: Any) -> None:
    got, peer = bench.ask([bench.completion(GOOD, "length")])

    assert isinstance(got, JudgeResponseError)
    assert (got.finish_reason, got.raw, len(peer.requests)) == ("length", GOOD, 1)
    assert [(line["finish_reason"], line["raw"]) for line in bench.trace] == [("length", GOOD)]


def test_a_truncated_second_reply_leaves_its_line(bench: Any) -> None:
    got, peer = bench.ask([bench.completion("prose"), bench.completion('{"success_score": 1', "length")])

    assert isinstance(got, JudgeResponseError)
    assert [(line["judge_retry"], line["finish_reason"]) for line in bench.trace] == [
        (False, "stop"),
        (True, "length"),
    ]
    assert len(peer.requests) == 2


def test_a_reask_that_is_repeated_is_one_reask(bench: Any) -> None:
    async def job(judge: Judge) -> Any:
        await judge.judge(bench.question())
        return judge.counts

    peer = bench.ScriptedJudge(bench.completion("prose"), bench.Exchange("down", 503), bench.completion(GOOD))
    counts = bench.run(peer, job)

    assert (counts.requests, counts.transport_retries, counts.reasks) == (3, 1, 1)


def test_an_overloaded_judge_is_tried_again_later_each_time_and_counted_apart(bench: Any) -> None:
    busy = bench.Exchange("busy", 429)

    async def job(judge: Judge) -> Any:
        got = await judge.judge(bench.question())
        return got, judge.counts

    peer = bench.ScriptedJudge(busy, bench.Exchange("down", 503), bench.completion(GOOD))
    got, counts = bench.run(peer, job)

    assert got["success_score"] == 1
    assert (counts.requests, counts.transport_retries, counts.reasks) == (3, 2, 0)
    assert [(line["status"], line["transport_retry"], line["judge_retry"]) for line in bench.trace] == [
        (429, False, False),
        (503, True, False),
        (200, True, False),
    ]
    waits = [b - a for a, b in zip(peer.times, peer.times[1:], strict=False)]
    assert 0.5 <= waits[0] <= 1.01
    assert 1.0 <= waits[1] <= 2.01


def test_an_error_that_stays_ends_after_a_bounded_number_of_tries(bench: Any) -> None:
    got, peer = bench.ask([bench.Exchange("boom", 500)], transport_retries=2)

    assert isinstance(got, JudgeHttpError)
    assert str(got) == "HTTP 500: boom"
    assert (len(peer.requests), len(bench.trace)) == (3, 3)


@pytest.mark.parametrize("status", [400, 401, 404, 302])
def test_an_error_of_ours_is_not_tried_again(bench: Any, status: int) -> None:
    got, peer = bench.ask([bench.Exchange("no", status, {"Location": "/elsewhere"})])

    assert (got.status, len(peer.requests), bench.trace[0]["status"]) == (status, 1, status)


def test_the_pause_the_judge_asks_for_is_honoured(bench: Any) -> None:
    _, peer = bench.ask([bench.Exchange("busy", 429, {"Retry-After": "40"}), bench.completion(GOOD)])

    assert peer.times[1] - peer.times[0] == pytest.approx(40.0, abs=0.1)


def test_a_pause_longer_than_we_wait_ends_the_tries(bench: Any) -> None:
    got, peer = bench.ask([bench.Exchange("busy", 429, {"Retry-After": "4000"})])

    assert (got.status, len(peer.requests)) == (429, 1)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("7", 7.0),
        (" 7 ", 7.0),
        ("soon", None),
        ("-3", None),
        ("Wed, 21 Oct 2026 07:28:30 GMT", 30.0),
        ("Wed, 21 Oct 2026 07:27:00 GMT", 0.0),
    ],
)
def test_retry_after_is_read_in_both_forms(value: str | None, seconds: float | None) -> None:
    assert retry_after_s(value, "Wed, 21 Oct 2026 07:28:00 GMT") == seconds


def test_pauses_double_up_to_a_limit_with_jitter_from_the_seed() -> None:
    settings = JudgeSettings("http://h", "m", transport_retries=9, longest_backoff_s=8.0)

    pauses = [pause_s(settings, tries, None, random.Random(3)) for tries in range(1, 11)]
    again = [pause_s(settings, tries, None, random.Random(3)) for tries in range(1, 11)]
    assert pauses == again
    assert pauses[-1] is None
    assert all(p is not None and low / 2 <= p <= low for p, low in zip(pauses, (1, 2, 4, 8, 8), strict=False))


def test_a_judge_that_does_not_answer_is_given_up_in_time(bench: Any) -> None:
    got, peer = bench.ask([bench.Exchange("", wait_s=FOREVER)], timeout_s=30.0)

    assert isinstance(got, JudgeTimeout)
    assert len(peer.requests) == len(bench.trace) == 1
    assert "within 30 s" in bench.trace[0]["error"]


def test_a_connection_that_breaks_is_tried_again(bench: Any) -> None:
    got, peer = bench.ask([bench.Exchange("", drop=True), bench.completion(GOOD)])

    assert got["success_score"] == 1
    assert [(line["status"], line["transport_retry"]) for line in bench.trace] == [(None, False), (200, True)]
    assert len(peer.requests) == 2


def test_a_judge_that_is_away_is_named_after_its_tries(bench: Any) -> None:
    async def job(judge: Judge) -> Any:
        with pytest.raises(JudgeAwayError, match=r"127\.0\.0\.1:9/v1/chat/completions"):
            await judge.judge(bench.question())

    async def main() -> None:
        async with JudgeHttp(bench.settings, random.Random(1)) as http:
            await job(Judge("a/1", http, Trace(bench.folder / "1.judge.jsonl")))

    run_virtual(main)
    assert len(bench.trace) == 1 + bench.settings.transport_retries


def test_an_answer_without_end_is_cut_off(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("client.judge.http.LARGEST_BODY_BYTES", 100_000)

    got, _ = bench.ask([bench.Exchange("x" * 300_000)])
    assert isinstance(got, JudgeResponseError)
    assert "larger than 100000 bytes" in bench.trace[0]["error"]


def test_a_page_instead_of_json_is_named(bench: Any) -> None:
    got, peer = bench.ask([bench.Exchange("<!DOCTYPE html>" + GOOD)])

    assert isinstance(got, JudgeUnusableError)
    assert len(peer.requests) == 1


def test_the_key_reaches_the_judge_and_no_file(bench: Any) -> None:
    key = "sk-very-secret-77"
    echo = bench.completion(f"your key is {key}")
    got, peer = bench.ask([bench.Exchange(f"bad key {key}", 429), echo], api_key=key)

    assert peer.headers[0]["Authorization"] == f"Bearer {key}"
    assert len(bench.trace) == 3
    assert key not in (bench.folder / "1.judge.jsonl").read_text()
    assert "***" in bench.trace[0]["error"]
    assert "***" in bench.trace[1]["raw"]
    assert isinstance(got, ReplyError)


def test_the_key_and_the_address_it_may_stand_in_are_not_shown() -> None:
    settings = JudgeSettings("http://u:very-secret@h?key=very-secret", "m", api_key="sk-very-secret")

    assert "secret" not in repr(settings)


def test_a_key_in_the_query_is_sent_and_not_told() -> None:
    settings = JudgeSettings("http://127.0.0.1:9/v1?key=very-secret", "m")

    async def main() -> None:
        async with JudgeHttp(settings, random.Random(1)) as http:
            assert http.url.endswith("?key=very-secret")
            await http.exchange(b"{}", "1")

    with pytest.raises(JudgeAwayError, match=r"no answer from http://127.0.0.1:9/v1/chat/completions \("):
        run_virtual(main)


def test_an_answer_that_is_no_http_is_told_in_one_line_without_the_whole_address() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"what?\r\n\r\n")
        writer.close()

    async def main() -> str:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1?key=very-secret"
        try:
            async with JudgeHttp(JudgeSettings(url, "m"), random.Random(1)) as http:
                with pytest.raises(JudgeAwayError) as raised:
                    await http.exchange(b"{}", "1")
                return str(raised.value)
        finally:
            server.close()
            await server.wait_closed()

    told = run_virtual(main)
    assert "Bad status line" in told
    assert (told.count("\n"), "secret" in told) == (0, False)


def test_proxies_of_the_environment_are_ignored(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    got, _ = bench.ask([bench.completion(GOOD)])
    assert got["success_score"] == 1


def test_a_cancelled_request_leaves_its_line(bench: Any) -> None:
    async def job(judge: Judge) -> None:
        task = asyncio.create_task(judge.judge(bench.question()))
        await asyncio.sleep(5.0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    bench.run(bench.ScriptedJudge(bench.Exchange("", wait_s=20.0)), job)
    assert [line["error"] for line in bench.trace] == ["cancelled"]


def test_images_travel_as_data_urls_and_reach_no_trace(bench: Any) -> None:
    from client.judge.judge import Question, user_message

    async def job(judge: Judge) -> Any:
        return await judge.judge(Question("chat", (user_message("x", [image_part(b"\xff\xd8abc")]),)))

    peer = bench.ScriptedJudge(bench.completion(GOOD))
    bench.run(peer, job)

    assert peer.requests[0]["messages"][0]["content"][1] == {
        "type": "image_url",
        "image_url": {"url": "data:image/jpeg;base64,/9hhYmM="},
    }
    assert "base64" not in (bench.folder / "1.judge.jsonl").read_text()


def line(raw: str) -> TraceLine:
    return TraceLine("chat", 0, "text", False, False, 200, "stop", raw, None)


def test_a_trace_ends_its_lines_at_line_feeds_alone(bench: Any) -> None:
    trace = Trace(bench.folder / "1.judge.jsonl")
    texts = ["first\x85second", "a\u2028b\u2029c", "x\x1cy\x0bz", "half \ud83d"]
    for text in texts:
        trace.keep(line(text))

    assert [told["raw"] for told in bench.trace] == [*texts[:3], "half ?"]


def test_a_torn_line_is_passed_over_and_cut_off_by_the_next(bench: Any) -> None:
    path = bench.folder / "1.judge.jsonl"
    trace = Trace(path)
    trace.keep(line("one"))
    with path.open("ab") as file:
        file.write(b'{"kind": "cha')

    assert [told["raw"] for told in read_trace(path)] == ["one"]
    trace.keep(line("two"))
    assert [json.loads(told)["raw"] for told in path.read_bytes().splitlines()] == ["one", "two"]
