"""Probes read off a server what a client can see, the same way on every target, and assert nothing."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from client.media import ReferenceVoice
from conformance.clock import run_virtual
from conformance.commands import app
from conformance.options import ConfigurationError, RunOptions
from conformance.outcome import Outcome
from conformance.probing import table
from conformance.probing.ask import Elsewhere, run_probe
from conformance.probing.facts import READINGS, read_facts
from conformance.probing.prober import Asking, ProbeFailed, play
from conformance.probing.transcript import Seen, Transcript
from conformance.runner import run_scenario
from mockserver.app import MockServer
from scenarios import Scenario, ScenarioError, load_catalogue, load_scenario
from scenarios.faults_transport import RefuseUpgrade
from scenarios.probing import FACTS, ProbeSpec, ProbeStep
from tests.conformance.live_standins import Authority, standing

PROBES: dict[str, Scenario] = {s.id: s for s in load_catalogue() if s.probe is not None}
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "probes.md"
HANDSHAKE = PROBES["probes/handshake"]
VOICE = ReferenceVoice(data_url="data:audio/wav;base64,UklGRg==", sha256="0")


def test_every_fact_has_a_reading_a_probe_and_a_row_in_the_document() -> None:
    read = {fact for scenario in PROBES.values() if scenario.probe for fact in scenario.probe.facts}

    assert list(READINGS) == list(FACTS)
    assert read == set(FACTS)
    text = DOCUMENT.read_text("utf-8")
    assert [name for name, about in FACTS.items() if f"| `{name}` | {about} |" not in text] == []


@pytest.mark.parametrize(
    ("probe", "profile", "fact", "value"),
    [
        ("handshake", "july", "connection_end", "TCP end without a close frame"),
        ("handshake", "engine", "connection_end", "close frame 1000"),
        ("handshake", "july", "closed_reason", "none given"),
        ("handshake", "interim", "closed_reason", "session_close"),
        ("handshake", "engine", "chunk_period_ms", 1000),
        ("refusal", "july", "refusal", "ref_audio_required (nested)"),
        ("unknown-event", "engine", "unknown_event", "unknown_event (nested)"),
        ("unit-period", "engine", "input_ms_per_decision", 1000),
        ("silent-commit", "july", "residual_decision", "listen (silence_or_noise)"),
        ("padded-silence", "july", "residual_decision", "listen (model_listen)"),
        ("padded-silence", "july", "listens_per_padded_unit", 1.0),
        ("reply-in-padding", "engine", "replies_in_padding", 1),
        ("reply-in-padding", "engine", "reply_in_padding_ends", "completed (stop)"),
        ("silence-continuation", "july", "continues_without_input", True),
        ("silence-continuation", "july", "cadence_s", 1.05),
        ("silence-continuation", "engine", "cadence_s", 1.0),
        ("silence-continuation", "input-driven", "continues_without_input", False),
        ("silence-continuation", "input-driven", "moves_again_on_padding", True),
        ("silence-continuation", "input-driven", "longest_pause_s", 8.95),
        ("ack-after-commit", "july", "ack_after_commit", "acknowledged"),
        ("ack-after-commit", "july", "generated_after_full_ack_ms", 0),
        ("ack-after-commit", "engine", "ack_after_commit", "playback_ack_too_late"),
        ("close-in-reply", "july", "open_reply_at_close", "cancelled (session_close)"),
        ("close-in-reply", "engine", "open_reply_at_close", "no event"),
        ("first-audio", "july", "event_family", "july"),
        ("first-audio", "engine", "event_family", "newer"),
        ("first-audio", "july", "first_audio_after_speech_s", 2.05),
    ],
)
def test_a_fact_is_what_the_protocol_says_of_the_profile(
    probe: str, profile: str, fact: str, value: object
) -> None:
    result = run_probe(PROBES[f"probes/{probe}"], RunOptions(), profile=profile)

    assert result.outcome is Outcome.PASS
    assert result.facts[fact] == value


def test_a_run_carries_the_facts_and_no_requirement() -> None:
    result = run_scenario(HANDSHAKE, RunOptions())

    assert result.outcome is Outcome.PASS
    assert list(result.facts) == (HANDSHAKE.probe.facts if HANDSHAKE.probe else [])
    assert result.requires == ()


def test_what_was_never_seen_has_no_value() -> None:
    facts = read_facts(Transcript(), list(FACTS))

    told = {name: value for name, value in facts.items() if value is not None}
    assert told == {"refusal": "no error", "unknown_event": "no error"}


def test_a_second_copy_and_a_flat_error_are_told() -> None:
    done = {"type": "response.done", "response": {"id": "r", "metadata": {"audio": "AAAA"}}}
    transcript = Transcript(
        [
            Seen(0.0, "step", "send", {}),
            Seen(0.1, "received", "error", {"type": "error", "error": "no", "code": "unsupported"}),
            Seen(0.2, "received", "response.done", done),
        ]
    )

    assert READINGS["unknown_event"](transcript) == "unsupported (flat)"
    assert READINGS["done_repeats_audio"](transcript) is True


# A server elsewhere ---------------------------------------------------------------------------------------


@contextmanager
def a_server() -> Iterator[str]:
    """A mock server in a thread of its own, on the real clock."""
    loop = asyncio.new_event_loop()
    server = MockServer(profile="engine", replies=[])
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(server.start(), loop).result(10)
        yield server.url
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(10)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


@pytest.mark.real
def test_a_server_elsewhere_is_asked_on_the_real_clock() -> None:
    with a_server() as url:
        result = run_probe(HANDSHAKE, RunOptions(clock="real"), elsewhere=Elsewhere(url))

    assert result.outcome is Outcome.PASS
    assert result.facts["connection_end"] == "close frame 1000"


def test_a_server_that_is_away_is_told_and_is_no_fact() -> None:
    away = Elsewhere("ws://127.0.0.1:9/v1/realtime")
    result = run_probe(HANDSHAKE, RunOptions(clock="real"), elsewhere=away)

    assert result.outcome is Outcome.INDETERMINATE
    assert result.reason.startswith("open: ")
    assert result.facts == {}
    assert table.target_of("away", [result]).failed == {"handshake": result.reason}


def test_a_server_behind_tls_is_asked_with_the_certificates_that_were_named(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = authority.context("IP:127.0.0.1")
    trusted = ssl.create_default_context(cafile=str(authority.ca))
    assert HANDSHAKE.probe is not None
    spec = HANDSHAKE.probe

    async def main(tls: ssl.SSLContext | None) -> int:
        async with standing(tls=context) as where:
            asking = Asking(f"wss://{where}/v1/realtime", "m", VOICE, b"", tls=tls)
            return len((await play(spec, asking)).received("session.created"))

    assert run_virtual(lambda: main(trusted)) == 1
    with pytest.raises(ProbeFailed, match="certificate"):
        run_virtual(lambda: main(None))


def _played(spec: ProbeSpec, server: MockServer) -> Transcript:
    async def main() -> Transcript:
        await server.start()
        try:
            return await play(spec, Asking(server.url, "m", VOICE, bytes(64_000)))
        finally:
            await server.stop()

    return run_virtual(main)


def test_an_upgrade_that_is_refused_is_told_by_its_status() -> None:
    server = MockServer(profile="july", replies=[], faults=[RefuseUpgrade(status=503)])

    with pytest.raises(ProbeFailed, match=r"open: InvalidStatus: .*503"):
        _played(ProbeSpec(steps=[ProbeStep(do="open")], facts=["refusal"]), server)


def test_a_probe_says_goodbye_though_no_step_does() -> None:
    server = MockServer(profile="july", replies=[])
    transcript = _played(ProbeSpec(steps=[ProbeStep(do="open")], facts=["refusal"]), server)

    assert transcript.sent("session.close")
    assert transcript.received("session.closed")


# The form -------------------------------------------------------------------------------------------------

PROBE = """
title: A probe
about: Asks.
requires: []
clip: {seconds: 1}
probe:
  steps: [{do: open}, {do: wait, seconds: 1}]
  facts: [refusal]
"""


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("requires: []", "requires: [R5]", "requires: beside `probe`"),
        ("clip:", "expect: {close: clean}\nclip:", "expect: beside `probe`"),
        ("{do: open}, ", "", "open is the first step"),
        ("seconds: 1}]", "units: 2}]", "does not apply to 'wait'"),
        (", seconds: 1}]", "}]", "wait needs seconds"),
        ("do: wait", "do: wiat", "'wiat'; one of"),
        ("facts: [refusal]", "facts: [refusel]", "unknown fact 'refusel'; did you mean 'refusal'"),
        ("facts: [refusal]", "facts: [refusal, refusal]", "'refusal' stands twice"),
        ("facts: [refusal]", "facts: []", "no facts"),
    ],
)
def test_what_is_no_probe_is_refused(tmp_path: Path, old: str, new: str, told: str) -> None:
    file = tmp_path / "probe.yaml"
    file.write_text(PROBE.replace(old, new), encoding="utf-8")

    with pytest.raises(ScenarioError, match=re.escape(told)):
        load_scenario(file)


def test_a_scenario_without_probe_and_expect_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "nothing.yaml"
    file.write_text(PROBE.split("probe:", 1)[0], encoding="utf-8")

    with pytest.raises(ScenarioError, match="expect: missing; required"):
        load_scenario(file)


# The table ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fact", "values", "unlike"),
    [
        ("a.closed_after_s", [0.0, 0.2], False),
        ("a.closed_after_s", [0.0, 0.4], True),
        ("a.closed_after_s", [10.0, 12.0], False),
        ("a.first_audio_ms", [960, 1000], False),
        ("a.first_audio_ms", [960, 500], True),
        ("a.listens_per_padded_unit", [1.0, 0.9], False),
        ("a.listens_per_padded_unit", [1.0, 0.5], True),
        ("a.closed_reason", ["none given", "client_close"], True),
        ("a.continues_without_input", [True, False], True),
        ("a.continues_without_input", [True, None], False),
        ("a.closed_reason", [None, None], False),
    ],
)
def test_targets_differ_by_more_than_chance(fact: str, values: list[object], unlike: bool) -> None:
    assert table.differ(fact, values) is unlike


def test_facts_survive_their_file_and_hostile_text_is_shown_harmlessly(tmp_path: Path) -> None:
    target = table.Target("x", {"handshake.closed_reason": "\x1b[2J" + "a" * 300}, {"refusal": "away"})
    table.write(tmp_path / "a.json", [target])

    assert table.load(tmp_path / "a.json") == [target]
    shown = "\n".join(table.lines([target]))
    assert "\x1b" not in shown
    assert "x: probes/refusal could not be played: away" in shown


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"format": "x", "version": 1, "targets": []}', '{"targets": 1}', "[" * 100_000],
)
def test_a_file_that_is_none_of_ours_is_refused_by_name(tmp_path: Path, text: str) -> None:
    file = tmp_path / "b.json"
    file.write_text(text, encoding="utf-8")

    with pytest.raises(ConfigurationError, match=re.escape(str(file))):
        table.load(file)


def _conformance(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(words))
    return done.exit_code, done.output


def test_two_files_are_compared_and_a_difference_is_exit_1(tmp_path: Path) -> None:
    files = [str(tmp_path / f"{name}.json") for name in ("july", "engine")]
    for name, file in zip(("july", "engine"), files, strict=True):
        assert _conformance("probe", "probes/handshake", "--profile", name, "--out", file)[0] == 0
    code, told = _conformance("probes", *files, "--json")

    assert code == 1
    assert {row["fact"] for row in json.loads(told)} == {
        "handshake.closed_reason",
        "handshake.connection_end",
    }
    assert _conformance("probes", files[0], files[0])[0] == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["probe", "--profile", "august"], "no profile 'august'"),
        (["probe", "--question", "q.wav"], "give --url"),
        (["probe", "--url", "ftp://x"], "allowed: ws, wss"),
        (["probe", "--header", "X: y"], "--header is for a server elsewhere"),
        (["probe", "--url", "ws://x", "--ca-file", __file__], "has no TLS"),
        (["probe", "--url", "ws://127.0.0.1:9", "--profile", "july"], "leave it out with --url"),
        (["probe", "--url", "ws://127.0.0.1:9", "--api-key-env", "NO_SUCH_VARIABLE"], "is not set"),
        (["probe", "close/no-transport"], "no probe among"),
        (["probes", "no.json", "no.json"], "no.json"),
    ],
)
def test_a_question_that_cannot_be_asked_is_exit_2(words: list[str], told: str) -> None:
    code, output = _conformance(*words)

    assert code == 2
    assert told in output


def test_facts_that_cannot_be_kept_are_told_all_the_same() -> None:
    code, output = _conformance("probe", "probes/handshake", "--profile", "july", "--out", "/dev/full")

    assert code == 2
    assert "handshake.created_after_s" in output
    assert output.endswith("conformance: /dev/full: cannot be written: No space left on device\n")


def test_a_server_that_is_away_is_exit_4() -> None:
    code, output = _conformance("probe", "probes/handshake", "--url", "ws://127.0.0.1:9")

    assert code == 4
    assert "probes/handshake could not be played" in output


def test_a_run_writes_what_its_probes_read(tmp_path: Path) -> None:
    file = tmp_path / "probes.json"
    code, _ = _conformance("run", "probes/handshake", "--jobs", "1", "--probes", str(file))

    assert code == 0
    assert [target.name for target in table.load(file)] == ["mock"]
    assert table.load(file)[0].facts["handshake.chunk_period_ms"] == 1000
