"""A scenario's expectations as they hold for a client of others (design.md 9).

What it says in its own words (texts of timeouts and errors) is never matched literally: the key is there and not null.
What the server said stays as it is. A scenario's shorter waits are not its own, so it gets the time that its own take.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from scenarios.faults_base import FaultBase
from scenarios.model import Expect, SampleExpect, Scenario

OWN_WORDS = frozenset(
    {
        "ack_timeout",
        "close_error",
        "close_timeout",
        "drain_timeout",
        "error",
        "missed_deadlines",
        "reason",
        "server_errors",
        "stream_timeout",
        "traceback",
    }
)
"""Keys of metadata and diagnostics whose value is a client's own text."""
_NOTHING: tuple[Any, ...] = (None, "", "set", "unchecked", [], False)
DRAIN_SLACK_S = 120.0
"""Of evaluation.md 9."""


def adapted(scenario: Scenario) -> Scenario:
    """The same scenario, its expectations free of what only our client says or is told."""
    servers = list(_texts(scenario.faults))
    expect = scenario.expect
    changes: dict[str, Any] = {
        "metadata": _mapping(expect.metadata, servers),
        "samples": {name: _sample(one, servers) for name, one in expect.samples.items()},
    }
    if expect.sample is not None:
        changes["sample"] = _sample(expect.sample, servers)
    if expect.finishes_within_s is not None:
        changes["finishes_within_s"] = expect.finishes_within_s + longer_by_s(scenario)
    adapted_expect: Expect = expect.model_copy(update=changes)
    return scenario.model_copy(update={"expect": adapted_expect})


def longer_by_s(scenario: Scenario) -> float:
    """By how much the waits of a client of others add up to more than a scenario's shortened ones, at most."""
    slack_s = scenario.client.deadlines.get("drain_slack_s", DRAIN_SLACK_S)
    return 2 * len(scenario.specs) * max(0.0, DRAIN_SLACK_S - slack_s)


def _sample(expect: SampleExpect, servers: list[str]) -> SampleExpect:
    changed: SampleExpect = expect.model_copy(
        update={
            "error": _own(expect.error, servers),
            "metadata": _mapping(expect.metadata, servers),
            "first_attempt": _mapping(expect.first_attempt, servers),
            "last_attempt": _mapping(expect.last_attempt, servers),
        }
    )
    return changed


def _mapping(expect: Mapping[str, Any], servers: list[str]) -> dict[str, Any]:
    return {key: _own(matcher, servers) if key in OWN_WORDS else matcher for key, matcher in expect.items()}


def _own(matcher: Any, servers: list[str]) -> Any:
    """`set` for a text of the client; a text that the server is scripted to say is no word of the client."""
    if matcher in _NOTHING:
        return matcher
    if isinstance(matcher, dict):
        said = str(matcher.get("contains"))
        told = [text for text in servers if text in said or said in text]
        if set(matcher) == {"contains"} and told:
            return {"contains": min(max(told, key=len), said, key=len)}
        if set(matcher) == {"not_contains"}:
            return matcher
    return "set"


def _texts(faults: list[FaultBase]) -> Iterator[str]:
    """Every text that a fault makes the server say."""
    for fault in faults:
        for value in fault.model_dump(exclude={"on", "sample"}).values():
            if isinstance(value, str) and value:
                yield value
