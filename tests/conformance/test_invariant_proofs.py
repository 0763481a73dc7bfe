"""Every invariant was seen to fail: a mistake put into the client turns it red, and docs/verdicts.md says which."""

from __future__ import annotations

import base64
import contextvars
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conformance.canary import SECRET, forms, secrets_of
from conformance.clients import builtin
from conformance.clients.job import Job
from conformance.clock import SIDE
from conformance.defects.rewrite import Rewrite, applied
from conformance.invariants import INVARIANTS, WARNINGS
from conformance.invariants_left import secret_in_artifact
from conformance.options import RunOptions
from conformance.outcome import Outcome, ScenarioResult
from conformance.runner import perform, run_scenario
from conformance.scratch import MEMORY_FOLDER, scratch_folder
from conformance.watch import Watch
from scenarios import load_catalogue
from scenarios.faults import ErrorEvent, FaultBase, NoSessionCreated
from scenarios.model import Expect, Scenario

CLEAN = next(s for s in load_catalogue() if s.id == "stream/clean-residual[july]")


def _clean(**changes: Any) -> Scenario:
    return CLEAN.model_copy(update={"expect": Expect(finishes_within_s=86_400), **changes})


def _run(scenario: Scenario, *rewrites: Rewrite) -> ScenarioResult:
    with applied(rewrites):
        return run_scenario(scenario, RunOptions())


BREAKS: list[tuple[str, Rewrite]] = [
    (
        "clip-altered",
        Rewrite("client.generate:clip_units", "frame is not None", "False"),
    ),
    (
        "padded-unit",
        Rewrite(
            "client.padding:Padding.send_unit",
            "session.append_sent(period_ms)",
            "session.append_sent(2 * period_ms)",
        ),
    ),
    (
        "ack-position",
        Rewrite("client.wire:playback_ack", "played_ms", "played_ms + 7", places=2),
    ),
    (
        "metadata-incomplete",
        Rewrite("client.generate:metadata_of", '"mix"', '"mixture"'),
    ),
    (
        "task-leak",
        Rewrite(
            "client.teardown:tear_down",
            "await failure_of(final_ack(conversation))",
            "asyncio.create_task(asyncio.sleep(1e6), name='left behind')",
        ),
    ),
    (
        "exception-never-retrieved",
        Rewrite(
            "client.teardown:tear_down",
            "await failure_of(final_ack(conversation))",
            "asyncio.create_task(conversation.connection._dial('ws://127.0.0.1:1/', {}))",
        ),
    ),
    (
        "log-error",
        Rewrite(
            "client.teardown:tear_down", "await failure_of(final_ack(conversation))", "log.error('broken')"
        ),
    ),
    (
        "append-before-commit",
        Rewrite(
            "client.generate:Attempt.stream",
            "shape_tail(self.prepared.pcm, session.chunk_period_ms)",
            "self.prepared.pcm + bytes(64)",
        ),
    ),
    (
        "wire-violation",
        Rewrite("client.wire:silence_append", "False", "True"),
    ),
    (
        "padding-off-beat",
        Rewrite(
            "client.padding:Padding.period_s", "self.conversation.session.chunk_period_ms / 1000.0", "0.1"
        ),
    ),
    (
        "sample-conservation",
        Rewrite(
            "client.retry:run_attempt", "output.retry_count = record.attempt - 1", "output.retry_count = 1"
        ),
    ),
    (
        "torn-artifact",
        Rewrite("client.artifacts:write_whole", "indented(content)", "b'{'"),
    ),
    (
        "padding-after-settle",
        Rewrite("client.padding:Padding.wanted", "self.conversation.session.padding_wanted()", "True"),
    ),
    (
        "socket-leak",
        Rewrite(
            "client.generate:Attempt.connect",
            "return conversation",
            "conversation.more = await asyncio.open_connection("
            "*connection._socket.transport.get_extra_info('peername')); return conversation",
        ),
    ),
    (
        "path-escape",
        Rewrite(
            "client.artifacts:write_answer",
            "write_whole(answer_path(root, split, sample_id), sentences)",
            "write_whole(answer_path(root, split, sample_id), sentences); (root.parent / 'stray').mkdir()",
        ),
    ),
    (
        "secret-in-artifact",
        Rewrite("client.generate:metadata_of", "settings.mix", "str(settings.headers)"),
    ),
    (
        "client-crashed",
        Rewrite("client.run:Run._finalise", "self._settings.response_root", "1 / 0"),
    ),
]


@pytest.mark.parametrize(("finding", "rewrite"), BREAKS, ids=[name for name, _ in BREAKS])
def test_an_invariant_can_fail(finding: str, rewrite: Rewrite) -> None:
    # A slow model, so that padding is on its way when it matters.
    slow = CLEAN.server.model_copy(update={"decision_ms": 1500, "profile": "input-driven"})
    result = _run(_clean(server=slow), rewrite)

    assert result.outcome is Outcome.FAIL
    assert finding in [f.id for f in result.findings]


STALLED: list[FaultBase] = [NoSessionCreated()]
ONCE: list[FaultBase] = [NoSessionCreated(attempt=1)]
FAILED: list[FaultBase] = [ErrorEvent(attempt=1)]

AGAIN: list[tuple[str, list[FaultBase], Rewrite]] = [
    (
        "more-than-two-attempts",
        STALLED,
        Rewrite("client.retry:request_sample", "MAX_ATTEMPTS + 1", "5"),
    ),
    (
        "deterministic-failure-retried",
        FAILED,
        Rewrite(
            "client.retry:decide_result",
            'Decision(4 if result.response_done else 9, "fail", reason)',
            'Decision(6, "retry", reason)',
        ),
    ),
    (
        "latency-not-of-reported-attempt",
        ONCE,
        Rewrite("client.retry:start_latency", "now_s", "output.started_s or now_s"),
    ),
]


@pytest.mark.parametrize(("finding", "faults", "rewrite"), AGAIN, ids=[name for name, _, _ in AGAIN])
def test_an_invariant_of_attempts_can_fail(finding: str, faults: list[FaultBase], rewrite: Rewrite) -> None:
    also = Rewrite("client.retry:may_try_again", "MAX_ATTEMPTS", "4")
    rewrites = (rewrite, also) if finding == "more-than-two-attempts" else (rewrite,)

    assert finding not in [f.id for f in _run(_clean(faults=faults)).findings]
    broken = _run(_clean(faults=faults), *rewrites)

    assert broken.outcome is Outcome.FAIL
    assert finding in [f.id for f in broken.findings]


def test_a_key_that_the_server_repeats_is_masked_by_the_client_and_found_where_it_is_not() -> None:
    echo = _clean(faults=[ErrorEvent(message=f"no such key: {SECRET}")])
    unmasked = Rewrite("client.masking:masked", "text.replace(secret, MASK)", "text")

    assert _run(echo).outcome is Outcome.PASS
    result = _run(echo, unmasked)

    assert result.outcome is Outcome.FAIL
    places = [f.actual for f in result.findings if f.id == "secret-in-artifact"]
    assert any(place.endswith("meta.json") for place in places)
    assert any("a log message of client" in place for place in places)


def test_a_client_that_goes_by_the_wall_clock_is_warned_of_and_passes() -> None:
    result = _run(
        _clean(),
        Rewrite(
            "client.retry:run_attempt",
            "loop.time() - output.started_s",
            "0.0 * __import__('time').monotonic()",
        ),
    )

    assert result.outcome is Outcome.PASS
    assert {warning.id for warning in result.warnings} == {"wall-clock-used"}
    read, slow = (warning.actual for warning in result.warnings)
    assert read.startswith("time.monotonic in run_attempt (<client.retry:run_attempt with a defect>:")
    assert slow == "0.000 s"


def test_the_shipped_client_takes_every_time_from_its_loop() -> None:
    assert _run(_clean()).warnings == ()


def test_the_watch_sees_what_is_changed_outside_and_nothing_inside(tmp_path: Path) -> None:
    out, far = tmp_path / "work" / "answers", tmp_path / "far"
    out.mkdir(parents=True)
    for change in (
        lambda: (tmp_path / "work" / "beside").write_text("x"),
        lambda: far.write_text("x"),
        lambda: far.rename(tmp_path / "farther"),
        lambda: (tmp_path / "farther").unlink(),
        lambda: (tmp_path / "work" / "link").symlink_to("/etc"),
        lambda: (out / ".." / "up").mkdir(),
    ):
        assert _watched(out, change) != []
    assert _watched(out, lambda: (out / "RTD_Omni").mkdir()) == []
    assert _watched(out, lambda: (out / "RTD_Omni" / "1.json").write_text("{}")) == []
    assert _watched(out, lambda: (out / "RTD_Omni" / "1.json").read_text()) == []


@pytest.mark.skipif(not MEMORY_FOLDER.is_dir(), reason="this system has no folder in memory")
def test_the_watch_sees_files_in_memory_too() -> None:
    with scratch_folder("conformance-test-") as folder, scratch_folder("conformance-test-") as other:
        out = folder / "answers"
        out.mkdir()
        stray = MEMORY_FOLDER / f"{other.name}.txt"
        try:
            assert _watched(out, lambda: stray.write_text("x")) == [str(stray)]
        finally:
            stray.unlink()
        assert _watched(out, lambda: (out / "1.json").write_text("{}")) == []


def test_the_watch_follows_links_made_inside_the_folder(tmp_path: Path) -> None:
    out, away = tmp_path / "work" / "answers", tmp_path / "away"
    for folder in (out, away):
        folder.mkdir(parents=True)

    def write_behind_a_link() -> None:
        (out / "split").symlink_to(away)
        (out / "split" / "1.json").write_text("{}")

    assert str((away / "1.json").resolve()) in _watched(out, write_behind_a_link)


def _watched(out: Path, change: Callable[[], object]) -> list[str]:
    watch = Watch(out)
    with watch.watching():
        watch.begin()
        contextvars.copy_context().run(_as_client, change)
    return list(watch.escaped)


def _as_client(change: Callable[[], object]) -> None:
    SIDE.set("client")
    change()


def test_the_watch_finds_a_file_beside_the_folder_whoever_wrote_it(tmp_path: Path) -> None:
    out = tmp_path / "work" / "answers"
    out.mkdir(parents=True)
    watch = Watch(out)
    with watch.watching():
        watch.begin()
        (tmp_path / "work" / "by-another-process").write_text("x")

    assert list(watch.escaped) == [str((tmp_path / "work" / "by-another-process").resolve())]


def test_a_secret_is_found_in_base64_wherever_it_stands_in_the_text() -> None:
    for before in ("", "a", "ab", "abc"):
        hidden = base64.b64encode(f"{before}{SECRET}:tail".encode()).decode()
        assert any(form in hidden for form in forms(SECRET)), before
    assert not any(form in "another text" for form in forms(SECRET))


TABLE_ROW = re.compile(r"^\| `([a-z-]+)` \| ([^|]*) \| ([^|]*) \| ([^|]*) \|$", re.MULTILINE)
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "verdicts.md"


def _rows() -> dict[str, tuple[str, str]]:
    """(needs, proof) by finding."""
    return {
        name: (needs.strip(), proof.strip())
        for name, _, needs, proof in TABLE_ROW.findall(DOCUMENT.read_text())
    }


def test_every_invariant_has_its_line_with_what_it_needs_and_the_proof_that_it_can_fail() -> None:
    wanted = {
        finding: ", ".join(sorted(one.needs)) or "nothing"
        for one in reversed((*INVARIANTS, *WARNINGS))
        for finding in one.findings
    }

    assert {name: needs for name, (needs, _) in _rows().items() if name != "client-crashed"} == wanted


def test_every_proof_in_the_table_exists() -> None:
    proven = {name for name, _ in BREAKS} | {name for name, _, _ in AGAIN}
    tests = "".join(path.read_text() for path in Path(__file__).parent.rglob("test_*.py"))
    for name, (_, proof) in _rows().items():
        named = re.findall(r"`(test_[a-z0-9_]+)`", proof)
        assert named, f"{name}: no test is named"
        for test in named:
            assert f"def {test}(" in tests, f"{name}: {test} does not exist"
        if set(named) & {"test_an_invariant_can_fail", "test_an_invariant_of_attempts_can_fail"}:
            assert name in proven, f"{name}: not among the mistakes that are put in"


def test_the_clean_client_breaks_no_invariant_in_the_same_place() -> None:
    slow = CLEAN.server.model_copy(update={"decision_ms": 1500, "profile": "input-driven"})

    assert _run(_clean(server=slow)).outcome is Outcome.PASS


def test_a_key_that_a_program_prints_is_found(tmp_path: Path) -> None:
    options = RunOptions()
    seen = perform(_clean(), options, tmp_path, builtin.prepare(CLEAN, options))
    assert [f.id for f in secret_in_artifact(seen)] == []

    (tmp_path / "client.stderr").write_text(f"connecting with {SECRET}\n")

    (finding,) = secret_in_artifact(seen)
    assert finding.actual == "in client.stderr"


def test_a_client_of_others_is_given_the_key_and_no_command_line_shows_it() -> None:
    job = Job("ws://127.0.0.1:1/", "m", "v.wav", "s.jsonl", "out", 60.0)

    assert job.environment()["CONFORMANCE_API_KEY"] == SECRET
    assert SECRET not in " ".join(job.fields().values())
    assert SECRET not in repr(job)


def test_secrets_that_a_program_is_given_by_name_are_looked_for_too() -> None:
    given = {
        "OPENAI_API_KEY": "sk-1234567890",
        "PATH": "/usr/bin:/bin",
        "HF_TOKEN": "short",
        "DB_password": "longenough",
    }

    assert secrets_of(given) == ("longenough", "sk-1234567890")
