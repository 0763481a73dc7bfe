"""A run over samples (evaluation.md 12, 14, 19), against the mock server on the virtual clock."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from client.deadlines import Deadlines
from client.media import MediaError, Prepared, ReferenceVoice
from client.run import Planned, Run, RunError, RunResult, RunSettings, SampleRecord
from client.settings import SessionSettings
from conformance.clock import run_virtual
from mockserver.app import MockServer
from scenarios.faults import FaultBase, NeverDone
from scenarios.faults_session import IgnoreClose
from scenarios.model import Reply

VOICE = ReferenceVoice("data:audio/wav;base64,AAAA", "ab")
REPLY = Reply(starts_at_unit=1, units=2, text="Hello there. You.")


def clip(sample_id: str, seconds: float = 3.0) -> Prepared:
    return Prepared("RTD_OCR", sample_id, b"\x10\x27" * round(16_000 * seconds), (), seconds)


def clips(count: int) -> list[Prepared | Planned]:
    return [clip(str(number + 1)) for number in range(count)]


class Later:
    """A sample prepared when its turn comes; `prepared` may be what that raises."""

    def __init__(self, sample_id: str, prepared: Prepared | Exception) -> None:
        self.split, self.id, self._prepared = "RTD_OCR", sample_id, prepared

    def __call__(self) -> Prepared:
        if isinstance(self._prepared, Exception):
            raise self._prepared
        return self._prepared


class Bench:
    """Runs against one mock server on a fresh virtual loop; keeps what the last run left."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.connections = 0
        self.result = RunResult("", {})

    def settings(self, url: str, **changes: Any) -> RunSettings:
        session = SessionSettings(
            url=url,
            model=changes.pop("model", "m"),
            ref_audio=VOICE,
            deadlines=Deadlines(request_s=400.0),
            headers=changes.pop("headers", {}),
        )
        return replace(RunSettings(session, self.root), **changes)

    def run(
        self,
        samples: Sequence[Prepared | Planned],
        *,
        faults: Sequence[FaultBase] = (),
        during: Callable[[Run], Awaitable[RunResult]] | None = None,
        progress: Any = None,
        observer: Any = None,
        **changes: Any,
    ) -> RunResult:
        async def main() -> RunResult:
            server = MockServer(profile="july", replies=[REPLY], faults=faults)
            await server.start()
            try:
                settings = self.settings(server.url, **changes)
                run = Run(samples, settings, progress=progress, observer=observer)
                self.result = run.result
                return await (during(run) if during is not None else run.run())
            finally:
                self.connections = len(server.connections)
                await server.stop()

        return run_virtual(main)

    def files(self) -> list[str]:
        found = (path.relative_to(self.root).as_posix() for path in self.root.rglob("*") if path.is_file())
        return sorted(name for name in found if name not in (".run.lock", ".metrics.jsonl"))

    def told(self) -> Any:
        return json.loads((self.root / "run_result.json").read_text())


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "out")


def outcomes(result: RunResult) -> list[str]:
    return [record.outcome for record in result.samples]


class Order:
    """Notes when samples start and end."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.running = self.most = 0

    def started(self, index: int, split: str, sample_id: str) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        self.steps.append(f"+{sample_id}")

    def ended(self, index: int, record: SampleRecord) -> None:
        self.running -= 1
        self.steps.append(f"-{record.id}")


def test_every_sample_leaves_its_answer_and_the_run_its_result(bench: Bench) -> None:
    result = bench.run(clips(2))

    assert outcomes(result) == ["published", "published"]
    assert bench.files() == [
        "RTD_OCR/1.json",
        "RTD_OCR/1.meta.json",
        "RTD_OCR/2.json",
        "RTD_OCR/2.meta.json",
        "duplex_metrics.json",
        "run_result.json",
    ]
    assert [s["sentence"] for s in json.loads((bench.root / "RTD_OCR/1.json").read_text())] == [
        "Hello there.",
        "You.",
    ]


def test_the_run_result_has_the_facts_at_the_top_and_in_their_block(bench: Bench) -> None:
    told = bench.run(clips(2)).to_json()

    assert told == bench.told()
    assert {
        k: told[k] for k in ("requested", "completed", "published", "failed", "cancelled", "finished")
    } == {
        "requested": 2,
        "completed": 2,
        "published": 2,
        "failed": 0,
        "cancelled": 0,
        "finished": 2,
    }
    assert told["omni_duplex_eval"] == {
        "response_root": str(bench.root),
        "published": 2,
        "published_now": 2,
        "skipped_finished": 0,
        "artifact_errors": [],
        "duplex_retried_samples": 0,
        "duplex_retry_count": 0,
    }
    assert (told["errors"], told["start_times"][0], told["settings"]["drain_padding"]) == (
        ["", ""],
        0.0,
        True,
    )
    assert told["duration"] == pytest.approx(sum(sample["latency_s"] for sample in told["samples"]), abs=0.1)


@pytest.mark.parametrize("concurrency", [1, 2, 3])
def test_samples_start_in_order_and_no_more_than_allowed_run_at_a_time(
    bench: Bench, concurrency: int
) -> None:
    order = Order()

    bench.run(clips(5), concurrency=concurrency, progress=order)

    assert [step for step in order.steps if step[0] == "+"] == ["+1", "+2", "+3", "+4", "+5"]
    assert order.most == concurrency


def test_the_same_run_gives_the_same_records(tmp_path: Path) -> None:
    first, second = (Bench(tmp_path / name).run(clips(4), concurrency=3) for name in "ab")

    assert first.samples == second.samples


def test_finished_samples_are_not_run_again(bench: Bench) -> None:
    bench.run(clips(2))
    stamp = (bench.root / "RTD_OCR/1.json").stat().st_mtime_ns

    result = bench.run(clips(3))

    assert outcomes(result) == ["skipped_finished", "skipped_finished", "published"]
    assert (bench.connections, result.to_json()["finished"]) == (1, 3)
    assert (bench.root / "RTD_OCR/1.json").stat().st_mtime_ns == stamp


def test_overwriting_runs_finished_samples_again(bench: Bench) -> None:
    bench.run(clips(1))

    assert outcomes(bench.run(clips(1), overwrite=True)) == ["published"]


def test_an_old_answer_does_not_outlive_a_failed_new_run(bench: Bench) -> None:
    bench.run(clips(1))

    result = bench.run(clips(1), overwrite=True, faults=[NeverDone()])

    assert outcomes(result) == ["failed"]
    assert "RTD_OCR/1.json" not in bench.files()


@pytest.mark.parametrize("damage", ['{"not": "a list"}', "[{", ""])
def test_an_answer_that_cannot_be_read_is_run_again(bench: Bench, damage: str) -> None:
    bench.run(clips(1))
    (bench.root / "RTD_OCR/1.json").write_text(damage)

    assert outcomes(bench.run(clips(1))) == ["published"]


def test_a_retry_of_an_earlier_run_still_counts(bench: Bench) -> None:
    first = bench.run(clips(1), faults=[NeverDone(attempt=1)])
    second = bench.run(clips(2))

    assert [first.duplex_retried_samples, second.duplex_retried_samples, second.duplex_retry_count] == [
        1,
        1,
        1,
    ]


def test_answers_of_another_model_are_not_mixed_in(bench: Bench) -> None:
    bench.run(clips(1))
    before = (bench.root / "run_result.json").read_bytes()

    with pytest.raises(RunError, match=r"RTD_OCR/1 was finished with model 'm' \(now 'other'\); allowed"):
        bench.run(clips(2), model="other")

    assert (bench.connections, (bench.root / "run_result.json").read_bytes()) == (0, before)


def test_a_failed_sample_leaves_its_reason_and_no_answer(bench: Bench) -> None:
    result = bench.run(clips(1), faults=[NeverDone()])

    record = result.samples[0]
    assert (record.outcome, record.attempts, record.retry_count) == ("failed", 2, 1)
    assert record.error
    assert bench.files() == [
        "RTD_OCR/1.meta.json",
        "attempts/RTD_OCR/1/1.json",
        "attempts/RTD_OCR/1/2.json",
        "duplex_metrics.json",
        "run_result.json",
    ]
    assert bench.told()["errors"] == [record.error]


def test_retries_are_tallied(bench: Bench) -> None:
    result = bench.run(clips(3), faults=[NeverDone(connection=1), NeverDone(connection=3)])

    assert outcomes(result) == ["published"] * 3
    assert [record.retry_count for record in result.samples] == [1, 1, 0]
    assert (result.duplex_retried_samples, result.duplex_retry_count) == (2, 2)


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (MediaError("q.wav: empty (0 bytes)"), "preparation: q.wav: empty (0 bytes)"),
        (MemoryError("too large"), "MemoryError: too large"),
        (OverflowError("too long"), "OverflowError: too long"),
        (clip("2", seconds=0), "no audio to send"),
    ],
)
def test_a_sample_that_cannot_be_prepared_fails_alone_without_a_session(
    bench: Bench, error: Any, found: str
) -> None:
    result = bench.run([Later("1", clip("1")), Later("2", error), Later("3", clip("3"))])

    assert outcomes(result) == ["published", "failed", "published"]
    assert (bench.connections, result.samples[1].attempts) == (2, 0)
    assert found in result.samples[1].error


def test_preparing_does_not_stop_the_loop(bench: Bench) -> None:

    loops: list[int] = []

    class Slow(Later):
        def __call__(self) -> Prepared:
            loops.append(threading.get_ident())
            return super().__call__()

    bench.run([Slow("1", clip("1"))])

    assert loops
    assert loops[0] != threading.get_ident()


def test_deferred_answers_are_written_after_the_last_sample(bench: Bench) -> None:
    seen: list[list[str]] = []

    class Look(Order):
        def ended(self, index: int, record: SampleRecord) -> None:
            seen.append(bench.files())

    result = bench.run(clips(2), defer_artifacts=True, progress=Look())

    assert seen == [[], []]
    assert (result.published, len(bench.files())) == (2, 6)


@pytest.mark.parametrize("defer", [False, True])
def test_an_answer_that_cannot_be_written_is_told_and_costs_no_other(bench: Bench, defer: bool) -> None:
    (bench.root / "RTD_OCR" / "1.meta.json").mkdir(parents=True)

    result = bench.run(clips(2), defer_artifacts=defer)

    assert outcomes(result) == ["failed", "published"]
    assert "1.meta.json" in result.artifact_errors[0]
    assert (result.completed, bench.told()["published"], bench.told()["artifact_errors"]) == (
        2,
        1,
        result.artifact_errors,
    )
    assert not [name for name in bench.files() if name.endswith(".part")]


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_score_in_the_place_of_an_answer_is_not_touched(bench: Bench, overwrite: bool) -> None:
    score = bench.root / "RTD_OCR" / "1.json"
    score.parent.mkdir(parents=True)
    score.write_text('{"family": "rtd"}')

    result = bench.run(clips(2), overwrite=overwrite)

    assert outcomes(result) == ["failed", "published"]
    assert "found a score where the answer would be written" in result.samples[0].error
    assert (bench.connections, score.read_text()) == (1, '{"family": "rtd"}')


def test_an_old_answer_that_cannot_be_taken_away_costs_only_its_sample(bench: Bench) -> None:
    (bench.root / "RTD_OCR" / "1.json").mkdir(parents=True)

    result = bench.run(clips(2), stop_when_away=True, concurrency=2)

    assert outcomes(result) == ["failed", "published"]


@pytest.mark.parametrize("after_s", [0.5, 4.0, 6.5])
def test_a_cancelled_run_accounts_for_every_sample(bench: Bench, after_s: float) -> None:
    async def cancel(run: Run) -> RunResult:
        task = asyncio.create_task(run.run(), name="the run")
        await asyncio.sleep(after_s)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return run.result

    result = bench.run(clips(4), concurrency=2, during=cancel)

    assert result.requested == 4 == result.published + result.cancelled
    assert all(record.error for record in result.samples if record.outcome == "cancelled")
    assert bench.told()["samples"] == result.to_json()["samples"]
    begun = [record.attempts for record in result.samples]
    assert sum(begun) == bench.connections


def test_a_second_run_in_the_same_folder_stops_with_a_message(bench: Bench) -> None:
    async def both(run: Run) -> RunResult:
        task = asyncio.create_task(run.run(), name="first")
        await asyncio.sleep(1)
        with pytest.raises(RunError, match="another run is writing here"):
            await Run(clips(1), replace(run._settings, session=run._settings.session)).run()
        return await task

    assert outcomes(bench.run(clips(2), during=both)) == ["published", "published"]


def test_the_folder_is_free_again_after_a_run(bench: Bench) -> None:
    bench.run(clips(1))

    assert outcomes(bench.run(clips(2)))[1] == "published"


@pytest.mark.parametrize("names", [("x", "x"), ("x", "x.meta"), ("..", "y"), ("a/b", "y")])
def test_names_that_collide_are_refused_before_any_folder_is_made(
    bench: Bench, names: tuple[str, str]
) -> None:
    with pytest.raises(RunError):
        bench.run([clip(name) for name in names])

    assert (bench.root.exists(), bench.connections) == (False, 0)


BAD_SETTINGS: list[dict[str, Any]] = [{"concurrency": 0}, {"response_root": Path("/proc/none/out")}]


@pytest.mark.parametrize("changes", BAD_SETTINGS)
def test_settings_out_of_range_are_refused(bench: Bench, changes: dict[str, Any]) -> None:
    with pytest.raises(RunError):
        bench.run(clips(1), **changes)


def test_a_sample_without_a_name_is_refused(bench: Bench) -> None:
    with pytest.raises(RunError, match="callable with split and id"):
        bench.run([lambda: clip("1")])  # type: ignore[list-item]


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/", "127.0.0.1:80", "ws://"])
def test_a_url_of_another_scheme_is_refused(bench: Bench, url: str) -> None:
    with pytest.raises(RunError, match="url"):
        Run(clips(1), bench.settings(url))


def against(url: str, bench: Bench, samples: list[Prepared | Planned]) -> RunResult:
    return run_virtual(lambda: Run(samples, bench.settings(url, stop_when_away=True, concurrency=2)).run())


def test_a_server_that_is_away_ends_the_run_at_its_first_sample(bench: Bench) -> None:
    result = against("ws://127.0.0.1:9/v1/realtime", bench, clips(5))

    assert outcomes(result) == ["failed"] + ["cancelled"] * 4
    assert result.stopped.startswith("the server at ws://")
    assert [record.attempts for record in result.samples] == [1, 0, 0, 0, 0]


@pytest.mark.parametrize("status", [200, 403, 404, 503])
def test_a_server_that_refuses_the_upgrade_is_away(bench: Bench, status: int) -> None:
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(status=status)

    async def main() -> RunResult:
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        try:
            settings = bench.settings(f"http://127.0.0.1:{port}", stop_when_away=True, concurrency=2)
            return await Run(clips(4), settings).run()
        finally:
            await runner.cleanup()

    result = run_virtual(main)

    assert (outcomes(result), asked) == (["failed"] + ["cancelled"] * 3, ["/v1/realtime"])
    assert str(status) in result.stopped


def test_a_server_that_was_reached_once_is_not_away(bench: Bench) -> None:
    result = bench.run(clips(2), faults=[NeverDone()], stop_when_away=True, concurrency=2)

    assert (outcomes(result), result.stopped) == (["failed", "failed"], "")


def test_without_that_wish_every_sample_is_tried(bench: Bench) -> None:
    result = run_virtual(lambda: Run(clips(3), bench.settings("ws://127.0.0.1:9/")).run())

    assert outcomes(result) == ["failed"] * 3


def test_no_credential_reaches_a_file(bench: Bench) -> None:
    bench.run(clips(1), headers={"Authorization": "Bearer s3cret-key"}, faults=[NeverDone()])
    run_virtual(
        lambda: Run([clip("2")], bench.settings("ws://user:s3cret-key@127.0.0.1:9/?key=s3cret-key")).run()
    )

    assert not [name for name in bench.files() if "s3cret-key" in (bench.root / name).read_text()]


def test_a_break_of_our_own_is_raised_and_everything_accounted_for(bench: Bench) -> None:
    class Breaking(Order):
        def ended(self, index: int, record: SampleRecord) -> None:
            if record.id == "2" and record.outcome == "published":
                raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError):
        bench.run(clips(4), progress=Breaking())

    assert outcomes(bench.result) == ["published", "published", "cancelled", "cancelled"]
    assert "ZeroDivisionError" in bench.told()["stopped"]


def test_the_observer_is_told_of_every_step(bench: Bench) -> None:
    steps: list[str] = []

    def observe(step: str, fields: Mapping[str, Any]) -> None:
        steps.append(step)

    bench.run(clips(1), observer=observe)

    assert steps[0] == "attempt_started"
    assert {"sent", "received", "phase"} < set(steps)


KILLED = """
import os, signal, sys
from pathlib import Path
from client import artifacts
sys.path.insert(0, sys.argv[1])
import test_client_run as tests
whole = Path.replace
def die(self, target):
    if Path(target).name in ("3.json", "3.meta.json") and sys.argv[3] in Path(target).name:
        os.kill(os.getpid(), signal.SIGKILL)
    return whole(self, target)
Path.replace = die
tests.Bench(Path(sys.argv[2])).run(tests.clips(4))
"""


@pytest.mark.parametrize("killed_at", ["3.json", "3.meta.json"])
def test_a_killed_run_leaves_only_whole_files_and_resumes_where_it_ended(
    bench: Bench, killed_at: str
) -> None:
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", KILLED, here, str(bench.root), killed_at]
    dead = subprocess.run(
        command, capture_output=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
    assert dead.returncode == -9, dead.stderr.decode()
    for name in bench.files():
        if name.endswith(".json"):
            json.loads((bench.root / name).read_text())

    result = bench.run(clips(4))

    assert outcomes(result) == ["skipped_finished"] * 2 + ["published"] * 2
    assert (bench.connections, result.to_json()["finished"]) == (2, 4)
    assert not [name for name in bench.files() if name.endswith(".part")]


@pytest.mark.parametrize("defer", [False, True])
def test_a_complete_reply_whose_close_stalls_is_published_from_one_session(bench: Bench, defer: bool) -> None:
    result = bench.run(clips(1), faults=[IgnoreClose()], defer_artifacts=defer)

    assert (outcomes(result), bench.connections, result.completed) == (["published"], 1, 1)
    metadata = json.loads((bench.root / "RTD_OCR/1.meta.json").read_text())
    assert metadata["close_timeout"]
    assert (bench.root / "RTD_OCR/1.json").is_file()


def test_answers_are_written_in_a_thread_so_that_a_slow_disk_stalls_no_session(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    from client import artifacts

    threads: list[int] = []
    publish = artifacts.publish

    def slow(*arguments: Any) -> None:
        threads.append(threading.get_ident())
        publish(*arguments)

    monkeypatch.setattr(artifacts, "publish", slow)
    result = bench.run(clips(2))
    assert outcomes(result) == ["published", "published"]
    assert threading.get_ident() not in threads


def test_a_sample_cancelled_while_it_is_written_counts_as_what_it_is(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    from client import artifacts

    publish = artifacts.publish

    async def during(run: Run) -> RunResult:
        loop, task = asyncio.get_running_loop(), asyncio.create_task(run.run())

        def cancelling(*arguments: Any) -> None:
            loop.call_soon_threadsafe(task.cancel)
            publish(*arguments)

        monkeypatch.setattr(artifacts, "publish", cancelling)
        with pytest.raises(asyncio.CancelledError):
            await task
        return run.result

    result = bench.run(clips(2), during=during)
    assert outcomes(result) == ["published", "cancelled"]
    assert (bench.root / "RTD_OCR/1.json").is_file()


def test_a_full_disk_is_told_by_path_and_leaves_no_half_file(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Path.write_bytes

    def full(self: Path, data: bytes) -> int:
        if self.name.startswith("1."):
            write(self, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(self, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    result = bench.run(clips(2))

    assert outcomes(result) == ["failed", "published"]
    assert "RTD_OCR/1.meta.json" in result.artifact_errors[0]
    assert "No space left on device" in result.samples[0].error
    assert not [name for name in bench.files() if name.startswith("RTD_OCR/1") or name.endswith(".part")]


def test_figures_of_finished_samples_survive_into_the_resumed_run(bench: Bench) -> None:
    bench.run(clips(1))
    before = bench.told()
    (bench.root / "run_result.json").unlink()
    (bench.root / "duplex_metrics.json").unlink()

    told = bench.run(clips(2)).to_json()
    metrics = json.loads((bench.root / "duplex_metrics.json").read_text())

    assert (told["completed"], told["skipped_finished"], told["published_now"]) == (2, 1, 1)
    assert (told["published"], told["omni_duplex_eval"]["published"]) == (2, 2)
    assert (told["omni_duplex_eval"]["published_now"], told["omni_duplex_eval"]["skipped_finished"]) == (1, 1)
    assert told["e2els"][0] == before["e2els"][0]
    assert [row["sample_id"] for row in metrics["duplex_session_metrics"]] == ["1", "2"]
    assert metrics["duplex_stream_ttft_ms"]["count"] == 2
    assert metrics["duplex_request_metrics"] == told["duplex_request_metrics"]


def test_warm_up_sessions_leave_nothing_and_are_outside_the_window(bench: Bench) -> None:
    order = Order()

    result = bench.run(clips(2), readiness=True, warmups=3, concurrency=2, progress=order)

    assert (bench.connections, result.requested, outcomes(result)) == (6, 2, ["published", "published"])
    assert not [name for name in bench.files() if "warm" in name]
    assert len(bench.told()["duplex_session_metrics"]) == 2
    assert result.duration_s < 15
    assert order.steps[:2] == ["+1", "+2"]


def test_a_server_that_is_not_ready_ends_the_run_before_it_begins(bench: Bench) -> None:
    result = bench.run(clips(2), faults=[NeverDone()], readiness=True)

    assert result.stopped.startswith("the server at ws://127.0.0.1:")
    assert " is not ready: drain: " in result.stopped
    assert (outcomes(result), bench.connections) == (["cancelled", "cancelled"], 2)
    assert result.duplex_retry_count == 0


def test_nothing_left_to_run_needs_no_warm_up(bench: Bench) -> None:
    bench.run(clips(1))
    bench.run(clips(1), readiness=True, warmups=2)

    assert bench.connections == 0
