"""`python:` clients in virtual time: what they are judged by, and what they cannot show."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from conformance.abilities import Need
from conformance.clients.choice import ClientChoice, abilities_of
from conformance.options import RunOptions
from conformance.outcome import Outcome, ScenarioResult
from conformance.runner import run_scenario
from conformance.session import ready_client
from scenarios import load_catalogue, load_scenarios

HERE = Path(__file__).resolve().parent


@pytest.fixture(autouse=True)
def _path_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lab's folder stays on the path of its process: here many labs share one."""
    monkeypatch.setattr(sys, "path", list(sys.path))


def options_for(module: str, function: str = "run", **more: Any) -> RunOptions:
    """Run options for a client of others in a file."""
    choice = ClientChoice("python", module=module, function=function)
    return replace(RunOptions(client=choice, abilities=abilities_of(choice)), **more)


SHIPPED = options_for(str(HERE / "shipped_as_outside.py"))
CATALOGUE = {scenario.id: scenario for scenario in load_catalogue()}


def play(scenario_id: str, options: RunOptions = SHIPPED) -> ScenarioResult:
    """The result of one scenario of the catalogue."""
    return run_scenario(CATALOGUE[scenario_id], options)


@pytest.mark.parametrize(
    "scenario_id",
    [
        "commit/stall-at-commit",
        "stream/clean-residual[july]",
        "close/never-closed[deferred]",
        "retry/stall-twice",
        "transport/session-expired[session-expired]",
        "reply/split-character[grapheme]",
    ],
)
def test_a_right_client_of_others_passes_what_it_can_show(scenario_id: str) -> None:
    result = play(scenario_id)
    assert (result.outcome, result.findings, result.reason) == (Outcome.PASS, (), "")


@pytest.mark.parametrize(
    "scenario_id", ["judge/prose-once[temporal]", "judge/reminders[post-event]", "judge/scored"]
)
def test_a_client_that_judges_is_judged_by_the_ledger_and_its_score_files(scenario_id: str) -> None:
    result = play(scenario_id)
    assert (result.outcome, result.findings, result.reason) == (Outcome.PASS, (), "")


def test_a_client_that_asks_the_judge_nothing_is_not_observable_there(tmp_path: Path) -> None:
    silent = "from dataclasses import replace\nasync def run(job):\n    await shipped(replace(job, judge_url=''))\n"
    result = play("judge/scored", broken(tmp_path, silent))
    assert result.outcome is Outcome.NOT_OBSERVABLE
    assert "the client asked the judge nothing" in result.reason


@pytest.mark.parametrize(
    ("scenario_id", "told"),
    [
        ("close/stubborn-close", "fault swallow_cancellation needs seam"),
        ("ack/request-timeout-in-join", "setting client.deadlines.request_s needs settings"),
        ("stream/as-fast-as-possible", "setting client.pace needs settings"),
        ("retry/row-15[in-clip]", "setting client.cancel_at_s needs settings"),
        ("teardown/stop-reading[july-commit]", "statement deadlines needs observer"),
        ("run/mixed-outcomes", "setting the sample or attempt that"),
    ],
)
def test_what_it_cannot_show_or_be_told_is_not_observable_with_the_reason(
    scenario_id: str, told: str
) -> None:
    result = play(scenario_id)
    assert result.outcome is Outcome.NOT_OBSERVABLE
    assert told in result.reason


def broken(tmp_path: Path, source: str, **more: Any) -> RunOptions:
    """A client made of the shipped one and a mistake."""
    file = tmp_path / "lab.py"
    file.write_text(
        f"import asyncio, json, sys\nfrom pathlib import Path\nsys.path.insert(0, {str(HERE)!r})\n"
        f"from shipped_as_outside import run as shipped\n{source}"
    )
    return options_for(str(file), **more)


CLEAN = "stream/clean-residual[july]"


@pytest.mark.parametrize(
    ("source", "finding"),
    [
        ("async def run(job):\n    await asyncio.Event().wait()\n", "unbounded-await"),
        ("async def run(job):\n    raise RuntimeError('out of luck')\n", "client-crashed"),
        ("async def run(job):\n    sys.exit(0)\n", "client-crashed"),
        (
            "async def quit(): sys.exit(0)\n"
            "async def run(job):\n    asyncio.create_task(quit())\n    await shipped(job)\n",
            "client-crashed",
        ),
        (
            "async def run(job):\n    while True:\n        try: await asyncio.Event().wait()\n"
            "        except asyncio.CancelledError: pass\n",
            "unbounded-await",
        ),
        (
            "async def run(job):\n    await shipped(job)\n"
            "    for f in Path(job.out).glob('*/*.meta.json'): f.unlink()\n",
            "metadata-incomplete",
        ),
        (
            "async def run(job):\n    await shipped(job)\n"
            "    for f in Path(job.out).glob('*/1.json'): f.write_text('[{')\n",
            "torn-artifact",
        ),
        (
            "async def run(job):\n    await shipped(job)\n"
            "    for f in Path(job.out).glob('*/1.json'): f.write_text('[]')\n",
            "sample.text",
        ),
        (
            "async def run(job):\n    await shipped(job)\n    asyncio.create_task(asyncio.sleep(99))\n",
            "task-leak",
        ),
        (
            "async def run(job):\n    await shipped(job)\n    "
            "for f in Path(job.out).glob('*/1.json'): f.unlink()\n    await shipped(job)\n",
            "sample.attempts",
        ),
    ],
)
def test_a_wrong_client_of_others_fails_by_name(tmp_path: Path, source: str, finding: str) -> None:
    result = play(CLEAN, broken(tmp_path, source))
    assert result.outcome is Outcome.FAIL
    assert finding in [found.id for found in result.findings]


def test_a_hang_tells_the_last_word_on_the_wire_and_the_command_that_plays_it_again(tmp_path: Path) -> None:
    source = "async def run(job):\n    await shipped(job)\n    await asyncio.Event().wait()\n"
    options = broken(tmp_path, source, client_deadline_s=30.0)
    result = play(CLEAN, options)
    (hang,) = [found for found in result.findings if found.id == "unbounded-await"]
    assert hang.expected == "the client returns before the harness gives up on it (30 s)"
    assert "last on the wire: its end was seen on connection 1" in hang.actual
    assert any("lab.py" in line for line in hang.details)
    assert f"--client python:{options.client.module}:run" in result.reproduce


def test_answers_may_stand_in_one_run_folder(tmp_path: Path) -> None:
    source = (
        "from dataclasses import replace\nasync def run(job):\n"
        "    await shipped(replace(job, out=str(Path(job.out) / 'run-20261129')))\n"
    )
    assert play(CLEAN, broken(tmp_path, source)).outcome is Outcome.PASS


def test_what_a_client_says_in_its_own_words_is_not_compared(tmp_path: Path) -> None:
    source = (
        "async def run(job):\n    await shipped(job)\n"
        "    for f in Path(job.out).glob('*/*.meta.json'):\n"
        "        meta = json.loads(f.read_text())\n"
        "        meta['close_timeout'] = meta['close_timeout'] and 'tiempo agotado'\n"
        "        f.write_text(json.dumps(meta))\n"
    )
    assert play("close/never-closed[deferred]", broken(tmp_path, source)).outcome is Outcome.PASS


def test_a_run_result_that_contradicts_the_files_fails(tmp_path: Path) -> None:
    source = (
        "async def run(job):\n    await shipped(job)\n"
        "    f = Path(job.out) / 'run_result.json'\n    told = json.loads(f.read_text())\n"
        "    told['duplex_retried_samples'] = 0\n    f.write_text(json.dumps(told))\n"
    )
    result = play("retry/stall-twice", broken(tmp_path, source))
    assert "run.duplex_retried_samples" in [found.id for found in result.findings]


def test_without_a_run_result_its_statements_are_not_observable(tmp_path: Path) -> None:
    source = "async def run(job):\n    await shipped(job)\n    (Path(job.out) / 'run_result.json').unlink()\n"
    result = play("retry/stall-twice", broken(tmp_path, source))
    assert result.outcome is Outcome.NOT_OBSERVABLE
    assert "the client wrote no run_result.json" in result.reason


EXAMPLES = HERE.parent.parent / "docs" / "examples"
A_QUARTER = [name for name in CATALOGUE if "dataset" not in name and crc32(name.encode()) % 4 == 0]
"""Of every area, and of no rhythm: a step of three meets the same case of each family of three, so most are never met.
`conformance run --client python:docs/examples/minimal_client.py:run` plays them all."""


@pytest.mark.parametrize(("example", "names"), [("minimal", A_QUARTER), ("complete", A_QUARTER[::6])])
def test_a_right_client_passes_or_is_not_observable_and_nothing_else(example: str, names: list[str]) -> None:
    client = ready_client(options_for(str(EXAMPLES / f"{example}_client.py")))
    results = [run_scenario(CATALOGUE[name], client) for name in names]
    wrong = [r.id for r in results if r.outcome not in (Outcome.PASS, Outcome.NOT_OBSERVABLE)]
    assert wrong == []
    beyond = [
        {u.need for u in r.unobserved if u.what != "invariant"} - {Need.METADATA, Need.FILES} for r in results
    ]
    assert (
        sum(not needs for needs in beyond) >= len(names) // 10
    )  # all but what its files do not say was judged


@pytest.mark.parametrize(
    "scenario_id", ["close/never-closed[deferred]", "retry/row-07[close-alone]", "reply/only-listens[july]"]
)
def test_the_naive_client_fails_by_name(scenario_id: str) -> None:
    result = play(scenario_id, options_for(str(EXAMPLES / "naive_client.py")))
    assert result.outcome is Outcome.FAIL
    assert "unbounded-await" in [found.id for found in result.findings]


QUIET = """
import asyncio, base64, json
from websockets.asyncio.client import connect

async def run(job):
    session = {"model": job.model, "modalities": ["text"], "extra_body": {"auto_response": True}}
    async with connect(job.url + "?duplex=1&autostart=0", compression=None, proxy=None, ping_interval=None) as ws:
        await ws.send(json.dumps({"type": "session.update", "session": session}))
        await ws.recv()
        audio = base64.b64encode(bytes(3200)).decode()
        await ws.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))
        await asyncio.sleep(5)
        ws.transport.abort()
"""


def test_a_stall_that_a_client_wrote_too_little_to_feel_is_not_observable(tmp_path: Path) -> None:
    file = tmp_path / "quiet.yaml"
    file.write_text(
        "title: t\nabout: a\nrequires: []\nclip: {seconds: 2, frames: false}\n"
        "faults: [{stop_reading: {on: {received: input_audio_buffer.append}}}]\n"
        "expect: {wire: {connections: 1}}\n"
    )
    (scenario,) = load_scenarios(file)
    (tmp_path / "lab.py").write_text(QUIET)
    result = run_scenario(scenario, options_for(str(tmp_path / "lab.py")))
    assert [found.id for found in result.findings if found.id != "clip-altered"] == []
    told = next(one for one in result.unobserved if one.what == "fault")
    assert told.reason == "no write of the client had to wait: at most 0 bytes lay in the sockets"
