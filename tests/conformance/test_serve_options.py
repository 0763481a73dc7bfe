"""The options of `conformance serve`: what they add up to, and what is wrong with them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from conformance.options import ConfigurationError
from conformance.serve_options import ServeOptions, served
from conformance.serving import serve_until_stopped
from mockserver.pace import Pace
from mockserver.profiles import PROFILES
from scenarios.faults import StopReading

TOKEN = "a-token-of-some-length"


def test_without_options_it_is_july_on_loopback_for_everybody_here() -> None:
    chosen = served(ServeOptions(), {})

    assert chosen.profile == PROFILES["july"]
    assert chosen.guard.token is None
    assert chosen.replies


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_every_profile_can_be_served(name: str) -> None:
    assert served(ServeOptions(profile=name), {}).profile == PROFILES[name]


def test_options_take_the_place_of_what_the_scenario_says() -> None:
    options = ServeOptions(
        scenario="pace/slow-first-token[july]",
        profile="engine",
        pace=("rtf=1.5", "jitter_ms=20"),
        max_sessions=2,
    )

    profile = served(options, {}).profile

    assert profile.dialect is PROFILES["engine"].dialect
    assert profile.pace == Pace(rtf=1.5, first_token_ms=9000, jitter_ms=20)
    assert profile.max_sessions == 2


def test_a_factor_takes_the_place_of_a_scenario_s_fixed_time() -> None:
    options = ServeOptions(scenario="pace/listens-in-padding[each]", pace=("rtf=0.5",))

    assert served(options, {}).profile.pace.rtf == 0.5


def test_the_token_comes_from_the_variable_that_is_named() -> None:
    chosen = served(ServeOptions(token_env="T"), {"T": TOKEN})

    assert (chosen.guard.token, chosen.token_told) == (TOKEN, False)
    assert TOKEN not in repr(chosen)


def test_where_others_can_reach_it_a_token_is_made() -> None:
    first, second = (served(ServeOptions(host="0.0.0.0"), {}) for _ in range(2))

    assert first.token_told
    assert first.guard.token is not None
    assert len(first.guard.token) > 40
    assert first.guard.token != second.guard.token


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (ServeOptions(profile="juli"), "--profile 'juli': unknown; did you mean 'july'?"),
        (ServeOptions(pace=("rtf",)), "--pace 'rtf': expected KEY=NUMBER"),
        (ServeOptions(pace=("rtf=fast",)), "--pace 'rtf=fast': expected KEY=NUMBER"),
        (ServeOptions(pace=("rtf=9",)), "--pace: pace.rtf: 9.0; at most 2"),
        (ServeOptions(pace=("rtf=nan",)), "--pace: pace.rtf: nan; "),
        (ServeOptions(pace=("jitter_ms=1.5",)), "--pace: pace.jitter_ms: 1.5; a whole number"),
        (ServeOptions(pace=("rft=1",)), "--pace: pace.rft: unknown key 'rft'; did you mean 'rtf'?"),
        (ServeOptions(max_sessions=0), "--max-sessions: max_sessions: 0; at least 1"),
        (ServeOptions(token_env="T"), "--token-env T: not set, or empty"),
        (ServeOptions(host=""), "--host: empty, which would be every address"),
        (ServeOptions(host="0.0.0.0", token_env="T"), "--token-env T: not set, or empty"),
    ],
)
def test_what_is_wrong_is_told_with_the_option(options: ServeOptions, told: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        served(options, {})

    assert told in str(raised.value)


@pytest.mark.parametrize(
    "token", ["short", "x" * 5000, "with a line\nbreak in it", "h\u00e4lf-a-token-of-some"]
)
def test_a_token_that_cannot_be_one_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(ConfigurationError, match="16 to 4096 printable ASCII") as raised:
        served(ServeOptions(token_env="T"), {"T": token})

    assert token not in str(raised.value)


def test_a_journal_that_cannot_be_written_is_told_before_anything_is_served(tmp_path: Path) -> None:
    options = replace(ServeOptions(), journal=tmp_path / "missing" / "journal.ndjson")

    with pytest.raises(ConfigurationError, match=r"--journal .*: cannot be written: No such file"):
        serve_until_stopped(options)


def test_a_stall_of_a_scenario_is_proven_by_what_the_server_sees() -> None:
    (fault,) = served(ServeOptions(scenario="commit/stall-at-commit"), {}).faults

    assert isinstance(fault, StopReading)
    assert fault.proof == "unread"
