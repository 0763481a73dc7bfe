"""What is drawn is aimed: a fault begins before what it acts on, and finds what it bites only beside."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from conformance.fuzz import faults
from conformance.fuzz.drawing import Kinds, draw
from conformance.fuzz.judging import kinds_of
from conformance.fuzz.play import play
from conformance.fuzz.stage import ALONE, PADDING, REPLY_PARTS, stage_of
from conformance.fuzz.strategies import build
from conformance.options import RunOptions


def scenario(start: int = 1, units: int = 2, **server: Any) -> dict[str, Any]:
    """A clip of four units and one reply."""
    return {
        "title": "t",
        "about": "a",
        "requires": [],
        "clip": {"seconds": 3.4, "frames": False},
        "server": {
            "profile": "july",
            "reply": [{"starts_at_unit": start, "units": units, "text": "A cyclist passed by."}],
            **server,
        },
        "client": {"deadlines": {"request_s": 120.0, "drain_slack_s": 10.0}},
        "expect": {"finishes_within_s": 86400.0},
    }


def states(data: dict[str, Any], tmp_path: Path) -> dict[str, str]:
    reports = play(build(data, "aimed"), RunOptions(seed=1), tmp_path).result.faults
    return {report.name: report.state for report in reports}


OVER = scenario(2, 5)
ACTS: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "reorder": (scenario(), REPLY_PARTS, {"event": "response.done"}),
    "drop_event": (scenario(), "input_audio_buffer.committed", {"event": "input_audio_buffer.committed"}),
    "duplicate_event": (OVER, REPLY_PARTS, {"event": "transcript.delta"}),
    "damaged_audio": (scenario(), REPLY_PARTS, {"kind": "odd_bytes"}),
    "never_done": (OVER, REPLY_PARTS, {}),
    "freeze_tail": (OVER, PADDING, {}),
    "listen_per_padded_unit": (OVER, PADDING, {}),
}


@pytest.mark.parametrize("name", ACTS)
def test_the_last_trigger_that_is_early_enough_is(name: str, tmp_path: Path) -> None:
    data, what, parameters = ACTS[name]
    there = stage_of(data).before(what)
    _, side, event, nth = there[-1]

    first = {name: {**parameters, "on": {there[0][1]: there[0][2]}}}
    last = {name: {**parameters, "on": {side: event, "nth": nth}}}
    assert states({**data, "faults": [first]}, tmp_path) == {name: "observed"}
    assert states({**data, "faults": [last]}, tmp_path) == {name: "observed"}


def test_what_comes_too_late_is_no_trigger() -> None:
    def triggers(data: dict[str, Any], what: str) -> set[str]:
        return {event for _, _, event, _ in stage_of(data).before(what)}

    assert triggers(OVER, "session.created") == {"session.update"}
    assert "input_audio_buffer.commit" in triggers(OVER, REPLY_PARTS)
    assert "input_audio_buffer.commit" not in triggers(scenario(), REPLY_PARTS)
    assert "response.created" not in triggers(scenario(units=1), REPLY_PARTS)
    assert "response.created" not in triggers(OVER, "response.created")
    assert {"input_audio_buffer.commit", "response.created"} <= triggers(scenario(), "session.closed")


def test_few_are_drawn_astray() -> None:
    """Of two thousand cases; each of these rules holds but for what is drawn without a look."""
    kept: Counter[str] = Counter()
    broken: Counter[str] = Counter()

    def note(rule: str, holds: bool) -> None:
        (kept if holds else broken)[rule] += 1

    for number in range(2000):
        data = draw(Kinds(), 1, number)
        drawn = [(name, given) for fault in data.get("faults", []) for name, given in fault.items()]
        by_name = dict(drawn)
        stage = stage_of(data)
        for name, given in drawn:
            on = given.get("on", {})
            if name == "stop_reading" and not on and "at_s" not in given:
                note(
                    "a stall from the upgrade on is proved by what is unread", given.get("proof") == "unread"
                )
            if name in faults._ON_EVENTS and on:
                what = given["event"] if given["event"] in ALONE else REPLY_PARTS
                there = {(side, event) for _, side, event, _ in stage.before(what)}
                note("an event is not over before its fault begins", set(on.items()) <= {*there, *_nth(on)})
            if name in ("no_transport", "no_socket", "resume_reading") and "stop_reading" in by_name:
                note(
                    "a stall that others need does not end by itself", "for_s" not in by_name["stop_reading"]
                )
            if name in faults.NEEDED:
                note("company that is needed is there", bool(set(by_name) & set(faults.NEEDED[name])))
            if name in faults.FORMS and len(drawn) == 1:
                note("one attempt alone is the first", given.get("attempt") != 2)
            if given.get("kind") in ("content", "temporal", "chat"):
                note(
                    "a judge's fault is for a question that is asked",
                    given["kind"] in kinds_of(data["samples"]),
                )
    for rule in kept | broken:
        assert kept[rule] >= 12, rule
        assert broken[rule] <= kept[rule] / 6, f"{rule}: {broken[rule]} times not, {kept[rule]} times"
    assert broken["an event is not over before its fault begins"], "nothing is drawn without a look any more"


def _nth(on: dict[str, Any]) -> set[tuple[str, Any]]:
    return {("nth", on["nth"])} if "nth" in on else set()
