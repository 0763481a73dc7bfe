"""Preflight: each way to fail has its own message, its layer, and something to try; a healthy server is measured."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from client.judge.http import JudgeHttp
from client.judge.judge import body_of, user_message
from client.judge.prompts import correction_text
from client.judge.settings import JudgeSettings
from conformance.clock import run_virtual
from conformance.live.judge_check import check_judge
from conformance.live.preflight import Inputs, Preflight, fly
from conformance.live.problem import Problem
from conformance.live.server import LiveServer, live_server, trust
from conformance.options import ConfigurationError
from conformance.targets.judge import make_judge
from mockserver.pace import Pace
from mockserver.profiles import PROFILES, Profile
from scenarios.faults import FaultBase, NeverDone
from scenarios.faults_session import DropEvent
from tests.conformance.live_standins import (
    CREATED,
    DUPLEX,
    LISTEN,
    MODEL,
    Authority,
    answering,
    models,
    silent,
    speaking,
    standing,
    status,
    voice,
)

ERROR = {"type": "error", "error": {"code": "resource_exhausted", "message": "8 of 8 sessions"}}


def flown(stand_in: Any, wav: Path | None, **how: Any) -> Preflight:
    """Preflight in virtual time against a stand-in (a context manager that yields host and port)."""

    async def main() -> Preflight:
        loop = asyncio.get_running_loop()
        jump_s = how.pop("jump_s", 0.0)
        since_s = loop.time()
        async with stand_in as address:
            server = LiveServer(
                f"{how.pop('scheme', 'ws')}://{address}/v1/realtime",
                MODEL,
                connect_s=3.0,
                **how.pop("server", {}),
            )
            return await fly(
                server,
                Inputs(wav, **how),
                wall=lambda: loop.time() + (jump_s if loop.time() > since_s + 1 else 0.0),
            )

    return run_virtual(main)


@contextlib.asynccontextmanager
async def at(address: str) -> AsyncIterator[str]:
    """Nobody's address."""
    yield address


@contextlib.asynccontextmanager
async def deaf() -> AsyncIterator[str]:
    """A port that accepts and says nothing."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(8)
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def scripted(**changes: Any) -> Any:
    """The small duplex server with other answers; `None` for no answer at all."""
    script = {**DUPLEX, **{name.replace("__", "."): events or [] for name, events in changes.items()}}
    return standing(answering(script))


def created(**session: Any) -> dict[str, Any]:
    return {**CREATED, "session": {**CREATED["session"], **session}}


@dataclass
class Case:
    name: str
    stand_in: Any
    layer: str
    found: str
    hint: str
    how: dict[str, Any] = field(default_factory=dict)
    usage: bool = False


CASES = [
    Case("dead host", lambda: at("127.0.0.1:9"), "tcp", "refuses connections", "is the server running"),
    Case("no such name", lambda: at("no-such-host.invalid:80"), "name", "has no address", "spelling"),
    Case("accepts and is silent", deaf, "health", "not answered within 3 s", "still starting"),
    Case("unhealthy", lambda: standing(health=status(503, "engine dead")), "health", "engine dead", "log"),
    Case("key wanted", lambda: standing(health=status(401)), "health", "401", "--api-key-env"),
    Case("key refused", lambda: standing(listed=status(403)), "models", "403", "--api-key-env"),
    Case(
        "model not served",
        lambda: standing(listed=models("a/b", "c/d")),
        "models",
        f"'{MODEL}' is not served; served: a/b, c/d",
        "--model",
        usage=True,
    ),
    Case(
        "no models at all", lambda: standing(listed=models()), "models", "served: none", "--model", usage=True
    ),
    Case("upgrade 401", lambda: standing(status(401)), "upgrade", "HTTP 401", "--api-key-env"),
    Case("upgrade 404", lambda: standing(status(404)), "upgrade", "HTTP 404", "is the path right"),
    Case("upgrade 503", lambda: standing(status(503)), "upgrade", "HTTP 503", "slots"),
    Case("no WebSocket there", lambda: standing(status(200)), "upgrade", "HTTP 200", "plain HTTP"),
    Case(
        "out of slots",
        lambda: scripted(session__update=[ERROR]),
        "session",
        "no session slot is free (resource_exhausted: 8 of 8 sessions)",
        "for minutes",
    ),
    Case(
        "not duplex, says so",
        lambda: scripted(session__update=[{"type": "error", "error": "no duplex", "code": "unsupported"}]),
        "session",
        "this server is not duplex",
        "deploy",
    ),
    Case(
        "not duplex, silently",
        lambda: scripted(session__update=[created(capabilities=None)]),
        "session",
        "tells no capabilities",
        "native duplex",
    ),
    Case(
        "the generic adapter",
        lambda: scripted(
            session__update=[created(capabilities={"implementation_level": "serving_session_adapter"})]
        ),
        "session",
        "'serving_session_adapter'",
        "native duplex",
    ),
    Case(
        "voice refused",
        lambda: scripted(
            session__update=[{"type": "error", "error": {"code": "ref_audio_required", "message": "no"}}]
        ),
        "session",
        "ref_audio_required",
        "11.2",
    ),
    Case("never created", lambda: scripted(session__update=None), "session", "within 20 s", "hangs"),
    Case(
        "gone before created",
        lambda: standing(answering({"session.update": []}, ends_after="session.update")),
        "session",
        "ended before session.created",
        "log",
    ),
    Case(
        "another dialect in mid-session",
        lambda: scripted(
            input_audio_buffer__commit=[
                {"type": "input_audio_buffer.committed"},
                *speaking(),
                *speaking("response.output_audio", "resp-2"),
            ]
        ),
        "turn",
        "response.audio and response.output_audio",
        "gateway",
    ),
    Case(
        "nothing is decided",
        lambda: scripted(
            input_audio_buffer__append=None,
            input_audio_buffer__commit=[{"type": "input_audio_buffer.committed"}],
        ),
        "turn",
        "none was decided",
        "does not step",
    ),
    Case(
        "an error in the turn",
        lambda: scripted(
            input_audio_buffer__append=[
                LISTEN,
                {"type": "error", "error": {"code": "runtime_append_failed", "message": "OOM"}},
            ]
        ),
        "turn",
        "runtime_append_failed: OOM",
        "11.2",
    ),
    Case(
        "the commit is not acknowledged",
        lambda: scripted(input_audio_buffer__commit=speaking()),
        "turn",
        "commit was not acknowledged",
        "wait out its drain",
    ),
    Case(
        "gone in the turn",
        lambda: standing(answering(DUPLEX, ends_after="input_audio_buffer.commit")),
        "close",
        "the connection ended before session.close",
        "log",
    ),
    Case("close never answered", lambda: scripted(session__close=None), "close", "no session.closed", "slot"),
    Case("a clock that jumps", standing, "clock", "jumped by +3600.0 s", "synchronised", {"jump_s": 3600.0}),
    Case("TLS wanted of plain HTTP", standing, "tls", "does not speak TLS", "ws://", {"scheme": "wss"}),
]


CASES.append(
    Case(
        "acks are left unanswered",
        lambda: scripted(
            input_audio_buffer__append=[LISTEN, *speaking()], playback__ack=None, session__close=None
        ),
        "ack",
        "session.close unanswered",
        "read its socket",
    )
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_way_to_fail_has_its_own_words(case: Case, tmp_path: Path) -> None:
    report = flown(case.stand_in(), voice(tmp_path / "voice.wav"), **case.how)

    assert report.problem is not None
    told = (report.problem.layer, report.problem.found, report.problem.hint, report.problem.usage)
    assert told[0] == case.layer, told
    assert case.found in told[1]
    assert case.hint in told[2]
    assert told[3] is case.usage
    assert any(case.found in line for line in report.lines())


def test_a_session_that_was_refused_was_not_spent(tmp_path: Path) -> None:
    report = flown(scripted(session__update=[ERROR]), voice(tmp_path / "voice.wav"))

    assert report.lines()[-1].endswith("a session was asked for and refused, none was spent")


def test_preflight_acks_as_an_ordinary_client_does(tmp_path: Path) -> None:
    acks: list[float] = []

    def heard(event: dict[str, Any]) -> None:
        if event["type"] == "playback.ack":
            acks.append(asyncio.get_running_loop().time())

    report = flown(standing(answering(DUPLEX, tell=heard)), voice(tmp_path / "voice.wav"))

    assert report.green, report.problem
    assert len(acks) >= 12
    assert sorted(round(b - a, 2) for a, b in itertools.pairwise(acks))[len(acks) // 2] == 0.25
    assert report.seconds < 10


def test_no_two_failures_say_the_same() -> None:
    assert len({(case.layer, case.found) for case in CASES}) == len(CASES) >= 20


TLS_CASES = [
    ("IP:127.0.0.1", 9, False, "is not trusted", "--ca-file"),
    ("IP:127.0.0.1", -1, True, "has expired", "renew"),
    ("DNS:elsewhere.example", 9, True, "is not for 127.0.0.1", "the name that stands in it"),
]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.mark.parametrize(("name", "days", "trusted", "found", "hint"), TLS_CASES)
def test_certificates_that_are_refused(
    name: str, days: int, trusted: bool, found: str, hint: str, authority: Authority, tmp_path: Path
) -> None:
    stand_in = standing(tls=authority.context(name, days=days))
    server = {"ca_file": authority.ca} if trusted else {}

    report = flown(stand_in, voice(tmp_path / "voice.wav"), scheme="wss", server=server)

    assert report.problem is not None
    assert report.problem.layer == "tls"
    assert found in report.problem.found
    assert hint in report.problem.hint


def test_a_trusted_certificate_and_a_key_lead_to_a_whole_session(
    authority: Authority, tmp_path: Path
) -> None:
    asked: list[str | None] = []

    async def realtime(request: web.Request) -> Any:
        asked.append(request.headers.get("Authorization"))
        return await answering(DUPLEX)(request)

    stand_in = standing(realtime, tls=authority.context("IP:127.0.0.1"))
    server = {"ca_file": authority.ca, "headers": {"Authorization": "Bearer s3cret-key"}}
    report = flown(stand_in, voice(tmp_path / "voice.wav"), scheme="wss", server=server)

    assert report.problem is None, report.problem
    assert asked == ["Bearer s3cret-key"]
    assert "s3cret-key" not in str(report.to_json())
    assert report.to_json()["server"]["headers"] == {"Authorization": "***"}


def test_a_tls_server_behind_a_plain_url_says_to_try_wss(authority: Authority, tmp_path: Path) -> None:
    stand_in = standing(tls=authority.context("IP:127.0.0.1"))

    report = flown(stand_in, voice(tmp_path / "voice.wav"))

    assert report.problem is not None
    assert (report.problem.layer, "wss://" in report.problem.hint) == ("health", True)


@pytest.mark.parametrize("profile", ["july", "engine", "interim", "input-driven"])
def test_a_healthy_server_is_measured(profile: str, serve: Any, tmp_path: Path) -> None:
    report = run_virtual(lambda: measured_on(serve(profile), voice(tmp_path / "voice.wav")))

    assert report.problem is None, report.problem
    assert report.measured is not None
    letters = {"july": "J", "input-driven": "J", "interim": "I", "engine": "N"}
    assert (report.measured.dialect, report.measured.dialect_sure) == (letters[profile], True)
    assert report.measured.chunk_period_ms == 1000
    assert report.measured.first_audio_s == pytest.approx(1.05, abs=0.1)
    assert report.measured.continues_without_input is (profile != "input-driven")
    assert report.seconds < 10


def test_a_server_that_is_behind_is_not_taken_for_one_that_waits_for_input(
    serve: Any, tmp_path: Path
) -> None:
    slow = replace(PROFILES["july"], pace=Pace(rtf=1.7))
    report = run_virtual(lambda: measured_on(serve(slow, units=3), voice(tmp_path / "voice.wav")))

    assert report.measured is not None
    assert report.measured.continues_without_input is None
    assert [s.layer for s in report.steps if s.warns] == ["pace"]


def test_a_reply_that_is_never_done_is_told(serve: Any, tmp_path: Path) -> None:
    stuck = serve("july", NeverDone(), units=3)
    report = run_virtual(lambda: measured_on(stuck, voice(tmp_path / "voice.wav")))

    assert report.measured is not None
    assert report.measured.continues_without_input is None
    assert ("turn", True) in [(s.layer, s.warns) for s in report.steps]
    assert "1 reply(s) not done" in "\n".join(report.lines())


def test_a_commit_that_is_not_acknowledged_has_cost_a_session(serve: Any, tmp_path: Path) -> None:
    mute = serve("july", DropEvent(event="input_audio_buffer.committed"))
    report = run_virtual(lambda: measured_on(mute, voice(tmp_path / "voice.wav")))

    assert report.problem is not None
    assert "input_audio_buffer.committed" in report.problem.found
    assert report.lines()[-1].endswith("one short session was spent")


@pytest.fixture
def serve() -> Any:
    from mockserver.app import MockServer
    from scenarios.model import Reply

    def make(profile: str | Profile, *faults: FaultBase, units: int = 5) -> MockServer:
        reply = Reply(starts_at_unit=1, units=units, text="One two three four five.")
        return MockServer(profile=profile, replies=[reply], faults=faults, seed=1)

    return make


async def measured_on(server: Any, wav: Path) -> Preflight:
    await server.start()
    loop = asyncio.get_running_loop()
    try:
        report = await fly(LiveServer(server.url, MODEL), Inputs(wav), wall=loop.time)
    finally:
        await server.stop()
    assert server.journal.of("sent", "session.closed"), "nothing is left open on the server"
    return report


FILES = [
    (None, "--ref-audio is missing"),
    ("absent.wav", "cannot be read"),
    ("text.wav", "WAV"),
]


@pytest.mark.parametrize(("name", "found"), FILES)
def test_the_reference_voice_is_opened_before_anything_is_contacted(
    name: str | None, found: str, tmp_path: Path
) -> None:
    (tmp_path / "text.wav").write_text("no sound")

    report = flown(at("127.0.0.1:9"), None if name is None else tmp_path / name)

    assert report.problem is not None
    assert (report.problem.layer, report.problem.usage) == ("reference voice", True)
    assert found in report.problem.found


def test_a_dataset_that_is_none_is_told_before_anything_is_contacted(tmp_path: Path) -> None:
    report = flown(at("127.0.0.1:9"), voice(tmp_path / "voice.wav"), datasets=(tmp_path / "nowhere",))

    assert report.problem is not None
    assert (report.problem.layer, report.problem.usage) == ("dataset", True)


def verdict(body: str, code: int = 200) -> Any:
    async def handler(request: web.Request) -> web.Response:
        message = {"choices": [{"message": {"content": body}, "finish_reason": "stop"}]}
        return (
            web.json_response(message, status=code) if code == 200 else web.Response(status=code, text=body)
        )

    return handler


def picky(refused: str) -> Any:
    """A judge that takes everything but one kind of part."""

    async def handler(request: web.Request) -> web.Response:
        text = await request.text()
        if refused in text:
            return web.Response(status=400, text=f"cannot take {refused}")
        body = '{"success_score": 1, "temporal_score": 3, "is_relevant": 1, "content_score": 2}'
        return await verdict(body)(request)

    return handler


JUDGES = [
    ("away", None, "judge", "does not answer", "is the judge running"),
    ("other model", {"listed": models("other")}, "judge", "'judge-model' is not served", "--judge-model"),
    ("key", {"listed": status(401)}, "judge", "401", "--judge-api-key-env"),
    ("prose", {"chat": verdict("Looks fine to me.")}, "judge text", "Missing judge field", "no verdict"),
    ("overloaded", {"chat": verdict("busy", 500)}, "judge text", "HTTP 500", "log"),
    ("no pictures", {"chat": picky('"image_url"')}, "judge image", "HTTP 400", "multimodal"),
    ("no files", {"chat": picky('"video_url"')}, "judge video", "HTTP 400", "--allowed-local-media-path"),
    ("hangs", {"chat": silent()}, "judge text", "within 5 s", "overloaded"),
]


@pytest.mark.parametrize(("name", "how", "layer", "found", "hint"), JUDGES, ids=[j[0] for j in JUDGES])
def test_the_judge_is_asked_in_every_way_before_anything_is_spent(
    name: str, how: Any, layer: str, found: str, hint: str, tmp_path: Path
) -> None:
    if layer == "judge video":
        pytest.importorskip("av", reason="writing a small video needs av")
    how = how if how is None else {"listed": models("judge-model"), **how}
    sessions: list[int] = []

    async def realtime(request: web.Request) -> Any:
        sessions.append(1)
        return await answering(DUPLEX)(request)

    async def main() -> Preflight:
        async with (
            standing(realtime) as address,
            at("127.0.0.1:9") if how is None else standing(**how) as judge,
        ):
            settings = JudgeSettings(base_url=f"http://{judge}/v1", model="judge-model", timeout_s=5.0)
            server = LiveServer(f"ws://{address}/v1/realtime", MODEL)
            loop = asyncio.get_running_loop()
            return await fly(server, Inputs(voice(tmp_path / "v.wav"), judge=settings), wall=loop.time)

    report = run_virtual(main, allow_leaks=name == "hangs")

    assert report.problem is not None
    assert report.problem.layer == layer, report.problem
    assert found in report.problem.found
    assert hint in report.problem.hint
    assert sessions == []


@pytest.mark.parametrize("trusted", [True, False])
def test_a_judge_behind_a_certificate_of_its_own_needs_its_authority(
    trusted: bool, authority: Authority
) -> None:
    """Asked by preflight and, on the same port, through the proxy that a run with --inject puts before it."""
    tls = trust("--judge-ca-file", authority.ca if trusted else None, "https://h")

    async def main() -> tuple[str, int]:
        async with standing(listed=models("judge-model"), tls=authority.context("IP:127.0.0.1")) as judge:
            settings = JudgeSettings(f"https://{judge}/v1", "judge-model", timeout_s=5.0, tls=tls)
            try:
                await check_judge(settings, None)
                layer = ""
            except Problem as problem:
                layer = problem.layer
            proxy = make_judge(None, [], behind=settings)
            await proxy.start()
            async with JudgeHttp(replace(settings, base_url=proxy.url, tls=None), random.Random(0)) as http:
                question = correction_text(instruction="Look.", reference="A man.", answer="A man.")
                answer = await http.exchange(body_of(settings, [user_message(question, ())]), "a/b/chat")
            await proxy.stop()
            return layer, answer.status

    layer, status = run_virtual(main)
    # The stand-in serves no completions: 404 is its word, 502 ours, where it could not be reached.
    assert (layer, status) == (("judge text", 404) if trusted else ("judge", 502))


LINES = [
    ({"url": None}, "--url is missing"),
    ({"url": "http://h:1/v1/realtime"}, "did you mean ws://h:1/v1/realtime?"),
    ({"url": "ftp://h"}, "scheme 'ftp'; allowed: ws, wss"),
    ({"url": "ws://"}, "names no host"),
    ({"url": "ws://h:99999"}, "Port out of range"),
    ({"url": "ws://me:pw@h:1"}, "holds credentials"),
    ({"api_key_env": "UNSET"}, "UNSET: the variable is not set"),
    ({"api_key_env": "ODD"}, "control or non-ASCII"),
    ({"header": ["no colon"]}, "expected 'NAME: VALUE'"),
    ({"header": ["X: env:UNSET"]}, "the variable is not set"),
    ({"ca_file": Path("absent.pem")}, "--ca-file absent.pem: no such file"),
    ({"ca_file": Path(__file__), "url": "ws://h/v1/realtime"}, "has no TLS; it goes with wss://"),
    ({"model": ""}, "--model"),
]


@pytest.mark.parametrize(("given", "found"), LINES)
def test_a_command_line_that_cannot_work_is_told_by_option(given: dict[str, Any], found: str) -> None:
    asked = {"url": "ws://h:1/v1/realtime", "model": MODEL, **given}
    with pytest.raises(ConfigurationError) as error:
        live_server(**asked, environment={"ODD": "a\nb", "KEY": "s3cret"})

    assert found in str(error.value)
    assert "pw" not in str(error.value)


def test_a_ca_file_without_a_certificate_is_told(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")

    with pytest.raises(ConfigurationError, match="expected certificates in PEM"):
        live_server("wss://h", MODEL, ca_file=tmp_path / "ca.pem", environment={})


def test_what_is_told_of_a_server_holds_no_secret() -> None:
    server = live_server(
        "ws://h:1/v1/realtime?token=s3cret",
        MODEL,
        api_key_env="KEY",
        header=["X-Tenant: t3nant", "X-Key: env:KEY"],
        environment={"KEY": "s3cret"},
    )

    told = f"{server.told()} {server!r}"
    assert "t3nant" not in told
    assert server.told()["url"] == "ws://h:1/v1/realtime?token=***"
    assert server.headers == {"X-Tenant": "t3nant", "X-Key": "s3cret", "Authorization": "Bearer s3cret"}
