"""The model of a right client, held against clients of others: the example that is right, and what spoils it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

from conformance.clients.choice import parse_client
from conformance.clients.making import unplayable
from conformance.fuzz.dice import Dice
from conformance.fuzz.strategies import build, roll_scenario
from conformance.options import ConfigurationError, RunOptions
from conformance.outcome import Outcome, ScenarioResult
from conformance.session import ready_client
from conformance.testing import NotObservableError, run_scenario, scenario_of

DOCS = Path(__file__).resolve().parents[2] / "docs"
COMPLETE = DOCS / "examples" / "complete_client.py"
IDLE = "async def run(job):\n    return None\n"

REPLY = {"starts_at_unit": 0, "units": 1, "text": "Hello."}
LONG = {"starts_at_unit": 1, "units": 4, "text": "A long answer."}
OPEN = {"starts_at_unit": 1, "units": 2, "text": "Never over.", "ends": False}
FAILED = {"starts_at_unit": 1, "units": 1, "text": "Not told.", "status": "failed"}


def _scenario(
    replies: list[dict[str, Any]], *faults: Any, profile: str = "july", seconds: float = 1.4
) -> Any:
    data = {
        "clip": {"seconds": seconds},
        "server": {"profile": profile, "reply": replies},
        "faults": list(faults),
    }
    return scenario_of(data)


WRONG = {
    "it leaves in the middle of the clip": (
        ("session.committing = True", 'raise ConnectionError("enough")'),
        _scenario([REPLY]),
        ("session-abandoned", "no commit"),
    ),
    "it drops an answer whose close was not answered": (
        ("    if success:\n", '    if success and not meta["close_timeout"]:\n'),
        _scenario([REPLY], "no_session_closed"),
        ("sample.outcome", "no 1.json"),
    ),
    "it answers though nothing was said": (
        ('success = meta["response_done"] and not reported', "success = not reported"),
        _scenario([]),
        ("sample.outcome", "is there"),
    ),
    "it answers beside a reply that never ended": (
        ('success = meta["response_done"] and not reported', "success = True"),
        _scenario([REPLY, OPEN]),
        ("sample.outcome", "is there"),
    ),
    "it answers without a session": (
        ('success = meta["response_done"] and not reported', "success = True"),
        _scenario([REPLY], "refuse_upgrade"),
        ("sample.outcome", "is there"),
    ),
    "it answers though a reply failed": (
        ('success = meta["response_done"] and not reported', 'success = meta["response_done"]'),
        _scenario([REPLY, FAILED]),
        ("sample.outcome", "is there"),
    ),
    "it does not try again what stalled": (
        ("for retry in (0, 1):", "for retry in (0,):"),
        _scenario([REPLY, OPEN]),
        ("sample.attempts", "one attempt: a reply"),
    ),
    "it does not try again what never began": (
        ("for retry in (0, 1):", "for retry in (0,):"),
        _scenario([REPLY], "no_session_created"),
        ("sample.attempts", "one attempt: no session"),
    ),
    "it waits too short a time for a reply": (
        ('window = sample["video_duration"] + 120', 'window = sample["video_duration"] + 5'),
        _scenario([{**LONG, "units": 20}]),
        ("sample.text", "settled at"),
    ),
    "it waits long after the last reply": (
        ("settle=2.0", "settle=9.0"),
        _scenario([REPLY]),
        ("finishes_within_s", "after the last reply was done"),
    ),
    "it takes its time to leave": (
        (
            'await bounded("session close", self.goodbye(), 25)',
            'await self.send("session.close"); await asyncio.sleep(90)',
        ),
        _scenario([REPLY], "no_session_closed"),
        ("finishes_within_s", "longest in closing"),
    ),
    "it says of a good close that it timed out": (
        ("close_timeout = None\n", 'close_timeout = "late"\n'),
        _scenario([REPLY]),
        ("metadata.close_timeout", "late"),
    ),
    "it does not pad": (
        ("tasks.append(asyncio.ensure_future(session.pad()))", "pass"),
        _scenario([LONG], profile="input-driven"),
        ("wire.padded_appends", "nothing was appended"),
    ),
    "it pads for ever": (
        ("if self.awaits():", "if True:"),
        _scenario([REPLY]),
        ("wire.padded_appends", "after the last reply was done"),
    ),
    "it loses a part of the answer": (
        ("said = sentences(text[:2] for text in session.texts if not text[2])", "said = []"),
        _scenario([REPLY]),
        ("sample.text", "''"),
    ),
}


def _client(folder: Path, name: str, text: str) -> str:
    """Each has a name of its own: a module is loaded once a process."""
    file = folder / f"{name}.py"
    file.write_text(text)
    return f"python:{file}:run"


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_without_a_hang_is_found(what: str, tmp_path: Path) -> None:
    (right, wrong), scenario, (finding, words) = WRONG[what]
    text = COMPLETE.read_text()
    assert text.count(right) == 1
    client = _client(tmp_path, "wrong", text.replace(right, wrong))

    result = run_scenario(scenario, client=client)

    told = [f for f in result.findings if f.id == finding and words in f.actual]
    assert told, result.findings


def test_the_right_client_is_not_blamed_where_the_wrong_one_is() -> None:
    played = {scenario.model_dump_json(): scenario for _, scenario, _ in WRONG.values()}
    for scenario in played.values():
        result = run_scenario(scenario, client=f"python:{COMPLETE}:run")
        assert result.outcome is Outcome.PASS, result.findings


@pytest.mark.parametrize("name", ["complete", "minimal"])
def test_a_reply_without_a_name_is_none_and_is_not_acked(name: str) -> None:
    """Found by the test that is to be pasted: the complete example told `playback.ack` of the reply ''."""
    nameless = {"garbage_event": {"event": {"type": "response.created", "response": {"id": ""}}}}

    result = run_scenario(
        _scenario([REPLY], nameless), client=f"python:{DOCS / 'examples' / f'{name}_client.py'}:run"
    )

    assert result.outcome is Outcome.PASS, result.findings


@pytest.mark.parametrize("name", ["complete", "minimal"])
def test_the_right_ones_survive_what_is_drawn(name: str) -> None:
    client = f"python:{DOCS / 'examples' / f'{name}_client.py'}:run"
    for number in range(12):
        data = roll_scenario(Dice.seeded(f"outside {number}"), seams=False, judge=False, settings=False)
        result = run_scenario(build(data, f"drawn-{number}"), client=client)
        assert result.outcome in (Outcome.PASS, Outcome.INERT), (number, result.findings)


def test_a_client_of_others_can_be_given_whatever_is_drawn_without_seams_and_settings() -> None:
    options = ready_client(RunOptions(client=parse_client(f"python:{COMPLETE}:run")))
    for number in range(300):
        data = roll_scenario(Dice.seeded(f"told {number}"), seams=False, settings=False)
        assert unplayable(build(data, "drawn"), options) is None, data


def _pasted() -> str:
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "fuzzing.md").read_text(), re.S)
    (block,) = [text for text in blocks if "@given" in text]
    return str(block)


def _paste(client: str) -> tuple[Callable[[], None], set[str]]:
    """The test of docs/fuzzing.md with another client in it and few examples, and the ids of what it finds."""
    text = _pasted()
    assert text.count("python:my_client:run") == 1
    known = settings.get_current_profile_name()
    settings.register_profile(
        "few", max_examples=12, phases=[Phase.generate], derandomize=True, database=None, print_blob=False
    )
    settings.load_profile("few")
    namespace: dict[str, Any] = {}
    try:
        exec(compile(text.replace("python:my_client:run", client), "fuzzing.md", "exec"), namespace)
    finally:
        settings.load_profile(known)
    found: set[str] = set()

    def listening(*given: Any, **named: Any) -> ScenarioResult:
        result = run_scenario(*given, **named)
        found.update(finding.id for finding in result.findings)
        return result

    namespace["run_scenario"] = listening
    return namespace["test_my_client_survives_anything"], found


def test_the_pasted_test_passes_with_a_right_client() -> None:
    test, found = _paste(f"python:{COMPLETE}:run")
    test()
    assert not found


def test_the_pasted_test_fails_with_a_client_that_does_nothing(tmp_path: Path) -> None:
    test, found = _paste(_client(tmp_path, "idle", IDLE))
    with pytest.raises(AssertionError):
        test()
    assert found == {"never-connected"}


def test_the_pasted_test_fails_with_the_naive_client() -> None:
    test, found = _paste(f"python:{DOCS / 'examples' / 'naive_client.py'}:run")
    with pytest.raises(AssertionError):
        test()
    assert found


def test_a_client_that_does_nothing_fails_in_each_case(tmp_path: Path) -> None:
    client = _client(tmp_path, "idler", IDLE)
    for number in range(20):
        data = roll_scenario(Dice.seeded(f"outside {number}"), seams=False, judge=False, settings=False)
        result = run_scenario(build(data, f"drawn-{number}"), client=client)
        assert [finding.id for finding in result.findings] == ["never-connected"]
        assert result.outcome is Outcome.FAIL


def test_what_cannot_be_observed_is_never_passed() -> None:
    client = f"python:{COMPLETE}:run"
    deaf = scenario_of({"clip": {"seconds": 1}, "client": {"pace": "as-fast-as-possible"}})
    with pytest.raises(NotObservableError, match=r"client\.pace needs settings"):
        run_scenario(deaf, client=client)

    @settings(database=None, max_examples=1)
    @given(st.just(deaf))
    def rejected(scenario: Any) -> None:
        run_scenario(scenario, client=client)

    with pytest.raises(Unsatisfiable):
        rejected()


@pytest.mark.parametrize(
    ("client", "told"),
    [
        ("python:nope:run", "no file"),
        (f"python:{COMPLETE}:nope", "has no 'nope'"),
        ("nope", "known: builtin"),
        ("command:true", "keeps its own time"),
    ],
)
def test_a_client_that_cannot_be_loaded_is_a_wrong_configuration(client: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        run_scenario(_scenario([REPLY]), client=client)
