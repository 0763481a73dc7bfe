"""Cassettes: what is kept and what never is, what plays them again, and where two sessions part."""

from __future__ import annotations

import errno
import io
import json
import os
import socket
import zipfile
from pathlib import Path
from typing import Any

import pytest
from aiohttp import WSMsgType
from typer.testing import CliRunner

from conformance.clients import builtin
from conformance.clock import run_virtual
from conformance.commands import app
from conformance.live.bundle import bundle
from conformance.live.cassette import (
    Cassette,
    CassetteTape,
    Line,
    is_cassette,
    load_stored,
    read_cassette,
    told_query,
)
from conformance.live.drift import drift
from conformance.live.drifting import compare, drift_json, drift_lines
from conformance.live.mirror import mirrored, script_of
from conformance.live.replaying import input_of, played_frames, record_against, replay_cassette
from conformance.live.server import LiveServer
from conformance.live.slots import NoSlot
from conformance.options import ConfigurationError, RunOptions
from conformance.outcome import Outcome
from conformance.serve_journal import write_whole_lines
from mockserver.app import MockServer
from mockserver.proxy import ProxyServer
from mockserver.upstream import Behind
from scenarios.model import Clip, Reply, SampleSpec, Scenario

REPLY = Reply(starts_at_unit=1, units=3, text="A cyclist passes. Another one follows.")
KEY = "s3cret-key-of-mine"
HEADERS = {"Authorization": f"Bearer {KEY}"}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One session of the built-in client with each profile, kept through the proxy, in virtual time."""
    return {
        profile: record(profile, tmp_path_factory.mktemp(profile))
        for profile in ("july", "engine", "input-driven")
    }


def record(profile: str, folder: Path) -> Path:
    async def main() -> None:
        server = MockServer(profile=profile, replies=[REPLY], seed=1)
        await server.start()
        target = LiveServer(server.url, builtin.MODEL, headers=HEADERS)
        tape = CassetteTape(folder, "a/b [c]", target=target.told(), headers=target.headers)
        proxy = ProxyServer(Behind(server.url, headers=HEADERS), tape=tape)
        await proxy.start()
        await talk(proxy.url, folder)
        await proxy.stop()
        await server.stop()

    run_virtual(main)
    return folder / "a-b-c-1.cassette.ndjson"


async def talk(url: str, folder: Path) -> None:
    spec = SampleSpec(id="1", clip=Clip(seconds=2.4, speech=[0.2, 1.4]))
    scenario = Scenario(
        id="x/y",
        title="t",
        about="a",
        requires=[],
        samples=[spec],
        expect={"sample": {"attempts": 1}},  # type: ignore[arg-type]
    )
    options = RunOptions()
    run = builtin.make_run(
        f"{url}?token={KEY}",
        scenario,
        builtin.prepare(scenario, options),
        builtin.deadlines_of(scenario, options),
        builtin.reference_voice(options),
        folder / "answers",
        None,
    )
    await run.run()


def test_both_directions_are_kept_with_their_times_sizes_and_ends(recorded: dict[str, Path]) -> None:
    cassette = read_cassette(recorded["engine"])

    assert is_cassette(recorded["engine"])
    names = [line.type for line in cassette.of("client->server")]
    assert names[0] == "session.update"
    assert names[-1] == "session.close"
    assert [line.t_s for line in cassette.lines] == sorted(line.t_s for line in cassette.lines)
    append = next(line for line in cassette.lines if line.type == "input_audio_buffer.append")
    assert append.size_bytes > 60_000
    assert next((line.kind, line.code) for line in cassette.lines if line.kind == "close") == ("close", 1000)
    assert {line.how for line in cassette.lines if line.kind == "end"} <= {"fin", "close_frame"}


def test_media_stand_in_the_store_once_and_come_back_whole(recorded: dict[str, Path]) -> None:
    cassette = read_cassette(recorded["july"])

    (first, *_) = [line for line in cassette.of("client->server") if line.type == "input_audio_buffer.append"]
    assert first.event is not None
    assert set(first.event["audio"]) == {"$stored", "chars"}
    assert len(cassette.whole(first.event)["audio"]) == first.event["audio"]["chars"]
    assert recorded["july"].stat().st_size < 60_000
    assert len(input_of(cassette).pcm) == 76_800
    assert len(input_of(cassette).frames) == 3


def test_no_secret_is_in_any_file(recorded: dict[str, Path]) -> None:
    for path in recorded["july"].parent.rglob("*"):
        if path.is_file() and "answers" not in path.parts:
            assert KEY.encode() not in path.read_bytes(), path
    assert (
        "resume_token" not in recorded["july"].read_text()
        or '"resume_token":"***"' in recorded["july"].read_text()
    )
    assert read_cassette(recorded["july"]).target["headers"] == {"Authorization": "***"}


def test_only_what_the_protocol_knows_of_a_query_has_its_value() -> None:
    assert told_query("duplex=1&api_key=abc&model=a%2Fb") == "duplex=1&api_key=%2A%2A%2A&model=a%2Fb"


def test_secrets_by_name_and_by_value_are_masked_on_their_way_in(tmp_path: Path) -> None:
    from aiohttp import WSMsgType

    tape = CassetteTape(tmp_path, "s", target={}, headers=HEADERS)
    tape.opened(1, "/v1/realtime", 10.0)
    event = {"type": "x", "resume_token": "abcd", "nested": {"api_key": "efgh", "echo": f"you said {KEY}"}}
    tape.frame(1, "server->client", WSMsgType.TEXT, json.dumps(event).encode(), 10.5)
    tape.frame(1, "server->client", WSMsgType.TEXT, f"not json {KEY}".encode(), 10.6)
    tape.frame(1, "server->client", WSMsgType.CLOSE, b"\x03\xe8" + KEY.encode(), 10.7)

    text = (tmp_path / "s-1.cassette.ndjson").read_text()
    assert all(secret not in text for secret in (KEY, "abcd", "efgh"))
    assert read_cassette(tmp_path / "s-1.cassette.ndjson").lines[0].t_s == 0.5


@pytest.mark.parametrize("profile", ["july", "engine", "input-driven"])
def test_the_mock_in_the_recorded_profile_shows_no_drift(profile: str, recorded: dict[str, Path]) -> None:
    cassette = read_cassette(recorded[profile])

    found = drift(cassette, mirrored(cassette, profile, decision_s=0.05))

    assert found.difference is None, found.difference
    assert found.compared > 25


PARTINGS = [
    ("july", "engine", "protocol.md 4.4"),
    ("input-driven", "july", "protocol.md"),
    ("engine", "july", "protocol.md 4.4"),
]


@pytest.mark.parametrize(("recording", "profile", "section"), PARTINGS)
def test_another_profile_parts_with_the_section_that_tells_of_it(
    recording: str, profile: str, section: str, recorded: dict[str, Path]
) -> None:
    found = compare(recorded[recording], f"mock:{profile}", None, None)

    assert found.drift.difference is not None
    assert section in "\n".join(drift_lines(found))
    assert json.loads(drift_json(found))["difference"]["at"] >= 1


def session(*events: dict[str, Any]) -> Cassette:
    return Cassette(
        "s", "", {}, [Line(float(n), "server->client", "text", 1, e) for n, e in enumerate(events)]
    )


DIFFER = [
    ({"type": "response.done"}, {"type": "response.created"}, "order", "7.2"),
    ({"type": "response.audio.delta"}, {"type": "response.output_audio.delta"}, "family", "0"),
    ({"type": "session.closed", "event": {}}, {"type": "session.closed"}, "field", "10.1"),
    ({"type": "error", "error": {"code": "a"}}, {"type": "error", "error": {"code": "b"}}, "value", "11.1"),
    ({"type": "response.listen", "x": [1]}, {"type": "response.listen", "x": [1, 2]}, "value", "7.1"),
    ({"type": "response.listen", "x": "1"}, {"type": "response.listen", "x": 1}, "value", "7.1"),
]


@pytest.mark.parametrize(("a", "b", "what", "section"), DIFFER)
def test_what_matters_between_two_events(
    a: dict[str, Any], b: dict[str, Any], what: str, section: str
) -> None:
    found = drift(session(a), session(b))

    assert found.difference is not None
    assert (found.difference.what, found.difference.section) == (what, section)


def test_ids_may_have_other_names_as_long_as_they_stand_for_the_same() -> None:
    one = session({"type": "a", "response_id": "r1"}, {"type": "a", "response_id": "r1"})
    same = session({"type": "a", "response_id": "x"}, {"type": "a", "response_id": "x"})
    other = session({"type": "a", "response_id": "x"}, {"type": "a", "response_id": "y"})

    assert drift(one, same).difference is None
    assert drift(one, other).difference is not None


def test_a_session_that_ends_early_parts_at_its_end() -> None:
    found = drift(session({"type": "a"}), session({"type": "a"}, {"type": "session.closed"}))

    assert found.difference is not None
    assert (found.difference.what, found.difference.at, found.difference.one) == ("end", 2, "nothing more")


@pytest.mark.parametrize("profile", ["july", "engine"])
def test_a_cassette_s_server_meets_the_client_again_in_virtual_time(
    profile: str, recorded: dict[str, Path]
) -> None:
    played = replay_cassette(recorded[profile], RunOptions())

    assert (played.result.outcome, played.result.findings) == (Outcome.PASS, ())
    assert (played.outcome, played.text) == ("published", REPLY.text)
    then, now = (
        {k: v for k, v in counts.items() if k != "playback.ack"} for counts in (played.then, played.now)
    )
    assert then == now


def test_a_recorded_server_that_hangs_hangs_again(recorded: dict[str, Path], tmp_path: Path) -> None:
    lines = recorded["july"].read_text().splitlines()
    kept = [text for text in lines if "response.done" not in text and "rate_limits" not in text]
    (tmp_path / "media").symlink_to(recorded["july"].parent / "media")
    cut = tmp_path / "cut.cassette.ndjson"
    cut.write_text("\n".join(kept) + "\n")

    played = replay_cassette(cut, RunOptions())

    assert played.outcome == "failed"
    assert "drain" in played.error


def test_the_client_side_of_a_cassette_is_played_to_a_server(
    recorded: dict[str, Path], tmp_path: Path
) -> None:
    cassette = read_cassette(recorded["july"])

    async def main() -> Cassette:
        server = MockServer(profile="july", replies=script_of(cassette), seed=5)
        await server.start()
        try:
            return await record_against(cassette, LiveServer(server.url, "m"), tmp_path)
        finally:
            await server.stop()

    again = run_virtual(main)

    assert drift(cassette, again).difference is None
    assert again.of("client->server")[-1].type == "session.close"


def test_a_full_server_is_told_as_that_by_drift(
    recorded: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cassette = read_cassette(recorded["july"])

    async def main() -> None:
        server = MockServer(profile="july", replies=[], seed=5, max_sessions=0)
        await server.start()
        try:
            with pytest.raises(NoSlot, match="no free session slot: resource_exhausted"):
                await record_against(cassette, LiveServer(server.url, "m"), tmp_path)
        finally:
            await server.stop()

    run_virtual(main)

    def full(*args: object) -> None:
        raise NoSlot("ws://h: no free session slot: all are in use")

    monkeypatch.setattr("conformance.live.drifting.compare", full)
    result = CliRunner().invoke(app, ["drift", str(recorded["july"]), "ws://127.0.0.1:9/v1/realtime"])
    assert (result.exit_code, "no free session slot" in result.output) == (4, True)


def test_a_server_that_is_away_is_exit_4_and_a_folder_that_cannot_be_written_exit_2(
    recorded: dict[str, Path],
) -> None:
    def drifted(*arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, ["drift", *arguments])
        return result.exit_code, result.output

    with socket.create_server(("127.0.0.1", 0)) as taken:
        away = f"ws://127.0.0.1:{taken.getsockname()[1]}/v1/realtime"
    cassette = str(recorded["july"])

    code, said = drifted(cassette, away)
    assert (code, said.count("\n")) == (4, 1)
    assert said.startswith(f"conformance: {away}: ClientConnectorError: Cannot connect")
    assert f"try conformance preflight --url {away}" in said
    code, said = drifted(cassette, away, "--keep", "/dev/null/x")
    assert (code, said) == (2, "conformance: /dev/null/x: cannot be written: Not a directory\n")
    code, said = drifted(away, "mock:july")
    assert (code, said) == (
        2,
        f"conformance: {away}: a server; A is a cassette or a recording, B may be a server\n",
    )


def test_a_second_recording_leaves_the_sessions_of_the_first(tmp_path: Path) -> None:
    for text in (b'{"type": "first"}', b'{"type": "second"}'):
        tape = CassetteTape(tmp_path, "", target={}, headers={})
        tape.opened(1, "/v1/realtime", 0.0)
        tape.frame(1, "server->client", WSMsgType.TEXT, text, 1.0)

    assert [read_cassette(path).lines[0].type for path in sorted(tmp_path.glob("*.ndjson"))] == [
        "first",
        "second",
    ]


def test_a_disk_that_fills_up_ends_the_recording_and_no_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written = 0

    def filling(file: io.FileIO, lines: bytes) -> None:
        nonlocal written
        written += 1
        if written > 10:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_whole_lines(file, lines)

    monkeypatch.setattr("conformance.live.cassette.write_whole_lines", filling)
    cassette = record("july", tmp_path)

    told = f"conformance: {tmp_path}: cannot be written any more: No space left on device"
    assert capsys.readouterr().err == f"{told}; no session is kept from here on\n"
    assert len(read_cassette(cassette).lines) == 9, "and its head"
    answer = json.loads((tmp_path / "answers" / "RTD_Omni" / "1.json").read_text())
    assert "A cyclist passes." in json.dumps(answer)


BAD = [
    ("", "is empty"),
    ("no json\n", ":1: no JSON"),
    ("[1]\n", ":1: expected an object"),
    ('{"format": "other"}\n', "no cassette"),
    ('{"format": "duplex-conformance/cassette", "version": 9}\n', "version 9"),
    ('{"format": "duplex-conformance/cassette", "version": 1}\n{"t_s": 1}\n', ":2: no line of a cassette"),
    (
        '{"dir": "open", "t": 0}\n{"dir": "client->server", "t": 1, "text": "{"}\n',
        ":2: no line of a recording",
    ),
]


@pytest.mark.parametrize(("text", "found"), BAD)
def test_a_file_that_is_no_cassette_is_told_by_file_and_line(text: str, found: str, tmp_path: Path) -> None:
    path = tmp_path / "x.ndjson"
    path.write_text(text)

    with pytest.raises(ConfigurationError) as error:
        read_cassette(path)

    assert str(path) in str(error.value)
    assert found in str(error.value)


@pytest.mark.parametrize(("sha", "found"), [("0" * 64, "lie beside it"), ("../x", "no such media")])
def test_media_that_are_missing_or_no_name_of_the_store_are_told(
    sha: str, found: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match=found):
        load_stored(tmp_path, sha)


def test_media_that_were_changed_are_told(recorded: dict[str, Path], tmp_path: Path) -> None:
    sha = next(p for p in (recorded["july"].parent / "media").rglob("*") if p.is_file()).name
    (tmp_path / sha[:2]).mkdir()
    (tmp_path / sha[:2] / sha).write_text("other")

    with pytest.raises(ConfigurationError, match="not what its name says"):
        load_stored(tmp_path, sha)


def test_a_cassette_without_a_server_or_without_audio_cannot_be_played() -> None:
    with pytest.raises(ConfigurationError, match="no event of a server"):
        played_frames(Cassette("s", ""))
    with pytest.raises(ConfigurationError, match="no audio"):
        input_of(Cassette("s", ""))


def test_an_unknown_profile_is_told_with_those_there_are(recorded: dict[str, Path]) -> None:
    with pytest.raises(ConfigurationError, match="unknown profile; known: "):
        compare(recorded["july"], "mock:june", None, None)


def test_a_bundle_holds_the_run_masked_and_no_media_unless_asked(
    recorded: dict[str, Path], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "trace.ndjson").write_text(f'{{"a": "{KEY}", "url": "wss://me:pw@host/v1"}}\n')
    (run / "notes.exe").write_text("not taken")
    out = tmp_path / "b.zip"

    names, _ = bundle(
        [run, recorded["july"].parent], out, environment={"python": "3"}, secrets=HEADERS, media=False
    )

    with zipfile.ZipFile(out) as packed:
        told = b"".join(packed.read(name) for name in packed.namelist()).decode("utf-8", "replace")
    assert "run/trace.ndjson" in names
    assert not [name for name in names if "media/" in name or name.endswith(".exe")]
    assert KEY not in told
    assert "me:pw" not in told
    with pytest.raises(ConfigurationError, match="nothing to pack"):
        bundle([tmp_path / "run" / "notes.exe" / ".."][:0], out, environment={}, secrets={}, media=False)


def test_a_bundle_keeps_folders_of_one_name_apart_and_tells_what_is_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for day in ("monday", "tuesday"):
        (tmp_path / day / "out").mkdir(parents=True)
        (tmp_path / day / "out" / "trace.ndjson").write_text(f"{day}\n")
    (tmp_path / "monday" / "out" / "large.ndjson").write_text("x" * 100)
    monkeypatch.setattr("conformance.live.bundle.MAX_FILE_BYTES", 99)
    monkeypatch.chdir(tmp_path / "monday" / "out")
    out = tmp_path / "b.zip"

    names, large = bundle(
        [Path(), tmp_path / "tuesday" / "out"], out, environment={}, secrets={}, media=False
    )

    assert names == ["out/trace.ndjson", "2-out/trace.ndjson", "sessions.txt", "environment.json"]
    assert large == ["out/large.ndjson: left out, 100 bytes"]
    with zipfile.ZipFile(out) as packed:
        assert packed.read("2-out/trace.ndjson") == b"tuesday\n"
        assert packed.read("sessions.txt").decode() == large[0] + "\n"
    before = out.read_bytes()
    monkeypatch.setattr("zipfile.ZipFile.writestr", no_space)
    with pytest.raises(ConfigurationError, match=r"b\.zip: No space left on device"):
        bundle([Path()], out, environment={}, secrets={}, media=False)
    assert out.read_bytes() == before
    assert [path.name for path in tmp_path.glob("*.zip*")] == ["b.zip"]


def no_space(*arguments: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.shared_data
def test_the_recorded_server_imports_and_the_mock_in_profile_july_shows_no_drift(shared_data: Path) -> None:
    cassette = read_cassette(shared_data / "server_session.jsonl")

    found = drift(cassette, mirrored(cassette, "july"))

    assert found.difference is None, found.difference
    assert found.compared == 36
    assert drift(cassette, mirrored(cassette, "input-driven")).difference is not None


@pytest.mark.shared_data
def test_the_recorded_server_meets_the_client(shared_data: Path) -> None:
    played = replay_cassette(shared_data / "server_session.jsonl", RunOptions())

    assert played.outcome == "published"
    assert played.text.startswith("Reply 1, part 1 of 4.")


def test_a_recording_ends_with_its_session_whatever_the_client_does(recorded: dict[str, Path]) -> None:
    """`session.close` early: the recorded close is played, the rest is skipped."""
    import random

    from mockserver.played import PlayedSession
    from mockserver.wire import End, Send

    session = PlayedSession(played_frames(read_cassette(recorded["july"])), query={}, ids=random.Random(1))
    session.start(0.0)
    out = session.receive('{"type": "session.update", "session": {}}', 0.1)
    out += session.on_timer(1.0)
    assert "session.created" in [o.event["type"] for o in out if isinstance(o, Send)]
    out = session.receive('{"type": "session.close"}', 1.0)
    out += session.on_timer(3.0)

    assert [o.event["type"] for o in out if isinstance(o, Send)] == ["session.closed"]
    assert isinstance(out[-1], End)
    assert session.left == 0
