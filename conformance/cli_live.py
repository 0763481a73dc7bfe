"""Commands for a live server, and what `run --target live` adds (docs/live.md)."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from conformance.exits import Exit
from conformance.live.command import again, masked_command

if TYPE_CHECKING:
    from client.judge.settings import JudgeSettings
    from conformance.live.server import LiveServer
    from conformance.options import RunOptions

Url = Annotated[str | None, typer.Option(help="ws:// or wss:// URL of the realtime endpoint.")]
Model = Annotated[str, typer.Option(help="Name of the model that sessions ask for.")]
RefAudio = Annotated[Path | None, typer.Option("--ref-audio", metavar="WAV", help="Reference voice.")]
ApiKeyEnv = Annotated[
    str | None, typer.Option("--api-key-env", metavar="VAR", help="Variable that holds the API key.")
]
CaFile = Annotated[
    Path | None, typer.Option("--ca-file", metavar="PEM", help="Trust these instead of the system's.")
]
Header = Annotated[
    list[str] | None,
    typer.Option(metavar="'NAME: VALUE'", help="Sent with every request; VALUE may be env:VARIABLE."),
]
JudgeUrl = Annotated[str | None, typer.Option("--judge-url", help="Base URL of the judge.")]
JudgeModel = Annotated[str, typer.Option("--judge-model", help="Name of the judge model.")]
JudgeKeyEnv = Annotated[
    str | None, typer.Option("--judge-api-key-env", metavar="VAR", help="Variable that holds its key.")
]
JudgeCaFile = Annotated[
    Path | None,
    typer.Option("--judge-ca-file", metavar="PEM", help="Of an https judge: trust these instead."),
]
JudgeVideoMode = Annotated[str, typer.Option("--judge-video-mode", help="video_url or frame-sample.")]
Inject = Annotated[
    bool, typer.Option("--inject", help="Live: let the scenarios' faults happen in a local proxy.")
]
MaxSessions = Annotated[
    int, typer.Option("--max-sessions", min=1, max=256, help="Live: sessions open at a time, at most.")
]
BudgetMinutes = Annotated[
    float | None, typer.Option("--budget-minutes", min=0.1, help="Live: device minutes that may be spent.")
]
SlotWait = Annotated[
    float,
    typer.Option(
        "--slot-wait", metavar="S", min=0, max=3600, help="Live: wait so long for a free session slot."
    ),
]
Record = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Live: keep each session as a cassette here.")
]
Table = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Live: write the table for a pull request (Markdown).")
]
MODEL = "openbmb/MiniCPM-o-4_5"
JUDGE_MODEL = "judge-model"


@dataclass(frozen=True)
class Limits:
    """What a live run may do and spend."""

    inject: bool
    max_sessions: int
    budget_minutes: float | None
    record: Path | None
    fail_fast: bool = False
    slot_wait_s: float = 60.0


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("preflight")(preflight)
    app.command("record")(record)
    app.command("drift")(drift)
    app.command("bundle")(bundle)


def refused(message: str) -> typer.Exit:
    """Tells it, and ends a command with the code of usage."""
    print(f"conformance: {message}", file=sys.stderr)
    return typer.Exit(int(Exit.USAGE))


def server_of(
    url: str | None, model: str, api_key_env: str | None, ca_file: Path | None, header: list[str] | None
) -> LiveServer:
    """The server of a command line; the environment is read here and nowhere below.

    Raises ConfigurationError: see `conformance.live.server.live_server`.
    """
    from conformance.live.server import live_server

    return live_server(
        url,
        model,
        api_key_env=api_key_env,
        ca_file=ca_file,
        header=header or [],
        environment=os.environ,
    )


def judge_of(
    url: str | None, model: str, key_env: str | None, video_mode: str, ca_file: Path | None = None
) -> JudgeSettings | None:
    """The judge of a command line; None: none was named.

    Raises ConfigurationError: a setting that cannot work.
    """
    from client.judge.settings import JudgeSettings
    from conformance.live.server import secret_of, trust
    from conformance.options import ConfigurationError

    if url is None:
        if ca_file is not None:
            raise ConfigurationError(f"--judge-ca-file {ca_file}: no judge is named; give --judge-url")
        return None
    key = secret_of("--judge-api-key-env", key_env, os.environ) if key_env is not None else "EMPTY"
    settings = JudgeSettings(
        base_url=url,
        model=model,
        api_key=key,
        timeout_s=30.0,
        video_mode=video_mode,  # type: ignore[arg-type]  # checked below
        tls=trust("--judge-ca-file", ca_file, url),
    )
    try:
        settings.check()
    except ValueError as error:
        raise ConfigurationError(f"--judge-…: {error}") from None
    return settings


LIVE_ONLY = (
    "url",
    "api_key_env",
    "ca_file",
    "header",
    "judge_url",
    "judge_model",
    "judge_api_key_env",
    "judge_ca_file",
    "judge_video_mode",
    "inject",
    "max_sessions",
    "budget_minutes",
    "slot_wait",
    "record",
    "table",
)
"""Options of `run` that mean something on a live server only."""


def refuse_live_options(context: typer.Context) -> None:
    """Raises ConfigurationError: one of them stands on the command line."""
    from conformance.options import ConfigurationError

    for name in LIVE_ONLY:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise ConfigurationError(f"--{name.replace('_', '-')} needs --target live")


def refuse_elsewhere_options(**given: object) -> None:
    """Raises ConfigurationError: an option that a live run does not take."""
    from conformance.options import ConfigurationError

    for name, value in given.items():
        if value:
            raise ConfigurationError(f"--{name.replace('_', '-')} does not go with --target live")


def run_live(
    patterns: list[str] | None,
    tags: list[str] | None,
    options: RunOptions,
    peers: tuple[LiveServer, JudgeSettings | None],
    limits: Limits,
    *,
    files: tuple[Path | None, Path | None, Path | None],
) -> Exit:
    """`conformance run --target live`.

    Args:
        peers: the server, and the judge where one was named.
        files: report as JSON, as JUnit, table.
    Raises ConfigurationError: what cannot be done on a live server.
    """
    from conformance.live.session import LivePlan, Outputs, execute_live
    from conformance.options import ConfigurationError
    from conformance.targets.live import LiveTarget

    if options.client.outside:
        raise ConfigurationError(
            f"--client {options.client.told}: on a live server only the builtin client is played (leave "
            "--client out). To look at another one there, point it at "
            "`conformance record --url …`; `conformance replay CASSETTE --client …` plays that server to it"
        )
    server, judge = peers
    plan = LivePlan(
        LiveTarget(
            server, inject=limits.inject, judge=judge, record=limits.record, again=again(sys.argv[1:])
        ),
        max_sessions=limits.max_sessions,
        budget_minutes=limits.budget_minutes,
        command=masked_command(sys.argv[1:]),
        datasets=tuple(options.datasets.values()),
        fail_fast=limits.fail_fast,
        slot_wait_s=limits.slot_wait_s,
    )
    return execute_live(patterns or [], tags or [], options, plan, Outputs(*files))


def preflight(
    url: Url = None,
    model: Model = MODEL,
    ref_audio: RefAudio = None,
    api_key_env: ApiKeyEnv = None,
    ca_file: CaFile = None,
    header: Header = None,
    dataset: Annotated[
        list[Path] | None, typer.Option(metavar="PATH", help="A dataset folder to open; may be repeated.")
    ] = None,
    judge_url: JudgeUrl = None,
    judge_model: JudgeModel = JUDGE_MODEL,
    judge_api_key_env: JudgeKeyEnv = None,
    judge_ca_file: JudgeCaFile = None,
    judge_video_mode: JudgeVideoMode = "video_url",
    json: Annotated[bool, typer.Option("--json", help="The report as one JSON object.")] = False,
) -> None:
    """Look at a live server, layer by layer, before anything is spent on it; a minute at most."""
    import asyncio

    from conformance.live.preflight import Inputs, fly
    from conformance.options import ConfigurationError

    try:
        server = server_of(url, model, api_key_env, ca_file, header)
        judge = judge_of(judge_url, judge_model, judge_api_key_env, judge_video_mode, judge_ca_file)
    except ConfigurationError as error:
        raise refused(str(error)) from None
    report = asyncio.run(fly(server, Inputs(ref_audio, tuple(dataset or ()), judge)))
    if json:
        import orjson

        print(orjson.dumps(report.to_json(), option=orjson.OPT_INDENT_2).decode())
    else:
        print("\n".join(report.lines()))
    if report.problem is not None:
        raise typer.Exit(int(Exit.USAGE if report.problem.usage else Exit.UNAVAILABLE))


def record(
    url: Url = None,
    model: Model = MODEL,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the cassettes.")] = Path("cassettes"),
    api_key_env: ApiKeyEnv = None,
    ca_file: CaFile = None,
    header: Header = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of the proxy; 0: a free one, printed.")] = 0,
) -> None:
    """Stand between any client and a live server and keep each session as a cassette. Ctrl-C ends it."""
    from conformance.live.recording import record_until_stopped
    from conformance.options import ConfigurationError

    try:
        server = server_of(url, model, api_key_env, ca_file, header)
        code = record_until_stopped(server, out, port)
    except ConfigurationError as error:
        raise refused(str(error)) from None
    raise typer.Exit(int(code))


def drift(
    one: Annotated[str, typer.Argument(metavar="A", help="A cassette, or a recording.")],
    other: Annotated[
        str, typer.Argument(metavar="B", help="A cassette, mock:PROFILE, or the URL of a server.")
    ],
    model: Model = MODEL,
    api_key_env: ApiKeyEnv = None,
    ca_file: CaFile = None,
    header: Header = None,
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the session with B's URL here.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
) -> None:
    """Compare two servers event by event, up to the names of ids: the first difference that matters."""
    from conformance.live.drifting import compare, drift_json, drift_lines
    from conformance.live.problem import Problem
    from conformance.live.slots import NoSlot
    from conformance.options import ConfigurationError

    try:
        if "://" in one:
            raise ConfigurationError(f"{one}: a server; A is a cassette or a recording, B may be a server")
        server = server_of(other, model, api_key_env, ca_file, header) if "://" in other else None
        found = compare(Path(one), other, server, keep)
    except ConfigurationError as error:
        raise refused(str(error)) from None
    except (NoSlot, Problem) as away:
        print(f"conformance: {away}", file=sys.stderr)
        raise typer.Exit(int(Exit.UNAVAILABLE)) from None
    print(drift_json(found) if json else "\n".join(drift_lines(found)))
    if found.drift.difference is not None or found.silences:
        raise typer.Exit(int(Exit.FAILED))


def replay_cassette(file: Path, client: str) -> Exit:
    """`conformance replay CASSETTE`: the client against the recorded server, in virtual time.

    Raises ConfigurationError: no cassette, or a client that cannot be used.
    """
    from conformance.clients.choice import clock_of, parse_client
    from conformance.live.replaying import replay_cassette as play
    from conformance.options import RunOptions
    from conformance.session import ready_client

    chosen = parse_client(client)
    clock = clock_of(chosen, None)
    played = play(file, ready_client(RunOptions(client=chosen, clock=clock)))
    print(f"{file}: {played.outcome}" + (f" ({played.error})" if played.error else ""))
    print(f"  text    {played.text or '(none)'}")
    print(f"  then    {played.answers}")
    for name in sorted({*played.then, *played.now}):
        print(f"  client  {name:<32} {played.then.get(name, 0):>4} then, {played.now.get(name, 0):>4} now")
    for finding in played.result.findings:
        print(f"  finding {finding.id}: expected {finding.expected}, got {finding.actual}")
    if played.result.reason:
        print(f"  {played.result.outcome.value}: {played.result.reason}")
    from conformance.exits import exit_of

    return exit_of([played.result])


def bundle(
    sources: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="Folders of --out, --record; files.")
    ],
    out: Annotated[Path, typer.Option(metavar="ZIP", help="What is written.")] = Path("bundle.zip"),
    media: Annotated[bool, typer.Option("--media", help="With the media of the cassettes.")] = False,
    api_key_env: ApiKeyEnv = None,
    header: Header = None,
) -> None:
    """Pack what a server's maintainers need, masked: traces, cassettes, reports, environment."""
    from conformance.live.bundle import bundle as pack
    from conformance.live.server import live_server
    from conformance.options import ConfigurationError
    from conformance.session import environment

    try:
        secrets = live_server(
            "ws://unused/v1/realtime",
            MODEL,
            api_key_env=api_key_env,
            header=header or [],
            environment=os.environ,
        ).headers
        names, large = pack(sources, out, environment=environment(), secrets=secrets, media=media)
    except ConfigurationError as error:
        raise refused(str(error)) from None
    for line in large:
        print(line, file=sys.stderr)
    print(f"{out}: {len(names)} file(s), masked")
